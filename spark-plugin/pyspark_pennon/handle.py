"""What all methods of `LanceTable` start from: the session, the URI and the storage options, and no state of the
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.options.provider import stored
from pyspark_pennon.options.source import session_storage_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_pennon.row_changes import Target


class TableHandle:
    """A table by its URI, seen from a Spark session."""

    def __init__(self, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._uri = uri
        self._storage_options = session_storage_options(spark, storage_options)
        self._alias: str | None = None

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
        return self._uri

    def _open(self, version: int | str | None = None, asof: datetime | str | None = None) -> Any:
        """The table at a version, a tag or a time, by default the newest."""
        import pennon

        options = stored(self._storage_options)
        return pennon.dataset(self._uri, version=version, asof=asof, storage_options=options)

    def _target(self) -> Target:
        """What verbs change; imported late, since processes that plan a data source change nothing."""
        from pyspark_pennon.row_changes import Target

        return Target.of(self._spark, self._uri, self._storage_options, self._alias)

    def _frame(self, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        return local_frame(self._spark, rows, schema)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r})"
