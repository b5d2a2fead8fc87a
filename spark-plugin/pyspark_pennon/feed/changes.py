"""The change feed as a frame: which versions it covers, how they are divided among tasks, what a task reads.

The feed itself is [LanceDataset.changes][pennon.LanceDataset.changes]: a range of versions is a task. Versions that
only appended many rows are divided further, by their new fragments: all rows of these are insertions. Versions that
changed many rows, and a net feed, which compares two versions, are divided into parts of their changes. From the
empty table on, a net feed is a snapshot.

A feed shows the columns of its last version, whatever columns the versions of a range have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from pyspark_pennon.errors import invalid, mismatch, missing, noted
from pyspark_pennon.feed.version_changes import VersionChange
from pyspark_pennon.options.feed import FeedOptions, has_end
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.spark_api import DataSourceReader, InputPartition
from pyspark_pennon.tables import BATCH_BYTES, grouped, open_table
from pyspark_pennon.tasks.releases import installed_release
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.transactions import transactions
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

ROWS_PER_TASK = 131_072
"""Versions, or new fragments, share a task until it has about this many rows."""

ROWS_PER_PART = 1_048_576
"""A part of the changes between two versions has about this many, or fewer where cores would have no part: each of
them compares the versions.
"""

ROWS_OF_A_CHANGE = 16_384
"""What a version counts for that is not an append, whose rows nobody has counted."""

MOST_RANGES = 256
"""Long windows are divided into about this many tasks."""

# Operations that leave all rows with their values.
_KEEPS_ROWS = ("Rewrite", "CreateIndex", "ReserveFragments", "UpdateConfig", "UpdateBases", "Project")
# Operations after which the columns may be others.
CHANGES_COLUMNS = ("Merge", "Project", "Overwrite", "Restore", None)


@dataclass(frozen=True)
class FeedRange(InputPartition):
    """The changes after one version up to another.

    `columns` are the table's at `end`, in the order of the frame; None for one that `end` does not have. They are
    those at `shown_as` if it is given, a later version.
    """

    begin: int
    end: int
    columns: tuple[str | None, ...]
    mode: str = "each"
    part: tuple[int, int] | None = None
    shown_as: int | None = None

    def parts(self, rows: int, cores: int) -> list[FeedRange]:
        """The same range divided among so many cores, if it has many rows."""
        count = max(-(-rows // ROWS_PER_PART), min(cores, -(-rows // ROWS_PER_TASK)))
        count = min(count, MOST_RANGES)
        if count < 2:
            return [self]
        return [replace(self, part=(number, count)) for number in range(count)]


@dataclass(frozen=True)
class InsertedFragments(InputPartition):
    """Fragments of a version that count as insertions of that version."""

    version: int
    fragments: tuple[int, ...]
    columns: tuple[str | None, ...]


def feed_schema(table: Any, columns: Sequence[str] | None, *, is_sensitive: bool = False) -> StructType:
    """The Spark schema of a feed: the table's columns, which may all be null, and those that describe a change."""
    if not table.has_stable_row_ids:
        raise invalid(
            f"A change feed needs stable row ids, which {table.uri} does not have: an updated row cannot be told "
            "from a deleted and a new one. Write the rows to a new table with enable_stable_row_ids"
        )
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
    return begin, end


def start_version(table: Any, options: FeedOptions) -> int:
    """The first version whose changes count; after a time that no version follows, the next one."""
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


def check_kept(table: Any, needed: Sequence[int]) -> None:
    """Raises an error that says how to go on if a version was vacuumed. Number 0 is the empty table."""
    gone, kept = without_vacuumed(table, needed)
    if gone:
        first = contiguous_from(kept, int(table.version))
        if gone[-1] < min(kept) and _is_clone(table, min(kept)):
            raise missing(
                f"{table.uri} is a clone or a branch that begins at version {min(kept)}: no feed of it has what "
                f"changed until then. A feed can start at version {first + 1}",
                table.uri,
            )
        raise missing(
            f"Version {gone[-1]} of {table.uri} was removed by a vacuum, and without it nobody knows what version "
            f"{gone[-1] + 1} changed. A feed can start at version {first + 1}, or read the rows of a version that "
            "is left. A longer retention of the vacuum, or a tag, would have kept it",
            table.uri,
        )


def without_vacuumed(table: Any, needed: Sequence[int]) -> tuple[list[int], set[int]]:
    """Those of some versions that a vacuum removed, and all versions that are left. Number 0 is the empty table."""
    kept = {entry["version"] for entry in table.version_refs()}
    return [version for version in needed if version > 0 and version not in kept], kept


