"""Rows written to a table: the options of the core, and files that no version refers to yet."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from pennon import _native, _readers
from pennon._input import has_no_types, to_input
from pennon._options import checked_number, file_version, ignored, location, refuse, strings, unless
from pennon._table.handles import handle_of
from pennon._table.observed import announce, observed
from pennon.errors import InvalidInputError, NotFoundError, UnsupportedError
from pennon.session import native_session
from pennon.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon._protocols import Handle
    from pennon._table.observed import WriteProgress
    from pennon.metadata import FragmentMetadata
    from pennon.session import Session
    from pennon.types import Durability, ExternalBlobMode, FileVersion, ReaderLike, WriteMode

DEFAULT_MAX_BYTES_PER_FILE = 90 * 1024**3
"""Bytes after which a data file is completed and another one is started."""


def native_options(**given: Any) -> _native.WriteOptions:
    """The options of a write as the core takes them, with its defaults for those not given."""
    options: _native.WriteOptions = {
        "mode": "create",
        "max_rows_per_file": 1024 * 1024,
        "max_bytes_per_file": DEFAULT_MAX_BYTES_PER_FILE,
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
    if options["mode"] == "append" and options["data_storage_version"] in ("legacy", "0.1"):
        raise UnsupportedError(
            "Data files of version 0.1 cannot be written: V1 and V2 storage versions cannot be mixed in a table"
        )
    for name in ("max_rows_per_file", "max_bytes_per_file", "max_page_bytes", "blob_pack_file_size_threshold"):
        if options[name] is not None:
            checked_number(name, options[name])
    if options["max_page_bytes"] == 0:
        raise InvalidInputError("max_page_bytes must be greater than 0, got 0")
    options["storage_options"] = strings(options["storage_options"])
    options["transaction_properties"] = strings(options["transaction_properties"], "transaction_properties")
    return options


def for_reader(
    options: _native.WriteOptions,
    compatible_with: str | None,
    stable_row_ids: bool | None,
    address: str,
    table: _native.Dataset | None,
) -> None:
    """Completes the options of a write for the reader that it names, or that the config of the table names.

    Raises
    ------
    pennon.InvalidInputError
        What would be written is not what the reader reads.
    """
    asked, mode = options["data_storage_version"], options["mode"]
    if compatible_with is not None:
        chosen = _readers.options(compatible_with, asked, stable_row_ids)
        options["config"] = {**options["config"], **chosen.pop("config")}
        options.update(chosen)  # type: ignore[typeddict-item]
    replaces = mode == "overwrite" and asked is not None
    if mode == "create" or (compatible_with is None and not replaces):
        return
    if table is None:
        table = existing(address, options)
    if table is None:
        return
    written = options["data_storage_version"] if mode == "overwrite" else None
    _readers.check_table(
        compatible_with, written or table.data_storage_version, table.has_stable_row_ids, table.config
    )
    if replaces:
        _readers.check_version(asked, table.config.get(_readers.KEY))


def existing(address: str, options: _native.WriteOptions) -> _native.Dataset | None:
    """The table that a write will find."""
    try:
        return _native.Dataset.open(
            address,
            {
                "version": None,
                "asof": None,
                "storage_options": options["storage_options"],
                "durability": options["durability"] or "full",
                "cache_bytes": None,
                "session": options["session"],
                "commit_lock": options["commit_lock"],
                "commit_timeout": options["commit_timeout"],
                "max_retries": options["max_retries"],
            },
        )
    except NotFoundError:
        return None


def appended_to(
    data: ReaderLike, schema: pa.Schema | None, address: str, options: _native.WriteOptions
) -> _native.Dataset | None:
    """The table that a write appends data to which has no types of its own: they are those of the table."""
    if options["mode"] != "append" or schema is not None or not has_no_types(data):
        return None
    return existing(address, options)


def types_of(table: _native.Dataset | None, options: _native.WriteOptions) -> pa.Schema | None:
    """The schema whose types data gets that has none of its own."""
    return table.schema if table is not None and options["mode"] == "append" else None


def write_fragments(
    data: ReaderLike,
    dataset_uri: str | PathLike[str] | Handle,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: WriteMode = "append",
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    progress: WriteProgress = None,
    data_storage_version: FileVersion | None = None,
    use_legacy_format: bool | None = None,
    storage_options: dict[str, str] | None = None,
    enable_stable_row_ids: bool = True,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: list[Any] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: ExternalBlobMode = "reference",
    allow_external_blob_outside_bases: bool = False,
    namespace_client: Any | None = None,
    table_id: list[str] | None = None,
    session: Session | None = None,
    durability: Durability | None = None,
) -> list[FragmentMetadata] | Transaction:
    """Write rows to files that no version refers to yet; [LanceDataset.commit][pennon.LanceDataset] commits them.

    Parameters
    ----------
    data, schema
        Rows, as in [write_dataset][pennon.write_dataset].
    dataset_uri
        Where the table is or will be, or a dataset, whose version is then the read version.
    return_transaction
        Whether to return the transaction instead of its fragments. Needed if the dataset has columns that are not
        committed: the transaction commits them, fragments alone would lose them.
    mode
        `append` when they will be added to the table, whose schema the rows must fit; `overwrite` when they will
        replace its content; `create` fails if the table exists.
    enable_stable_row_ids
        Whether the rows keep their ids when they move, if the commit creates a table. pylance's default is False,
        and pylance does not pass the choice to the commit.
    max_rows_per_file, max_bytes_per_file, max_page_bytes, data_storage_version, use_legacy_format, \
    storage_options, external_blob_mode, allow_external_blob_outside_bases, session, durability
        As in [write_dataset][pennon.write_dataset].
    initial_bases, target_bases, target_all_bases
        As in [write_dataset][pennon.write_dataset]; initial bases are registered only by a transaction.
    progress
        As in [write_dataset][pennon.write_dataset], but of a
        [FragmentWriteProgress][pennon.progress.FragmentWriteProgress] only `begin` of the first fragment is called
        while rows are read, and all else when all fragments are written. `complete` gets each with its files; if it
        raises, the files are left.
    max_rows_per_group, data_cache_bytes
        Accepted, without effect.
    base_store_params, namespace_client, table_id
        Not supported.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1]}, "memory://write-fragments", mode="overwrite")
    >>> transaction = pennon.fragment.write_fragments({"a": [2]}, table, return_transaction=True)
    >>> pennon.LanceDataset.commit(table, transaction)
    LanceDataset('memory://write-fragments', version=2, rows=2)
    """
    table = handle_of(dataset_uri)
    columns = None if table is None else table.uncommitted_columns
    if columns is not None and not (return_transaction and mode == "append"):
        raise InvalidInputError(
            f"The dataset has columns that are not committed, {', '.join(columns.names)}: expected "
            "mode='append' and return_transaction=True, or a job, whose plan has them"
        )
    refuse(
        base_store_params=base_store_params,
        namespace_client=namespace_client,
        table_id=table_id,
    )
    ignored(max_rows_per_group=unless(max_rows_per_group, 1024), data_cache_bytes=data_cache_bytes)
    transaction = uncommitted(
        data,
        dataset_uri,
        schema,
        progress,
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        data_storage_version=file_version(use_legacy_format, data_storage_version),
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
    if return_transaction and columns is not None:
        return Transaction._of(table.completed(transaction))  # type: ignore[union-attr]
    return transaction if return_transaction else fragments


def uncommitted(
    data: ReaderLike,
    dataset_uri: str | PathLike[str] | Handle,
    schema: pa.Schema | None,
    progress: WriteProgress,
    *,
    fragment_id: int = 0,
    **options: Any,
) -> Transaction:
    """The transaction of files that no version refers to yet."""
    request, table = native_options(**options), handle_of(dataset_uri)
    rows_per_file = request["max_rows_per_file"]
    if table is None:
        table = appended_to(data, schema, location(dataset_uri, "dataset_uri"), request)  # type: ignore[arg-type]
    rows = to_input(data, schema, types_of(table, request))
    with observed(rows, progress, rows_per_file, fragment_id, is_announced=True) as reader:
        if table is not None:
            parts = table.insert_uncommitted(reader, request)
        else:
            parts = _native.write_uncommitted(reader, location(dataset_uri, "dataset_uri"), request)  # type: ignore[arg-type]
    transaction = Transaction._of(parts)
    announce(progress, transaction.operation.fragments, fragment_id)  # type: ignore[attr-defined]
    return transaction
