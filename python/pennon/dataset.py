"""`LanceDataset`: a table at one version.

The module contains what pylance's `lance.dataset` contains; the attribute `pennon.dataset` of the
package is the function that opens a table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon import _native
from pennon._compatibility import explain_absent_names
from pennon._input import to_input
from pennon._lance_api import DatasetApi
from pennon._methods.base import unpickled
from pennon._methods.columns import ColumnMethods
from pennon._methods.history import HistoryMethods
from pennon._methods.index_parts import IndexPartMethods
from pennon._methods.indices import IndexMethods
from pennon._methods.rows import RowMethods
from pennon._methods.state import StateMethods
from pennon._methods.updates import UpdateMethods
from pennon._methods.upkeep import UpkeepMethods
from pennon._methods.versions import VersionMethods
from pennon._options import (
    check_read_params,
    checked_reference,
    deprecated,
    file_version,
    ignored,
    located,
    location,
    lock,
    refuse,
    strings,
    unless,
)
from pennon._table import commits, writing
from pennon._table.observed import observed
from pennon._table.references import open_native
from pennon._time import instant
from pennon.bitmap import Bitmap
from pennon.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from pennon.branches import Branch, Branches
from pennon.cleanup import AutoCleanupConfig, CleanupExplanation, CleanupStats, auto_cleanup_config
from pennon.delta import DatasetDelta
from pennon.errors import InvalidInputError, InvalidTypeError
from pennon.fragment import LanceFragment
from pennon.indices import IndexConfig, IndexInformation
from pennon.merge_insert import MergeInsertBuilder
from pennon.metadata import DataFile, FragmentMetadata
from pennon.optimize import Compaction, CompactionMetrics, DatasetOptimizer
from pennon.scanner import LanceScanner, ScannerBuilder
from pennon.schema import LanceField, LanceSchema
from pennon.session import Session, native_session
from pennon.sql import SqlQuery, SqlQueryBuilder
from pennon.stats import DatasetStats, DataStatistics, FieldStatistics, IOStats, LanceStats
from pennon.tags import Tag, Tags
from pennon.transaction import (
    LANCE_COMMIT_MESSAGE_KEY,
    DatasetBasePath,
    Index,
    IndexFile,
    LanceOperation,
    Transaction,
)
from pennon.types import (
    AlterColumn,
    BulkCommitResult,
    ColumnOrdering,
    DeleteResult,
    ExecuteResult,
    ReaderLike,
    UpdateResult,
    Version,
    VersionRef,
)
from pennon.udf import BatchUDF, BatchUDFCheckpoint, batch_udf

if TYPE_CHECKING:
    from pennon._table.observed import WriteProgress
    from pennon.types import CommitLock, Durability, ExternalBlobMode, FileVersion, Reference, WriteMode

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "BatchUDF",
    "BatchUDFCheckpoint",
    "Bitmap",
    "BlobFile",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "CleanupExplanation",
    "CleanupStats",
    "ColumnOrdering",
    "Compaction",
    "CompactionMetrics",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "DeleteResult",
    "ExecuteResult",
    "FieldStatistics",
    "FragmentMetadata",
    "IOStats",
    "Index",
    "IndexConfig",
    "IndexFile",
    "IndexInformation",
    "LanceDataset",
    "LanceField",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "MergeInsertBuilder",
    "ReaderLike",
    "ScannerBuilder",
    "Session",
    "SqlQuery",
    "SqlQueryBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "Version",
    "VersionRef",
    "batch_udf",
    "write_dataset",
]

explain_absent_names(__name__)

_COMMIT_TIMEOUT = timedelta(minutes=30)


class LanceDataset(
    StateMethods,
    RowMethods,
    ColumnMethods,
    UpdateMethods,
    HistoryMethods,
    VersionMethods,
    UpkeepMethods,
    IndexMethods,
    IndexPartMethods,
    DatasetApi,
):
    """A table at one version.

    Made by [dataset][pennon.dataset] and [write_dataset][pennon.write_dataset], whose parameters are described
    there. Methods that change the table move the object to the version they made; after an error the object keeps
    its version. It pickles as its absolute URI and version, without a commit lock, and can be used in forked and
    spawned processes; what was unpickled is opened when it is first used.

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
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: dict[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: dict[str, Any] | None = None,
        session: Session | None = None,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        *,
        asof: datetime | str | None = None,
        durability: Durability = "full",
        commit_timeout: timedelta | None = None,
        max_retries: int | None = None,
    ) -> None:
        # Pyarrow's own initialiser refuses to make datasets.
        if index_cache_size is not None:
            deprecated("index_cache_size", "index_cache_size_bytes")
        ignored(
            block_size=block_size,
            metadata_cache_size=metadata_cache_size,
            index_cache_size_bytes=index_cache_size_bytes,
        )
        check_read_params(read_params)
        refuse(
            serialized_manifest=serialized_manifest,
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            base_store_params=base_store_params,
        )
        address, version = location(uri), checked_reference("version", version)
        with located(address, version):
            request: _native.OpenRequest = {
                "version": version,
                "asof": None if asof is None else instant(asof),
                "storage_options": strings(storage_options),
                "durability": durability,
                "cache_bytes": metadata_cache_size_bytes,
                "session": native_session(session),
                "commit_lock": lock(commit_lock),
                "commit_timeout": commit_timeout,
                "max_retries": max_retries,
            }
            self._native = open_native(address, request)
        self._default_scan_options = dict(default_scan_options or {})

    def __reduce__(self) -> tuple[Any, ...]:
        native = self._native
        where = (native.absolute_uri, native.version, native.storage_options)
        settings = (*native.commit_settings, native.uncommitted_columns)
        return unpickled, (type(self), self._default_scan_options, *where, *settings)

    def __copy__(self) -> LanceDataset:
        return self._like(self._native.copy())

    @staticmethod
    def _written(
        data: ReaderLike, uri: str | os.PathLike[str] | LanceDataset, mode: WriteMode, **options: Any
    ) -> LanceDataset:
        return write_dataset(data, uri, mode=mode, **options)

    @staticmethod
    def commit(
        base_uri: str | os.PathLike[str] | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = _COMMIT_TIMEOUT,
        durability: Durability | None = None,
    ) -> LanceDataset:
        """Commit an operation or a transaction.

        A transaction whose uuid is already committed is not committed again: the version it made is returned.

        Parameters
        ----------
        base_uri
            Where the table is or will be, or a dataset, which keeps its version.
        operation
            What to commit. A [Transaction][pennon.Transaction] has its own read version and properties.
        read_version
            The version that the operation was made for. An `Overwrite` or `Restore` without one is committed on
            top of the newest version.
        commit_lock
            A function from the number of the new version to a context manager, which is entered at each attempt and
            held while the manifest is written. An exception on entering stops the commit.
        storage_options
            Keys and values for the object store.
        enable_v2_manifest_paths, enable_stable_row_ids
            As in [write_dataset][pennon.write_dataset], for a table that is created. By default rows keep their
            ids, unless `write_fragments` was called with `enable_stable_row_ids=False`.
        detached
            Whether to commit on top of the version that was read, outside the table's history: such a version can
            only be opened by its number, and it conflicts with nothing.
        max_retries
            Attempts while other writers commit first, at least one. With 0 an `Overwrite` is refused if another
            writer committed after its read version.
        commit_message
            Text to keep in the transaction.
        namespace_client, table_id, namespace_client_managed_versioning, base_store_params
            Not supported.
        commit_timeout
            No retry starts after this time.
        durability
            What the commit survives: a power cut (`"full"`, the default), or a crash of the process (`"os"`).

        Raises
        ------
        pennon.InvalidTypeError
            `operation` is not a `LanceOperation` or `Transaction`.
        pennon.InvalidInputError
            A fragment, schema or setting is invalid, or `read_version` is missing.
        pennon.NotFoundError
            There is no such table or version.
        pennon.CommitConflictError
            Another writer committed a change that this one conflicts with.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://commit", mode="overwrite")
        >>> new = pennon.fragment.write_fragments({"a": [3]}, table)
        >>> append = pennon.LanceOperation.Append(new)
        >>> table = pennon.LanceDataset.commit(table, append, read_version=1, commit_message="three")
        >>> table.read_transaction(2).transaction_properties
        {'__lance_commit_message': 'three'}
        """
        refuse(
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            base_store_params=base_store_params,
        )
        transaction = commits.transaction_of(operation, read_version, commit_message)
        dataset = base_uri if isinstance(base_uri, LanceDataset) else None
        uri = dataset.uri if dataset is not None else location(base_uri, "base_uri")
        stored = {**({} if dataset is None else dataset._native.storage_options), **strings(storage_options)}
        options: _native.CommitOptions = {
            "storage_options": stored,
            "durability": durability or (dataset._native.commit_settings[0] if dataset is not None else "full"),
            "max_retries": max_retries,
            "timeout": _COMMIT_TIMEOUT if commit_timeout is None else commit_timeout,
            "enable_stable_row_ids": commits.stable_row_ids(transaction, enable_stable_row_ids),
            "enable_v2_manifest_paths": enable_v2_manifest_paths is not False,
            "detached": bool(detached),
            "commit_lock": lock(commit_lock),
        }
        try:
            with located(uri, transaction.read_version):
                native = _native.commit(uri, None if dataset is None else dataset._native, transaction, options)
        except TypeError as error:
            raise commits.with_causes(error) from error
        defaults = dataset._default_scan_options if dataset is not None else None
        return LanceDataset._wrap(native, default_scan_options=defaults)

    @staticmethod
    def commit_batch(
        dest: str | os.PathLike[str] | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: CommitLock | None = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = _COMMIT_TIMEOUT,
        durability: Durability | None = None,
    ) -> BulkCommitResult:
        """Commit several appends at once.

        Parameters as in `commit`. The properties of the transactions are not kept.

        Returns
        -------
        dict
            `dataset`, the new version, and `merged`, the transaction that made it.

        Raises
        ------
        pennon.InvalidInputError
            There are no transactions.
        pennon.UnsupportedError
            One of the transactions is not an append.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://commit-batch", mode="overwrite")
        >>> write = pennon.fragment.write_fragments
        >>> parts = [write({"a": [a]}, table, return_transaction=True) for a in (2, 3)]
        >>> pennon.LanceDataset.commit_batch(table, parts)["dataset"]
        LanceDataset('memory://commit-batch', version=2, rows=3)
        """
        for transaction in transactions:
            if not isinstance(transaction, Transaction):
                raise InvalidTypeError(f"transactions must be Transaction objects, got {type(transaction)}")
            commits.check_read_version(transaction.read_version)
        merged = Transaction._of(_native.merge_appends(list(transactions)))
        dataset = LanceDataset.commit(
            dest,
            merged,
            commit_lock=commit_lock,
            storage_options=storage_options,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            detached=detached,
            max_retries=max_retries,
            base_store_params=base_store_params,
            commit_timeout=commit_timeout,
            durability=durability,
        )
        return {"dataset": dataset, "merged": merged}