def _is_clone(table: Any, version: int) -> bool:
    """Whether a version was copied from another table."""
    from pennon import LanceOperation

    transaction = table.read_transaction(version)
    return transaction is not None and isinstance(transaction.operation, LanceOperation.Clone)


def contiguous_from(kept: set[int], newest: int) -> int:
    """The first of the versions up to the newest of which none is missing."""
    first = newest
    while first - 1 in kept:
        first -= 1
    return first


def plan(
    table: Any, options: FeedOptions, names: Sequence[str], begin: int, end: int, cores: int | None = None
) -> list[InputPartition]:
    """The tasks of a feed over the versions after `begin` up to `end`, in columns of `end`.

    `cores` run tasks; as many as this machine has when None, since those of executors are not always known.
    """
    cores = cores or os.cpu_count() or 1
    columns = tuple(names)
    last = table if int(table.version) == end else table.checkout_version(end)
    if begin == end:
        return []
    if options.net_changes:
        if begin > 0:
            return list(FeedRange(begin, end, columns, "net").parts(_changed_rows(last, begin), cores))
        return inserted(end, fragments_of(last), columns)
    history = History(last, begin, end, cores)
    spans = history.spans(begin, end, columns, last)
    return [part for first, until, shown_as in spans for part in history.ranges(first, until, columns, shown_as)]


def _changed_rows(last: Any, begin: int) -> int:
    """About how many rows differ between two versions, by their lineage; those that tasks find by their values are
    not counted. If the columns differ, all rows.
    """
    first = last.checkout_version(begin)
    rows = int(last.count_rows())
    # Of few rows no more than all can differ: they need not be counted.
    if columns_of(first) != columns_of(last) or rows + first.count_rows() <= ROWS_PER_TASK:
        return rows
    found = 0
    for batch in last.changes(begin, columns=[], mode="net", images="post"):
        found += batch.num_rows
        if found > ROWS_PER_PART * MOST_RANGES:
            break
    return found


