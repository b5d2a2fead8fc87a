"""The change feed as a frame: its columns, which versions it covers, and what a task reads.

The feed itself is [LanceDataset.changes][pennon.LanceDataset.changes], which `partitions` divides among tasks. It
shows the columns of its last version, whatever columns the versions of a range have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from pyspark_pennon.errors import invalid, mismatch, noted
from pyspark_pennon.feed.history import check_kept, without_vacuumed
from pyspark_pennon.feed.partitions import FeedRange, InsertedFragments, plan
from pyspark_pennon.options.feed import FeedOptions, has_end
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.spark_api import DataSourceReader, InputPartition
from pyspark_pennon.tables import BATCH_BYTES, open_table
from pyspark_pennon.tasks.releases import installed_release
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.types.batches import is_blob, spark_rows
from pyspark_pennon.types.column_names import refuse_repeated, stored_name, stored_names
from pyspark_pennon.types.schema import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ROW_ID,
    expected_schema,
    spark_schema,
)
from pyspark_pennon.version_times import version_time, version_times

if TYPE_CHECKING:
    import pyarrow as pa

DESCRIBING = StructType(
    [
        StructField(CHANGE_TYPE, StringType(), False),
        StructField(COMMIT_VERSION, LongType(), False),
        StructField(COMMIT_TIMESTAMP, TimestampType(), False),
        StructField(ROW_ID, LongType(), False),
    ]
)
"""What a feed adds to the columns of the table."""


def feed_schema(table: Any, columns: Sequence[str] | None, *, is_sensitive: bool = False) -> StructType:
    """The Spark schema of a feed: the table's columns, which may all be null, and those that describe a change."""
    _check_ids(table)
    data = data_schema(table, columns, is_sensitive=is_sensitive)
    fields = [StructField(found.name, found.dataType, True) for found in data.fields]
    for found in fields:
        if found.name in DESCRIBING.fieldNames():
            raise invalid(
                f"Column {found.name} of the table has the name of a column of the feed: leave it out with columns"
            )
    return StructType([*fields, *DESCRIBING.fields])


def schema_of(options: Mapping[str, str]) -> StructType:
    """The schema of a feed or a stream: the columns of the newest version, or of the end of a feed."""
    ends = has_end(options)
    parsed = FeedOptions.parse(options, stream=False if ends else None)
    table = open_newest(parsed)
    if ends:
        return feed_schema(table.checkout_version(window(table, parsed)[1]), parsed.columns)
    return _schema(table, parsed)


def _schema(table: Any, options: FeedOptions) -> StructType:
    if options.read_change_feed:
        return feed_schema(table, options.columns)
    fields = [StructField(found.name, found.dataType, True) for found in data_schema(table, options.columns).fields]
    if options.with_row_id:
        fields.append(StructField(ROW_ID, LongType(), False))
    return StructType(fields)


def _check_ids(table: Any) -> None:
    if not table.has_stable_row_ids:
        raise invalid(
            f"A change feed needs stable row ids, which version {table.version} of {table.uri} does not have: an "
            "updated row cannot be distinguished from a deleted and a new one. LanceTable.migrateToStableRowIds "
            "gives them to a table, for the versions after its own"
        )


def data_schema(table: Any, columns: Sequence[str] | None, *, is_sensitive: bool = False) -> StructType:
    """The Spark schema of some columns of a table, by default all, under the names that the table has for them."""
    import pyarrow as pa

    known = table.schema
    names = known.names if columns is None else stored_names(known.names, columns, is_sensitive=is_sensitive)
    refuse_repeated(names)
    for name in names:
        if name not in known.names:
            raise invalid(f"The table has no column '{name}'; its columns are {', '.join(known.names)}")
        if is_blob(known.field(name)):
            raise invalid(
                f"Column '{name}' has blobs, which change feeds and streams do not carry: leave it out with the "
                "option 'columns', and look the blobs up by _rowid"
            )
    return spark_schema(pa.schema([known.field(name) for name in names]))


def open_newest(options: FeedOptions, version: int | None = None) -> Any:
    """The table, by default at its newest version."""
    return open_table(ReadOptions(options.uri, options.storage_options, version))


def window(table: Any, options: FeedOptions) -> tuple[int, int]:
    """The version before the first whose changes count, and the last; checked to be there.

    Raises
    ------
    ValueError
        There is no start, an end lies before its start, a version does not exist or was vacuumed.
    """
    newest = int(table.version)
    options.check_start()
    start = start_version(table, options)
    if start > newest:
        raise invalid(f"The feed of {options.uri} starts at version {start}, but the newest version is {newest}")
    end = newest
    if options.ending_version is not None:
        end = options.ending_version
        if end > newest:
            raise invalid(f"The feed of {options.uri} ends at version {end}, but the newest version is {newest}")
    elif options.ending_timestamp is not None:
        end = version_until(table, options.ending_timestamp)
    if start > end:
        raise invalid(f"The feed starts at version {start} and ends at version {end}, which is before it")
    begin = max(start - 1, 0)
    check_kept(table, [begin, end] if options.net_changes else range(begin, end + 1))
    if begin and not (before := table.checkout_version(begin)).has_stable_row_ids:
        # The version that gave the rows their ids changed none of them.
        gone, _ = without_vacuumed(table, [start])
        _check_ids(before if gone else table.checkout_version(start))
    return begin, end


