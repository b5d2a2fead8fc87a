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

from pyspark_pennon.feed_options import FeedOptions, is_feed, read_options, wants_changes
from pyspark_pennon.options import ReadOptions, WriteOptions

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
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "pennon"

    def schema(self) -> StructType:
        """The Spark schema of the columns that the options select."""
        from pyspark_pennon import reader

        if is_feed(self.options):
            from pyspark_pennon.changes import schema_of

            return schema_of(self.options)
        return reader.pinned_schema(ReadOptions.parse(read_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of `schema`, which may be narrower than the table's."""
        from pyspark_pennon import reader

        if wants_changes(self.options):
            from pyspark_pennon.changes import ChangesReader

            return ChangesReader(FeedOptions.parse(self.options, stream=False), schema)
        options = ReadOptions.parse(read_options(self.options))
        if options.push_filters and _plans_pushdown():
            return reader.FilteringReader(options, schema)
        return reader.Reader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that makes one commit of what the tasks wrote."""
        from pyspark_pennon import writer

        return writer.Writer.of(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark calls it so
        """A reader of versions as they are made."""
        _check_streams()
        from pyspark_pennon.stream_source import StreamReader

        return StreamReader(FeedOptions.parse(self.options, stream=True), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A writer that commits each batch once."""
        _check_streams()
        from pyspark_pennon.stream_sink import StreamWriter

        return StreamWriter.plan(self.options, schema, overwrite=overwrite)


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
