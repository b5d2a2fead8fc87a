"""`write_dataset`: create, append, overwrite; `write_fragments`: the files alone."""

from __future__ import annotations

from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._input import to_input
from pennon._options import lock, refuse, strings
from pennon.cleanup import AutoCleanupConfig, auto_cleanup_config
from pennon.errors import InvalidInputError
from pennon.session import native_session

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.dataset import LanceDataset
    from pennon.metadata import FragmentMetadata
    from pennon.session import Session
    from pennon.transaction import DatasetBasePath, Transaction
    from pennon.types import ReaderLike

__all__ = ["write_dataset", "write_fragments"]


def native_options(**given: Any) -> _native.WriteOptions:
    """The options of a write as the core takes them, with its defaults for those not given."""
    options: _native.WriteOptions = {
        "mode": "create",
        "max_rows_per_file": 1024 * 1024,
        "max_bytes_per_file": 90 * 1024**3,
        "max_page_bytes": None,
        "data_storage_version": None,
        "enable_stable_row_ids": True,
        "enable_v2_manifest_paths": True,
        "config": {},
        "initial_bases": [],
        "target_bases": None,
        "target_all_bases": None,
        "commit_message": None,
        "transaction_properties": {},
        "storage_options": {},
        "durability": None,
        "external_blob_mode": "reference",
        "allow_external_blob_outside_bases": False,
        "blob_pack_file_size_threshold": None,
        "commit_lock": None,
        "commit_timeout": None,
        "max_retries": None,
        "session": None,
    }
    options.update({name: value for name, value in given.items() if value is not None})  # type: ignore[typeddict-item]
    options["storage_options"] = strings(options["storage_options"])
    options["transaction_properties"] = strings(options["transaction_properties"])
    return options


def write_dataset(
    data_obj: ReaderLike,
    uri: str | PathLike[str] | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = 90 * 1024**3,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: Any | None = None,
    progress: Any | None = None,
    storage_options: dict[str, str] | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = True,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: dict[str, str] | None = None,
    initial_bases: list[DatasetBasePath] | None = None,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any | None = None,
    table_id: list[str] | None = None,
    session: Session | None = None,
    durability: str | None = None,
    commit_timeout: timedelta | None = None,
    max_retries: int | None = None,
) -> LanceDataset:
    """Write rows to a table.

    The rows are streamed. If their producer raises, that exception is raised here and nothing is committed.

    Parameters
    ----------
    data_obj
        Anything with `__arrow_c_stream__`, such as tables and frames of pyarrow, polars and duckdb; a pyarrow
        dataset or scanner, a pandas frame, a list of dicts, a dict of lists, or an iterable of record batches.
    uri
        Where the table is or will be, or a dataset, which moves to the new version.
    schema
        Schema of the data, if it has none of its own.
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
    enable_v2_manifest_paths
        Whether a new table names its manifests so that the newest is listed first.
    enable_stable_row_ids
        Whether the rows of a new table keep their ids when they move. pylance's default is False.
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
    max_rows_per_group, data_cache_bytes
        Accepted, without effect.

    Raises
    ------
    pennon.AlreadyExistsError
        The table exists and the mode is `create`.
    pennon.SchemaMismatchError
        The rows of an append do not fit the table.
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
    from pennon.dataset import LanceDataset

    refuse(
        progress=progress,
        use_legacy_format=use_legacy_format or None,
        base_store_params=base_store_params,
        namespace_client=namespace_client,
        table_id=table_id,
    )
    if uri is None:
        raise InvalidInputError("A uri is required: namespaces are not supported")
    table = uri if isinstance(uri, LanceDataset) else None
    options = native_options(
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        data_storage_version=data_storage_version,
        enable_stable_row_ids=enable_stable_row_ids,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        config=None if auto_cleanup_options is None else auto_cleanup_config(auto_cleanup_options),
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
    reader = to_input(data_obj, schema)
    if table is not None:
        native = table._native.copy()
        native.insert(reader, options)
        return LanceDataset._wrap(native, default_scan_options=table._default_scan_options)
    native = _native.write(reader, fspath(uri), options)
    return LanceDataset._wrap(native)


def write_fragments(
    data: ReaderLike,
    dataset_uri: str | PathLike[str] | LanceDataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int = 90 * 1024**3,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    progress: Any | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    storage_options: dict[str, str] | None = None,
    enable_stable_row_ids: bool = True,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: list[Any] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    namespace_client: Any | None = None,
    table_id: list[str] | None = None,
    session: Session | None = None,
    durability: str | None = None,
) -> list[FragmentMetadata] | Transaction:
    """Write rows to files that no version refers to yet; [LanceDataset.commit][pennon.LanceDataset] commits them.

    Parameters
    ----------
    data, schema
        Rows, as in [write_dataset][pennon.write_dataset].
    dataset_uri
        Where the table is or will be, or a dataset, whose version is then the read version.
    return_transaction
        Whether to return the transaction instead of its fragments.
    mode
        `append` when they will be added to the table, whose schema the rows must fit; `overwrite` when they will
        replace its content; `create` fails if the table exists.
    enable_stable_row_ids
        Whether the rows keep their ids when they move, if the commit creates a table. pylance's default is False,
        and pylance does not pass the choice to the commit.
    max_rows_per_file, max_bytes_per_file, max_page_bytes, data_storage_version, storage_options, session,
    durability
        As in [write_dataset][pennon.write_dataset].
    initial_bases, target_bases, target_all_bases
        As in [write_dataset][pennon.write_dataset]; initial bases are registered only by a transaction.
    max_rows_per_group, data_cache_bytes
        Accepted, without effect.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1]}, "memory://write-fragments", mode="overwrite")
    >>> transaction = pennon.fragment.write_fragments({"a": [2]}, table, return_transaction=True)
    >>> pennon.LanceDataset.commit(table, transaction)
    LanceDataset('memory://write-fragments', version=2, rows=2)
    """
    refuse(
        progress=progress,
        use_legacy_format=use_legacy_format or None,
        base_store_params=base_store_params,
        namespace_client=namespace_client,
        table_id=table_id,
    )
    transaction = uncommitted(
        data,
        dataset_uri,
        schema,
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        data_storage_version=data_storage_version,
        storage_options=storage_options,
        enable_stable_row_ids=enable_stable_row_ids,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        durability=durability,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        session=native_session(session),
    )
    fragments: list[FragmentMetadata] = transaction.operation.fragments  # type: ignore[attr-defined]
    for fragment in fragments:
        fragment._stable_row_ids = enable_stable_row_ids
    return transaction if return_transaction else fragments


def uncommitted(
    data: ReaderLike,
    dataset_uri: str | PathLike[str] | LanceDataset,
    schema: pa.Schema | None,
    **options: Any,
) -> Transaction:
    """The transaction of files that no version refers to yet."""
    from pennon.dataset import LanceDataset
    from pennon.transaction import Transaction

    reader = to_input(data, schema)
    if isinstance(dataset_uri, LanceDataset):
        parts = dataset_uri._native.insert_uncommitted(reader, native_options(**options))
    else:
        parts = _native.write_uncommitted(reader, fspath(dataset_uri), native_options(**options))
    return Transaction._of(parts)
