"""What a merge learns from Spark's plans: whether its source is deterministic, the keys, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.filters import Translator
from pyspark_pennon.needed_columns import items
from pyspark_pennon.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Bounds:
    """Outside of what no key of the source lies, in Pennon's SQL."""

    predicate: str


def is_deterministic(frame: DataFrame) -> bool:
    """Whether Spark would compute the same rows again, for all it knows."""
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    return execution is None or bool(execution().analyzed().deterministic())


def equal_columns(joined: DataFrame, target: DataFrame, source: DataFrame) -> dict[str, str]:
    """Columns of the table that the condition of a join says are equal to columns of the source."""
    execution = getattr(getattr(joined, "_jdf", None), "queryExecution", None)
    if execution is None:
        return {}
    plan = execution().analyzed()
    if not hasattr(plan, "condition") or str(plan.getClass().getSimpleName()) != "Join":
        return {}
    sides = [
        {a.exprId().id(): a.name() for a in items(frame._jdf.queryExecution().analyzed().output())}
        for frame in (target, source)
    ]
    found: dict[str, str] = {}
    if plan.condition().isDefined():
        _collect(plan.condition().get(), sides, found)
    return found


def _collect(expression: Any, sides: list[dict[int, str]], found: dict[str, str]) -> None:
    name = str(expression.getClass().getSimpleName())
    if name == "And":
        _collect(expression.left(), sides, found)
        _collect(expression.right(), sides, found)
    elif name == "EqualTo":
        pair = [_attribute(expression.left()), _attribute(expression.right())]
        for left, right in (pair, pair[::-1]):
            if left in sides[0] and right in sides[1]:
                found.setdefault(sides[0][left], sides[1][right])


def _attribute(expression: Any) -> int:
    if str(expression.getClass().getSimpleName()) != "AttributeReference":
        return -1
    return int(expression.exprId().id())


def bounds_of(source: DataFrame, table: Any, keys: Mapping[str, str]) -> tuple[int, list[Bounds]]:
    """The number of rows of the source, and the bounds of its keys where they can be compared in both systems."""
    from pyspark.sql import datasource
    from pyspark.sql import functions as fn

    compared = {
        target: own
        for target, own in keys.items()
        if target in table.schema.names and _is_comparable(table.schema.field(target).type)
    }
    aggregates = [fn.count(fn.lit(1))]
    for own in compared.values():
        aggregates += [fn.min(source[own]), fn.max(source[own])]
    row = source.agg(*aggregates).first()
    assert row is not None
    kinds = {name: spark_type(table.schema.field(name)) for name in compared}
    translator = Translator(tables.full_schema(table), kinds)
    bounds = []
    for at, target in enumerate(compared):
        least, most = row[1 + 2 * at], row[2 + 2 * at]
        if least is None:
            continue
        between = [
            translator.translate(datasource.GreaterThanOrEqual((target,), least)),
            translator.translate(datasource.LessThanOrEqual((target,), most)),
        ]
        bounds += [Bounds(text) for text in between if text is not None]
    return int(row[0]), bounds


def _is_comparable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind))
