"""How far long work is, on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Union

from pennon._progress import PATIENCE
from pennon._text import in_bytes

if TYPE_CHECKING:
    from pennon.jobs import Progress


@contextmanager
def watched(title: str) -> Iterator[Union[Literal[False], Bar]]:
    """What to pass as `progress`: a bar appears after two seconds; False if nobody looks."""
    if not getattr(sys.stderr, "isatty", lambda: False)():
        yield False
        return
    bar = Bar(title)
    try:
        yield bar
    finally:
        bar.close()


class Bar:
    """A bar that appears after two seconds."""

    def __init__(self, title: str) -> None:
        self._title, self._started = title, time.monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def __call__(self, at: Progress) -> None:
        """Show how far it is."""
        done, total, unit = at.rows, at.of_rows, "rows"
        if at.of_tasks is not None:
            done, total, unit = at.tasks, at.of_tasks, "tasks"
        elif at.of_fragments is not None and at.of_rows is None:
            done, total, unit = at.fragments, at.of_fragments, "fragments"
        self.stage(self._title, done, total, unit, at.bytes)

    def stage(self, title: str, done: int | None, total: int | None, unit: str, size: int = 0) -> None:
        """Show how far a stage is."""
        if self._drawn is None:
            if time.monotonic() - self._started < PATIENCE:
                return
            self._open()
        of = "" if total is None else f" of {total:,}"
        text = "" if done is None else f"{done:,}{of} {unit}"
        if size:
            text += f", {in_bytes(size)}"
        self._drawn.update(self._task, description=title, completed=done or 0, total=total, figures=text)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
        self._drawn = Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._task = self._drawn.add_task(self._title, total=None, figures="")
        self._drawn.start()

    def close(self) -> None:
        """Take it away."""
        if self._drawn is not None:
            self._drawn.stop()


@contextmanager
def stages(title: str) -> Iterator[Union[Callable[[Any], object], None]]:
    """What to pass as `progress_callback` of work on indices; None if nobody looks."""
    with watched(title) as bar:
        if isinstance(bar, bool):
            yield None
            return

        def tell(at: Any) -> None:
            bar.stage(f"{title}: {at.stage}", at.completed, at.total, at.unit)

        yield tell
