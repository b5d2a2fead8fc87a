"""Batches of a stream that are appended by a function for `writeStream.foreachBatch`, each of them once.

As in the sink, the commit records query and batch, and has a uuid that follows from the two: a batch that Spark
runs again is found in the table. Where one function writes to several tables, each table has a commit of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark_pennon import tables
from pyspark_pennon.options.source import WriteOptions, session_storage_options
from pyspark_pennon.streams.batch_calls import current_batch
from pyspark_pennon.streams.sink import StreamBatch, make_table
from pyspark_pennon.tasks.executor import described
from pyspark_pennon.tasks.orphans import verb_errors
from pyspark_pennon.types.column_names import is_case_sensitive
from pyspark_pennon.types.storable import frame_schema, stored_columns
from pyspark_pennon.writes.plan import WritePlan
from pyspark_pennon.writes.tasks import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)


def append_batches(
    uri: str, *, merge_schema: bool = False, storage_options: Mapping[str, str] | None = None
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that appends the rows of each batch once, also where Spark runs it again.

    `writeStream.format("pennon")` does the same for a query with one table. This is for functions that write to
    several, or that write only a part of a batch. Calls for one table are known by their order in the batch, so an
    error of one must end the batch, unless the same call is tried again.

    Parameters
    ----------
    uri
        The table; made with the columns of the first batch if there is none.
    merge_schema
        Add the columns of a batch that the table lacks, null in other rows, in the commit of the batch.
    storage_options
        As in [read][pyspark_pennon.read].

    Raises
    ------
    pennon.InvalidInputError
        From the batches: the function was called by no streaming query.
    pennon.SchemaMismatchError
        From the batches: they do not fit the table, or have columns that it lacks, without `merge_schema`.
    pennon.UnsupportedError
        From the batches: the session is one of Spark Connect.

    Examples
    --------
    >>> from pyspark_pennon import append_batches, read, write
    >>> done = write(spark.range(6), f"{folder}/events.lance")
    >>> low, high = append_batches(f"{folder}/low.lance"), append_batches(f"{folder}/high.lance")
    >>> def divide(batch, number):
    ...     low(batch.where("id < 4"), number)
    ...     high(batch.where("id >= 4"), number)
    >>> rows = spark.readStream.format("pennon").load(f"{folder}/events.lance")
    >>> writer = rows.writeStream.foreachBatch(divide).option("checkpointLocation", f"{folder}/checkpoint")
    >>> writer.trigger(availableNow=True).start().awaitTermination()
    >>> read(spark, f"{folder}/low.lance").count(), read(spark, f"{folder}/high.lance").count()
    (4, 2)
    """

    def append(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        options = WriteOptions.of(
            uri,
            session_storage_options(spark, storage_options),
            merge_schema=merge_schema,
            is_case_sensitive=is_case_sensitive(spark),
        )
        with current_batch(spark, number, uri) as call, described(spark, f"write to {uri}"), verb_errors(uri):
            _append(batch, options, call)

    return append


def _append(frame: DataFrame, options: WriteOptions, batch: StreamBatch) -> None:
    data = stored_columns(frame.schema, drop_system_columns=False)
    table = tables.find_table(options.uri, options.storage_options)
    if table is None:
        table = make_table(options, frame_schema(data))
    if batch.is_committed(table):
        _log.info("%s is in %s already", batch, options.uri)
        return
    plan = WritePlan.of(table, options, data, overwrite=False)
    run(frame, plan.with_uuid(batch.uuid), properties=batch.properties)
