"""How a feed is divided among tasks.

A range of versions is a task. Versions that only appended many rows are divided further, by their new fragments:
all rows of these are insertions. Versions that changed many rows, and a net feed, which compares two versions, are
divided into parts of their changes. From the empty table on, a net feed is a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark_pennon.feed.history import History, columns_of, fragments_of
from pyspark_pennon.spark_api import InputPartition
from pyspark_pennon.tables import grouped

if TYPE_CHECKING:
    from pyspark_pennon.options.feed import FeedOptions

ROWS_PER_TASK = 131_072
"""Versions, or new fragments, share a task until it has about this many rows."""

ROWS_PER_PART = 1_048_576
"""A part of the changes between two versions has about this many, or fewer where cores would have no part: each of
them compares the versions.
"""

MOST_RANGES = 256
"""Long windows are divided into about this many tasks."""


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
    history = History(last, begin, end)
    return [
        part
        for first, until, shown_as in spans(history, begin, end, columns, last)
        for part in ranges(history, first, until, columns, cores, shown_as)
    ]


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


def spans(
    history: History, begin: int, end: int, columns: tuple[str | None, ...], shown: Any
) -> Iterator[tuple[int, int, int | None]]:
    """The versions after `begin` up to `end`, divided where the columns become those of `shown`, or cease to be.

    Gives begin and end of each span, and the version of `shown` where the columns are others and are shown as its.
    """
    wanted, replacements = _fields(shown, columns), history.replacements()

    def shown_as(last: int) -> int | None:
        return None if last == int(shown.version) or has_its_fields(last) else int(shown.version)

    def has_its_fields(last: int) -> bool:
        # Where rows were replaced, fields may be numbered again. After `end` that shows if no fragment is left.
        if any(version > last for version in replacements):
            return False
        table = history.at(last)
        return _fields(table, columns) == wanted and not _fragment_ids(shown).isdisjoint(_fragment_ids(table))

    changes = sorted({*history.column_changes(), *replacements})
    ends = [version - 1 for version in changes if version > begin + 1]
    first = begin
    for version, group in groupby([*ends, end], shown_as):
        *_, until = group
        yield first, until, version
        first = until


def ranges(
    history: History,
    begin: int,
    end: int,
    columns: tuple[str | None, ...],
    cores: int,
    shown_as: int | None = None,
) -> Iterator[InputPartition]:
    """Ranges of versions with about as many rows each; versions with more rows are divided, large appends by
    fragments. The fields of the columns must not change, unless they are shown as those of a later version.
    """
    appended = {version: history.appended_rows(version) for version in range(begin + 1, end + 1)}
    weights = {
        version: history.changed_rows(version) if rows is None else rows for version, rows in appended.items()
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
                yield from only.parts(weights[version], max(1, round(cores * weights[version] / total)))
            else:
                yield from inserted(version, history.new_fragments(version), columns)
            first, weight = version, 0
            continue
        if weight + weights[version] > most and first < version - 1:
            yield FeedRange(first, version - 1, columns, shown_as=shown_as)
            first, weight = version - 1, 0
        weight += weights[version]
    if first < end:
        yield FeedRange(first, end, columns, shown_as=shown_as)


def _fragment_ids(table: Any) -> set[int]:
    return {fragment for fragment, _ in fragments_of(table)}


def _fields(table: Any, columns: tuple[str | None, ...]) -> dict[str, Any]:
    """What identifies some columns of a version."""
    return {column.name: column for column in columns_of(table) if column.name in columns}


def inserted(
    version: int, fragments: list[tuple[int, int]], columns: tuple[str | None, ...]
) -> list[InputPartition]:
    """Fragments in order, divided into tasks of about as many rows each."""
    groups = grouped(fragments, ROWS_PER_TASK)
    return [InsertedFragments(version, tuple(group), columns) for group in groups]
