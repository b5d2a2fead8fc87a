"""Conditions of Spark, as far as a scan can use them to skip rows.

A condition means what Spark says. This module looks for a predicate in Pennon's SQL that is true for all rows for
which the condition is: if it is true for no others the scan answers the condition, else Spark evaluates that on the
rows of the scan. It walks the optimised plan of `frame.where(condition)`, where Spark has resolved names, folded
constants and rearranged casts. What it does not know is left out; without a JVM at hand, as in Spark Connect,
nothing is found. The plan comes as JSON, in one call.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.catalyst.asterisks import refuse_asterisk
from pyspark_pennon.catalyst.filters import Translator, conjunction
from pyspark_pennon.catalyst.plans import execution_of
from pyspark_pennon.local_frames import frame_without_rows
from pyspark_pennon.spark_api import has_changed

if TYPE_CHECKING:
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
    is_exact
        Whether there is a predicate, and it is true for no other rows.
    references
        The columns that the condition reads; None if that is not known.
    is_of_now
        Whether the condition may have a part that means something else later, which the predicate has as it is now.
    """

    predicate: str | None = None
    is_exact: bool = False
    references: frozenset[str] | None = None
    is_of_now: bool = False

    def later(self) -> Condition:
        """What a scan may use that runs at some other time."""
        return Condition(references=self.references) if self.is_of_now else self

    def may_need(self, name: str) -> bool:
        """Whether the condition reads a column, for all that is known."""
        return self.references is None or name in self.references

    def with_filter(self, filter_sql: str | None) -> str | None:
        """Both predicates."""
        return conjunction([predicate for predicate in (filter_sql, self.predicate) if predicate is not None])


def analysed(
    spark: SparkSession,
    table: Any,
    schema: StructType,
    condition: Column | str,
    alias: str | None = None,
    *,
    asterisks: bool = True,
) -> Condition:
    """What is known of a condition on the columns of `schema`, which may name them by an alias of the table.

    Parameters
    ----------
    asterisks
        Whether the condition may have some.

    Raises
    ------
    pyspark.errors.AnalysisException
        The condition is not valid.
    pennon.InvalidInputError
        It has an asterisk that it may not have.
    """
    empty = frame_without_rows(spark, schema)
    frame = (empty if alias is None else empty.alias(alias)).where(condition)
    if not asterisks:
        refuse_asterisk(frame, alias)
    plan = execution_of(frame)
    if plan is None:
        return Condition()
    translator = Translator(tables.full_schema(table), {field.name: field.dataType for field in schema.fields})
    try:
        root = tree(plan.analyzed().toJSON())
        nodes = _nodes(root)
        optimised = plan.optimizedPlan()
        predicate, is_exact = _predicate(optimised, tree(optimised.toJSON()), translator)
        is_of_now = not nodes or any(map(_is_of_now, nodes))
        return Condition(predicate, is_exact, _references(root, nodes), is_of_now)
    except Exception as error:
        if has_changed(error, "no rows are skipped by a condition"):
            return Condition()
        raise


