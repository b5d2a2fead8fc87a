"""Questions before something is removed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def is_agreed(question: str, yes: bool, hint: str) -> bool:
    """Whether it shall be done. Without a terminal nobody can be asked, and `--yes` has to say so.

    `hint` says how to see what would be done.
    """
    if yes:
        return True
    if not getattr(sys.stdin, "isatty", lambda: False)():
        raise click.UsageError(f"{question} Nobody can be asked: --yes does it, {hint}")
    return click.confirm(question, err=True)


def yes_option(function: FunctionT) -> FunctionT:
    """Add `--yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)
