"""Rows of a fragment: read by position, and deleted by offset without a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pennon._fragment_state import FragmentState
from pennon._table import rows
from pennon._table.row_numbers import row_numbers
from pennon.errors import InvalidInputError, PositionError
from pennon.metadata import FragmentMetadata

if TYPE_CHECKING:
    from pennon.types import BlobHandling, Columns


class FragmentSession:
    """Rows of a fragment, read many times with the same columns; made by `LanceFragment.open_session`.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://fragment-session", mode="overwrite")
    >>> session = table.get_fragment(0).open_session(["a"])
    >>> [session.take([offset])["a"].to_pylist() for offset in (2, 0)]
    [[3], [1]]
    """

    def __init__(self, session: tuple[FragmentRows, Columns | None, bool]) -> None:
        self._fragment, self._columns, self._with_row_address = session

    def take(self, indices: Sequence[int] | pa.Array) -> pa.Table:
        """Rows by position, as `LanceFragment.take`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://fragment-session-take", mode="overwrite")
        >>> session = table.get_fragment(0).open_session()
        >>> session.take([2, 0])["a"].to_pylist()
        [3, 1]
        """
        return self._fragment._taken(indices, self._columns, self._with_row_address)


class FragmentRows(FragmentState):
    """The methods of `LanceFragment` that take rows."""

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns | None = None) -> pa.Table:
        """Rows by position among those of the fragment that are not deleted, in the order of `indices`.

        Blobs are their bytes, as in pylance.

        Raises
        ------
        pennon.InvalidInputError
            A position is negative or past the end.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-take", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(1).take([2, 0])["a"].to_pylist()
        [5, 3]
        >>> table.delete("a = 3")
        {'num_deleted_rows': 1}
        >>> table.get_fragment(1).take([0, 1])["a"].to_pylist()
        [4, 5]
        """
        return self._taken(indices, columns)

    def take_offsets(
        self,
        offsets: Sequence[int] | pa.Array,
        columns: Columns | None = None,
        *,
        blob_handling: BlobHandling | None = None,
    ) -> pa.Table:
        """Rows by their offset in the fragment, deleted rows counted, as in row addresses; those are left out.

        Blobs are as in [LanceDataset.scanner][pennon.LanceDataset.scanner].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://fragment-take-offsets", mode="overwrite")
        >>> table.delete("a = 2")
        {'num_deleted_rows': 1}
        >>> table.get_fragment(0).take_offsets([2, 1, 0])["a"].to_pylist()
        [3, 1]
        """
        addresses = self._addresses(offsets)
        return rows.take(self._dataset._native, "address", addresses, columns, blob_handling=blob_handling)

    def _addresses(self, offsets: Sequence[int] | pa.Array) -> pa.Array:
        first = pa.scalar(self._native.id << 32, pa.uint64())
        return pc.add(self._numbered(offsets, self._native.physical_rows), first)

    def _numbered(self, indices: Sequence[int] | pa.Array, count: int) -> pa.Array:
        """Row numbers below a count. Raises `PositionError` for others."""
        numbers = pa.py_buffer(row_numbers(indices))
        found = pa.Array.from_buffers(pa.uint64(), len(numbers) // 8, [None, numbers])
        if len(found) and (last := pc.max(found).as_py()) >= count:
            raise PositionError(f"Row {last} is out of range: fragment {self._native.id} has {count} rows")
        return found

    def open_session(self, columns: Columns | None = None, with_row_address: bool | None = None) -> FragmentSession:
        """The same columns of other rows, again and again.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2], "b": [3, 4]}, "memory://session", mode="overwrite")
        >>> session = table.get_fragment(0).open_session(["b"], with_row_address=True)
        >>> session.take([1]).to_pylist()
        [{'b': 4, '_rowaddr': 1}]
        """
        return FragmentSession((self, columns, bool(with_row_address)))

    def _taken(
        self, indices: Sequence[int] | pa.Array, columns: Columns | None, with_row_address: bool = False
    ) -> pa.Table:
        if self._native.num_deletions:
            scan = self._dataset._scan({"columns": [], "with_row_address": True, "fragments": [self]})
            parts = [batch.column("_rowaddr") for batch in scan.to_batches()]
            live = pa.chunked_array(parts, pa.uint64()).combine_chunks()
            addresses = live.take(self._numbered(indices, len(live)))
        else:
            addresses = self._addresses(indices)
        return rows.take(
            self._dataset._native,
            "address",
            addresses,
            columns,
            with_row_address=with_row_address,
            blob_handling="all_binary",
        )

    def delete_rows(self, offsets: Sequence[int]) -> FragmentMetadata | None:
        """Delete rows by their offsets, deleted rows counted, without a commit; as `delete`.

        Raises
        ------
        pennon.InvalidInputError
            The fragment has no row at an offset.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://fragment-delete-rows", mode="overwrite")
        >>> smaller = table.get_fragment(0).delete_rows([0, 2])
        >>> smaller.num_deletions
        2
        >>> operation = pennon.LanceOperation.Delete([smaller], [], "false")
        >>> pennon.LanceDataset.commit(table, operation, read_version=1).to_table()["a"].to_pylist()
        [2]
        """
        found = list(offsets)
        for offset in found:
            if not 0 <= offset < self._native.physical_rows:
                raise InvalidInputError(
                    f"Row offset {offset} is out of range: fragment {self._native.id} has"
                    f" {self._native.physical_rows} rows"
                )
        parts = self._dataset._native.delete_offsets(self._native.id, found)
        return None if parts is None else FragmentMetadata._of(parts)
