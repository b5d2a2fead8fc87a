"""Lance tables with stable row ids in PySpark.

Spark finds this package by its name: once it is installed, next to the `pennon` wheel, on the
driver and on the executors, `spark.read.format("pennon")` works and nothing is registered.

    rows = spark.read.format("pennon").option("with_row_id", True).load(uri)
    frame.write.format("pennon").mode("append").save(uri)
    LanceTable.forPath(spark, uri).delete("dep_time IS NULL")

Spark imports the package in every lookup of a Python data source, so it loads the native wheel
only when a table is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.source import DefaultSource

if TYPE_CHECKING:
    from pyspark_pennon.feed import read_changes
    from pyspark_pennon.frames import read, write
    from pyspark_pennon.table import LanceTable

__all__ = ["DefaultSource", "LanceTable", "read", "read_changes", "write"]
__version__ = "0.1.0"

_LAZY = {"LanceTable": "table", "read": "frames", "read_changes": "feed", "write": "frames"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
