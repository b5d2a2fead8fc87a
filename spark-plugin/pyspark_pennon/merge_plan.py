"""What a merge learns from Spark's plans: whether its source is deterministic, the keys, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import spark_api, tables
from pyspark_pennon.filters import Translator
from pyspark_pennon.needed_columns import items
from pyspark_pennon.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def is_deterministic(frame: DataFrame) -> bool:
    """Whether Spark would compute the same rows again, for all it knows."""
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    return execution is None or bool(execution().analyzed().deterministic())


@dataclass
class Keys:
    """What the condition of a merge says of columns of the table.

    Attributes
    ----------
    names
        Columns that are equal to something of the source.
    bare
        Those of them that are equal to a column of the source of the same type, with that column.
    """

    names: list[str] = field(default_factory=list)
    bare: dict[str, str] = field(default_factory=dict)


def keys_of(joined: DataFrame, target: DataFrame, source: DataFrame) -> Keys:
    """The keys of a join; none where the plan cannot be seen, as in Spark Connect."""
    found = Keys()
    execution = getattr(getattr(joined, "_jdf", None), "queryExecution", None)
    if execution is None:
        return found
    plan = execution().analyzed()
    if str(plan.getClass().getSimpleName()) != "Join" or not plan.condition().isDefined():
        return found
    sides = [
        {a.exprId().id(): a.name() for a in items(frame._jdf.queryExecution().analyzed().output())}
        for frame in (target, source)
    ]
    _collect(plan.condition().get(), sides, found)
    return found


def _collect(expression: Any, sides: list[dict[int, str]], found: Keys) -> None:
    name = str(expression.getClass().getSimpleName())
    if name == "And":
        _collect(expression.left(), sides, found)
        _collect(expression.right(), sides, found)
    elif name in ("EqualTo", "EqualNullSafe"):
        pair = [expression.left(), expression.right()]
        for mine, other in (pair, pair[::-1]):
            key = _attribute(mine)
            used = {attribute.exprId().id() for attribute in items(other.references().toSeq())}
            if key not in sides[0] or not used or not used <= set(sides[1]):
                continue
            if sides[0][key] not in found.names:
                found.names.append(sides[0][key])
            is_bare = all(str(side.getClass().getSimpleName()) == "AttributeReference" for side in pair)
            if name == "EqualTo" and is_bare:
                found.bare.setdefault(sides[0][key], sides[1][_attribute(other)])


def _attribute(expression: Any) -> int:
    """The id of a column, whatever it is cast to; -1 of anything else."""
    while str(expression.getClass().getSimpleName()) == "Cast":
        expression = expression.child()
    if str(expression.getClass().getSimpleName()) != "AttributeReference":
        return -1
    return int(expression.exprId().id())


def bounds_of(source: DataFrame, table: Any, keys: Mapping[str, str]) -> tuple[int, list[str]]:
    """The number of rows of the source, and predicates in Pennon's SQL for the bounds of its keys.

    Only of keys that both systems compare alike.
    """
    from pyspark.sql import functions as fn

    compared = {
        target: own
        for target, own in keys.items()
        if target in table.schema.names
        and _is_comparable(table.schema.field(target).type)
        and source.schema[own].dataType == spark_type(table.schema.field(target))
    }
    aggregates = [fn.count(fn.lit(1))]
    for own in compared.values():
        aggregates += [fn.min(source[own]), fn.max(source[own])]
    row = source.agg(*aggregates).first()
    assert row is not None
    kinds = {name: spark_type(table.schema.field(name)) for name in compared}
    translator = Translator(tables.full_schema(table), kinds)
    bounds: list[str] = []
    for at, target in enumerate(compared):
        least, most = row[1 + 2 * at], row[2 + 2 * at]
        if least is None:
            continue
        between = [
            translator.translate(spark_api.GreaterThanOrEqual((target,), least)),
            translator.translate(spark_api.LessThanOrEqual((target,), most)),
        ]
        bounds += [text for text in between if text is not None]
    return int(row[0]), bounds


def _is_comparable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_string(kind))