class History:
    """What the versions of a window did, whose tasks so many cores run."""

    def __init__(self, end: Any, begin: int, last: int, cores: int = 1) -> None:
        self._end = end
        self._cores = cores
        kept = [entry["version"] for entry in end.version_refs() if begin < entry["version"] <= last][::-1]
        self.changes = {version: VersionChange.of(found) for version, found in transactions(end, kept)}
        # A vacuum may have removed some since they were listed.
        check_kept(end, sorted({*kept}.difference(self.changes)))
        self._differences: dict[int, tuple[int | None, bool]] = {}

    def operation(self, version: int) -> str | None:
        """The name of a version's operation, None if it was not kept."""
        return self._change(version).operation

    def _change(self, version: int) -> VersionChange:
        return self.changes.get(version, VersionChange(None))

    def column_changes(self) -> list[int]:
        """The versions whose columns differ from those of the version before, in order; not the first of the
        table.
        """
        found = []
        for version in sorted(self.changes):
            if version > 1 and self.operation(version) in CHANGES_COLUMNS:
                before, after = (self._end.checkout_version(at) for at in (version - 1, version))
                if columns_of(before) != columns_of(after):
                    found.append(version)
        return found

    def spans(
        self, begin: int, end: int, columns: tuple[str | None, ...], shown: Any
    ) -> Iterator[tuple[int, int, int | None]]:
        """The versions after `begin` up to `end`, divided where columns change: begin and end of each span, and the
        version of `shown` if that has other fields for some of its columns than the span's end.
        """
        first = begin
        for after in [*(version for version in self.column_changes() if version > begin + 1), end + 1]:
            is_as_shown = _fields(self._end.checkout_version(after - 1), columns) == _fields(shown, columns)
            yield first, after - 1, None if is_as_shown else int(shown.version)
            first = after - 1

    def appended_rows(self, version: int) -> int | None:
        """Rows of a version that did nothing but append; None for others."""
        if version == 1:
            return int(self._end.checkout_version(1).count_rows())
        if self.operation(version) == "Merge":
            return self._compared(version)[0]
        change = self._change(version)
        if not change.only_adds:
            return None
        return self._compared(version)[0] if change.rows is None else change.rows

    def added_rows(self, version: int) -> int | None:
        """Rows of the fragments that only this version has; None if it does not have all of the one before as they
        were, or if that was cleaned up.
        """
        import pennon

        try:
            return self._compared(version)[0]
        except pennon.NotFoundError:
            return None

    def keeps_rows(self, version: int) -> bool:
        """Whether a version has the rows of the one before, perhaps with other columns."""
        if self.operation(version) == "Merge":
            return self._compared(version)[1]
        return self.operation(version) in _KEEPS_ROWS

    def _compared(self, version: int) -> tuple[int | None, bool]:
        """By the fragments of a version and the one before: the rows it appended if it did nothing else, and if it
        has the same rows.
        """
        if version not in self._differences:
            found = (self._end.checkout_version(at).get_fragments() for at in (version - 1, version))
            before, after = ({part.fragment_id: part.metadata.to_json() for part in parts} for parts in found)
            rows = [
                {number: (part["physical_rows"], part["deletion_file"]) for number, part in parts.items()}
                for parts in (before, after)
            ]
            is_same = all(after.get(number) == part for number, part in before.items())
            new = sum(int(part["physical_rows"]) for number, part in after.items() if number not in before)
            self._differences[version] = (new if is_same else None, rows[0] == rows[1])
        return self._differences[version]

    def changed_rows(self, version: int) -> int:
        """About how many rows a version changed that did more than append."""
        change = self._change(version)
        if change.operation in CHANGES_COLUMNS:
            return int(self._end.checkout_version(version).count_rows())
        if change.operation == "Delete":
            return max(ROWS_OF_A_CHANGE, self._deleted_rows(version, change))
        return max(ROWS_OF_A_CHANGE, change.rows or 0)

    def _deleted_rows(self, version: int, change: VersionChange) -> int:
        """At most how many rows a delete removed; exactly where they may be many."""
        if not change.drops and change.deleted <= ROWS_OF_A_CHANGE:
            return change.deleted
        before, after = (self._end.checkout_version(at).count_rows() for at in (version - 1, version))
        return int(before - after)

    def ranges(
        self, begin: int, end: int, columns: tuple[str | None, ...], shown_as: int | None = None
    ) -> Iterator[InputPartition]:
        """Ranges of versions with about as many rows each; versions with more rows are divided, large appends by
        fragments. The columns must not change, unless they are those of a later version.
        """
        appended = {version: self.appended_rows(version) for version in range(begin + 1, end + 1)}
        weights = {
            version: self.changed_rows(version) if rows is None else rows for version, rows in appended.items()
        }
        total = sum(weights.values())
        most = max(ROWS_PER_TASK, total // MOST_RANGES)
        first, weight = begin, 0
        for version in range(begin + 1, end + 1):
            if weights[version] > most:
                if first < version - 1:
                    yield FeedRange(first, version - 1, columns, shown_as=shown_as)
                if appended[version] is None or shown_as is not None:
                    only = FeedRange(version - 1, version, columns, shown_as=shown_as)
                    # Other versions have their share of the cores.
                    yield from only.parts(weights[version], max(1, round(self._cores * weights[version] / total)))
                else:
                    yield from inserted(version, self.new_fragments(version), columns)
                first, weight = version, 0
                continue
            if weight + weights[version] > most and first < version - 1:
                yield FeedRange(first, version - 1, columns, shown_as=shown_as)
                first, weight = version - 1, 0
            weight += weights[version]
        if first < end:
            yield FeedRange(first, end, columns, shown_as=shown_as)

    def new_fragments(self, version: int) -> list[tuple[int, int]]:
        """Id and rows of the fragments that the version before does not have."""
        before = set()
        if version > 1:
            before = {fragment for fragment, _ in fragments_of(self._end.checkout_version(version - 1))}
        found = fragments_of(self._end.checkout_version(version))
        return [(fragment, rows) for fragment, rows in found if fragment not in before]


def columns_of(table: Any) -> Any:
    """What identifies the columns of a version: ids, names and types."""
    return table.lance_schema.fields()


def _fields(table: Any, columns: tuple[str | None, ...]) -> dict[str, Any]:
    """What identifies some columns of a version."""
    return {column.name: column for column in columns_of(table) if column.name in columns}


def fragments_of(table: Any) -> list[tuple[int, int]]:
    """Id and rows of each fragment, in the table's order."""
    return [(part.fragment_id, part.physical_rows) for part in table.get_fragments()]


def inserted(
    version: int, fragments: list[tuple[int, int]], columns: tuple[str | None, ...]
) -> list[InputPartition]:
    """Fragments in order, divided into tasks of about as many rows each."""
    groups = grouped(fragments, ROWS_PER_TASK)
    return [InsertedFragments(version, tuple(group), columns) for group in groups]


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
