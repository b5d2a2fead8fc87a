"""Spark's pushed filters as Pennon SQL, where the translation is exact.

Spark does not apply a filter again that a source has taken over. So a filter is
translated only if both sides agree for every value the column can have, null and NaN included;
[translate][] returns None for all other filters, which Spark applies itself. Left to Spark:

* nested columns, collated strings, decimals and timestamps that change on the way to Spark;
* floating-point comparisons with NaN or zero (in Spark -0.0 = 0.0 and NaN = NaN); others get
  an explicit clause, since Spark sorts NaN above everything;
* 15 October 1582, and times near it: Spark's filters have this day for the ten before it as well, which the first
  Gregorian calendar skipped;
* `in` lists that contain null, times, intervals and binaries.

Spark 4.3 keeps pushed filters with the relation, which all uses of a frame share, also those in one query: after
`df.where("i = 1").count()` a plain `df.count()` would apply the filter as well, and so would both sides of
`df.where("i = 1").union(df)`. Each use is planned in a process of its own, where no other use can be seen. So
nothing is taken over unless the option `push_filters` is true, for a frame that one query names once.

Three-valued logic is kept throughout, so that `Not` of a translated filter is exact as well.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import DataType, StringType

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_NULL_CHECKS = {"IsNull": "IS NULL", "IsNotNull": "IS NOT NULL"}
_COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TEXT_FUNCTIONS = {"StringStartsWith": "starts_with", "StringEndsWith": "ends_with", "StringContains": "contains"}


class Translator:
    """Translates filters over one table.

    Parameters
    ----------
    table
        Arrow schema of the table, system columns included.
    spark
        Spark type of each column that the query may see.
    """

    def __init__(self, table: pa.Schema, spark: dict[str, DataType]) -> None:
        self._table = table
        self._spark = spark

    def translate(self, pushed: Filter) -> str | None:
        """`pushed` as Pennon SQL, or None when no exact translation is known."""
        filter_name, parts = type(pushed).__name__, vars(pushed)
        if filter_name == "Not":
            inner = self.translate(parts["child"])
            return None if inner is None else f"NOT ({inner})"
        path, value = parts.get("attribute", ()), parts.get("value")
        if any(map(_may_stand_for_skipped_days, value if isinstance(value, (list, tuple)) else (value,))):
            return None
        return self.predicate(filter_name, path[0], value) if len(path) == 1 else None

    def predicate(self, filter_name: str, column: str, value: Any = None) -> str | None:
        """As `translate`, of a filter given by the name of its class, its column and its value."""
        field = self._column(column)
        if field is None:
            return None
        name, kind = _quote(field.name), field.type
        if filter_name in _NULL_CHECKS:
            return f"{name} {_NULL_CHECKS[filter_name]}"
        if filter_name in _COMPARISONS:
            return _compare(name, kind, _COMPARISONS[filter_name], value)
        if filter_name == "EqualNullSafe":
            return self._null_safe(name, kind, value)
        if filter_name == "In":
            return self._one_of(name, kind, value)
        if filter_name in _TEXT_FUNCTIONS and _is_text(kind):
            literal = _text(value)
            return None if literal is None else f"{_TEXT_FUNCTIONS[filter_name]}({name}, {literal})"
        return None

    def _column(self, name: str) -> pa.Field | None:
        if name not in self._spark or "`" in name:
            return None
        spark = self._spark[name]
        if isinstance(spark, StringType) and spark != StringType():
            return None  # a collation compares differently
        index = self._table.get_field_index(name)
        return None if index < 0 else self._table.field(index)

    def _null_safe(self, name: str, kind: pa.DataType, value: Any) -> str | None:
        if value is None:
            return f"{name} IS NULL"
        equal = _compare(name, kind, "=", value)
        return None if equal is None else f"({equal} AND {name} IS NOT NULL)"

    def _one_of(self, name: str, kind: pa.DataType, values: Any) -> str | None:
        literals = [_literal(kind, value) for value in values]
        if not literals or None in literals:
            return None
        return f"{name} IN ({', '.join(str(literal) for literal in literals)})"


def conjunction(predicates: list[str]) -> str | None:
    """All of `predicates`, or None if there are none."""
    if len(predicates) < 2:
        return predicates[0] if predicates else None
    return " AND ".join(f"({predicate})" for predicate in predicates)


def _may_stand_for_skipped_days(value: Any) -> bool:
    """Whether a value may stand for one of the days that the first Gregorian calendar skipped."""
    if not isinstance(value, datetime.date):
        return False
    # The time zone in which Spark skipped them is not known here.
    margin = 1 if isinstance(value, datetime.datetime) else 0
    return abs(value.toordinal() - _FIRST_GREGORIAN_DAY) <= margin


_FIRST_GREGORIAN_DAY = datetime.date(1582, 10, 15).toordinal()


def _compare(name: str, kind: pa.DataType, operator: str, value: Any) -> str | None:
    literal = _literal(kind, value)
    if literal is None:
        return None
    compared = f"{name} {operator} {literal}"
    if pa.types.is_floating(kind) and operator in ("<", "<="):
        return f"({compared} AND NOT isnan({name}))"
    if pa.types.is_floating(kind) and operator in (">", ">="):
        return f"({compared} OR isnan({name}))"
    return compared


def _quote(name: str) -> str:
    return f"`{name}`"


def _literal(kind: pa.DataType, value: Any) -> str | None:
    """`value` as an SQL literal that compares exactly with a column of type `kind`."""
    for matches, write in _LITERALS:
        if matches(kind):
            return write(kind, value)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _integer(kind: pa.DataType, value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    unsigned = pa.types.is_unsigned_integer(kind)
    if value < 0 and unsigned:
        return None
    return str(value)


def _boolean(_kind: pa.DataType, value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _float(_kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, float) or not math.isfinite(value) or value == 0.0:
        return None
    return repr(value)


def _decimal(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    _sign, digits, exponent = value.normalize().as_tuple()
    scale = max(0, -int(exponent))
    if scale > kind.scale or len(digits) + int(exponent) > kind.precision - kind.scale:
        return None
    return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"


def _date(_kind: pa.DataType, value: Any) -> str | None:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        return None
    return f"DATE '{value.isoformat()}'"


def _timestamp(kind: pa.DataType, value: Any) -> str | None:
    # A nanosecond column loses digits on its way to Spark, so Spark's values are not its own.
    if not isinstance(value, datetime.datetime) or kind.unit == "ns":
        return None
    if (kind.tz is None) != (value.tzinfo is None):
        return None
    if value.tzinfo is None:
        return f"arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, None)')"
    utc = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return f"arrow_cast('{utc.isoformat()}Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"


_LITERALS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Any], str | None]]] = [
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (_is_text, lambda _kind, value: _text(value)),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date32, _date),
    (pa.types.is_timestamp, _timestamp),
]
