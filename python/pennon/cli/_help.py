"""The help of commands in narrow terminals, for which click would write lines of fifty characters."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable

import click

# Columns of terminals that click fits.
_LEAST = 52
# Of the texts below options and commands.
_INDENT = 4


class _Formatter(click.HelpFormatter):
    """Writes options and what they do below each other where there is no room for two columns."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns
        super().__init__(indent_increment, columns if columns < _LEAST else width, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write terms and what they mean."""
        if self.width >= _LEAST - 2:
            super().write_dl(rows, col_max, col_spacing)
            return
        for term, text in rows:
            # Choices are one word: they may go on after each bar.
            words = re.sub(r"\|(?=\S)", "| ", term)
            for line, indent in ((words, 0), (text, _INDENT)):
                if not line:
                    continue
                begin = " " * (self.current_indent + indent)
                then = begin + " " * (2 * _INDENT if indent == 0 else 0)
                width = max(self.width, len(then) + 10)
                self.write(click.wrap_text(line, width, begin, then).replace("| ", "|") + "\n")


class HelpContext(click.Context):
    """How a command is called, with help that fits."""

    formatter_class = _Formatter


def fitting(command: click.Command) -> click.Command:
    """The command, whose help and that of its commands fits narrow terminals."""
    command.context_class = HelpContext
    if isinstance(command, click.Group):
        for part in command.commands.values():
            fitting(part)
    return command
