"""How far long work is, on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Union

from pennon._progress import PATIENCE
from pennon._text import in_bytes

if TYPE_CHECKING:
    from pennon.jobs import Progress


@contextmanager
def watched(title: str) -> Iterator[Union[bool, Callable[[Progress], object]]]:
    """What to pass as `progress`: a bar appears after two seconds; False if nobody looks."""
    if not getattr(sys.stderr, "isatty", lambda: False)():
        yield False
        return
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    def __init__(self, title: str) -> None:
        self._title, self._started = title, time.monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def __call__(self, at: Progress) -> None:
        if self._drawn is None:
            if time.monotonic() - self._started < PATIENCE:
                return
            self._open()
        done, total, unit = at.rows, at.of_rows, "rows"
        if at.of_tasks is not None:
            done, total, unit = at.tasks, at.of_tasks, "tasks"
        elif at.of_fragments is not None and at.of_rows is None:
            done, total, unit = at.fragments, at.of_fragments, "fragments"
        of = "" if total is None else f" of {total:,}"
        text = f"{done:,}{of} {unit}, {in_bytes(at.bytes)}"
        self._drawn.update(self._task, completed=done, total=total, figures=text)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
        self._drawn = Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._task = self._drawn.add_task(self._title, total=None, figures="")
        self._drawn.start()

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()
