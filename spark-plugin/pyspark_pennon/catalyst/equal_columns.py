"""Columns that the condition of a merge says are equal, where its plan is on a server, as in Spark Connect.

They are read from the condition itself, a tree of Columns or Spark's SQL: equalities of two columns that are joined
by AND. What else a condition has is left out, so all that is found is true of rows that match.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

EQUAL = ("==", "=", "<=>")

_QUOTED = r"`(?:[^`]|``)+`"
_NAME = rf"(?:{_QUOTED}|[^\W\d]\w*)"
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_EQUALITY = re.compile(rf"\s*({_PATH})\s*(<=>|==|=)\s*({_PATH})\s*")
_UNCLEAR = re.compile(r"\b(?:or|between|case|select|with|true|false|null)\b|--|/\*|->|['\"\[]|\|\|", re.IGNORECASE)


def equal_columns(condition: Column, target: DataFrame, source: DataFrame) -> Iterator[tuple[str, str, str]]:
    """The name of a column of the target, one of the source, and how they are compared: one of [EQUAL][].

    Parameters
    ----------
    condition
        Of a session of Spark Connect, which analyses what its names mean.
    """
    for left, operator, right in _equalities(getattr(condition, "_expr", None)):
        for mine, own in ((left, right), (right, left)):
            names = column_named(target, mine), column_named(source, own)
            if names[0] and names[1] and not column_named(source, mine) and not column_named(target, own):
                yield names[0], names[1], operator
                break


def _equalities(expression: Any) -> Iterator[tuple[Column, str, Column]]:
    """Those that are joined by AND; none of a condition that is something else as well."""
    from pyspark.sql import functions as fn
    from pyspark.sql.connect.column import Column as Made

    name = getattr(expression, "_name", None)
    arguments: list[Any] = list(getattr(expression, "_args", []))
    if name == "and":
        for argument in arguments:
            yield from _equalities(argument)
    elif name in EQUAL and len(arguments) == 2:
        if all(type(argument).__name__ == "ColumnReference" for argument in arguments):
            yield Made(arguments[0]), str(name), Made(arguments[1])
    elif type(expression).__name__ == "SQLExpression":
        for left, operator, right in _written(str(expression._expr)):
            yield fn.col(left), operator, fn.col(right)


def _written(text: str) -> list[tuple[str, str, str]]:
    """The equalities of two names that SQL joins by AND; none of SQL in which an AND may mean something else."""
    if _UNCLEAR.search(text):
        return []
    found: list[tuple[str, str, str]] = []
    for part in _conjuncts(text):
        if equality := _EQUALITY.fullmatch(part):
            left, right = (".".join(re.findall(_NAME, equality[side])) for side in (1, 3))
            found.append((left, equality[2], right))
        elif inner := re.fullmatch(r"\s*\((.*)\)\s*", part, re.DOTALL):
            found += _written(inner[1])
    return found


def _conjuncts(text: str) -> list[str]:
    """What AND joins outside of parentheses; nothing if these are not in pairs."""
    parts, start, depth = [], 0, 0
    for token in re.finditer(rf"{_QUOTED}|[()]|\band\b", text, re.IGNORECASE):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth < 0:
            return []
        if depth == 0 and token[0].lower() == "and":
            parts.append(text[start : token.start()])
            start = token.end()
    return [*parts, text[start:]] if depth == 0 else []


def column_named(frame: DataFrame, column: Column) -> str | None:
    """The name of a column of the frame; None if the frame has none so called, or it is a part of another one."""
    from pyspark.errors import AnalysisException

    identifier = getattr(getattr(column, "_expr", None), "_unparsed_identifier", "")
    # Spark takes names with spaces and others without quotes here; those are left out.
    parts = re.findall(_NAME, identifier) if re.fullmatch(_PATH, identifier) else []
    if len(parts) > 2 or (len(parts) == 2 and _same(frame.columns, parts[0])):
        return None  # may be a field of a struct
    if not parts or not (name := _same(frame.columns, parts[-1])):
        return None
    try:
        return name if [found.casefold() for found in frame.select(column).columns] == [name.casefold()] else None
    except AnalysisException:
        return None


def _same(names: list[str], part: str) -> str | None:
    """The one name that Spark takes a part of a path for; it ignores case unless it is set not to."""
    wanted = part[1:-1].replace("``", "`") if part.startswith("`") else part
    found = [name for name in names if name == wanted] or [
        name for name in names if name.casefold() == wanted.casefold()
    ]
    return found[0] if len(found) == 1 else None
