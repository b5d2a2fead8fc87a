"""Streams that change rows of a table: functions for `writeStream.foreachBatch`.

Each batch is a merge by key, in one commit that records query and batch as the sink does; a batch that some version
has is passed over. Several calls for one table within a batch are commits of their own, told apart by their order.
Spark runs a batch again if it does not know that it was finished, so that is what makes it happen once. A batch
that changes nothing makes no version; if it runs again after another writer changed the table, it is applied to
what is there then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_pennon import tables
from pyspark_pennon.errors import invalid
from pyspark_pennon.merge.builder import MergeBuilder
from pyspark_pennon.options.source import WriteOptions
from pyspark_pennon.spark_api import as_column
from pyspark_pennon.streams.batch_calls import current_batch
from pyspark_pennon.streams.sink import make_table
from pyspark_pennon.target import Target
from pyspark_pennon.types.column_names import is_case_sensitive, stored_names
from pyspark_pennon.types.schema import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, SYSTEM_COLUMNS, quoted
from pyspark_pennon.types.storable import frame_schema, stored_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CHANGE = "_feed_change"
_RANK = "_feed_rank"
_FEED = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
_GONE = ("delete", "update_preimage")

_log = logging.getLogger(__name__)


def upsert_batches(
    uri: str,
    on: str | Sequence[str],
    *,
    order_by: Column | str | None = None,
    update_when: Column | str | None = None,
    merge_schema: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that inserts rows with new keys, and updates those with known ones.

    Parameters
    ----------
    uri
        The table; made with the columns of the first batch if there is none.
    on
        The columns that are the key.
    order_by
        Of several rows of a batch with one key, the one with the greatest value counts; without it they are an
        error if the key is known, and all inserted if it is not, as in a merge.
    update_when
        When a known row is updated: a condition on `t`, the table, and `s`, the batch, such as
        `"s.changed > t.changed"`. Always by default.
    merge_schema
        Add the columns of a batch that the table lacks, null in rows that the batch does not change, in the commit
        of the batch. If the batch changes nothing, none is added.
    storage_options
        As in [read][pyspark_pennon.read].

    Raises
    ------
    pennon.InvalidInputError
        From the batches: they lack a key, or have columns that the table lacks, without `merge_schema`. No key was
        given, or one is a column of the system such as `_rowid`. The function was called by no streaming query.
    pennon.UnsupportedError
        From the batches: the session is one of Spark Connect.

    Examples
    --------
    >>> from pyspark_pennon import read, upsert_batches, write
    >>> events = spark.createDataFrame([(1, 10), (1, 11), (2, 10)], "id long, changed long")
    >>> done = write(events, f"{folder}/events.lance")
    >>> rows = spark.readStream.format("pennon").load(f"{folder}/events.lance")
    >>> upsert = upsert_batches(f"{folder}/newest.lance", on="id", order_by="changed")
    >>> writer = rows.writeStream.foreachBatch(upsert).option("checkpointLocation", f"{folder}/checkpoint")
    >>> writer.trigger(availableNow=True).start().awaitTermination()
    >>> read(spark, f"{folder}/newest.lance").orderBy("id").collect()
    [Row(id=1, changed=11), Row(id=2, changed=10)]
    """
    keys, target = _keys(on), _Destination(uri, storage_options, merge_schema)

    def upsert(batch: DataFrame, number: int) -> None:
        rows = batch if order_by is None else _newest(batch, keys, [_descending(order_by)])
        with _started(rows, number, keys, target, list(batch.columns)) as merge:
            merge.whenMatchedUpdateAll(update_when).whenNotMatchedInsertAll().execute()

    return upsert


