"""Scans of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._methods.base import TableMethods
from pennon._options import checked_number, refuse_unknown
from pennon._table.scans import ScanOptions, given, given_of
from pennon.errors import InvalidInputError
from pennon.scanner import LanceScanner, scan
from pennon.sql import SqlQueryBuilder

if TYPE_CHECKING:
    from pennon._protocols import Numbered
    from pennon.types import BlobHandling, BlobMode, ColumnOrdering, Columns, Filter


class ScanMethods(TableMethods):
    """The methods of `LanceDataset` that scan."""

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
        fragments: Sequence[Numbered] | None = None,
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
        blob_handling: BlobHandling | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Any | None = None,
        strict_batch_size: bool | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
        strict_indices: bool | None = None,
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
            The most rows, and about the most bytes, in a batch. The environment variable `LANCE_DEFAULT_BATCH_SIZE`
            may name the rows; they are 8,192 otherwise.
        strict_batch_size
            Whether every batch but the last has exactly `batch_size` rows.
        scan_in_order
            Whether rows are returned in the order of the table; true by default.
        fragments
            Only rows of these fragments; together with `nearest` this needs `prefilter`.
        with_row_id, with_row_address
            Whether `_rowid`, `_rowaddr` are added at the end.
        include_deleted_rows
            Whether deleted rows are returned as well, with null row ids; requires `with_row_id`.
        use_stats
            Whether rows that cannot match the filter, according to statistics and lineage, are skipped; true by
            default.
        use_scalar_index
            Whether indices over values answer the filter; true by default. The result is the same.
        fast_search
            Whether rows that no index covers are left out, where indices answer the filter or find the nearest
            vectors; false by default.
        batch_readahead, fragment_readahead, io_buffer_size, late_materialization
            Accepted, without effect.
        nearest
            Only the rows whose vectors are nearest to a query, the nearest first, with their `_distance` after the
            columns: a dict with `column`, `q`, and more, which
            [ScannerBuilder.nearest][pennon.ScannerBuilder.nearest] describes.
        prefilter
            Whether the filter says which rows are searched for the nearest, rather than which of them are kept.
        disable_scoring_autoprojection
            Whether `_distance` is left out unless it is among the columns.
        blob_handling
            How blob columns are returned: `"all_binary"`: bytes; `"blobs_descriptions"` or `"all_descriptions"`:
            descriptions of where the bytes are stored, which is the default. Filters and SQL columns see the same:
            of a description the members, such as `image.size > 1000`.
        order_by
            Columns to sort by, the first one foremost: names, for ascending values and nulls last, or
            [ColumnOrdering][pennon.dataset.ColumnOrdering]. Rows that are equal keep their order; floats are in
            their total order, NaN after infinity. With a `limit` not much more than the rows of the result is held
            in memory, otherwise all of them. Lists and maps have no order.
        strict_indices
            Whether an index that would be used and cannot be read is an error, rather than a warning in the log and
            a scan of the rows that it covers.
        full_text_query, index_segments, scan_stats_callback, row_addr_allowlist, row_addr_blocklist
            Not supported.

        Raises
        ------
        pennon.InvalidInputError
            Unknown or repeated columns, a filter that does not parse or is not boolean, a negative limit, a query
            that does not fit its column.
        pennon.UnsupportedError
            A full-text query, for which there is pylance, or another option that is not supported.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner", mode="overwrite")
        >>> table.scanner(columns={"double": "a * 2"}, filter="a > 1").to_table().to_pylist()
        [{'double': 4}, {'double': 6}]
        """
        options = given_of(locals())
        return scan(self, options)

    def _scan(self, options: ScanOptions) -> LanceScanner:
        return scan(self, options, with_defaults=False)

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
        blob_handling: BlobHandling | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        strict_indices: bool | None = None,
    ) -> pa.Table:
        """Read the rows all at once; options as in `scanner`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://to-table", mode="overwrite")
        >>> table.to_table(filter="a > 1", with_row_id=True).to_pylist()
        [{'a': 2, '_rowid': 1}, {'a': 3, '_rowid': 2}]
        """
        options = given_of(locals())
        return scan(self, options).to_table()

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
        blob_handling: BlobHandling | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        strict_indices: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows batch by batch; options as in `scanner`.

        The iterator has a `schema`, and `close()` ends the read.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://to-batches", mode="overwrite")
        >>> [batch.num_rows for batch in table.to_batches(filter="a > 1", batch_size=1)]
        [1, 1]
        """
        options = given_of(locals())
        return self.scanner(**options, **kwargs).to_batches()

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
        blob_mode: BlobMode = "lazy",
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        disable_scoring_autoprojection: bool | None = None,
        strict_indices: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read the rows into a pandas frame.

        Options as in `scanner`; `blob_mode` and the others as in [LanceScanner][pennon.LanceScanner.to_pandas].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://to-pandas-of", mode="overwrite")
        >>> table.to_pandas()["a"].tolist()
        [1, 2, 3]
        """
        options = given_of(locals())
        return scan(self, options).to_pandas(blob_mode=blob_mode, **kwargs)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def count_rows(self, filter: Filter | None = None, **kwargs: Any) -> int:
        """Number of rows, or of the rows that match `filter`; other options are those of `scanner`.

        Without a filter no data is read. The default scan options of the dataset are not used.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://count-rows", mode="overwrite")
        >>> table.count_rows(), table.count_rows("a > 1")
        (3, 2)
        """
        if filter is None and not kwargs:
            return self._native.num_rows
        refuse_unknown(
            "count_rows", (), {name: kwargs[name] for name in kwargs.keys() - ScanOptions.__annotations__}
        )
        options: Any = {"columns": [], "filter": filter, "with_row_id": True, **kwargs}
        return self._scan(given(**options)).count_rows()

    def sql(self, sql: str) -> SqlQueryBuilder:
        """A query over the table, which it calls `dataset`, in the dialect of DataFusion.

        DataFusion, an optional package (`pip install datafusion`), executes it. The columns that the query needs
        and most parts of its WHERE are left to the scan. The version is that of the dataset at `build`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql", mode="overwrite")
        >>> query = table.sql("SELECT sum(a) AS total FROM dataset WHERE a > 1").build()
        >>> query.to_batch_records()[0].to_pylist()
        [{'total': 5}]
        """
        return SqlQueryBuilder(self, sql)

    def head(self, num_rows: int = 5, **kwargs: Any) -> pa.Table:
        """The first rows; options as in `scanner`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://head", mode="overwrite")
        >>> table.head(2)["a"].to_pylist()
        [1, 2]
        """
        return self.to_table(**{**kwargs, "limit": checked_number("num_rows", num_rows)})

    def slice(self, start: int, end: int, columns: Columns | None = None) -> pa.Table:
        """The rows at positions `start` to `end`, the end left out; a range may reach past the end of the table.

        Raises
        ------
        pennon.InvalidInputError
            `start` is negative, or `end` is before it.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://slice", mode="overwrite")
        >>> table.slice(1, 3)["a"].to_pylist()
        [2, 3]
        """
        start, end = checked_number("start", start), checked_number("end", end)
        if end < start:
            raise InvalidInputError(f"end must be >= start, got {end}, and {start}")
        return self.to_table(columns, limit=end - start, offset=start)
