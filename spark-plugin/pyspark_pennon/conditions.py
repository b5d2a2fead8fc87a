"""Conditions of Spark, as far as a scan can use them to skip rows.

A condition means what Spark says: [read][pyspark_pennon.read] leaves it to Spark, which evaluates it on every row
that the scan gives. This module only finds a predicate in Pennon's SQL that is true for all of those rows, and
perhaps for more. It walks the optimised plan of `frame.where(condition)`, where Spark has resolved names, folded
constants and rearranged casts. What it does not know is left out; without a JVM at hand, as in Spark Connect,
nothing is found.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark_pennon import spark_api, tables
from pyspark_pennon.filters import Translator, conjunction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

_STEPS = ("Filter", "Project", "BatchEvalPython", "ArrowEvalPython")
"""Nodes between a frame and its rows that neither add nor combine rows."""

_FLIPPED = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}

_TEXT = {"StartsWith": "StringStartsWith", "EndsWith": "StringEndsWith", "Contains": "StringContains"}


@dataclass(frozen=True)
class Condition:
    """What a scan may use of a condition.

    Attributes
    ----------
    predicate
        In Pennon's SQL; true for each row for which the condition is.
    references
        The columns that the condition reads; None if that is not known.
    """

    predicate: str | None = None
    references: frozenset[str] | None = None

    def may_need(self, name: str) -> bool:
        """Whether the condition reads a column, for all that is known."""
        return self.references is None or name in self.references

    def with_filter(self, filter_sql: str | None) -> str | None:
        """Both predicates."""
        return conjunction([predicate for predicate in (filter_sql, self.predicate) if predicate is not None])


def analysed(
    spark: SparkSession, table: Any, schema: StructType, condition: Column | str, alias: str | None = None
) -> Condition:
    """What is known of a condition on the columns of `schema`, which may name them by an alias of the table.

    Raises
    ------
    pyspark.errors.AnalysisException
        The condition is not valid.
    """
    # The optimiser cannot see that this has no rows, and leaves the condition where it is.
    empty = spark.range(1).mapInArrow(_nothing, schema)
    frame = (empty if alias is None else empty.alias(alias)).where(condition)
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    if execution is None:
        return Condition()
    translator = Translator(tables.full_schema(table), {field.name: field.dataType for field in schema.fields})
    try:
        plan = execution()
        names = _references(plan.analyzed())
        return Condition(_predicate(plan.optimizedPlan(), translator), names)
    except Exception as error:  # a class of Spark's has changed: nothing is skipped
        if type(error).__name__ in ("Py4JError", "Py4JJavaError", "AttributeError", "TypeError", "KeyError"):
            return Condition()
        raise


def _nothing(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def _references(plan: Any) -> frozenset[str] | None:
    if _name(plan) != "Filter" or _has_subquery(plan.condition()):
        return None
    names = _names(plan.child())
    return frozenset(names[attribute.exprId().id()] for attribute in _items(plan.condition().references().toSeq()))


def _names(plan: Any) -> dict[int, str]:
    """The columns of a plan by id: an expression spells their names as a person did."""
    return {attribute.exprId().id(): attribute.name() for attribute in _items(plan.output())}


def _has_subquery(expression: Any) -> bool:
    if "Subquery" in _name(expression) or _name(expression) == "Exists":
        return True
    return any(_has_subquery(child) for child in _items(expression.children()))


def _predicate(plan: Any, translator: Translator) -> str | None:
    conditions = []
    while _name(plan) in _STEPS:
        if _name(plan) == "Filter":
            conditions.append(plan.condition())
        plan = plan.child()
    if _name(plan) not in ("MapInArrow", "PythonMapInArrow"):
        return None
    walk = _Walk(translator, _names(plan))
    found = [implied for implied in map(walk.implied, conditions) if implied is not None]
    return conjunction(found)


class _Walk:
    """Expressions of Spark as SQL of Pennon."""

    def __init__(self, translator: Translator, columns: dict[int, str]) -> None:
        self._translator = translator
        self._columns = columns

    def implied(self, expression: Any) -> str | None:
        """What is true wherever `expression` is; None if that is nothing."""
        if _name(expression) == "And":
            sides = [self.implied(expression.left()), self.implied(expression.right())]
            return conjunction([side for side in sides if side is not None])
        return self._exact(expression)

    def _exact(self, expression: Any) -> str | None:
        """What is true, false or null wherever `expression` is."""
        name = _name(expression)
        if name in ("And", "Or"):
            left, right = self._exact(expression.left()), self._exact(expression.right())
            return None if left is None or right is None else f"({left}) {name.upper()} ({right})"
        if name == "Not":
            inner = self._exact(expression.child())
            return None if inner is None else f"NOT ({inner})"
        pushed = self._filter(name, expression)
        return None if pushed is None else self._translator.translate(pushed)

    def _filter(self, name: str, expression: Any) -> Any | None:
        """The filter that Spark would push for an expression, by the classes of its Python sources."""
        if name == "AttributeReference":
            column = self._column(expression)
            return None if column is None else spark_api.EqualTo(column, True)
        if name in ("IsNull", "IsNotNull"):
            column = self._column(expression.child())
            return None if column is None else getattr(spark_api, name)(column)
        if name in ("In", "InSet"):
            return self._one_of(name, expression)
        if name in _FLIPPED or name in _TEXT:
            return self._comparison(name, expression.left(), expression.right())
        return None

    def _comparison(self, name: str, left: Any, right: Any) -> Any | None:
        if _name(left) == "Literal" and name in _FLIPPED:
            name, left, right = _FLIPPED[name], right, left
        column = self._column(left)
        if column is None or _name(right) != "Literal":
            return None
        value = _value(right.value(), right.dataType())
        if value is None:
            return None
        return getattr(spark_api, _TEXT.get(name, name))(column, value)

    def _one_of(self, name: str, expression: Any) -> Any | None:
        column = self._column(expression.value() if name == "In" else expression.child())
        if column is None or name == "InSet":
            return None
        items = list(_items(expression.list()))
        if any(_name(item) != "Literal" for item in items):
            return None
        values = [_value(item.value(), item.dataType()) for item in items]
        return None if None in values else spark_api.In(column, tuple(values))

    def _column(self, expression: Any) -> tuple[str, ...] | None:
        if _name(expression) != "AttributeReference":
            return None
        name = self._columns.get(expression.exprId().id())
        return None if name is None else (name,)


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> Iterator[Any]:
    for at in range(sequence.size()):
        yield sequence.apply(at)


_DAY = date(1970, 1, 1)
_INSTANT = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _value(value: Any, kind: Any) -> Any:
    """The value of a literal as Python has it; None for null and for what is not translated."""
    try:
        return _translated(value, kind)
    except OverflowError:
        return None


def _translated(value: Any, kind: Any) -> Any:
    name = kind.typeName()
    if value is None:
        return None
    if name in ("byte", "short", "integer", "long", "boolean", "double"):
        return value
    if name == "float":
        return struct.unpack("f", struct.pack("f", value))[0]
    if name == "string":
        return value.toString()
    if name.startswith("decimal"):
        return Decimal(value.toString())
    if name == "date":
        return _DAY + timedelta(days=value)
    if name == "timestamp":
        return _INSTANT + timedelta(microseconds=value)
    if name == "timestamp_ntz":
        return _INSTANT.replace(tzinfo=None) + timedelta(microseconds=value)
    return None
