"""The data source `pennon`, which Spark finds by the name of this package.

Spark calls this class in a separate short-lived Python process for each phase of a query: schema,
planning, each task, commit. Only what is pickled is kept between calls, and the module
imports nothing heavy, because Spark imports it whenever any Python data source is looked up.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from pyspark_pennon.errors import noted
from pyspark_pennon.options.feed import FeedOptions, is_feed, read_options, wants_changes
from pyspark_pennon.options.source import ReadOptions, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class DefaultSource(DataSource):
    """Lance tables by URI: `spark.read.format("pennon").load(uri)`.

    The options are those of [read][pyspark_pennon.read] and [write][pyspark_pennon.write]. Nothing has to be
    registered.

    Examples
    --------
    >>> spark.range(3).write.format("pennon").mode("append").save(f"{folder}/flights.lance")
    >>> spark.read.format("pennon").option("filter_sql", "id > 0").load(f"{folder}/flights.lance").count()
    2
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`.

        Examples
        --------
        >>> from pyspark_pennon import DefaultSource, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> spark.read.format(DefaultSource.name()).load(f"{folder}/flights.lance").count()
        3
        """
        return "pennon"

    @noted()
    def schema(self) -> StructType:
        """The Spark schema of the columns that the options select, of the version that they name.

        Raises
        ------
        ValueError
            There is no such table, version or column, or an option is unknown. Spark shows it as the text of an
            `AnalysisException`, of which [typed_error][pyspark_pennon.typed_error] makes the error again.

        Examples
        --------
        >>> from pyspark_pennon import write
        >>> done = write(spark.createDataFrame([(1, "AA")], "id long, carrier string"), f"{folder}/flights.lance")
        >>> reader = spark.read.format("pennon").option("columns", "carrier").option("with_row_id", True)
        >>> reader.load(f"{folder}/flights.lance").schema.simpleString()
        'struct<carrier:string,_rowid:bigint>'
        """
        from pyspark_pennon.reads import reader

        if is_feed(self.options):
            from pyspark_pennon.feed.changes import schema_of

            return schema_of(self.options)
        return reader.pinned_schema(ReadOptions.parse(read_options(self.options)))

    @noted()
    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of `schema`, which may be narrower than the table's; with `readChangeFeed` one of changes.

        Examples
        --------
        >>> from pyspark_pennon import write
        >>> done = write(spark.createDataFrame([(1, "AA"), (2, "UA")], ["id", "carrier"]), f"{folder}/t.lance")
        >>> rows = spark.read.format("pennon").schema("carrier string").load(f"{folder}/t.lance")
        >>> rows.orderBy("carrier").collect()
        [Row(carrier='AA'), Row(carrier='UA')]
        """
        from pyspark_pennon.reads import reader

        if wants_changes(self.options):
            from pyspark_pennon.feed.changes import ChangesReader

            return ChangesReader(FeedOptions.parse(self.options, stream=False), schema)
        options = ReadOptions.parse(read_options(self.options))
        if options.push_filters and _plans_pushdown():
            return reader.FilteringReader(options, schema)
        return reader.Reader(options, schema)

    @noted()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that makes one commit of what the tasks wrote, in the modes `append` and `overwrite`.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> spark.range(3).write.format("pennon").mode("append").save(f"{folder}/flights.lance")
        >>> spark.range(5).write.format("pennon").mode("overwrite").save(f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.version, table.count()
        (2, 5)
        """
        from pyspark_pennon.writes import writer

        return writer.Writer.of(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    @noted()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark calls it so
        """A reader of versions as they are made: first the rows that are there, then those that are appended.

        Raises
        ------
        pennon.UnsupportedError
            PySpark is older than 4.3.

        Examples
        --------
        >>> from pyspark_pennon import write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> rows = spark.readStream.format("pennon").load(f"{folder}/flights.lance")
        >>> writer = rows.writeStream.format("memory").queryName("arrived").trigger(availableNow=True)
        >>> writer.start().awaitTermination()
        >>> spark.table("arrived").count()
        3
        """
        _check_streams()
        from pyspark_pennon.streams.source import StreamReader

        return StreamReader(FeedOptions.parse(self.options, stream=True), schema)

    @noted()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A writer that commits each batch once, also where Spark runs it again.

        Raises
        ------
        pennon.UnsupportedError
            PySpark is older than 4.3.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> rows = spark.readStream.format("pennon").load(f"{folder}/flights.lance")
        >>> writer = rows.writeStream.format("pennon").option("checkpointLocation", f"{folder}/checkpoint")
        >>> writer.trigger(availableNow=True).start(f"{folder}/copy.lance").awaitTermination()
        >>> LanceTable.forPath(spark, f"{folder}/copy.lance").count()
        3
        """
        _check_streams()
        from pyspark_pennon.streams.sink import StreamWriter

        return StreamWriter.of(self.options, schema, overwrite=overwrite)


def _check_streams() -> None:
    from pyspark_pennon.errors import unsupported
    from pyspark_pennon.spark_api import HAS_STREAMS

    if not HAS_STREAMS:
        raise unsupported(f"Streams of tables need PySpark 4.3, found {pyspark.__version__}")


def _plans_pushdown() -> bool:
    """Whether Spark is about to offer filters.

    A reader that overrides `pushFilters` is refused unless the session has
    `spark.sql.python.filterPushdown.enabled`, which is off by default and cannot be seen from here.
    But Spark offers filters in a process with a separate worker module, started only when the
    setting is on and the query has filters. In any other process the plain reader is correct.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", None) == _PUSHDOWN_WORKER
