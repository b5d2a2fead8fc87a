"""What a merge learns from Spark's plans: whether its source is deterministic, the keys, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.catalyst.equal_columns import column_named, equal_columns
from pyspark_pennon.catalyst.filters import Translator
from pyspark_pennon.catalyst.needed_columns import seen
from pyspark_pennon.catalyst.plans import (
    attribute_id,
    attributes,
    equalities,
    items,
    kind_of,
    plan_of,
    references,
)
from pyspark_pennon.errors import invalid
from pyspark_pennon.spark_api import as_column, has_changed
from pyspark_pennon.types.column_names import is_case_sensitive
from pyspark_pennon.types.schema import quoted, spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame


def is_deterministic(frame: DataFrame) -> bool:
    """Whether Spark would compute the same rows again, for all it knows.

    In Spark Connect the plan is on the server, nothing is known, and the answer is yes.
    """
    return seen(frame, lambda plan: bool(plan.deterministic()), True, "the source counts as deterministic")


def refuse_self_comparison(joined: DataFrame) -> None:
    """Refuse a condition that names no column of the table, or compares a column of the source with itself.

    That is how Spark takes Columns of two frames where one is made from the other, since both have one attribute: a
    row of the source would match every row of the table. In Spark Connect, whose plans are not at hand, nothing is
    refused.

    Parameters
    ----------
    joined
        The join of the table with the source, by the condition.

    Raises
    ------
    pennon.InvalidInputError
        The condition is like that.
    """

    def look(plan: Any) -> str | None:
        condition = plan.condition()
        if not condition.isDefined():
            return None
        columns = plan.left().outputSet()

        def is_of_source(expression: Any) -> bool:
            used = expression.references()
            return bool(used.nonEmpty() and used.intersect(columns).isEmpty())

        if is_of_source(condition.get()):
            return "names no column of the table, so that every row of it may match"
        for _, left, right in equalities(plan):
            if is_of_source(left) and left.semanticEquals(right):
                return f"compares {left.sql()} of the source with itself, which is true unless it is null"
        return None

    found = seen(joined, look, None, "a condition that compares a column with itself is not refused")
    if found is not None:
        raise invalid(
            f"The condition of the merge {found}: Columns of a frame and of one that is made from it are the same "
            "to Spark. Name the columns of the two sides by aliases, as in "
            "table.alias('t').merge(source.alias('s'), 't.id = s.id'); what is not null is found by IS NOT NULL"
        )


@dataclass
class Keys:
    """What the condition of a merge says of columns of the table.

    Attributes
    ----------
    names
        Columns that are equal to something of the source.
    bare
        Those of them that are equal to a column of the source of the same type, with that column.
    exact
        Those of them that match what is the same value, with what that is of the source: in Spark Connect a column.
    """

    names: list[str] = field(default_factory=list)
    bare: dict[str, str] = field(default_factory=dict)
    exact: dict[str, Any] = field(default_factory=dict)

    def add(self, key: str, own: str | None, same: Any = None) -> None:
        """Add a key.

        Parameters
        ----------
        own
            The column of the source whose values bound those of the key, if there is one.
        same
            What the key is compared with, if that is the same value where they are equal.
        """
        if key not in self.names:
            self.names.append(key)
        if own is not None:
            self.bare.setdefault(key, own)
        if same is not None:
            self.exact.setdefault(key, same)

    def is_inserted(self, key: str, values: Iterable[Column | str | None], source: DataFrame) -> bool:
        """Whether the values that inserted rows get for a key are those by which rows match."""
        same = self.exact.get(key)
        if isinstance(same, str):
            return all(value is not None and column_named(source, as_column(value)) == same for value in values)
        try:
            return same is not None and all(
                value is not None and _without_casts(_resolved(source, value)).semanticEquals(same)
                for value in values
            )
        except Exception as error:
            if has_changed(error, "the keys of inserted rows count as others"):
                return False
            raise


def keys_of(joined: DataFrame, condition: Column, target: DataFrame, source: DataFrame) -> Keys:
    """The keys of a join: by its plan, or in Spark Connect by its condition, of which pairs of columns are seen."""
    try:
        plan = plan_of(joined)
        if plan is not None:
            return _keys_in(plan, target, source)
    except Exception as error:
        if has_changed(error, "no keys of the merge are known"):
            return Keys()
        raise
    found = Keys()
    for key, own, operator in equal_columns(condition, target, source):
        if operator == "<=>":
            found.add(key, None)
        else:
            kinds = [frame.schema[name].dataType for frame, name in ((target, key), (source, own))]
            found.add(key, own, own if _is_exact(*(kind.simpleString() for kind in kinds)) else None)
    return found


def _keys_in(plan: Any, target: DataFrame, source: DataFrame) -> Keys:
    found = Keys()
    keys, own = ({attribute_id(a): str(a.name()) for a in attributes(frame) or []} for frame in (target, source))
    for kind, *pair in equalities(plan):
        for mine, other in (pair, pair[::-1]):
            key, used = _attribute(mine), references(other)
            if key not in keys or not used or not used <= set(own):
                continue
            if kind == "EqualNullSafe":
                found.add(keys[key], None)
                continue
            is_bare = all(kind_of(side) == "AttributeReference" for side in pair)
            same = [_without_casts(side) for side in (mine, other)]
            is_column = kind_of(same[0]) == "AttributeReference"
            is_exact = is_column and _is_exact(*(str(side.dataType().simpleString()) for side in same))
            found.add(keys[key], own[_attribute(other)] if is_bare else None, same[1] if is_exact else None)
    return found


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_SAME = ("boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "float", "double")


def _is_exact(mine: str, other: str) -> bool:
    """Whether what is equal is the same value, of types as Spark writes them: zeros and NaN count as the same."""
    if mine in _WHOLE and other in _WHOLE:
        return True
    return mine == other and (mine in _SAME or mine.startswith("decimal"))


def _without_casts(expression: Any) -> Any:
    """What is cast from one type of whole numbers to a wider one."""
    while kind_of(expression) == "Cast":
        child = expression.child()
        kinds = [str(side.dataType().simpleString()) for side in (child, expression)]
        if not set(kinds) <= set(_WHOLE) or _WHOLE.index(kinds[0]) > _WHOLE.index(kinds[1]):
            break
        expression = child
    return expression


def _resolved(source: DataFrame, value: Column | str) -> Any:
    """The expression of a value, over the columns of the source."""
    (expression,) = items(plan_of(source.select(as_column(value))).projectList())
    return expression.child() if kind_of(expression) == "Alias" else expression


def _attribute(expression: Any) -> int:
    """The id of a column, whatever it is cast to; -1 of anything else."""
    while kind_of(expression) == "Cast":
        expression = expression.child()
    return attribute_id(expression) if kind_of(expression) == "AttributeReference" else -1


def bounds_of(source: DataFrame, table: Any, keys: Mapping[str, str]) -> tuple[int, list[str]]:
    """The number of rows of the source, and predicates in Pennon's SQL for the bounds of its keys.

    Only of keys that both systems compare alike: whole numbers, text, dates, times and decimals.
    """
    from pyspark.sql import functions as fn

    is_sensitive = is_case_sensitive(source.sparkSession)
    spellings = [name if is_sensitive else name.lower() for name in source.columns]
    compared = {
        target: own
        for target, own in keys.items()
        if target in table.schema.names
        and spellings.count(own if is_sensitive else own.lower()) == 1
        and _is_comparable(table.schema.field(target).type)
        and source.schema[own].dataType == spark_type(table.schema.field(target))
    }
    aggregates = [fn.count(fn.lit(1))]
    for target, own in compared.items():
        kind = table.schema.field(target).type
        aggregates += [_exact(bound(source[quoted(own)]), kind) for bound in (fn.min, fn.max)]
    row = source.agg(*aggregates).first()
    assert row is not None
    kinds = {name: spark_type(table.schema.field(name)) for name in compared}
    translator = Translator(tables.full_schema(table), kinds)
    bounds: list[str | None] = []
    for at, target in enumerate(compared):
        kind = table.schema.field(target).type
        least, most = (_value(row[1 + 2 * at + side], kind) for side in range(2))
        if least is not None:
            bounds.append(translator.predicate("GreaterThanOrEqual", target, least))
        if most is not None:
            bounds.append(translator.predicate("LessThanOrEqual", target, most))
    return int(row[0]), [text for text in bounds if text is not None]


def _is_comparable(kind: pa.DataType) -> bool:
    return any(matches(kind) for matches in _COMPARABLE) and not is_of_nanoseconds(kind)


_COMPARABLE = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


def is_of_nanoseconds(kind: pa.DataType) -> bool:
    """Spark has microseconds: what it compares is not what the table compares."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _exact(bound: Column, kind: pa.DataType) -> Column:
    """A bound in a form that comes to the driver as it is.

    Dates and times have years in Spark that Python lacks, and instants come in a time zone that has an hour twice.
    """
    from pyspark.sql import functions as fn

    if pa.types.is_date(kind):
        return fn.unix_date(bound)
    if pa.types.is_timestamp(kind):
        return bound.cast("string") if kind.tz is None else fn.unix_micros(bound)
    return bound


_START = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _value(bound: Any, kind: pa.DataType) -> Any:
    """The bound as Python has it; None where it has none."""
    if bound is None:
        return None
    try:
        if pa.types.is_date(kind):
            return (_START + timedelta(days=bound)).date()
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return _START + timedelta(microseconds=bound)
        if pa.types.is_timestamp(kind):
            seconds, _, fraction = bound.partition(".")
            moment = datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S")
            return moment + timedelta(microseconds=int(fraction.ljust(6, "0")))
    except (OverflowError, ValueError):
        return None
    return int(bound) if pa.types.is_integer(kind) else bound
