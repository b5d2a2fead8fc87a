"""What all methods of `LanceTable` start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableHandle:
    """A table by its URI, seen from a Spark session."""

    def __init__(self, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._target = Target(spark, uri, storage_options)

    @property
    def uri(self) -> str:
        """The URI of the table, by which it is read and written.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> spark.read.format("pennon").load(table.uri).count()
        3
        """
        return self._target.uri

    def _frame(self, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        return local_frame(self._target.spark, rows, schema)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"
