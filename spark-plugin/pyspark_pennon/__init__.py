"""Lance tables with stable row ids in PySpark.

Spark finds this package by its name: once it is installed, next to the `pennon` wheel, on the
driver and on the executors, `spark.read.format("pennon")` works and nothing is registered.

    rows = read(spark, uri, columns=["id"], where="dep_time IS NULL", with_row_id=True)
    write(frame, uri, mode="append")
    LanceTable.forPath(spark, uri).delete("dep_time IS NULL")

Spark imports the package in every lookup of a Python data source, so it loads the native wheel
only when a table is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.spark_api import HAS_DATA_SOURCES

if TYPE_CHECKING:
    from pyspark_pennon.feed.frames import read_changes
    from pyspark_pennon.reads.frames import read
    from pyspark_pennon.reads.searches import nearest
    from pyspark_pennon.source import DefaultSource
    from pyspark_pennon.streams.appends import append_batches
    from pyspark_pennon.streams.upserts import apply_changes, upsert_batches
    from pyspark_pennon.table import LanceTable
    from pyspark_pennon.tasks.executor import typed_error
    from pyspark_pennon.writes.frames import write

__all__ = [
    "DefaultSource",
    "LanceTable",
    "append_batches",
    "apply_changes",
    "nearest",
    "read",
    "read_changes",
    "typed_error",
    "upsert_batches",
    "write",
]
__version__ = "0.1.0"

_LAZY = {
    **({"DefaultSource": "source"} if HAS_DATA_SOURCES else {}),
    "LanceTable": "table",
    "append_batches": "streams.appends",
    "apply_changes": "streams.upserts",
    "nearest": "reads.searches",
    "read": "reads.frames",
    "read_changes": "feed.frames",
    "typed_error": "tasks.executor",
    "upsert_batches": "streams.upserts",
    "write": "writes.frames",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
