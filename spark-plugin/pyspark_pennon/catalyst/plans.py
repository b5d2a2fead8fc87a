"""Spark's analysed plans, as classes of Scala that Py4J shows. A session of Spark Connect has none at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def execution_of(frame: DataFrame) -> Any:
    """The plans of a frame; None in Spark Connect."""
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    return None if execution is None else execution()


def plan_of(frame: DataFrame) -> Any:
    """The analysed plan of a frame; None in Spark Connect."""
    execution = execution_of(frame)
    return None if execution is None else execution.analyzed()


def items(sequence: Any) -> list[Any]:
    """The items of a sequence of Scala's."""
    return [sequence.apply(at) for at in range(sequence.size())]


def kind_of(node: Any) -> str:
    """The name of the class of a plan or an expression."""
    return str(node.getClass().getSimpleName())


def attribute_id(attribute: Any) -> int:
    """What tells an attribute from all others of the session."""
    return int(attribute.exprId().id())


def attributes(frame: DataFrame) -> list[Any] | None:
    """The attributes of a frame's columns, in their order; None in Spark Connect."""
    plan = plan_of(frame)
    return None if plan is None else items(plan.output())


def references(node: Any) -> set[int]:
    """The ids of the attributes that a plan or an expression reads."""
    return {attribute_id(attribute) for attribute in items(node.references().toSeq())}


def equalities(plan: Any) -> list[tuple[str, Any, Any]]:
    """The kind and the two sides of each equality that a join demands; none of another plan."""
    if kind_of(plan) != "Join" or not plan.condition().isDefined():
        return []
    found, waiting = [], [plan.condition().get()]
    while waiting:
        expression = waiting.pop()
        kind = kind_of(expression)
        if kind == "And":
            waiting += [expression.right(), expression.left()]
        elif kind in ("EqualTo", "EqualNullSafe"):
            found.append((kind, expression.left(), expression.right()))
    return found
