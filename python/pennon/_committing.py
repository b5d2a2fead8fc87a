"""Commits of transactions, config and metadata: a part of `LanceDataset`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._options import lock, refuse, strings
from pennon.errors import InvalidInputError
from pennon.transaction import LANCE_COMMIT_MESSAGE_KEY, LanceOperation, Transaction

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.types import BulkCommitResult

_TIMEOUT = timedelta(minutes=30)


class CommittingDataset:
    """The part of `LanceDataset` that commits transactions, config and metadata."""

    _native: _native.Dataset

    @staticmethod
    def commit(
        base_uri: str | os.PathLike[str] | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: Any | None = None,
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
        commit_timeout: timedelta | None = _TIMEOUT,
        durability: str | None = None,
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
        commit_timeout
            No retry starts after this time.
        durability
            What the commit survives: a power cut (`"full"`, the default), or a crash of the process (`"os"`).

        Raises
        ------
        TypeError
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
        from pennon.dataset import LanceDataset

        refuse(
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            base_store_params=base_store_params,
        )
        transaction = _transaction(operation, read_version, commit_message)
        dataset = base_uri if isinstance(base_uri, LanceDataset) else None
        uri = dataset.uri if dataset is not None else os.fspath(base_uri)
        stored = strings(storage_options)
        if dataset is not None:
            stored = {**dataset._native.storage_options, **stored}
        options: _native.CommitOptions = {
            "storage_options": stored,
            "durability": durability or (dataset._native.commit_settings[0] if dataset is not None else "full"),
            "max_retries": max_retries,
            "timeout": _TIMEOUT if commit_timeout is None else commit_timeout,
            "enable_stable_row_ids": _stable_row_ids(transaction, enable_stable_row_ids),
            "enable_v2_manifest_paths": enable_v2_manifest_paths is not False,
            "detached": bool(detached),
            "commit_lock": lock(commit_lock),
        }
        try:
            native = _native.commit(uri, None if dataset is None else dataset._native, transaction, options)
        except TypeError as error:
            raise _with_causes(error) from error
        defaults = dataset._default_scan_options if dataset is not None else None
        return LanceDataset._wrap(native, default_scan_options=defaults)

    @staticmethod
    def commit_batch(
        dest: str | os.PathLike[str] | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: Any | None = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = _TIMEOUT,
        durability: str | None = None,
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
        """
        for transaction in transactions:
            if not isinstance(transaction, Transaction):
                raise TypeError(f"transactions must be Transaction objects, got {type(transaction)}")
        merged = Transaction._of(_native.merge_appends(list(transactions)))
        dataset = CommittingDataset.commit(
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

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version; `None` if it was not kept."""
        parts = self._native.read_transaction(version)
        return None if parts is None else Transaction._of(parts)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of the newest versions up to this one, newest first; only its own if detached."""
        found = self._native.get_transactions(recent_transactions)
        return [None if parts is None else Transaction._of(parts) for parts in found]

    def migrate_manifest_paths_v2(self) -> None:
        """Rename the manifests of an older table so that the newest is listed first.

        No writer may commit to the table while this runs. After an interrupted call, call it again; until then the
        table only opens by version number.
        """
        self._native.migrate_manifest_paths_v2()

    # Config and metadata.

    def config(self) -> dict[str, str]:
        """Settings kept in the table."""
        return self._native.config

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the table."""
        return self._native.table_metadata

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the schema."""
        return self._native.lance_schema["metadata"]

    def update_config(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change settings, and move to the new version.

        Parameters
        ----------
        values
            New values; a key with `None` is removed.
        replace
            Whether all other settings are removed.

        Returns
        -------
        dict
            All settings afterwards.

        Raises
        ------
        pennon.InvalidInputError
            A setting that the table format uses cannot be parsed.
        pennon.CommitConflictError
            Another writer changed the same keys after this version.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://config", mode="overwrite")
        >>> table.update_config({"owner": "flights", "stage": "raw"})
        {'owner': 'flights', 'stage': 'raw'}
        >>> table.update_config({"stage": None})
        {'owner': 'flights'}
        """
        self._native.update_map("config", _updates(values), replace)
        return self.config()

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove settings, and move to the new version."""
        self._native.update_map("config", dict.fromkeys(keys), False)

    def update_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the table, and move to the new version; as `update_config`."""
        self._native.update_map("table", _updates(values), replace)
        return self.metadata

    def update_schema_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the schema, and move to the new version; as `update_config`."""
        self._native.update_map("schema", _updates(values), replace)
        return self.schema_metadata

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_schema_metadata(..., replace=True)`."""
        _deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(dict(new_metadata), replace=True)

    def update_field_metadata(
        self, field_updates: dict[str, dict[str, str | None]], *, replace: bool = False
    ) -> None:
        """Change the metadata of fields, by their paths, and move to the new version; as `update_config`.

        Raises
        ------
        pennon.InvalidInputError
            There is no such field.
        """
        updates = {path: _updates(values) for path, values in field_updates.items()}
        self._native.update_field_metadata(updates, replace)

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_field_metadata(..., replace=True)`."""
        _deprecated("replace_field_metadata", "update_field_metadata({path: metadata}, replace=True)")
        self.update_field_metadata({field_name: dict(new_metadata)}, replace=True)


def _transaction(
    operation: LanceOperation.BaseOperation | Transaction, read_version: int | None, message: str | None
) -> Transaction:
    if isinstance(operation, Transaction):
        if message is not None:
            raise InvalidInputError(
                "commit_message cannot be given with a Transaction: set the message in its transaction_properties, "
                f"under {LANCE_COMMIT_MESSAGE_KEY!r}"
            )
        return operation
    if not isinstance(operation, LanceOperation.BaseOperation):
        raise TypeError(f"operation must be a LanceOperation.BaseOperation or Transaction, got {type(operation)}")
    on_newest = (LanceOperation.Overwrite, LanceOperation.Restore)
    if read_version is None and not isinstance(operation, on_newest):
        raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
    properties = {} if message is None else {LANCE_COMMIT_MESSAGE_KEY: message}
    # Without a version the core takes the newest.
    return Transaction(read_version, operation, transaction_properties=properties)  # type: ignore[arg-type]


def _stable_row_ids(transaction: Transaction, asked: bool | None) -> bool:
    if asked is not None:
        return asked
    fragments = getattr(transaction.operation, "fragments", [])
    return all(fragment._stable_row_ids is not False for fragment in fragments)


def _with_causes(error: TypeError) -> TypeError:
    """The same error with the messages of its causes, which name the wrong value."""
    messages, cause = [], error.__cause__
    while cause is not None:
        messages.append(str(cause))
        cause = cause.__cause__
    return TypeError(": ".join([str(error), *messages]))


def _updates(values: dict[str, str | None]) -> dict[str, str | None]:
    if not isinstance(values, dict):
        raise TypeError(f"The values must be a dict, got {type(values)}")
    return values


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated: use {instead}", DeprecationWarning, stacklevel=3)