def apply_changes(
    uri: str,
    on: str | Sequence[str],
    *,
    merge_schema: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that applies a change feed: a second table is kept in step with the first.

    The stream is one with `readChangeFeed`, in which keys of rows may change as well. Of several changes of one key
    in a batch the last counts. Keys must be unique in the first table, and are not null.

    Parameters
    ----------
    uri
        The second table; made with the columns of the feed if there is none.
    on
        The columns that are the key. Row ids are not: each table has its own.
    merge_schema
        As in [upsert_batches][pyspark_pennon.upsert_batches]: columns that are added to the first table are added
        to the second. The stream has them after it is started again.
    storage_options
        As in [read][pyspark_pennon.read].

    Raises
    ------
    pennon.InvalidInputError
        From the batches: they are not of a change feed, lack a key, or have columns that the table lacks, without
        `merge_schema`. No key was given, or one is a column of the system such as `_rowid`. The function was called
        by no streaming query.
    pennon.UnsupportedError
        From the batches: the session is one of Spark Connect.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable, apply_changes, read, write
    >>> done = write(spark.range(3), f"{folder}/first.lance")
    >>> feed = spark.readStream.format("pennon").option("readChangeFeed", True).load(f"{folder}/first.lance")
    >>> writer = feed.writeStream.foreachBatch(apply_changes(f"{folder}/second.lance", on="id"))
    >>> writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    >>> writer.start().awaitTermination()
    >>> deleted = LanceTable.forPath(spark, f"{folder}/first.lance").delete("id = 1")
    >>> writer.start().awaitTermination()
    >>> read(spark, f"{folder}/second.lance").orderBy("id").collect()
    [Row(id=0), Row(id=2)]

    A column that the first table gets is in the stream, and in the second table, after a restart.

    >>> added = LanceTable.forPath(spark, f"{folder}/first.lance").addColumns({"half": "id / 2"})
    >>> feed = spark.readStream.format("pennon").option("readChangeFeed", True).load(f"{folder}/first.lance")
    >>> writer = feed.writeStream.foreachBatch(apply_changes(f"{folder}/second.lance", on="id", merge_schema=True))
    >>> writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    >>> writer.start().awaitTermination()
    >>> read(spark, f"{folder}/second.lance").orderBy("id").collect()
    [Row(id=0, half=0.0), Row(id=2, half=1.0)]
    """
    keys, target = _keys(on), _Destination(uri, storage_options, merge_schema)

    def apply(batch: DataFrame, number: int) -> None:
        from pyspark.sql import functions as fn

        missing = [name for name in _FEED if name not in batch.columns]
        if missing:
            raise invalid(
                f"The batch lacks {missing[0]}, a column of a change feed: read the stream with readChangeFeed; "
                f"its columns are {', '.join(batch.columns)}"
            )
        names = [name for name in batch.columns if name not in _FEED and name not in SYSTEM_COLUMNS]
        is_gone = fn.col(CHANGE_TYPE).isin(*_GONE)
        # An update that changes a key leaves the old one: in its version, what comes counts more than what goes.
        last = _newest(batch, keys, [fn.col(COMMIT_VERSION).desc(), is_gone.asc()])
        rows = last.select(*(fn.col(quoted(name)) for name in names), is_gone.alias(_CHANGE))
        values: dict[str, Column | str] = {name: fn.col(f"s.{quoted(name)}") for name in names}
        gone = fn.col(f"s.{_CHANGE}")
        with _started(rows, number, keys, target, names) as merge:
            changed = merge.whenMatchedDelete(gone).whenMatchedUpdate(set=values)
            changed.whenNotMatchedInsert(~gone, values).execute()

    return apply


def _keys(on: str | Sequence[str]) -> list[str]:
    keys = [on] if isinstance(on, str) else list(on)
    if not keys:
        raise invalid("No key was given: expected one or more columns")
    for key in keys:
        if key in SYSTEM_COLUMNS:
            raise invalid(
                f"The key is '{key}', which rows of another table do not share: expected a column of both"
            )
    return keys


def _newest(batch: DataFrame, keys: list[str], order: list[Column]) -> DataFrame:
    """The first row of each key; all rows without one, since null is not equal to null."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    keys = _keys_of(batch, batch.columns, keys)
    window = Window.partitionBy(*(fn.col(quoted(key)) for key in keys)).orderBy(*order)
    has_null = fn.lit(False)
    for key in keys:
        has_null = has_null | fn.col(quoted(key)).isNull()
    ranked = batch.withColumn(_RANK, fn.row_number().over(window))
    return ranked.where((fn.col(_RANK) == 1) | has_null).drop(_RANK)


def _descending(order_by: Column | str) -> Column:
    return as_column(order_by).desc_nulls_last()


def _keys_of(batch: DataFrame, columns: Sequence[str], keys: list[str]) -> list[str]:
    """The keys as the columns of a batch spell them."""
    found = stored_names(columns, keys, is_sensitive=is_case_sensitive(batch.sparkSession))
    for key in found:
        if key not in columns:
            raise invalid(f"The batch lacks the key '{key}': its columns are {', '.join(columns)}")
    return _keys(found)


@dataclass(frozen=True)
class _Destination:
    """The table that batches change."""

    uri: str
    storage_options: Mapping[str, str] | None
    merge_schema: bool


@contextmanager
def _started(
    rows: DataFrame,
    number: int,
    keys: list[str],
    destination: _Destination,
    columns: list[str],
) -> Iterator[MergeBuilder]:
    """The merge of a batch, by its keys, which is executed within; the table is made if there is none."""
    from pyspark.sql import functions as fn

    keys = _keys_of(rows, columns, keys)
    spark = rows.sparkSession
    uri = destination.uri
    target = Target(spark, uri, destination.storage_options, "t")
    condition = fn.lit(True)
    for key in keys:
        condition = condition & (fn.col(f"t.{quoted(key)}") == fn.col(f"s.{quoted(key)}"))
    with current_batch(spark, number, uri) as batch:
        data = stored_columns(rows.select(*(quoted(name) for name in columns)).schema, drop_system_columns=False)
        if tables.find_table(uri, target.storage_options) is None:
            options = WriteOptions(uri=uri, storage_options=target.storage_options)
            make_table(options, frame_schema(data))
        merge = MergeBuilder(target, rows.alias("s"), condition, batch)
        yield merge.withSchemaEvolution() if destination.merge_schema else merge
