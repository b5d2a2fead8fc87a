"""The reference's view of what changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pennon import _native
from pennon._options import checked_number
from pennon._render import panel
from pennon._table import commits, history
from pennon.errors import InvalidInputError, NotFoundError
from pennon.scanner import ScannerBuilder

if TYPE_CHECKING:
    from pennon._protocols import Table
    from pennon.transaction import Transaction

__all__ = ["DatasetDelta"]

_CREATED, _UPDATED = "_row_created_at_version", "_row_last_updated_at_version"


class DatasetDelta:
    """Rows that changed after a begin version, up to and including an end version.

    Made by `LanceDataset.delta`. Everything is evaluated at the end version. (The reference evaluates it at the
    version of the dataset: there, rows that were updated or deleted after the end are missing.) Rows that were
    inserted and deleted again in between are not reported, and neither are rows that a restore brought back;
    `LanceDataset.changes` reports all changes.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://delta", mode="overwrite")
    >>> table.insert({"a": [3]})
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> delta = table.delta(1)
    >>> delta.get_inserted_rows().read_all()["a"].to_pylist()
    [3]
    >>> delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist()
    [0]
    """

    def __init__(self, dataset: Table, begin: int, end: int) -> None:
        self._dataset, self._begin, self._end = dataset, begin, end
        self._changed: list[int] | None = None

    def __repr__(self) -> str:
        return f"DatasetDelta({self._dataset._native.uri!r}, begin={self._begin}, end={self._end})"

    def _repr_html_(self) -> str:
        window = {"after version": self._begin, "up to version": self._end}
        return panel(f"DatasetDelta of {self._dataset._native.uri}", window)

    @classmethod
    def _between(
        cls, dataset: Table, compared_against: int | None, begin: int | None, end: int | None
    ) -> DatasetDelta:
        if compared_against is not None:
            if begin is not None or end is not None:
                raise InvalidInputError(
                    f"compared_against is {compared_against!r}, begin_version {begin!r} and end_version {end!r}:"
                    " expected either compared_against or the other two"
                )
            begin, end = sorted((checked_number("compared_against", compared_against), dataset._native.version))
        elif begin is None and end is None:
            raise InvalidInputError("Must specify either compared_against or both begin_version and end_version")
        if begin is None or end is None:
            raise InvalidInputError("Must specify both begin_version and end_version")
        return cls(dataset, checked_number("begin_version", begin), checked_number("end_version", end))

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Rows of the end version that were created in the window, with `_rowid` and both versions.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delta-inserted", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.delta(1).get_inserted_rows().read_all()["a"].to_pylist()
        [4]
        """
        return self._rows(f"{_CREATED} > {self._first} AND {_CREATED} <= {self._end}")

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Rows of the end version that are older than the window and were last updated in it.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delta-updated", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> table.update({"a": "a * 10"}, where="a >= 3")
        {'num_rows_updated': 2}
        >>> table.delta(1).get_updated_rows().read_all()["a"].to_pylist()
        [30]
        """
        window = f"{_UPDATED} > {self._first} AND {_UPDATED} <= {self._end}"
        return self._rows(f"{_CREATED} <= {self._first} AND {window}")

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Ids of the rows that exist at the begin and not at the end, in one column, `_rowid`.

        Raises
        ------
        pennon.InvalidInputError
            The table has no stable row ids.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delta-deleted", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.delta(1).get_deleted_row_ids().read_all()["_rowid"].to_pylist()
        [0]
        """
        feed = history.changes(self._dataset._native, self._begin, self._end, columns=[])
        schema = pa.schema([pa.field("_rowid", pa.uint64())])

        def deleted() -> Iterator[pa.RecordBatch]:
            for batch in feed:
                gone = batch.filter(pc.equal(batch["_change_type"], "delete"))
                if gone.num_rows:
                    yield pa.record_batch([gone["_rowid"]], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, deleted())

    def list_transactions(self) -> list[Transaction | None]:
        """The transactions of the window, oldest first; `None` for one that was not kept.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delta-transactions", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> [type(transaction.operation).__name__ for transaction in table.delta(1).list_transactions()]
        ['Append', 'Delete']
        """
        return [commits.read(self._dataset._native, version) for version in range(self._begin + 1, self._end + 1)]

    @cached_property
    def _first(self) -> int:
        """The begin, or the version after it if that gave the rows stable ids: it is that of rows from before."""
        if not self._begin or not self._dataset.checkout_version(self._end)._native.has_stable_row_ids:
            return self._begin
        try:
            if self._dataset.checkout_version(self._begin)._native.has_stable_row_ids:
                return self._begin
        except NotFoundError:
            return self._begin
        if self._dataset.checkout_version(self._begin + 1)._native.has_stable_row_ids:
            return self._begin + 1
        raise InvalidInputError(
            f"version {self._begin} is from before the table had stable row ids: what changed since is not known"
        )

    def _rows(self, filter: str) -> pa.RecordBatchReader:
        end = self._dataset.checkout_version(self._end)
        columns = [*end._native.schema.names, "_rowid", _CREATED, _UPDATED]
        if self._changed is None:
            self._changed = _native.fragments_since(end._native, self._first)
        scan = ScannerBuilder._without_defaults(end)._with_fragment_ids(self._changed)
        return scan.columns(columns).filter(filter).to_scanner().to_reader()
