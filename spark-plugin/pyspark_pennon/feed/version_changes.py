"""What a feed has to know of the transactions of its versions: numbers, without their fragments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class VersionChange:
    """What one version did to rows, as far as its transaction says.

    Attributes
    ----------
    operation
        Its name; None if the transaction was not kept.
    only_adds
        Whether it did nothing but add fragments.
    rows
        Rows of the fragments that it added; None if that is not recorded of all.
    deleted
        At most how many rows deletion files of fragments say are gone.
    drops
        Whether it removed fragments.
    """

    operation: str | None
    only_adds: bool = False
    rows: int | None = 0
    deleted: int = 0
    drops: bool = False

    @classmethod
    def of(cls, transaction: Any) -> VersionChange:
        """That of a transaction, or of None."""
        if transaction is None:
            return cls(None)
        change = transaction.operation
        kind = type(change).__name__
        if kind == "Append":
            return cls(kind, only_adds=True, rows=_rows(change.fragments))
        if kind == "Update":
            only_adds = not (change.removed_fragment_ids or change.updated_fragments)
            return cls(kind, only_adds, _rows(change.new_fragments))
        if kind == "Delete":
            # With what earlier versions removed of the same fragments.
            files = [part.deletion_file for part in change.updated_fragments]
            deleted = sum(int(file.num_deleted_rows) for file in files if file is not None)
            drops = bool(change.deleted_fragment_ids)
            return cls(kind, not (drops or change.updated_fragments), deleted=deleted, drops=drops)
        return cls(kind)


def _rows(fragments: list[Any]) -> int | None:
    rows = [part.physical_rows for part in fragments]
    return None if None in rows else sum(rows)
