"""Streams of a table: `spark.readStream.format("pennon")`. Offsets are versions.

| offset | means |
|---|---|
| `{"start": "snapshot"}` | nothing is read; the first batches are the rows of the version that is the newest then |
| `{"start": "latest"}` | nothing is read; the first batch is empty and fixes the version that is the newest then |
| `{"snapshot": v, "made": t, "fragments": n}` | the first n fragments of version v are read |
| `{"version": v, "made": t}` | all changes up to version v are read |

`made`, the time of the version in microseconds, identifies the table: the same version of another table at the same
URI was made at another time. A start that is not pinned gives the same batches again after a restart, because the
version of a batch is in its end.

A batch covers whole versions, and only the snapshot is divided between batches. Columns are those the query began
with, as `TracedColumns` finds them in each version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_pennon.errors import invalid, missing, noted
from pyspark_pennon.feed.changes import (
    DESCRIBING,
    check_types,
    data_schema,
    open_newest,
    read_partition,
    start_version,
)
from pyspark_pennon.feed.history import History, contiguous_from, fragments_of, without_vacuumed
from pyspark_pennon.feed.partitions import inserted, ranges, spans
from pyspark_pennon.feed.traced_columns import TracedColumns
from pyspark_pennon.options.feed import LATEST, FeedOptions
from pyspark_pennon.tasks.releases import installed_release
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.types.column_names import stored_names
from pyspark_pennon.types.schema import CHANGE_TYPE
from pyspark_pennon.version_times import version_microseconds

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, Any]

_SNAPSHOT = {"start": "snapshot"}
_LATEST = {"start": LATEST}
_CORES = os.cpu_count() or 1
"""Processors of this machine: those of executors are not known."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table version by version: its change feed, or the rows that were appended."""

    def __init__(self, options: FeedOptions, schema: StructType) -> None:

        self._options = options
        self._schema = schema
        self._release = installed_release()
        self._target: int | None = None
        self._data = [name for name in schema.fieldNames() if name not in DESCRIBING.fieldNames()]
        self._traced: TracedColumns | None = None
        self._kinds: dict[int, int] = {}

    @noted()
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark calls it so
        """Where a query without a checkpoint starts."""
        options = self._options
        self._columns_of_query()
        if options.starting_version == LATEST:
            return dict(_LATEST)
        if options.starting_version is None and options.starting_timestamp is None:
            return dict(_SNAPSHOT)
        table = open_newest(options)
        start = start_version(table, options)
        if start > int(table.version) + 1:
            raise invalid(
                f"The stream of {options.uri} starts at version {start}, but the newest version is {table.version}"
            )
        return self._read_up_to(table, max(start - 1, 0), "the stream starts at the version after it")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limits of the options, in the form that Spark knows."""
        if self._options.max_rows_per_trigger is not None:
            return ReadMaxRows(self._options.max_rows_per_trigger)
        if self._options.max_versions_per_trigger is not None:
            return ReadMaxFiles(self._options.max_versions_per_trigger)
        return ReadAllAvailable()

    @noted()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at the version that is the newest now."""
        self._columns_of_query()
        self._target = int(open_newest(self._options).version)

    @noted()
    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """The newest version, for the progress of the query."""
        table = open_newest(self._options)
        return _version_offset(table)

    @noted()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the next batch; `start` if there is nothing to read."""
        table = self._newest()
        self._check_schema(table)
        is_limited = not isinstance(limit, ReadAllAvailable)
        if start == _LATEST:
            return _version_offset(table)
        if start == _SNAPSHOT:
            return self._snapshot_until(table, 0, is_limited)
        self._check_table(table, start)
        if "snapshot" in start:
            version = int(start["snapshot"])
            at_version = table.checkout_version(version)
            if start["fragments"] < len(fragments_of(at_version)):
                return self._snapshot_until(at_version, int(start["fragments"]), is_limited)
        else:
            version = int(start["version"])
        end = self._versions_until(table, version, is_limited)
        return start if end == version else _version_offset(table.checkout_version(end))

    @noted()
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        table = open_newest(self._options)
        self._check_schema(table)
        self._check_table(table, end)
        if "snapshot" in end:
            first = int(start.get("fragments", 0))
            version = int(end["snapshot"])
            chosen = fragments_of(table.checkout_version(version))[first : int(end["fragments"])]
            return inserted(version, chosen, self._columns(table.checkout_version(version)))
        if start == _LATEST:
            return []
        self._check_table(table, start)
        return self._plan(table, _position(start), int(end["version"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part of a batch; runs in a task."""
        inserts_only = not self._options.read_change_feed
        with quick_task(self._release):
            yield from read_partition(self._options, partition, self._schema, inserts_only=inserts_only)

    def _newest(self) -> Any:
        """The newest version that the query may read."""
        table = open_newest(self._options)
        if self._target is None or self._target >= int(table.version):
            return table
        return table.checkout_version(self._target)

    def _snapshot_until(self, table: Any, first: int, is_limited: bool) -> Offset:
        """The next fragments of the snapshot; whole ones, at least one."""
        fragments = fragments_of(table)
        end = len(fragments)
        most = self._options.max_rows_per_trigger if is_limited else None
        if most is not None:
            rows = 0
            for at in range(first, len(fragments)):
                rows += fragments[at][1]
                if rows >= most:
                    end = at + 1
                    break
        made = _version_offset(table)["made"]
        return {"snapshot": int(table.version), "made": made, "fragments": end}

    def _versions_until(self, table: Any, begin: int, is_limited: bool) -> int:
        """The last version of the next batch; `begin` for none."""
        end = int(table.version)
        if is_limited and self._options.max_versions_per_trigger is not None:
            end = min(end, begin + self._options.max_versions_per_trigger)
        if end <= begin:
            return begin
        self._check_kept(table, begin, end)
        most = self._options.max_rows_per_trigger if is_limited else None
        if most is None and self._options.read_change_feed:
            return end
        # A window of its own, so that the newest versions are not looked at again and again.
        history = History(table.checkout_version(end), begin, end)
        rows = 0
        for version in range(begin + 1, end + 1):
            rows += self._rows(table, history, version)
            if most is not None and rows >= most:
                return version
        return end

    def _rows(self, table: Any, history: History, version: int) -> int:
        """Rows of a version in the stream. Without a feed changes other than appends are an error, or skipped."""
        if version not in self._kinds:
            if len(self._kinds) > 10_000:
                self._kinds.clear()
            self._kinds[version] = self._counted(table, history, version)
        return self._kinds[version]

    def _counted(self, table: Any, history: History, version: int) -> int:
        appended = history.appended_rows(version)
        if appended is not None:
            return appended
        operation = history.operation(version)
        feed = self._options.read_change_feed
        if not feed and history.keeps_rows(version):
            return 0
        if feed or history.at(version - 1).has_stable_row_ids:
            changes = table.checkout_version(version).changes(
                version - 1, columns=[], images="both" if feed else "post"
            )
            # A version may have changed more rows than the driver has room for.
            rows, is_append = 0, True
            for batch in changes:
                rows += batch.num_rows
                is_append = is_append and set(batch.column(CHANGE_TYPE).unique().to_pylist()) <= {"insert"}
                if not (feed or is_append):
                    break
            else:
                return rows
        else:
            added = history.added_rows(version)
            if added is not None:
                return added
        if self._options.skip_change_commits:
            return 0
        raise invalid(
            f"Version {version} of {self._options.uri}, made by {_article(operation)}, deleted or updated rows, "
            "and a stream of appended rows cannot show that. Set skipChangeCommits to pass over such versions with "
            "all their rows, or readChangeFeed, in a query with a new checkpoint, to see what they changed"
        )

    def _plan(self, table: Any, begin: int, end: int) -> Sequence[InputPartition]:
        if begin >= end:
            return []
        self._check_kept(table, begin, end)
        history = History(table.checkout_version(end), begin, end)
        found: list[InputPartition] = []
        columns = self._columns(table)
        for first, until, shown_as in spans(history, begin, end, columns, table):
            if self._options.read_change_feed:
                found.extend(ranges(history, first, until, columns, _CORES, shown_as))
            else:
                found.extend(self._appends(table, history, first, until, columns, shown_as))
        return found

    def _appends(
        self,
        table: Any,
        history: History,
        begin: int,
        end: int,
        columns: tuple[str | None, ...],
        shown_as: int | None,
    ) -> Iterator[InputPartition]:
        """Ranges of versions with appended rows, without the versions between that are passed over."""
        first = begin
        # Without stable row ids, which a table may have got later, there is no feed, only new fragments.
        while first < end and not history.at(first + 1).has_stable_row_ids:
            first += 1
            if self._rows(table, history, first):
                own = self._columns(history.at(first))
                yield from inserted(first, history.new_fragments(first), own)
        for version in range(first + 1, end + 2):
            if version > end or not self._rows(table, history, version):
                if first < version - 1:
                    yield from ranges(history, first, version - 1, columns, _CORES, shown_as)
                first = version

    def _columns(self, table: Any) -> tuple[str | None, ...]:
        """The names that a version has for the columns of the stream; None for one that it lacks with that type."""

        def has_type(name: str, own: str) -> bool:
            return bool(data_schema(table, [own]).fields[0].dataType == self._schema[name].dataType)

        names = self._names_in(table)
        return tuple(None if own is None or not has_type(name, own) else own for name, own in names.items())

    def _names_in(self, table: Any) -> dict[str, str | None]:
        traced = self._columns_of_query()
        names = traced.names_in(table)
        stored = stored_names(traced.names, self._data, is_sensitive=False)
        return {name: names[own] for name, own in zip(self._data, stored, strict=True)}

    def _columns_of_query(self) -> TracedColumns:
        """The columns, as the table has them when the query starts."""
        if self._traced is None:
            table = open_newest(self._options)
            self._check_names(table)
            self._traced = TracedColumns(table)
        return self._traced

    def _check_names(self, table: Any) -> None:
        import pennon

        asked = StructType([field for field in self._schema.fields if field.name in self._data])
        try:
            check_types(data_schema(table, self._data), asked)
        except (pennon.InvalidInputError, pennon.SchemaMismatchError) as error:
            raise type(error)(
                f"{error}, in version {table.version} of {self._options.uri}: load the stream again, and start the "
                "query with the same checkpoint, to go on with the columns as they are"
            ) from None

    def _check_schema(self, table: Any) -> None:
        """Refuse to go on if a column of the stream was dropped, or has another type now."""
        names = self._names_in(table)
        for name in self._data:
            now = names[name]
            kind = None if now is None else data_schema(table, [now]).fields[0].dataType
            if kind == self._schema[name].dataType:
                continue
            what = "was dropped" if kind is None else f"is {kind.simpleString()} now"
            if kind is None and name.lower() in map(str.lower, table.schema.names):
                what = "is another one now, of another type or made again"
            raise invalid(
                f"Column '{name}' of the stream {what}, in version {table.version} of {self._options.uri} or "
                "before: start the query again, with the same checkpoint, to go on with the columns as they are"
            )

    def _check_table(self, table: Any, offset: Offset) -> None:
        """Raises an error if an offset is of another table, or its version is gone."""
        import pennon

        version = offset.get("snapshot", offset.get("version"))
        if not version:
            return
        newest = int(table.version)
        if version > newest and (self._target is None or version > int(open_newest(self._options).version)):
            raise invalid(
                f"The checkpoint is of another table: it has read up to version {version}, and the newest of "
                f"{self._options.uri} is {newest}. {_ANOTHER}"
            )
        try:
            found = _version_offset(table.checkout_version(version))["made"]
        except pennon.NotFoundError:
            self._check_kept(table, version, version)
            raise
        if found != offset["made"]:
            raise invalid(
                f"The checkpoint is of another table: version {version} of {self._options.uri} was made "
                f"{found} microseconds after 1970, and that of the checkpoint {offset['made']}. {_ANOTHER}"
            )

    def _read_up_to(self, table: Any, version: int, why: str) -> Offset:
        if version == 0:
            return {"version": 0, "made": 0}
        self._check_kept(table, version, version, why)
        return _version_offset(table.checkout_version(version))

    def _check_kept(self, table: Any, begin: int, end: int, why: str = "the stream has read up to it") -> None:
        gone, kept = without_vacuumed(table, range(begin, end + 1))
        if not gone:
            return
        first = contiguous_from(kept, int(table.version))
        reason = why if gone[0] == begin else "the stream has not read it yet"
        raise missing(
            f"Version {gone[0]} of {self._options.uri} was removed by a vacuum, and {reason}, so what "
            "changed since is not known. Start a new query with a new checkpoint: without a start it begins with a "
            f"snapshot, and from startingVersion {first + 1} on no version is missing. A longer retention of the "
            "vacuum, or a tag, would have kept it",
            self._options.uri,
        )


_ANOTHER = "A table that was dropped and made again is another one: start a new query with a new checkpoint"


def _version_offset(table: Any) -> Offset:
    return {"version": int(table.version), "made": version_microseconds(table)}


def _position(offset: Offset) -> int:
    """The version up to which an offset has read."""
    return int(offset["snapshot"] if "snapshot" in offset else offset["version"])


def _article(operation: str | None) -> str:
    if operation is None:
        return "an unknown operation"
    return f"{'an' if operation[0] in 'AEIOU' else 'a'} {operation}"
