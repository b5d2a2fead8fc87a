"""How far a long step is: one shape for callbacks, and bars for people who wait."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from pennon._optional import require
from pennon._text import in_bytes
from pennon.errors import InvalidTypeError

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 2.0
"""Seconds after which a step gets a bar."""


@dataclass(frozen=True)
class Progress:
    """How far a long step is.

    Attributes
    ----------
    tasks, of_tasks
        Tasks of a job or a compaction that are done, or files that a cleanup has removed, and all.
    fragments, of_fragments
        Fragments that were read whole, or written, and all; None if nobody knows how many.
    rows, of_rows
        Rows that were found or written, and all; None if nobody knows how many.
    bytes
        Bytes of data files that a job or a compaction has written, or of files that a cleanup has removed; in a
        write, of the rows as Arrow keeps them in memory.

    Examples
    --------
    >>> import pennon
    >>> seen = []
    >>> data = {"a": range(10)}
    >>> _ = pennon.write_dataset(data, "memory://progress", mode="overwrite", progress=seen.append)
    >>> seen[-1].rows, seen[-1].fragments
    (10, 1)
    """

    tasks: int = 0
    of_tasks: int | None = None
    fragments: int = 0
    of_fragments: int | None = None
    rows: int = 0
    of_rows: int | None = None
    bytes: int = 0


ProgressLike: TypeAlias = Union[bool, Callable[[Progress], object], None]
"""Receives progress: a function; True is a bar of tqdm, False nothing. None is a bar in a terminal or a notebook
where tqdm is installed. Steps of less than two seconds show no bar."""


Counted: TypeAlias = tuple[int, Union[int, None]]
"""How much is done, and all of it if that is known."""

StepCounts: TypeAlias = Callable[[Counted, Counted, Counted, int], object]
"""Hears of tasks, fragments, rows and bytes."""


def check_progress(progress: ProgressLike) -> None:
    """Raises `InvalidTypeError` if nobody can be told of progress this way."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        kind = type(progress).__name__  # type: ignore[unreachable]
        raise InvalidTypeError(f"progress is a {kind}, expected a function of a Progress, True, False or None")


class Reporter:
    """Tells a function, a bar or nobody how far a step is. Closes the bar on leaving."""

    def __init__(self, title: str, progress: ProgressLike) -> None:
        check_progress(progress)
        self._title = title
        self._tell = progress if callable(progress) else None
        self._shows = progress is True or (progress is None and _is_watched() and find_spec("tqdm") is not None)
        if progress is True:
            _tqdm()
        self._bar: Any = None
        self._started = time.monotonic()

    @property
    def is_needed(self) -> bool:
        """Whether somebody is told."""
        return self._tell is not None or self._shows

    def __call__(self, at: Progress) -> None:
        """What the function raises is raised here."""
        if self._tell is not None:
            self._tell(at)
        elif self._shows and time.monotonic() - self._started >= PATIENCE:
            self._draw(at)

    @property
    def counts(self) -> StepCounts | None:
        """What a step of the core calls with its counts; None if nobody is told."""
        if not self.is_needed:
            return None

        def tell(tasks: Counted, fragments: Counted, rows: Counted, size: int) -> None:
            self(Progress(*tasks, *fragments, *rows, size))

        return tell

    def _draw(self, at: Progress) -> None:
        parts = {"fragments": at.fragments, "rows": at.rows, "size": in_bytes(at.bytes)}
        unit, done, total = (" rows", at.rows, at.of_rows)
        if at.of_tasks is not None:
            unit, done, total = (" tasks", at.tasks, at.of_tasks)
        if self._bar is None:
            drawn = {"unit_scale": True, "leave": False, "file": sys.stderr, "initial": done, "postfix": parts}
            self._bar = _tqdm()(total=total, desc=self._title, unit=unit, **drawn)
        self._bar.set_postfix(parts, refresh=False)
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _tqdm() -> Any:
    return require("tqdm", "tqdm", "A progress bar").tqdm


def _is_watched() -> bool:
    """Whether somebody looks at the main thread of this process: in a terminal or a notebook."""
    # A worker of a pool has imported it.
    parent = getattr(sys.modules.get("multiprocessing"), "parent_process", lambda: None)()
    if threading.current_thread() is not threading.main_thread() or parent is not None:
        return False
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_terminal = getattr(sys.stderr, "isatty", lambda: False)()
    return is_terminal or type(shell).__name__ == "ZMQInteractiveShell"
