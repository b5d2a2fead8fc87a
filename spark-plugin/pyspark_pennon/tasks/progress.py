"""One line on standard error that tells how far the tasks of a verb are: tasks, rows, bytes.

A task adds what its result says to an accumulator, which Spark updates on the driver when the task is done: a task
that is run again counts once. Where nobody watches there is no accumulator. A session of Spark Connect has none at
all, and no line.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import Accumulator, AccumulatorParam

from pyspark_pennon.errors import invalid
from pyspark_pennon.tasks.results import rows_and_files
from pyspark_pennon.texts import in_bytes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SETTING = "spark.pennon.progress"
"""Setting of a session: `true` or `false` for a line in any case or in none; in a terminal without it."""

PATIENCE = 2.0
"""Seconds after which a verb has a line, in a terminal."""

INTERVAL = 0.5
"""Seconds between two states of a line."""


@dataclass(frozen=True)
class Done:
    """What tasks have done.

    Attributes
    ----------
    tasks
        How many there were.
    rows
        Rows that were found, written or moved.
    bytes
        Bytes of files that were written.
    """

    tasks: int = 0
    rows: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, result: Any) -> Done:
        """What the result of one task says."""
        rows, files = rows_and_files(result)
        return cls(1, rows, sum(files.values()))

    def __add__(self, other: Done) -> Done:
        return Done(self.tasks + other.tasks, self.rows + other.rows, self.bytes + other.bytes)

    def text(self, tasks: int | None) -> str:
        """The numbers for people, with the number of all tasks if it is known.

        Examples
        --------
        >>> Done(3, 12000, 4_500_000).text(8)
        '3 of 8 tasks, 12,000 rows, 4.5 MB'
        """
        parts = [f"{self.tasks:,} tasks" if tasks is None else f"{self.tasks:,} of {tasks:,} tasks"]
        if self.rows:
            parts.append(f"{self.rows:,} rows")
        if self.bytes:
            parts.append(in_bytes(self.bytes))
        return ", ".join(parts)


class _Sum(AccumulatorParam[Done]):
    """What several tasks have done."""

    def zero(self, value: Done) -> Done:  # noqa: ARG002 - Spark's interface
        return Done()

    def addInPlace(self, value: Done, more: Done) -> Done:  # noqa: N802 - Spark's name
        return value + more


@contextmanager
def progress_line(
    spark: SparkSession, context: SparkContext | None, title: str, tasks: int | None, progress: bool | None = None
) -> Iterator[Accumulator[Done] | None]:
    """What tasks add to, shown in a line until they are done; None where nobody watches.

    Parameters
    ----------
    context
        That of the session; None for Spark Connect.
    tasks
        How many there are, if that is known.
    progress
        Whether there is a line; by default as the setting `spark.pennon.progress` says, and without one in a
        terminal, after two seconds.
    """
    if progress is None:
        progress = _setting(spark)
    if progress is False or context is None or (progress is None and not sys.stderr.isatty()):
        yield None
        return
    done = context.accumulator(Done(), _Sum())
    finished = threading.Event()
    width = 0

    def show(end: str = "") -> None:
        nonlocal width
        line = f"{title}: {done.value.text(tasks)}"
        sys.stderr.write(f"\r{line.ljust(width)}{end}")
        sys.stderr.flush()
        width = len(line)

    def watch() -> None:
        if progress is None and finished.wait(PATIENCE):
            return
        while not finished.wait(INTERVAL):
            show()

    started = time.monotonic()
    watcher = threading.Thread(target=watch, name="pennon-progress", daemon=True)
    watcher.start()
    try:
        yield done
    finally:
        finished.set()
        watcher.join()
        if progress or time.monotonic() - started > PATIENCE:
            show("\n")


def _setting(spark: SparkSession) -> bool | None:
    text = spark.conf.get(SETTING, None)
    if text is None:
        return None
    if text.strip().lower() not in ("true", "false"):
        raise invalid(f"The setting {SETTING} is {text!r}: expected true or false")
    return text.strip().lower() == "true"