@dataclass(frozen=True)
class Node:
    """A node of a plan or an expression.

    Attributes
    ----------
    kind
        The name of its class.
    number
        Its number in its tree, where a node comes before what is below it.
    fields
        What Spark says of it.
    """

    kind: str
    number: int
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    def all(self) -> Iterator[Node]:
        """The node and all below it, of which each comes before its children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


def tree(text: str | list[Any]) -> Node:
    """The root of a tree of Spark's, from its JSON: a call for each node would take longer than a query.

    A chain of a thousand conditions is as deep, so nothing here calls itself.
    """
    nodes = json.loads(text) if isinstance(text, str) else text
    # Of the nodes that come later those whose parent is not made yet, the first one last.
    made: list[Node] = []
    for number in reversed(range(len(nodes))):
        fields = nodes[number]
        children = tuple(made.pop() for _ in range(fields["num-children"]))
        made.append(Node(fields["class"].rpartition(".")[2], number, fields, children))
    (root,) = made
    return root


def _nodes(plan: Node) -> list[Node]:
    """Those of the condition of an analysed plan, if that is what the plan is."""
    return list(tree(plan.fields["condition"]).all()) if plan.kind == "Filter" else []


def _references(plan: Node, nodes: list[Node]) -> frozenset[str] | None:
    if not nodes or any("Subquery" in node.kind or node.kind == "Exists" for node in nodes):
        return None
    names = _names(plan)
    return frozenset(names[_id(node)] for node in nodes if node.kind == "AttributeReference")


def _is_of_now(node: Node) -> bool:
    """Whether Spark puts a constant of the moment for an expression when it optimises a plan."""
    if node.kind == "Cast":
        text = node.children[0].fields.get("value")
        return isinstance(text, str) and text.strip().lower().startswith(_DAYS_OF_NOW)
    return node.kind.startswith("Current") or node.kind in _OF_NOW


_OF_NOW = ("Now", "LocalTimestamp", "SessionUser")
_DAYS_OF_NOW = ("now", "today", "tomorrow", "yesterday")


def _names(plan: Node) -> dict[int, str]:
    """The columns of the rows below a plan by id: an expression spells their names as a person did."""
    *_, leaf = plan.all()
    attributes = (tree(attribute) for attribute in leaf.fields["output"])
    return {_id(attribute): attribute.fields["name"] for attribute in attributes}


def _id(attribute: Node) -> int:
    return int(attribute.fields["exprId"]["id"])


def _predicate(plan: Any, root: Node, translator: Translator) -> tuple[str | None, bool]:
    """What the conditions above the rows imply, and whether it implies them.

    Parameters
    ----------
    plan, root
        The same plan, in the JVM and as read.
    """
    *_, leaf = root.all()
    if leaf.kind != "LogicalRDD":
        return None, False
    names = _names(root)
    found: list[str | None] = []
    while root.kind in _STEPS:
        if root.kind == "Filter":
            walk = _Walk(translator, names, plan.condition)
            condition = tree(root.fields["condition"])
            found += map(walk.exact, _sides(condition) if condition.kind == "And" else [condition])
        (root,) = root.children
        plan = plan.child()
    if root.kind != "LogicalRDD":
        return None, False
    predicate = conjunction([part for part in found if part is not None])
    return predicate, predicate is not None and None not in found


def _sides(expression: Node) -> list[Node]:
    """What an AND or an OR combines, together with those of its kind right below it."""
    found, waiting = list[Node](), [expression]
    while waiting:
        node = waiting.pop()
        if node.kind == expression.kind:
            waiting.extend(reversed(node.children))
        else:
            found.append(node)
    return found


class _Walk:
    """Expressions of Spark as SQL of Pennon."""

    def __init__(self, translator: Translator, columns: dict[int, str], condition: Callable[[], Any]) -> None:
        self._translator = translator
        self._columns = columns
        self._condition = condition

    def exact(self, expression: Node) -> str | None:
        """What is true, false or null wherever `expression` is."""
        name = expression.kind
        if name in ("And", "Or"):
            sides = [self.exact(side) for side in _sides(expression)]
            return None if None in sides else f" {name.upper()} ".join(f"({side})" for side in sides)
        if name == "Not":
            inner = self.exact(expression.children[0])
            return None if inner is None else f"NOT ({inner})"
        if name == "AttributeReference":
            return self._predicate("EqualTo", expression, True)
        if name in ("IsNull", "IsNotNull"):
            return self._predicate(name, expression.children[0])
        if name == "In":
            return self._one_of(*expression.children)
        if name == "InSet":
            return self._one_of_many(expression)
        if name in _FLIPPED or name in _TEXT:
            return self._comparison(name, *expression.children)
        return None

    def _predicate(self, filter_name: str, compared: Node, value: Any = None) -> str | None:
        """The filter that Spark would push to a source; None if it is of anything but a column."""
        column = self._column(compared)
        return None if column is None else self._translator.predicate(filter_name, column, value)

    def _comparison(self, name: str, left: Node, right: Node) -> str | None:
        if left.kind == "Literal" and name in _FLIPPED:
            name, left, right = _FLIPPED[name], right, left
        if self._column(left) is None or right.kind != "Literal":
            return None
        value = self._value(right)
        return None if value is None else self._predicate(_TEXT.get(name, name), left, value)

    def _one_of(self, compared: Node, *items: Node) -> str | None:
        if self._column(compared) is None or any(item.kind != "Literal" for item in items):
            return None
        values = [self._value(item) for item in items]
        return None if None in values else self._predicate("In", compared, values)

    def _one_of_many(self, expression: Node) -> str | None:
        """As Spark puts a list of more than ten constants: a set, of which JSON tells nothing."""
        (compared,) = expression.children
        if self._column(compared) is None:
            return None
        kind = compared.fields["dataType"]
        values = self._condition().apply(expression.number).hset()
        if not isinstance(kind, str) or values.size() > MOST_VALUES or values.contains(None):
            return None
        texts = values.mkString(_BETWEEN).split(_BETWEEN)
        if len(texts) != values.size():
            return None
        found = [_stored(text, kind) for text in texts]
        return None if None in found else self._predicate("In", compared, found)

    def _column(self, expression: Node) -> str | None:
        return self._columns.get(_id(expression)) if expression.kind == "AttributeReference" else None

    def _value(self, literal: Node) -> Any:
        """The value of a literal as Python has it; None for null and for what is not translated."""
        text, kind = literal.fields["value"], literal.fields["dataType"]
        if text is None or not isinstance(kind, str):
            return None
        if kind in _TIMES:
            # Their text is in the time zone of the session, where some times occur two times.
            return _stored(self._condition().apply(literal.number).value(), kind)
        return _parsed(text, kind)


MOST_VALUES = 2_000
"""The scan does not get longer lists: their JSON takes seconds, and each task would read them."""

_BETWEEN = "\0"
"""What stands between the values of a set; texts that have it are left to Spark."""

_TIMES = {"timestamp": datetime(1970, 1, 1, tzinfo=timezone.utc), "timestamp_ntz": datetime(1970, 1, 1)}
_ISO_DAY = re.compile(r"(?!0000)\d{4}-\d\d-\d\d")


def _stored(value: str | int, kind: str) -> Any:
    """The value of a type that Spark holds so, times in microseconds and dates in days since 1970; as `_parsed`."""
    try:
        if kind == "date":
            return date(1970, 1, 1) + timedelta(days=int(value))
        if kind in _TIMES:
            return _TIMES[kind] + timedelta(microseconds=int(value))
    except OverflowError:
        return None
    return _parsed(str(value), kind)


def _parsed(text: str, kind: str) -> Any:
    """The value of a type that Spark writes so; None if that is not known."""
    if kind in ("byte", "short", "integer", "long"):
        return int(text)
    if kind == "boolean":
        return {"true": True, "false": False}[text]
    if kind == "double":
        return float(text)
    if kind == "float":
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    if kind == "string":
        # Spark shows bytes that are no UTF-8 as this character.
        return None if "\ufffd" in text else text
    if kind.startswith("decimal"):
        return Decimal(text)
    if kind == "date" and _ISO_DAY.fullmatch(text):
        return date.fromisoformat(text)
    return None
