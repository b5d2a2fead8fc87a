"""Files that tasks wrote and no version refers to: counted, and named in the error of the verb that failed.

Tasks tell the paths and bytes of what they wrote in an accumulator, also those of a job that fails. A commit takes
its files away from them, and so does one of which nobody knows whether it has happened. Attempts that met a
conflict leave theirs, so the error of the last attempt names the files of all of them.

Nothing is removed here: tasks may finish after a job has failed, and a twin of a task, or an executor that is lost,
may have written files that nobody tells about. `verify` counts all of them, and `vacuum` removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import Accumulator, AccumulatorParam

from pyspark_pennon.tasks.failed_jobs import failures_named
from pyspark_pennon.tasks.results import files_of
from pyspark_pennon.texts import counted, in_bytes

if TYPE_CHECKING:
    from pyspark import SparkContext

MOST_NAMES = 20
"""The most files that a sentence names."""

_log = logging.getLogger(__name__)


class _Union(AccumulatorParam[dict[str, int]]):
    """The union of files by their paths."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:  # noqa: ARG002 - Spark's interface
        return {}

    def addInPlace(self, value: dict[str, int], more: dict[str, int]) -> dict[str, int]:  # noqa: N802 - Spark's name
        value.update(more)
        return value


class WrittenFiles:
    """What the tasks of one verb have written so far, without what is committed."""

    def __init__(self) -> None:
        self._reported: Accumulator[dict[str, int]] | None = None
        self._files: dict[str, int] = {}
        self._not_orphans: set[str] = set()

    def accumulator(self, context: SparkContext | None) -> Accumulator[dict[str, int]] | None:
        """What tasks add to; None for Spark Connect, where only the files of jobs that do not fail are known."""
        if self._reported is None and context is not None:
            self._reported = context.accumulator({}, _Union())
        return self._reported

    def add(self, results: list[Any]) -> None:
        """These results came to the driver."""
        self._files.update(files_of(results))

    def mark_not_orphans(self, results: list[Any]) -> None:
        """A version refers to the files of these results, or may, or a checkpoint records them."""
        self._not_orphans.update(files_of(results))

    @property
    def orphans(self) -> dict[str, int]:
        """Bytes by path of files that no version refers to."""
        reported = {} if self._reported is None else self._reported.value
        return {path: size for path, size in {**reported, **self._files}.items() if path not in self._not_orphans}


_current: ContextVar[WrittenFiles | None] = ContextVar("pennon_written_files", default=None)


def current() -> WrittenFiles | None:
    """That of the verb that this thread runs."""
    return _current.get()


def mark_not_orphans(results: list[Any]) -> None:
    """See [WrittenFiles.mark_not_orphans][pyspark_pennon.tasks.orphans.WrittenFiles.mark_not_orphans]."""
    written = _current.get()
    if written is not None:
        written.mark_not_orphans(results)


@contextmanager
def committing(results: list[Any]) -> Iterator[None]:
    """The block commits these results: whether it does or nobody knows, their files are no orphans."""
    import pennon

    try:
        yield
    except pennon.CommitUnknownError:
        mark_not_orphans(results)
        raise
    mark_not_orphans(results)


@contextmanager
def verb_errors(uri: str) -> Iterator[None]:
    """An error of the verb in this block is one of `pennon` where Spark's says less, as by `failures_named`; a note
    of it names the files that tasks wrote for nothing, or says of which frame a Column is.
    """
    if _current.get() is not None:
        yield
        return
    written = WrittenFiles()
    token = _current.set(written)
    try:
        with failures_named():
            yield
    except Exception as error:
        for note in (sentence(uri, written.orphans), _of_other_frame(error)):
            if note and hasattr(error, "add_note"):
                error.add_note(note)
        raise
    finally:
        _current.reset(token)


def _of_other_frame(error: Exception) -> str:
    """A sentence about Columns that belong to another frame; empty where there are none."""
    if "[MISSING_ATTRIBUTES." not in str(error):
        return ""
    return (
        "A Column such as frame['id'] is of that frame, and the verb reads the table itself: name its column by "
        "functions.col('id'), or after alias('t') by functions.col('t.id')"
    )


def sentence(uri: str, orphans: Mapping[str, int]) -> str:
    """A sentence about files that no version refers to, which is logged as well; empty if there are none."""
    if not orphans:
        return ""
    paths = sorted(orphans)
    shown = ", ".join(paths[:MOST_NAMES]) + (", ..." if len(paths) > MOST_NAMES else "")
    text = (
        f"No version of {uri} refers to {counted(len(paths), 'file')} that finished tasks wrote "
        f"({in_bytes(sum(orphans.values()))}); a vacuum removes them once they are seven days old: {shown}"
    )
    _log.warning("%s", text)
    return text
