"""Which columns of a frame another frame, made from it, needs: what is read before Spark computes.

Spark cannot tell a Python function which columns a query uses, but its analysed plan can. Where the plan cannot be
seen, as in Spark Connect or in a release of Spark with other classes, the answer is the one that is always right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark_pennon.catalyst.plans import attribute_id, attributes, items, kind_of, plan_of, references
from pyspark_pennon.spark_api import has_changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")


def seen(frame: DataFrame, look: Callable[[Any], T], otherwise: T, consequence: str) -> T:
    """What `look` finds in the analysed plan of a frame.

    Parameters
    ----------
    otherwise
        The answer where the plan cannot be seen.
    consequence
        What is done then, for the log.
    """
    try:
        plan = plan_of(frame)
        return otherwise if plan is None else look(plan)
    except Exception as error:
        if has_changed(error, consequence):
            return otherwise
        raise


def needed_columns(frame: DataFrame, base: DataFrame) -> list[str]:
    """The columns of `base` that `frame` needs, in the order of `base`; all where the plan cannot be seen.

    Raises
    ------
    pyspark.errors.AnalysisException
        The frame is not valid.
    """
    if not frame.columns:
        return []

    def look(plan: Any) -> list[str]:
        used = _used(plan)
        return [str(column.name()) for column in attributes(base) or [] if attribute_id(column) in used]

    return seen(frame, look, list(base.columns), "all columns are read")


def used_attributes(frame: DataFrame) -> set[int] | None:
    """The ids of all attributes that the plan of a frame reads; None where the plan cannot be seen."""
    return seen(frame, _used, None, "all columns are sent")


def has_subquery(frame: DataFrame) -> bool:
    """Whether a frame has an expression with a query of its own, for which Spark may shuffle rows."""
    return seen(frame, _any_subquery, True, "rows are shuffled to their tasks")


def may_call_python(frame: DataFrame) -> bool:
    """Whether an expression of the last step of a frame calls a function in Python, for all that is known."""

    def look(plan: Any) -> bool:
        # Expressions of a chain are as deep as it is long.
        waiting = items(plan.expressions())
        while waiting:
            expression = waiting.pop()
            if "Python" in kind_of(expression):
                return True
            waiting.extend(items(expression.children()))
        return False

    return seen(frame, look, True, "rows without a change are sent to the tasks")


_ROW_BY_ROW = ("Project", "Filter", "MapInArrow", "PythonMapInArrow", "Range", "LogicalRDD", "SubqueryAlias")
"""Nodes of an analysed plan that look at one row at a time."""


def other_rows(frame: DataFrame) -> str | None:
    """What in a frame looks at more than one row, or makes others, by the name of Spark's plan; None if nothing
    does, or where the plan cannot be seen.
    """

    def look(plan: Any) -> str | None:
        if _any_subquery(plan):
            return "a subquery"
        while True:
            if kind_of(plan) not in _ROW_BY_ROW:
                return kind_of(plan)
            children = items(plan.children())
            if not children:
                return None
            (plan,) = children

    return seen(frame, look, None, "what looks at more than one row is not refused")


def other_rows_of(step: DataFrame, frame: DataFrame) -> str | None:
    """What in a step, made from a frame, looks at more than one row, or makes others, by the name of Spark's plan.

    A subquery counts as a value. None if nothing does, or where the plan cannot be seen.
    """

    def look(plan: Any) -> str | None:
        end, found = plan_of(frame), None
        while not plan.equals(end):
            if kind_of(plan) not in _ROW_BY_ROW:
                found = found or kind_of(plan)
            children = items(plan.children())
            if len(children) != 1:
                return None
            (plan,) = children
        return found

    return seen(step, look, None, "what looks at more than one row is not refused")


def _any_subquery(plan: Any) -> bool:
    return bool(items(plan.subqueries())) or any(_any_subquery(child) for child in items(plan.children()))


def _used(plan: Any) -> set[int]:
    used = references(plan)
    for below in (*items(plan.children()), *items(plan.subqueries())):
        used |= _used(below)
    return used
