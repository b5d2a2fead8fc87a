"""Options that say which rows and columns a command prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def columns_option(function: FunctionT) -> FunctionT:
    """Add `--columns`; the command gets a list of names, or None."""
    return click.option(
        "-c",
        "--columns",
        multiple=True,
        metavar="NAME,...",
        callback=_names,
        help="Only these columns, separated by commas; may be repeated, for names with commas put in backquotes.",
    )(function)


def where_option(function: FunctionT) -> FunctionT:
    """Add `--where`."""
    return click.option("-w", "--where", metavar="SQL", help="Only rows for which this is true.")(function)


def _names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str] | None:
    del ctx, param
    return [name for text in value for name in _parts(text)] if value else None


def _parts(text: str) -> list[str]:
    """What is between commas that are outside of backquotes."""
    parts, quoted = [""], False
    for char in text:
        quoted ^= char == "`"
        if char == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
