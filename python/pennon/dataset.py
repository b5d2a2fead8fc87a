"""`LanceDataset`: a table at one version.

As a module this holds what pylance's `lance.dataset` holds; as an attribute of the package,
`pennon.dataset` is the function that opens a table.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pennon import _native
from pennon._options import refuse, strings
from pennon._time import instant, local
from pennon.errors import UnsupportedError
from pennon.fragment import LanceFragment
from pennon.scanner import LanceScanner, ScannerBuilder, native_columns
from pennon.schema import LanceField, LanceSchema
from pennon.stats import DatasetStats, LanceStats
from pennon.tags import Tag, Tags
from pennon.transaction import LanceOperation, Transaction
from pennon.types import DeleteResult, ReaderLike, Version
from pennon.write import write_dataset

if TYPE_CHECKING:
    from pennon.types import Columns, Filter, Reference

__all__ = [
    "DatasetStats",
    "DeleteResult",
    "LanceDataset",
    "LanceField",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "ReaderLike",
    "ScannerBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "Version",
    "write_dataset",
]

_SYSTEM_COLUMNS = {"with_row_id": "_rowid", "with_row_address": "_rowaddr"}


class LanceDataset(pyarrow.dataset.Dataset):
    """A table at one version.

    Made by [dataset][pennon.dataset] and [write_dataset][pennon.write_dataset], whose parameters are described
    there. Methods that change the table move the object to the version they made; after an error it stays where
    it was. It pickles as its address and version, and can be used in forked and spawned processes.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://lance-dataset", mode="overwrite")
    >>> table
    LanceDataset('memory://lance-dataset', version=1, rows=3)
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        version: Reference | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: Any | None = None,
        storage_options: dict[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: dict[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: dict[str, Any] | None = None,
        session: Any | None = None,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        *,
        asof: datetime | str | None = None,
        durability: str = "full",
    ) -> None:
        # Pyarrow's own initialiser refuses to make datasets.
        refuse(
            commit_lock=commit_lock,
            serialized_manifest=serialized_manifest,
            read_params=read_params,
            session=session,
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            base_store_params=base_store_params,
        )
        self._native = _native.Dataset.open(
            os.fspath(uri),
            version,
            None if asof is None else instant(asof),
            strings(storage_options),
            durability,
            metadata_cache_size_bytes,
        )
        self._durability = durability
        self._default_scan_options = dict(default_scan_options or {})

    @classmethod
    def _wrap(
        cls,
        native: _native.Dataset,
        *,
        durability: str = "full",
        default_scan_options: Mapping[str, Any] | None = None,
    ) -> LanceDataset:
        found = cls.__new__(cls)
        found._native = native
        found._durability = durability
        found._default_scan_options = dict(default_scan_options or {})
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        options = self._native.storage_options
        return _reopen, (self.uri, self.version, options, self._default_scan_options, self._durability)

    def __repr__(self) -> str:
        return f"LanceDataset({self.uri!r}, version={self.version}, rows={self._native.num_rows})"

    def __copy__(self) -> LanceDataset:
        return self.checkout_version(self.version)

    # What the table is.

    @property
    def uri(self) -> str:
        """Where the table was opened."""
        return self._native.uri

    @property
    def version(self) -> int:
        """The version of this object."""
        return self._native.version

    @property
    def latest_version(self) -> int:
        """The newest version there is; looked up at each call."""
        return self._native.latest_version()

    @property
    def schema(self) -> pa.Schema:
        """The columns, and the system columns that the default scan options ask for."""
        schema = self._native.schema
        for option, name in _SYSTEM_COLUMNS.items():
            if self._default_scan_options.get(option):
                schema = schema.append(pa.field(name, pa.uint64()))
        return schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""
        return LanceSchema._of(self._native.fields, self._native.schema_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the schema."""
        return self._native.schema_metadata

    def config(self) -> dict[str, str]:
        """Settings kept in the table."""
        return self._native.config

    @property
    def data_storage_version(self) -> str:
        """Version of the data files, such as `"2.2"`."""
        return self._native.data_storage_version

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return self._native.has_stable_row_ids

    @property
    def max_field_id(self) -> int:
        """The largest field id in use."""
        return self._native.max_field_id

    @property
    def stats(self) -> LanceStats:
        """Figures about the table."""
        return LanceStats(self._native)

    @property
    def partition_expression(self) -> pc.Expression:
        """Not offered, as by pylance."""
        raise UnsupportedError("Tables have no partition expression")

    def validate(self) -> None:
        """Check that the version's description of the table holds together.

        Raises
        ------
        pennon.CorruptError
            It does not; the message says where.
        """
        self._native.validate()

    # Reading.

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
            A window on the rows that match.
        batch_size, batch_size_bytes
            Bounds of a batch.
        strict_batch_size
            Whether every batch but the last has exactly `batch_size` rows.
        scan_in_order
            Whether rows come in the order of the table, as they do by default.
        fragments
            Only these.
        with_row_id, with_row_address
            Whether `_rowid`, `_rowaddr` are added at the end.
        include_deleted_rows
            Whether deleted rows come too, with null row ids; needs `with_row_id`.
        batch_readahead, fragment_readahead, io_buffer_size, late_materialization, use_stats, use_scalar_index, \
prefilter, fast_search
            Accepted, without effect on the result.
        nearest, full_text_query, index_segments, blob_handling, scan_stats_callback, order_by, \
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
        >>> table.scanner(columns={"twice": "a * 2"}, filter="a > 1").to_table().to_pylist()
        [{'twice': 4}, {'twice': 6}]
        """
        refuse(
            nearest=nearest,
            index_segments=index_segments,
            full_text_query=full_text_query,
            scan_stats_callback=scan_stats_callback,
            disable_scoring_autoprojection=disable_scoring_autoprojection or None,
            row_addr_allowlist=row_addr_allowlist,
            row_addr_blocklist=row_addr_blocklist,
        )
        given = {
            "columns": columns,
            "filter": filter,
            "limit": limit,
            "offset": offset,
            "batch_size": batch_size,
            "batch_size_bytes": batch_size_bytes,
            "batch_readahead": batch_readahead,
            "fragment_readahead": fragment_readahead,
            "scan_in_order": scan_in_order,
            "with_fragments": fragments,
            "prefilter": prefilter,
            "with_row_id": with_row_id,
            "with_row_address": with_row_address,
            "use_stats": use_stats,
            "fast_search": fast_search,
            "io_buffer_size": io_buffer_size,
            "late_materialization": late_materialization,
            "blob_handling": blob_handling,
            "use_scalar_index": use_scalar_index,
            "include_deleted_rows": include_deleted_rows,
            "strict_batch_size": strict_batch_size,
            "order_by": order_by,
        }
        options = {name: value for name, value in given.items() if value is not None}
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
        return self.scanner(
            columns,
            filter,
            limit,
            offset,
            nearest,
            batch_size,
            batch_size_bytes,
            batch_readahead,
            fragment_readahead,
            scan_in_order,
            prefilter=prefilter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            fast_search=fast_search,
            full_text_query=full_text_query,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            blob_handling=blob_handling,
            use_scalar_index=use_scalar_index,
            include_deleted_rows=include_deleted_rows,
            order_by=order_by,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
        ).to_table()

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
        return self.scanner(
            columns,
            filter,
            limit,
            offset,
            nearest,
            batch_size,
            batch_size_bytes,
            batch_readahead,
            fragment_readahead,
            scan_in_order,
            prefilter=prefilter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            full_text_query=full_text_query,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            blob_handling=blob_handling,
            use_scalar_index=use_scalar_index,
            strict_batch_size=strict_batch_size,
            order_by=order_by,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
            **kwargs,
        ).to_batches()

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
        return self.to_table(
            columns,
            filter,
            limit,
            offset,
            nearest,
            batch_size,
            None,
            batch_readahead,
            fragment_readahead,
            scan_in_order,
            prefilter=prefilter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            fast_search=fast_search,
            full_text_query=full_text_query,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            use_scalar_index=use_scalar_index,
            include_deleted_rows=include_deleted_rows,
            order_by=order_by,
            disable_scoring_autoprojection=disable_scoring_autoprojection,
        ).to_pandas(**kwargs)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def count_rows(self, filter: Filter | None = None, **kwargs: Any) -> int:
        """Number of rows, or of those that match. Without a filter nothing is read."""
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
        """Rows by position, in the order asked, repeated ones repeatedly.

        Raises
        ------
        pennon.InvalidInputError
            A position past the end.
        OverflowError
            A negative position.

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
        """Rows by row id; ids that no row has any more are left out.

        Without stable row ids, ids are addresses.
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
        values = rows.to_pylist() if isinstance(rows, pa.Array | pa.ChunkedArray) else list(rows)
        if any(value < 0 for value in values):
            raise OverflowError(f"rows to take must not be negative, found {min(values)}")
        batch = self._native.take(
            {
                "by": by,
                "rows": values,
                "columns": native_columns(columns),
                "with_row_id": False,
                "with_row_address": False,
                "ignore_deletions": ignore_deletions,
            }
        )
        return pa.Table.from_batches([batch])

    def sample(
        self, num_rows: int, columns: Columns | None = None, randomize_order: bool = True, **kwargs: Any
    ) -> pa.Table:
        """Random rows, none twice; in random order or in that of the table."""
        refuse(**kwargs)
        positions = random.sample(range(self.count_rows()), num_rows)
        return self.take(positions if randomize_order else sorted(positions), columns)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[LanceFragment]:
        """The fragments in the table's order."""
        if filter is not None:
            raise ValueError("get_fragments takes no filter: fragments are not partitions")
        return [LanceFragment(self, fragment) for fragment in self._native.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment with that id, None if there is none."""
        return next((part for part in self.get_fragments() if part.fragment_id == fragment_id), None)

    # Versions.

    @property
    def tags(self) -> Tags:
        """The tags of the table."""
        return Tags(self._native)

    def versions(self) -> list[Version]:
        """All versions, oldest first; timestamps are naive and local."""
        return [_version(entry) for entry in self._native.versions()]

    def get_version(self) -> Version:
        """This version as `versions` shows it."""
        return _version(self._native.version_info())

    def checkout_version(self, version: Reference) -> LanceDataset:
        """Another version, as a new object.

        Raises
        ------
        pennon.NotFoundError
            There is no such version or tag.
        """
        native = self._native.checkout(version)
        defaults = self._default_scan_options
        return LanceDataset._wrap(native, durability=self._durability, default_scan_options=defaults)

    def checkout_latest(self) -> None:
        """Move to the newest version."""
        self._native.checkout_latest()

    def restore(self) -> None:
        """Make this version the newest again, by a new commit.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://restore", mode="overwrite")
        >>> table.truncate_table()
        >>> table = table.checkout_version(1)
        >>> table.restore()
        >>> table
        LanceDataset('memory://restore', version=3, rows=2)
        """
        self._native.restore()

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version, None if it was not kept."""
        parts = self._native.read_transaction(version)
        return None if parts is None else Transaction._of(parts)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of the newest versions up to this one, newest first."""
        found = self._native.get_transactions(recent_transactions)
        return [None if parts is None else Transaction._of(parts) for parts in found]

    # Changes.

    def insert(self, data: ReaderLike, *, mode: str = "append", **kwargs: Any) -> None:
        """Append rows, or overwrite the table, and move to the new version.

        Parameters and errors as in [write_dataset][pennon.write_dataset].
        """
        write_dataset(data, self, mode=mode, **kwargs)

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
    ) -> DeleteResult:
        """Delete the rows for which a predicate is true, and move to the new version.

        Parameters
        ----------
        predicate
            SQL text; rows for which it is null stay.
        conflict_retries
            Repetitions on the newest version when others changed the same rows meanwhile.
        retry_timeout
            No repetition is begun after this time.

        Raises
        ------
        pennon.InvalidInputError
            The predicate does not parse, names an unknown column, or is not boolean.
        pennon.CommitConflictError
            All tries met conflicts.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delete", mode="overwrite")
        >>> table.delete("a >= 2")
        {'num_deleted_rows': 2}
        """
        if not isinstance(predicate, str):
            raise UnsupportedError("Give the predicate of a delete as SQL text")
        return {"num_deleted_rows": self._native.delete(predicate, conflict_retries, retry_timeout)}

    def truncate_table(self) -> None:
        """Delete all rows; the schema stays."""
        self._native.truncate()

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: dict[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a table with all its versions.

        Raises
        ------
        pennon.NotFoundError
            There is none, unless `ignore_not_found`.
        """
        _native.Dataset.drop_table(os.fspath(base_uri), strings(storage_options), bool(ignore_not_found))

    # What pyarrow's class would do with data of its own.

    def filter(self, expression: pc.Expression) -> NoReturn:
        """Not supported; use the filter of `scanner`."""
        raise UnsupportedError("filter is not supported; use scanner(filter=...)")

    def join(
        self,
        right_dataset: Any,
        keys: Any,
        right_keys: Any = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> NoReturn:
        """Not supported; use duckdb or polars."""
        raise UnsupportedError("join is not supported")

    def join_asof(
        self,
        right_dataset: Any,
        on: str,
        by: Any,
        tolerance: int,
        right_on: str | None = None,
        right_by: Any = None,
    ) -> NoReturn:
        """Not supported; use duckdb or polars."""
        raise UnsupportedError("join_asof is not supported")

    def sort_by(self, sorting: Any, **kwargs: Any) -> NoReturn:
        """Not supported; sort the table that was read."""
        raise UnsupportedError("sort_by is not supported")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported, as by pylance."""
        raise UnsupportedError("replace_schema is not supported")


def _version(entry: _native.VersionEntry) -> Version:
    return {
        "version": entry["version"],
        "timestamp": local(entry["timestamp"]),
        "metadata": entry["metadata"],
    }


def _reopen(
    uri: str, version: int, options: dict[str, str], scan_options: dict[str, Any], durability: str
) -> LanceDataset:
    """Unpickles a dataset."""
    return LanceDataset(
        uri, version, storage_options=options, default_scan_options=scan_options, durability=durability
    )
