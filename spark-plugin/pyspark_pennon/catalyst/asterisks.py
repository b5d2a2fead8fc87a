"""Asterisks in conditions and values of verbs: Spark lets them stand for the columns that Pennon adds, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.catalyst.needed_columns import seen
from pyspark_pennon.catalyst.plans import execution_of, items, kind_of
from pyspark_pennon.errors import invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refuse_asterisk(frame: DataFrame, alias: str | None = None) -> None:
    """Refuse `*`, and that of one alias, in expressions of the last step of a frame.

    Parameters
    ----------
    alias
        That of the table: other asterisks that have a name stand for what the caller has given.

    Raises
    ------
    pennon.InvalidInputError
        An expression has it. In Spark Connect, whose plans are not at hand, nothing is refused.
    """

    def look(_plan: Any) -> bool:
        # Only the plan as it was given still has them; queries in expressions have frames of their own.
        waiting = items(execution_of(frame).logical().expressions())
        while waiting:
            expression = waiting.pop()
            if kind_of(expression) in _ASTERISKS and _name(expression) in (None, alias):
                return True
            waiting.extend(items(expression.children()))
        return False

    if seen(frame, look, False, "an asterisk in an expression is not refused"):
        raise invalid(
            "A condition or value has an asterisk, which stands for columns that Pennon adds, too: name the columns"
        )


_ASTERISKS = ("UnresolvedStar", "UnresolvedStarExceptOrReplace", "ResolvedStar")


def _name(asterisk: Any) -> str | None:
    """What the asterisk is of; None for all columns."""
    if kind_of(asterisk) == "ResolvedStar" or not asterisk.target().isDefined():
        return None
    return ".".join(items(asterisk.target().get()))
