"""Which columns of a frame another frame, made from it, needs: what is read before Spark computes.

Spark cannot tell a Python function which columns a query uses, but its analysed plan can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.spark_api import has_changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def needed_columns(frame: DataFrame, base: DataFrame) -> list[str]:
    """The columns of `base` that `frame` needs, in the order of `base`; all where the plan cannot be seen.

    Raises
    ------
    pyspark.errors.AnalysisException
        The frame is not valid.
    """
    if not frame.columns:
        return []
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    if execution is None:
        return list(base.columns)
    try:
        outputs = items(base._jdf.queryExecution().analyzed().output())
        names = {attribute.exprId().id(): attribute.name() for attribute in outputs}
        used: set[int] = set()
        _collect(execution().analyzed(), used)
    except Exception as error:
        if has_changed(error, "all columns are read"):
            return list(base.columns)
        raise
    return [name for at, name in names.items() if at in used]


def used_attributes(frame: DataFrame) -> set[int] | None:
    """The ids of all attributes that the plan of a frame reads; None where the plan cannot be seen."""
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    if execution is None:
        return None
    try:
        used: set[int] = set()
        _collect(execution().analyzed(), used)
    except Exception as error:
        if has_changed(error, "all columns are sent"):
            return None
        raise
    return used


def has_subquery(frame: DataFrame) -> bool:
    """Whether a frame has an expression with a query of its own, for which Spark may shuffle rows."""
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    if execution is None:
        return True
    return _any_subquery(execution().analyzed())


def may_call_python(frame: DataFrame) -> bool:
    """Whether an expression of the last step of a frame calls a function in Python, for all that is known."""
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    if execution is None:
        return True
    # Expressions of a chain are as deep as it is long.
    waiting = items(execution().analyzed().expressions())
    while waiting:
        expression = waiting.pop()
        if "Python" in str(expression.getClass().getSimpleName()):
            return True
        waiting.extend(items(expression.children()))
    return False


_ROW_BY_ROW = ("Project", "Filter", "MapInArrow", "PythonMapInArrow", "Range", "SubqueryAlias")
"""Nodes of an analysed plan that look at one row at a time."""


def other_rows(frame: DataFrame) -> str | None:
    """What in a frame looks at more than one row, or makes others, by the name of Spark's plan; None if nothing
    does, or where the plan cannot be seen.
    """
    execution = getattr(getattr(frame, "_jdf", None), "queryExecution", None)
    if execution is None:
        return None
    plan = execution().analyzed()
    if _any_subquery(plan):
        return "a subquery"
    while True:
        name = str(plan.getClass().getSimpleName())
        if name not in _ROW_BY_ROW:
            return name
        children = items(plan.children())
        if not children:
            return None
        (plan,) = children


def other_rows_of(step: DataFrame, frame: DataFrame) -> str | None:
    """What in a step, made from a frame, looks at more than one row, or makes others, by the name of Spark's plan.

    A subquery counts as a value. None if nothing does, or where the plan cannot be seen.
    """
    execution = getattr(getattr(step, "_jdf", None), "queryExecution", None)
    if execution is None:
        return None
    plan, end = execution().analyzed(), frame._jdf.queryExecution().analyzed()
    found = None
    while not plan.equals(end):
        name = str(plan.getClass().getSimpleName())
        if name not in _ROW_BY_ROW:
            found = found or name
        children = items(plan.children())
        if len(children) != 1:
            return None
        (plan,) = children
    return found


def _any_subquery(plan: Any) -> bool:
    return bool(items(plan.subqueries())) or any(_any_subquery(child) for child in items(plan.children()))


def _collect(plan: Any, used: set[int]) -> None:
    used.update(attribute.exprId().id() for attribute in items(plan.references().toSeq()))
    for child in items(plan.children()):
        _collect(child, used)
    for inner in items(plan.subqueries()):
        _collect(inner, used)


def items(sequence: Any) -> list[Any]:
    """The items of a sequence of Scala's."""
    return [sequence.apply(at) for at in range(sequence.size())]
