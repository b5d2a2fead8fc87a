"""Spark's workers in Python, which run one task after another.

Before each task a worker forgets what it knows of the archives on its path, and reads the directory of an archive
again for each package that it has found in it. Those of Spark itself are large, one of them the jar with its core:
that cost 0.1 s of processor time a task. With `spark.jars.packages` the jars of all packages are on the path as
well, and it cost several times as much. None of these changes while a session lives. So a function of this package,
when it is done, lets the worker forget that it has looked into these. They are found again when something is
imported from them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FIXED_ARCHIVES = re.compile(r"([/\\]pyspark\.zip|[/\\]py4j-[^/\\]+-src\.zip|\.jar)([/\\]|$)")


def mapped(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """`frame.mapInArrow(function, schema)`, in workers that are quick to start their next task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from function(batches)
        finally:
            forget_archives()

    return frame.mapInArrow(run, schema)


def forget_archives() -> None:
    """Drop the importers of jars and of Spark's own archives from Python's cache of importers."""
    for path in list(sys.path_importer_cache):
        if _FIXED_ARCHIVES.search(path):
            sys.path_importer_cache.pop(path, None)
