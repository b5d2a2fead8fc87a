"""What the versions of a table did, and which of them are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark_pennon.errors import missing
from pyspark_pennon.feed.version_changes import VersionChange
from pyspark_pennon.transactions import transactions

ROWS_OF_A_CHANGE = 16_384
"""What a version counts for that is not an append, whose rows nobody has counted."""

# Operations that leave all rows with their values.
_KEEPS_ROWS = ("Rewrite", "CreateIndex", "ReserveFragments", "UpdateConfig", "UpdateBases", "Project")
# Operations that may leave none of the rows, and number columns again.
_REPLACES_ROWS = ("Overwrite", "Restore", None)
# Operations after which the columns may be others.
CHANGES_COLUMNS = ("Merge", "Project", *_REPLACES_ROWS)


class History:
    """What the versions after one up to another did to rows and columns."""

    def __init__(self, end: Any, begin: int, last: int) -> None:
        self._end = end
        kept = [entry["version"] for entry in end.version_refs() if begin < entry["version"] <= last][::-1]
        self.changes = {version: VersionChange.of(found) for version, found in transactions(end, kept)}
        # A vacuum may have removed some since they were listed.
        check_kept(end, sorted({*kept}.difference(self.changes)))
        self._differences: dict[int, tuple[int | None, bool]] = {}

    def at(self, version: int) -> Any:
        """The table at a version."""
        return self._end.checkout_version(version)

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
                before, after = (self.at(at) for at in (version - 1, version))
                if columns_of(before) != columns_of(after):
                    found.append(version)
        return found

    def replacements(self) -> list[int]:
        """The versions that may have replaced all rows and numbered the columns again, in order; not the first."""
        later = (version for version in sorted(self.changes) if version > 1)
        return [version for version in later if self.operation(version) in _REPLACES_ROWS]

    def appended_rows(self, version: int) -> int | None:
        """Rows of a version that did nothing but append; None for others."""
        if version == 1:
            return int(self.at(1).count_rows())
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
            found = (self.at(at).get_fragments() for at in (version - 1, version))
            before, after = ({part.fragment_id: part.metadata for part in parts} for parts in found)
            rows = [
                {number: (part.physical_rows, part.deletion_file) for number, part in parts.items()}
                for parts in (before, after)
            ]
            is_same = all(after.get(number) == part for number, part in before.items())
            new = sum(part.physical_rows for number, part in after.items() if number not in before)
            self._differences[version] = (new if is_same else None, rows[0] == rows[1])
        return self._differences[version]

    def changed_rows(self, version: int) -> int:
        """About how many rows a version changed that did more than append."""
        change = self._change(version)
        if change.operation in CHANGES_COLUMNS:
            return int(self.at(version).count_rows())
        if change.operation == "Delete":
            return max(ROWS_OF_A_CHANGE, self._deleted_rows(version, change))
        return max(ROWS_OF_A_CHANGE, change.rows or 0)

    def _deleted_rows(self, version: int, change: VersionChange) -> int:
        """At most how many rows a delete removed; exactly where they may be many."""
        if not change.drops and change.deleted <= ROWS_OF_A_CHANGE:
            return change.deleted
        before, after = (self.at(at).count_rows() for at in (version - 1, version))
        return int(before - after)

    def new_fragments(self, version: int) -> list[tuple[int, int]]:
        """Id and rows of the fragments that the version before does not have."""
        before = set()
        if version > 1:
            before = {fragment for fragment, _ in fragments_of(self.at(version - 1))}
        found = fragments_of(self.at(version))
        return [(fragment, rows) for fragment, rows in found if fragment not in before]


def columns_of(table: Any) -> Any:
    """What identifies the columns of a version: ids, names and types."""
    return table.lance_schema.fields()


def fragments_of(table: Any) -> list[tuple[int, int]]:
    """Id and rows of each fragment, in the table's order."""
    return [(part.fragment_id, part.physical_rows) for part in table.get_fragments()]


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