def start_version(table: Any, options: FeedOptions) -> int:
    """The first version whose changes count. Raises `InvalidInputError` for a time after the newest version."""
    if options.starting_timestamp is None:
        return int(options.starting_version or 0)
    times = version_times(table)
    later = [version for version, made in times if made >= options.starting_timestamp]
    if not later:
        newest, made = times[-1]
        raise invalid(
            f"startingTimestamp is {options.starting_timestamp.isoformat(sep=' ')}, and the newest version, "
            f"{newest}, is older: it was made at {made.isoformat(sep=' ')}"
        )
    return later[0]


def version_until(table: Any, time: datetime) -> int:
    """The newest version made at or before a time."""
    times = version_times(table)
    earlier = [version for version, made in times if made <= time]
    if not earlier:
        oldest, made = times[0]
        raise invalid(
            f"endingTimestamp is {time.isoformat(sep=' ')}, and the oldest version that is left, {oldest}, is "
            f"younger: it was made at {made.isoformat(sep=' ')}"
        )
    return earlier[-1]


def read_partition(
    options: FeedOptions, partition: InputPartition, schema: StructType, *, inserts_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a task, as Spark expects them; runs in a task."""
    data = [name for name in schema.fieldNames() if name not in DESCRIBING.fieldNames()]
    target = expected_schema(schema)
    if isinstance(partition, FeedRange):
        batches = _read_range(options, partition, inserts_only)
    elif isinstance(partition, InsertedFragments):
        batches = _read_fragments(options, partition)
    else:
        return
    sources = dict(zip(data, partition.columns, strict=True))
    yield from spark_rows((_in_shape(batch, sources, target) for batch in batches if batch.num_rows), target)


def _read_range(options: FeedOptions, part: FeedRange, inserts_only: bool) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    table = open_newest(options, part.shown_as or part.end)
    changes = table.changes(
        part.begin,
        part.end,
        columns_of="table",
        columns=[name for name in part.columns if name is not None],
        mode=part.mode,
        images="post" if inserts_only else "both",
        drop_unchanged=options.drop_unchanged,
        part=part.part,
    )
    for batch in changes:
        if inserts_only:
            yield batch.filter(pc.equal(batch.column(CHANGE_TYPE), "insert"))
        else:
            yield batch


def _read_fragments(options: FeedOptions, part: InsertedFragments) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    table = open_newest(options, part.version)
    made = version_time(table)
    scanner = table.scanner(
        columns=[name for name in part.columns if name is not None],
        with_row_id=True,
        fragments=[table.get_fragment(fragment) for fragment in part.fragments],
        batch_size_bytes=BATCH_BYTES,
        blob_handling="all_binary",
    )
    for batch in scanner.to_batches():
        constants = {
            CHANGE_TYPE: pa.scalar("insert", pa.string()),
            COMMIT_VERSION: pa.scalar(part.version, pa.int64()),
            COMMIT_TIMESTAMP: pa.scalar(made, pa.timestamp("us", "UTC")),
        }
        described = [pa.repeat(value, batch.num_rows) for value in constants.values()]
        yield pa.RecordBatch.from_arrays([*batch.columns, *described], [*batch.schema.names, *constants])


def _in_shape(batch: pa.RecordBatch, sources: dict[str, str | None], target: pa.Schema) -> pa.RecordBatch:
    """The columns of the frame; null where the version does not have one."""
    import pyarrow as pa

    if not target.names:
        return batch.select([])
    arrays = []
    for column in target:
        source = sources.get(column.name, column.name)
        if source is None:
            arrays.append(pa.nulls(batch.num_rows, column.type))
        else:
            arrays.append(batch.column(source))
    return pa.RecordBatch.from_arrays(arrays, target.names)


class ChangesReader(DataSourceReader):
    """Reads the changes of a window of versions as a batch."""

    def __init__(self, options: FeedOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._release = installed_release()

    @noted()
    def partitions(self) -> Sequence[InputPartition]:
        """Pin the window and divide it."""
        table = open_newest(self._options)
        begin, end = window(table, self._options)
        last = table.checkout_version(end)
        asked = [name for name in self._schema.fieldNames() if name not in DESCRIBING.fieldNames()]
        names = stored_names(last.schema.names, asked, is_sensitive=False)
        check_types(feed_schema(last, names), self._schema)
        # Without partitions Spark would generate one that carries no window.
        return plan(last, self._options, names, begin, end) or [FeedRange(end, end, tuple(names))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part of the window; runs in a task."""
        with quick_task(self._release):
            yield from read_partition(self._options, partition, self._schema)


def check_types(known: StructType, asked: StructType) -> None:
    """Refuse a schema whose columns have other types than the table's; case does not matter in their names."""
    types = {field.name: field.dataType for field in known.fields}
    for column in asked.fields:
        name = stored_name(list(types), column.name, is_sensitive=False)
        found = None if name is None else types[name]
        if found != column.dataType:
            raise mismatch(
                f"column '{column.name}' was asked for as {column.dataType.simpleString()}, but the feed has "
                f"{'no such column' if found is None else found.simpleString()}"
            )
