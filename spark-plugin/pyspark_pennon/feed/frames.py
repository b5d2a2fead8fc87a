"""`read_changes`: the change feed as a function, with the window resolved on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark_pennon.options.feed import FeedOptions
from pyspark_pennon.options.source import session_storage_options
from pyspark_pennon.options.values import given_columns, parsed, time_of
from pyspark_pennon.spark_api import parallelism
from pyspark_pennon.tasks.plans import numbered
from pyspark_pennon.tasks.releases import check_release, installed_release
from pyspark_pennon.types.column_names import is_case_sensitive

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_changes(
    spark: SparkSession,
    uri: str,
    *,
    starting_version: int | None = None,
    ending_version: int | None = None,
    starting_timestamp: datetime | str | None = None,
    ending_timestamp: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    net: bool = False,
    drop_unchanged: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the changes of rows in a range of versions into a DataFrame.

    There is nothing to enable beforehand: a feed is computed from the versions themselves, and works on tables that
    other writers of the format made, if their rows have stable ids. Both ends are pinned by this call.

    Parameters
    ----------
    spark
        The session.
    uri
        Where the table is.
    starting_version, ending_version
        The first and the last version whose changes count; the end is the newest by default. From version 1 on a
        feed begins with the rows that the table was made with.
    starting_timestamp, ending_timestamp
        The same by time: the first version made at or after the one, the last made at or before the other. Text is
        in ISO form, and a time without a zone is local. A time from `history` names its version.
    columns
        Columns of the table, in this order; all by default. With an empty list no data file is read.
    net
        Compare the two ends instead of each version with the one before: a row has at most one change, committed by
        the last version. The versions in between may be vacuumed.
    drop_unchanged
        Leave out updates that left `columns` as they were.
    storage_options
        Keys and values for the object store.

    Returns
    -------
    DataFrame
        The columns as the last version has them, all of which may be null; `_change_type`: `insert`,
        `update_preimage` and `update_postimage`, the values before and after, and `delete`, with the last values;
        `_commit_version` and `_commit_timestamp` of the version that made the change, and `_rowid`.

        Overwrites, restores and updates that change nothing show as what they did to rows; a compaction shows
        nothing. Older values are matched by field, so a renamed column keeps them; where a version does not have a
        column, or has it with another type, they are null.

    Raises
    ------
    pennon.InvalidInputError
        There is no start, an end lies before it, a version is newer than the newest, a column is unknown, or the
        table has no stable row ids.
    pennon.NotFoundError
        There is no table, or a version that is needed was vacuumed; the message says where a feed can start.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable, read_changes, write
    >>> done = write(spark.createDataFrame([(1, "AA"), (2, "UA")], "id long, carrier string"), f"{folder}/t.lance")
    >>> table = LanceTable.forPath(spark, f"{folder}/t.lance")
    >>> updated, deleted = table.update("id = 1", {"carrier": "'DL'"}), table.delete("id = 2")
    >>> changes = read_changes(spark, f"{folder}/t.lance", starting_version=2)
    >>> changes.select("id", "carrier", "_change_type", "_commit_version").orderBy("id", "_change_type").show()
    +---+-------+----------------+---------------+
    | id|carrier|    _change_type|_commit_version|
    +---+-------+----------------+---------------+
    |  1|     DL|update_postimage|              2|
    |  1|     AA| update_preimage|              2|
    |  2|     UA|          delete|              3|
    +---+-------+----------------+---------------+
    """
    from pyspark_pennon.feed import changes, partitions

    options = FeedOptions(
        uri=uri,
        storage_options=session_storage_options(spark, storage_options),
        read_change_feed=True,
        columns=given_columns(columns),
        starting_version=starting_version,
        starting_timestamp=_time("startingTimestamp", starting_timestamp),
        ending_version=ending_version,
        ending_timestamp=_time("endingTimestamp", ending_timestamp),
        net_changes=net,
        drop_unchanged=drop_unchanged,
    )
    options.check()
    table = changes.open_newest(options)
    begin, end = changes.window(table, options)
    is_sensitive = is_case_sensitive(spark)
    schema = changes.feed_schema(table.checkout_version(end), options.columns, is_sensitive=is_sensitive)
    names = [name for name in schema.fieldNames() if name not in changes.DESCRIBING.fieldNames()]
    parts = partitions.plan(table.checkout_version(end), options, names, begin, end, parallelism(spark))
    release = installed_release()

    def rows(number: int) -> Iterator[pa.RecordBatch]:
        check_release(release)
        if number < len(parts):
            yield from changes.read_partition(options, parts[number], schema)

    # Not by the data source, whose options Spark may show: they have the credentials.
    return numbered(spark, len(parts), rows, schema)


def _time(option: str, time: datetime | str | None) -> datetime | None:
    if time is None:
        return None
    return parsed(option, time.isoformat() if isinstance(time, datetime) else time, time_of)
