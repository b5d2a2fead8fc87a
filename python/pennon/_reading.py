"""Reading a dataset: scans, counts and takes."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from pennon._options import refuse
from pennon.blob import DEFAULT_BUFFER_SIZE, BlobFile
from pennon.errors import InvalidInputError
from pennon.scanner import LanceScanner, ScannerBuilder, native_columns

if TYPE_CHECKING:
    from pennon import _native
    from pennon._native import Blob as NativeBlob
    from pennon.fragment import LanceFragment
    from pennon.types import Columns, Filter

_NOT_OFFERED = (
    "nearest",
    "index_segments",
    "full_text_query",
    "scan_stats_callback",
    "row_addr_allowlist",
    "row_addr_blocklist",
)


class ReadableDataset(pyarrow.dataset.Dataset):
    """The part of [LanceDataset][pennon.LanceDataset] that reads rows."""

    _native: _native.Dataset
    _default_scan_options: dict[str, Any]

    def scanner(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Sequence[LanceFragment] | None = None,
        index_segments: Any | None = None,
        full_text_query: Any | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Any | None = None,
        strict_batch_size: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
    ) -> LanceScanner:
        """Plan a scan; reads nothing yet.

        Parameters
        ----------
        columns
            Names, in this order; paths of nested fields (`"point.x"`) and the system columns `_rowid`, `_rowaddr`,
            `_rowoffset`, `_row_created_at_version`, `_row_last_updated_at_version` among them. Or a dict of SQL
            expressions by the name of the column they make. All columns if not given.
        filter
            Only rows for which this is true: SQL text, or a pyarrow expression.
        limit, offset
            The number of matching rows to return, and to skip first.
        batch_size, batch_size_bytes
            The most rows, and about the most bytes, in a batch.
        strict_batch_size
            Whether every batch but the last has exactly `batch_size` rows.
        scan_in_order
            Whether rows are returned in the order of the table; true by default.
        fragments
            Only rows of these fragments.
        with_row_id, with_row_address
            Whether `_rowid`, `_rowaddr` are added at the end.
        include_deleted_rows
            Whether deleted rows are returned as well, with null row ids; requires `with_row_id`.
        use_stats
            Whether rows that cannot match the filter, according to statistics and lineage, are skipped; true by
            default.
        batch_readahead, fragment_readahead, io_buffer_size, late_materialization, use_scalar_index, \
prefilter, fast_search
            Accepted, without effect on the result.
        blob_handling
            How blob columns are returned: `"all_binary"`: bytes; `"blobs_descriptions"` or `"all_descriptions"`:
            descriptions of where the bytes are stored. By default blob v2 (`lance.blob.v2`) is returned as
            descriptions, and a legacy blob as bytes, the only form supported for it.
        nearest, full_text_query, index_segments, scan_stats_callback, order_by, \
