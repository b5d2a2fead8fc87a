"""The columns of one version of a table in others.

A column keeps its field id, under whatever name, until an overwrite numbers the fields from 0 again: through that
it keeps its name. The id of a dropped column may be that of another one later.
"""

from __future__ import annotations

from typing import Any

from pyspark_pennon.feed.history import CHANGES_COLUMNS
from pyspark_pennon.transactions import transactions


class TracedColumns:
    """Finds the columns of a version in others; reads versions between only where ids and names do not agree."""

    def __init__(self, shown: Any) -> None:
        self._shown = shown
        self._ids = {name: id for id, name in names_by_id(shown).items()}
        # Of each version that was read: which it was made from, None for none, and whether columns may differ.
        self._origins: dict[int, tuple[int | None, bool]] = {}
        self._fields: dict[int, set[int]] = {}

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self._ids)

    def names_in(self, table: Any) -> dict[str, str | None]:
        """The names that a version has for the columns; None for one that it lacks."""
        names = names_by_id(table)
        known = set(names.values())
        found = {name: names.get(id) for name, id in self._ids.items()}
        ambiguous = [name for name, own in found.items() if own != name and (own is not None or name in known)]
        if ambiguous:
            between = self._between(table)
            for name in ambiguous:
                if between is None:
                    found[name] = name if name in known else None
                elif not all(self._ids[name] in self._fields_of(version) for version in between):
                    found[name] = None
        return found

    def _between(self, table: Any) -> list[int] | None:
        """The versions between the two whose columns may be others; None if an overwrite cannot be ruled out."""
        low, high = sorted([int(self._shown.version), int(table.version)])
        self._read(table if int(table.version) == high else self._shown, low, high)
        found = []
        while low != high:
            origin, has_other_columns = self._origin(high)
            if origin is None:
                return None
            if has_other_columns:
                found.append(high)
            low, high = sorted([low, origin])
        return [*found, low]

    def _read(self, last: Any, low: int, high: int) -> None:
        known = max((version for version in self._origins if version <= high), default=low)
        if known < high:
            wanted = range(max(low, known) + 1, high + 1)
            kept = [entry["version"] for entry in last.version_refs() if entry["version"] in wanted][::-1]
            for version, transaction in transactions(last, kept):
                self._origins[version] = _origin(version, transaction)

    def _origin(self, version: int) -> tuple[int | None, bool]:
        import pennon

        if version not in self._origins:
            try:
                transaction = self._shown.read_transaction(version)
            except pennon.NotFoundError:
                transaction = None
            self._origins[version] = _origin(version, transaction)
        return self._origins[version]

    def _fields_of(self, version: int) -> set[int]:
        import pennon

        if version not in self._fields:
            try:
                self._fields[version] = set(names_by_id(self._shown.checkout_version(version)))
            except pennon.NotFoundError:
                self._fields[version] = set()
        return self._fields[version]


def _origin(version: int, transaction: Any) -> tuple[int | None, bool]:
    operation = None if transaction is None else transaction.operation
    kind = type(operation).__name__
    if operation is None or kind == "Overwrite":
        return None, True
    if kind == "Restore":
        return int(operation.version), False
    return version - 1, kind in CHANGES_COLUMNS


def names_by_id(table: Any) -> dict[int, str]:
    """The top-level columns of a version."""
    return {column.id: column.name for column in table.lance_schema.fields()}
