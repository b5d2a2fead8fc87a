"""Rows of a dataset, taken by position, id or address."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pennon._methods.scans import ScanMethods
from pennon._options import checked_number, ignored, refuse_unknown
from pennon._table import rows
from pennon._table.row_numbers import id_list
from pennon._text import counted
from pennon.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile, checked_buffer, end_of_range
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pennon import _native
    from pennon.types import BlobHandling, Columns, Missing


_SELECTORS = ("ids", "addresses", "indices")


def _check_buffer(io_buffer_size: int | None) -> None:
    if io_buffer_size == 0:
        raise InvalidInputError("io_buffer_size must be greater than 0, got 0")
    ignored(io_buffer_size=io_buffer_size)


class RowMethods(ScanMethods):
    """The methods of `LanceDataset` that take rows."""

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns | None = None) -> pa.Table:
        """Rows by position, in the order of `indices`; a repeated position returns the row again.

        Raises
        ------
        pennon.InvalidInputError
            A position is negative or past the end.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [10, 20, 30]}, "memory://take", mode="overwrite")
        >>> table.take([2, 0])["a"].to_pylist()
        [30, 10]
        """
        return rows.take(self._native, "position", indices, columns)

    def take_rows(
        self,
        row_ids: Sequence[int] | pa.Array,
        columns: Columns | None = None,
        *,
        missing: Missing = "skip",
        blob_handling: BlobHandling | None = None,
    ) -> pa.Table:
        """Rows by row id, in the order of `row_ids`; a repeated id returns the row again.

        Only the fragments that have the rows are read, whatever the size of the table. In a table without stable
        row ids, ids are addresses, and with `"skip"` one that is in no fragment is an error.

        Parameters
        ----------
        row_ids
            Values of `_rowid`: integers, or an Arrow array, which is not converted.
        columns
            Columns by name, or SQL expressions by the name of their result; all columns of the table by default.
        missing
            What becomes of an id that no live row has: `"skip"` leaves it out, `"error"` raises, `"null"` returns a
            row of nulls, so that the result has as many rows as `row_ids`.
        blob_handling
            As in [scanner][pennon.LanceDataset.scanner].

        Raises
        ------
        pennon.NotFoundError
            Some ids are not in this version and `missing` is `"error"`: how many, and the first.
        pennon.InvalidInputError
            An id is negative or null, or a column is unknown.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [10, 20, 30]}, "memory://take-rows", mode="overwrite")
        >>> table.delete("a = 20")
        {'num_deleted_rows': 1}
        >>> table.take_rows([2, 1, 0, 2])["a"].to_pylist()
        [30, 10, 30]
        >>> table.take_rows([2, 1], missing="null")["a"].to_pylist()
        [30, None]
        """
        return rows.take(self._native, "id", row_ids, columns, missing=missing, blob_handling=blob_handling)

    def _take_rows(
        self,
        row_ids: Sequence[int] | pa.Array,
        columns: Columns | None = None,
        *,
        ignore_deletions: bool = False,
        **kargs: Any,
    ) -> pa.Table:
        """Rows by row id, in the order of `row_ids`; ids of deleted rows are left out.

        In a table without stable row ids, ids are addresses.
        """
        refuse_unknown("_take_rows", (), kargs)
        return rows.take(self._native, "id", row_ids, columns, ignore_deletions=ignore_deletions)

    def _take_row_addresses(self, addresses: Sequence[int] | pa.Array, columns: Columns | None = None) -> pa.Table:
        """Rows by address, `fragment << 32 | offset`; deleted rows are left out."""
        return rows.take(self._native, "address", addresses, columns)

    def take_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Blobs as files that read lazily; `None` for nulls.

        Parameters
        ----------
        blob_column
            Name of a blob column, or its path in structs.
        ids, addresses, indices
            Row ids, addresses or positions, in the order of the result. Exactly one of the three is given.
        buffer_size
            Smaller reads fetch this many bytes at once.

        Raises
        ------
        pennon.InvalidInputError
            The column does not exist or has no blobs, a position is past the end, or not exactly one of `ids`,
            `addresses` and `indices` is given.
        pennon.NotFoundError
            No row has one of the ids.
        pennon.UnsupportedError
            The row at an address is deleted; ids are addresses in a table without stable row ids.

        Examples
        --------
        >>> import pennon
        >>> from pennon.blob import blob_array, blob_field
        >>> import pyarrow as pa
        >>> data = pa.table([blob_array([b"abc", None])], schema=pa.schema([blob_field("image")]))
        >>> table = pennon.write_dataset(data, "memory://take-blobs", mode="overwrite")
        >>> [blob and blob.read() for blob in table.take_blobs("image", indices=[1, 0])]
        [None, b'abc']
        """
        checked_buffer(buffer_size)
        found = self._blobs(blob_column, ids, addresses, indices)
        return [None if blob is None else BlobFile(blob, buffer_size) for _, blob in found]

    def _blobs(
        self,
        column: str,
        ids: Sequence[int] | pa.Array | None,
        addresses: Sequence[int] | pa.Array | None,
        indices: Sequence[int] | pa.Array | None,
    ) -> list[tuple[int, _native.Blob | None]]:
        """Addresses and blobs of as many rows as are asked for, so that both can be told apart by their order."""
        found = rows.take_blobs(self._native, column, ids, addresses, indices)
        (asked,) = (given for given in (ids, addresses, indices) if given is not None)
        if len(found) == len(asked):
            return found
        if ids is not None and self._native.has_stable_row_ids:
            rows.take(self._native, "id", ids, [], missing="error")
        there = {address for address, _ in found}
        gone = [address for address in id_list(asked) if address not in there]
        raise UnsupportedError(
            f"Blobs of {len(asked)} rows are wanted, and {len(gone)} of these are deleted, the first at address"
            f" {gone[0]}. A take operation that includes row addresses must not target deleted rows"
        )

    def read_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Row addresses and bytes of blobs; rows and errors as for `take_blobs`.

        Parameters
        ----------
        blob_column
            Name of a blob column, or its path in structs.
        ids, addresses, indices
            Row ids, addresses or positions. Exactly one of the three is given.
        io_buffer_size
            Accepted, without effect.
        preserve_order
            The result is in the order of the rows asked for, whatever is given.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abc", None, b"de"])})
        >>> table = pennon.write_dataset(data, "memory://read-blobs", mode="overwrite")
        >>> table.read_blobs("image", indices=[2, 1])
        [(2, b'de'), (1, None)]
        """
        _check_buffer(io_buffer_size)
        found = self._blobs(blob_column, ids, addresses, indices)
        return [(address, None if blob is None else blob.read(0, blob.size)) for address, blob in found]

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Ranges of bytes of blobs, by rows; a row may be asked for several times.

        Parameters
        ----------
        blob_column
            Name of a blob column, or its path in structs.
        requests
            The row, the offset in its blob, and the length, for each range.
        selector
            What rows are given by.
        io_buffer_size
            Accepted, without effect.
        preserve_order
            The result is in the order of the requests, whatever is given.

        Returns
        -------
        list of tuple
            The number of the request, the row address and the bytes, `None` for a null, for each range.

        Raises
        ------
        pennon.InvalidInputError
            A range ends after its blob, or `selector` has another value; others as for `take_blobs`.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef", None])})
        >>> table = pennon.write_dataset(data, "memory://blob-ranges", mode="overwrite")
        >>> table.read_blob_ranges("image", [(0, 4, 2), (1, 0, 1), (0, 0, 1)], selector="indices")
        [(0, 0, b'ef'), (1, 1, None), (2, 0, b'a')]
        """
        _check_buffer(io_buffer_size)
        if selector not in _SELECTORS:
            raise InvalidInputError(f"selector must be one of {', '.join(_SELECTORS)}, got {selector!r}")
        asked = list(requests)
        chosen = {name: [row for row, _, _ in asked] if name == selector else None for name in _SELECTORS}
        found = self._blobs(blob_column, **chosen)
        results: list[tuple[int, int, bytes | None]] = []
        for number, ((_, offset, length), (address, blob)) in enumerate(zip(asked, found, strict=True)):
            end = end_of_range(offset, length, 2**64 if blob is None else blob.size)
            results.append((number, address, None if blob is None else blob.read(offset, end)))
        return results

    def sample(
        self, num_rows: int, columns: Columns | None = None, randomize_order: bool = True, **kwargs: Any
    ) -> pa.Table:
        """Distinct random rows, in random order or in that of the table.

        Raises
        ------
        pennon.InvalidInputError
            `num_rows` is negative, or more than the table has.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sample", mode="overwrite")
        >>> table.sample(2).num_rows
        2
        """
        refuse_unknown("sample", (), kwargs)
        count, wanted = self.count_rows(), checked_number("num_rows", num_rows)
        if wanted > count:
            raise InvalidInputError(f"num_rows is {wanted}, but the table has {counted(count, 'row')}")
        positions = random.sample(range(count), wanted)
        return self.take(positions if randomize_order else sorted(positions), columns)
