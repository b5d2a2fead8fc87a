"""Spark's workers in Python, which run one task after another.

What happens around a task can take longer than the task. Functions of this package that workers run are within
[quick_task][], which spares most of that.

The executor sends a worker the function in one part and the rows in others. By Nagle's algorithm (RFC 896) it holds
a small part back until what was sent before is acknowledged, and the kernel of the worker waits 40 ms in case there
is something to send with the acknowledgement (RFC 1122, 4.2.3.2). So the worker is made to acknowledge. What the
worker sends is held back in the same way, unless its connection says otherwise.

Before each task a worker clears its cache of the archives on its path, and reads the directory of an archive
again for each package that it has found in it. Those of Spark itself are large, one of them the jar with its core:
that cost 0.1 s of processor time a task. With `spark.jars.packages` the jars of all packages are on the path as
well, and it cost several times as much. None of these changes while a session lives. So the worker is made to
forget that it has looked into these. They are found again when something is imported from them.

After each task a worker collects garbage among all objects of the process, most of which belong to modules: 40 ms
of processor time a task for the 70,000 objects of NumPy, pyarrow and PySpark. Modules live as long as the process,
so the collector leaves alone what lives after modules were imported.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark_pennon.errors import noted
from pyspark_pennon.tasks.releases import check_release

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FIXED_ARCHIVES = re.compile(r"([/\\]pyspark\.zip|[/\\]py4j-[^/\\]+-src\.zip|\.jar)([/\\]|$)")

_MOST_DESCRIPTORS = 16
"""The connection to the executor is among the first descriptors that a worker opens."""

_frozen_modules = 0
"""Modules of the process when its objects were last taken out of collections of garbage."""


def mapped(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """`frame.mapInArrow(function, schema)`, within [quick_task][]."""
    names = frame.columns
    # PySpark looks columns up by their names without quoting these.
    is_renamed = any("`" in name or "." in name or name == "*" for name in names)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with quick_task():
            yield from (
                function(batch.rename_columns(names) for batch in batches) if is_renamed else function(batches)
            )

    given = frame.toDF(*(f"c{at}" for at in range(len(names)))) if is_renamed else frame
    return given.mapInArrow(run, schema)


@contextmanager
def quick_task(release: str | None = None) -> Iterator[None]:
    """Spare the worker needless waiting within a task, and needless work between this task and the next.

    Errors of `pennon` are [noted][pyspark_pennon.errors.noted].

    Parameters
    ----------
    release
        That of the driver, which this process must have, too.
    """
    send_at_once()
    try:
        with noted():
            if release is not None:
                check_release(release)
            yield
    finally:
        forget_archives()
        freeze_modules()


def forget_archives() -> None:
    """Drop the importers of jars and of Spark's own archives from Python's cache of importers."""
    for path in list(sys.path_importer_cache):
        if _FIXED_ARCHIVES.search(path):
            sys.path_importer_cache.pop(path, None)


def freeze_modules() -> None:
    """Keep the objects of modules out of collections of garbage, if modules were imported since the last time.

    Objects of the task are kept out as well. Those that became garbage are found the next time.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        _frozen_modules = len(sys.modules)
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def send_at_once() -> None:
    """Acknowledge what the executor has sent, and hold nothing back that is to be sent."""
    for descriptor in range(_MOST_DESCRIPTORS):
        with suppress(OSError):  # there is no such descriptor
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                _send_at_once(descriptor)


def _send_at_once(descriptor: int) -> None:
    # If sockets have a timeout by default, an object for one makes its descriptor non-blocking.
    is_blocking = os.get_blocking(descriptor)
    connection = socket.socket(fileno=descriptor)
    try:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_QUICKACK"):  # only Linux has it
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        connection.detach()
        os.set_blocking(descriptor, is_blocking)