def write_dataset(
    data_obj: ReaderLike,
    uri: str | os.PathLike[str] | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: WriteMode = "create",
    *,
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = writing.DEFAULT_MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: CommitLock | None = None,
    progress: WriteProgress = None,
    storage_options: dict[str, str] | None = None,
    data_storage_version: FileVersion | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool | None = None,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: dict[str, str] | None = None,
    initial_bases: list[DatasetBasePath] | None = None,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: ExternalBlobMode = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any | None = None,
    table_id: list[str] | None = None,
    session: Session | None = None,
    durability: Durability | None = None,
    commit_timeout: timedelta | None = None,
    max_retries: int | None = None,
    compatible_with: str | None = None,
) -> LanceDataset:
    """Write rows to a table.

    The rows are streamed. If their producer raises, that exception is raised here and nothing is committed.

    Parameters
    ----------
    data_obj
        Anything with `__arrow_c_stream__`, such as tables and frames of pyarrow, polars and duckdb; a pyarrow
        dataset or scanner, a frame of pandas, a dataset of Hugging Face, a list of dicts or of models of pydantic,
        a dict of lists, or an iterable of record batches. What is appended may have other Arrow types with the same
        values, such as `large_string` for `string`.
    uri
        Where the table is or will be, or a dataset of it, which stays at its version.
    schema
        Schema of the data, if it has none of its own; the batches of an iterable are cast to it. By default values
        of Python and pandas that are appended get the types of the table, and others those that pyarrow infers.
        Values that would change are refused; only floats are rounded. Levels of the index of a frame that have
        names are columns, unless it is a plain range; without a name they are left out.
    mode
        `create` fails if the table exists; `append` and `overwrite` create it if it does not.
    max_rows_per_file, max_bytes_per_file
        Rows, and bytes, after which a new fragment is started.
    max_page_bytes
        Bytes of values after which a page of a column is written.
    storage_options
        Keys and values for the object store.
    data_storage_version
        Version of the data files of a new table, or of one that is overwritten: `"2.0"`, `"2.1"`, `"2.2"`, or
        `"stable"`, which is 2.2.
    use_legacy_format
        Deprecated: false means `data_storage_version="stable"`, true is not supported.
    enable_v2_manifest_paths
        Whether a new table names its manifests so that the newest is listed first.
    enable_stable_row_ids
        Whether the rows of a new table keep their ids when they move. pylance's default is False; Pennon's is True,
        unless `compatible_with` names a release that needs tables without such ids.
    compatible_with
        The oldest release of pylance that shall read the table, such as `"pylance 1.0"`. A new table gets the
        newest file version and the options that this release reads. Its config keeps the name, as
        `pennon.compatible_with`, and later calls that would write newer data files are refused. A table that exists
        must be one that the release reads.
    auto_cleanup_options
        After every `interval` commits (20), versions older than `older_than_seconds` (14 days) are removed as by
        [cleanup_old_versions][pennon.LanceDataset.cleanup_old_versions]; tagged ones are kept. Stored in the config
        of a new table; no effect on an existing one.
    commit_message, transaction_properties
        Texts to keep in the transaction.
    initial_bases
        Further roots for the files of a new table. For an existing table,
        [add_bases][pennon.LanceDataset.add_bases] registers them.
    target_bases
        Names or paths of base paths: the data files are written to them in turn. The URI of the table means its own
        root.
    target_all_bases
        Write to all base paths in turn; if true, the table's own root takes the first turn.
    commit_lock
        A function from the number of the new version to a context manager, which is held while the manifest is
        written, also by later commits through the result. An exception on entering is raised here, and nothing is
        committed; an exception on leaving is raised although the version exists.
    durability
        What the commit survives: a power cut (`"full"`, the default), or a crash of the process (`"os"`).
    commit_timeout
        No retry of the commit starts after this time: by default that of the dataset, or half an hour.
    max_retries
        Attempts while other writers commit first, at least one: by default those of the dataset, or 20.
    session
        Caches to share with other tables; a dataset as `uri` has its own.
    progress
        Receives progress: a [FragmentWriteProgress][pennon.progress.FragmentWriteProgress], whose
        `begin` and `complete` are called for each fragment, without its files, which have no names yet; or a
        function, which is called with the [Progress][pennon.jobs.Progress] so far. An exception of theirs is raised
        here: nothing is committed, no file is left. True for a bar of tqdm, False for nothing; by default a bar,
        where tqdm is installed and somebody is watching: in a terminal or a notebook, after two seconds.
    external_blob_mode
        What becomes of blobs that are given by their URI: `"reference"` stores it, `"ingest"` copies the bytes.
    allow_external_blob_outside_bases
        Whether `"reference"` may store URIs; otherwise a blob with a URI is an error.
    blob_pack_file_size_threshold
        Bytes after which a new file for several blobs is started, if the field does not say it; 1 GiB.
    max_rows_per_group, data_cache_bytes
        Accepted, without effect.
    base_store_params, namespace_client, table_id
        Not supported.

    Raises
    ------
    pennon.AlreadyExistsError
        The table exists and the mode is `create`.
    pennon.SchemaMismatchError
        The rows of an append do not fit the table.
    pennon.InvalidInputError
        An option has an invalid value, or it or the table contradicts `compatible_with`. A type of the schema or
        the table would change a value, or the data has a column that the schema does not have.
    pennon.CommitConflictError
        Another writer committed a change that this write conflicts with.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> table = pennon.write_dataset(pa.table({"a": [1, 2]}), "memory://write", mode="overwrite")
    >>> pennon.write_dataset(pa.table({"a": [3]}), table, mode="append")
    LanceDataset('memory://write', version=2, rows=3)
    """
    refuse(
        base_store_params=base_store_params,
        namespace_client=namespace_client,
        table_id=table_id,
    )
    ignored(max_rows_per_group=unless(max_rows_per_group, 1024), data_cache_bytes=data_cache_bytes)
    if uri is None:
        raise InvalidInputError("A uri is required: namespaces are not supported")
    table = uri if isinstance(uri, LanceDataset) else None
    handle, version = (None, None) if table is None else (table._native, table.version)
    address = location(uri if table is None else table.uri)
    config = None if auto_cleanup_options is None else auto_cleanup_config(auto_cleanup_options)
    options = writing.native_options(
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        data_storage_version=file_version(use_legacy_format, data_storage_version),
        enable_stable_row_ids=enable_stable_row_ids,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        config=config,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        commit_message=commit_message,
        transaction_properties=transaction_properties,
        storage_options=storage_options,
        durability=durability,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
        commit_lock=lock(commit_lock),
        commit_timeout=commit_timeout,
        max_retries=max_retries,
        session=native_session(session),
    )
    with located(address, version):
        handle = handle or writing.appended_to(data_obj, schema, address, options)
        writing.for_reader(options, compatible_with, enable_stable_row_ids, address, handle)
    rows = to_input(data_obj, schema, writing.types_of(handle, options))
    with observed(rows, progress, max_rows_per_file) as reader, located(address, version):
        if handle is None:
            native = _native.write(reader, address, options)
        else:
            native = handle.copy()
            native.insert(reader, options)
    return LanceDataset._wrap(native, default_scan_options=None if table is None else table._default_scan_options)
