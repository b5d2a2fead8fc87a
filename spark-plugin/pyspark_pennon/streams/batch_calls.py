"""Which call within a batch of a stream one is: a function of `foreachBatch` may change one table several times.

Calls that change the same table are numbered in their order, from 0 in each batch and each run of the query. The
number is recorded with query and batch, so that the second call does not take the version of the first for its own.
A batch that runs again, in a new run of the query, passes over the calls that some version has. A call that fails
gives its number back: the next one may be the same, tried again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyspark_pennon.errors import invalid, noted, unsupported
from pyspark_pennon.spark_api import spark_context
from pyspark_pennon.streams.sink import QUERY_PROPERTY, StreamBatch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_RUN = re.compile(r"runId = ([0-9a-f-]{36})")


@dataclass
class _Batch:
    """The batch of a query that is being processed.

    Attributes
    ----------
    calls
        How many calls there were, by the location of the table.
    """

    run: str | None
    number: int
    calls: dict[str, int] = field(default_factory=dict)


_batches: dict[str, _Batch] = {}
"""By the id of the query."""
_lock = Lock()


@contextmanager
def current_batch(spark: SparkSession, number: int, location: str) -> Iterator[StreamBatch]:
    """What the call in this block commits, in the batch with a number of the query that runs.

    Raises
    ------
    pennon.InvalidInputError
        No query runs.
    pennon.UnsupportedError
        The session is one of Spark Connect.
    """
    context = spark_context(spark)
    if context is None:
        raise unsupported(
            "A session of Spark Connect does not say which streaming query runs: run the query in a session with a "
            "context of its own; write() and merge() in foreachBatch may do a batch two times"
        )
    query = context.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        raise invalid("This runs in a streaming query: give it to writeStream.foreachBatch(...)")
    with numbered_call(query, current_run(context), number, location) as part:
        yield StreamBatch(query, number, part)


@contextmanager
def numbered_call(query: str, run: str | None, number: int, location: str) -> Iterator[int]:
    """The number of a call within its batch, of those that change the table at `location`.

    Parameters
    ----------
    run
        The run of the query; None if it is not known, and taken for the one before.
    number
        That of the batch.
    location
        The URI of the table.
    """
    location = _location(location)
    with _lock:
        batch = _batches.get(query)
        if batch is None or batch.number != number or (run and batch.run and batch.run != run):
            batch = _batches[query] = _Batch(run, number)
        batch.run = batch.run or run
        part = batch.calls.get(location, 0)
        batch.calls[location] = part + 1
    try:
        with noted():
            yield part
    except BaseException:
        with _lock:
            if batch.calls[location] == part + 1:
                batch.calls[location] = part
        raise


def _location(uri: str) -> str:
    """The same for two names of one table."""
    parts = urlsplit(uri)
    # A single letter is a drive.
    if parts.scheme == "file" or len(parts.scheme) < 2:
        return os.path.realpath(unquote(parts.path) if parts.scheme == "file" else uri)
    return uri.rstrip("/")


def current_run(context: SparkContext) -> str | None:
    """The run of the query that calls this, which a query has a new one of after each start; None if Spark does not
    say it: the batch is then taken to be of the run before.
    """
    # Spark names the thread of a query by its run. Others inherit the description, which users may change.
    jvm: Any = context._jvm
    for text in (jvm.java.lang.Thread.currentThread().getName(), context.getLocalProperty("spark.job.description")):
        found = _RUN.search(text or "")
        if found is not None:
            return found[1]
    return None