disable_scoring_autoprojection, row_addr_allowlist, row_addr_blocklist
            Not supported.

        Raises
        ------
        pennon.InvalidInputError
            Unknown or repeated columns, a filter that does not parse or is not boolean, a negative limit.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner", mode="overwrite")
        >>> table.scanner(columns={"double": "a * 2"}, filter="a > 1").to_table().to_pylist()
        [{'double': 4}, {'double': 6}]
        """
        options = _given(locals())
        refuse(disable_scoring_autoprojection=options.pop("disable_scoring_autoprojection", False) or None)
        refuse(**{name: options.pop(name, None) for name in _NOT_OFFERED})
        options["with_fragments"] = options.pop("fragments", None)
        return ScannerBuilder(self).apply_defaults(options).to_scanner()

    def to_table(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> pa.Table:
        """Read the rows all at once; options as in `scanner`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://to-table", mode="overwrite")
        >>> table.to_table(filter="a > 1", with_row_id=True).to_pylist()
        [{'a': 2, '_rowid': 1}, {'a': 3, '_rowid': 2}]
        """
        return self.scanner(**_given(locals())).to_table()

    def to_batches(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        full_text_query: Any | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows batch by batch; options as in `scanner`. The iterator has a `schema`."""
        return self.scanner(**_given(locals()), **kwargs).to_batches()

    def to_pandas(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: dict[str, Any] | None = None,
        batch_size: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_mode: str = "lazy",
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: list[Any] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read the rows into a pandas frame; options as in `scanner`, the others as in pyarrow's `to_pandas`."""
        options = _given(locals())
        options.pop("blob_mode")
        return self.to_table(**options).to_pandas(**kwargs)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def count_rows(self, filter: Filter | None = None, **kwargs: Any) -> int:
        """Number of rows, or of the rows that match `filter`. Without a filter no data is read."""
        if filter is None and not kwargs:
            return self._native.num_rows
        return self.scanner(columns=[], filter=filter, **{"with_row_id": True, **kwargs}).count_rows()

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """The first rows; options as in `scanner`."""
        return self.to_table(limit=num_rows, **kwargs)

    def slice(self, start: int, end: int, columns: Columns | None = None) -> pa.Table:
        """The rows at positions `start` to `end`, the end left out."""
        return self.to_table(columns, limit=max(end - start, 0), offset=start)

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
        return self._take("position", indices, columns)

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
        refuse(**kargs)
        return self._take("id", row_ids, columns, ignore_deletions=ignore_deletions)

    def _take_row_addresses(self, addresses: Sequence[int] | pa.Array, columns: Columns | None = None) -> pa.Table:
        """Rows by address, `fragment << 32 | offset`; deleted rows are left out."""
        return self._take("address", addresses, columns)

    def _take(
        self,
        by: str,
        rows: Sequence[int] | pa.Array,
        columns: Columns | None,
        *,
        ignore_deletions: bool = False,
    ) -> pa.Table:
        batch = self._native.take(
            {
                "by": by,
                "rows": _numbers(rows),
                "columns": native_columns(columns),
                "with_row_id": False,
                "with_row_address": False,
                "ignore_deletions": ignore_deletions,
            }
        )
        return pa.Table.from_batches([batch])

    def take_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | pa.Array | None = None,
        addresses: Sequence[int] | pa.Array | None = None,
        indices: Sequence[int] | pa.Array | None = None,
        *,
        buffer_size: int = DEFAULT_BUFFER_SIZE,
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
        found = self._blobs(blob_column, ids, addresses, indices)
        return [None if blob is None else BlobFile(blob, buffer_size) for _, blob in found]

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

        `io_buffer_size` and `preserve_order` are accepted without effect: rows are returned in the order requested.
        """
        del io_buffer_size, preserve_order
        found = self._blobs(blob_column, ids, addresses, indices)
        return [(address, None if blob is None else blob.read(0, blob.size)) for address, blob in found]

    def _blobs(
        self,
        column: str,
        ids: Sequence[int] | pa.Array | None,
        addresses: Sequence[int] | pa.Array | None,
        indices: Sequence[int] | pa.Array | None,
    ) -> list[tuple[int, NativeBlob | None]]:
        given = {"id": ids, "address": addresses, "position": indices}
        chosen = [(by, rows) for by, rows in given.items() if rows is not None]
        if len(chosen) != 1:
            raise InvalidInputError("Exactly one of ids, addresses, or indices must be specified")
        ((by, rows),) = chosen
        return self._native.take_blobs(column, by, _numbers(rows))

    def sample(
        self, num_rows: int, columns: Columns | None = None, randomize_order: bool = True, **kwargs: Any
    ) -> pa.Table:
        """Distinct random rows, in random order or in that of the table."""
        refuse(**kwargs)
        positions = random.sample(range(self.count_rows()), num_rows)
        return self.take(positions if randomize_order else sorted(positions), columns)


def _numbers(rows: Sequence[int] | pa.Array) -> bytes:
    """Row numbers as the core takes them: 64 bits each, in native byte order."""
    if isinstance(rows, list):
        values = rows
    else:
        values = rows.to_pylist() if isinstance(rows, pa.Array | pa.ChunkedArray) else list(rows)
    try:
        return array("Q", values).tobytes()
    except OverflowError:
        wrong = min(values) if min(values) < 0 else max(values)
        raise InvalidInputError(f"Rows to take must not be negative nor exceed 64 bits, found {wrong}") from None


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options that have a value, from the `locals()` of a call."""
    return {
        name: value for name, value in arguments.items() if name not in ("self", "kwargs") and value is not None
    }
