"""`LanceDataset`: a table at one version.

The module contains what pylance's `lance.dataset` contains; the attribute `pennon.dataset` of the
package is the function that opens a table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from pennon import _native
from pennon._committing import CommittingDataset
from pennon._evolving import EvolvingDataset
from pennon._history import HistoryDataset
from pennon._options import lock, refuse, strings
from pennon._time import instant, local
from pennon._updating import UpdatingDataset
from pennon._upkeep import UpkeepDataset
from pennon.branches import Branch, Branches
from pennon.cleanup import CleanupExplanation, CleanupStats
from pennon.delta import DatasetDelta
from pennon.errors import InvalidInputError, UnsupportedError
from pennon.fragment import LanceFragment
from pennon.merge_insert import MergeInsertBuilder
from pennon.metadata import DataFile, FragmentMetadata
from pennon.optimize import DatasetOptimizer
from pennon.scanner import LanceScanner, ScannerBuilder
from pennon.schema import LanceField, LanceSchema
from pennon.session import Session, native_session
from pennon.stats import Counters, DatasetStats, IOStats, LanceStats
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
    BulkCommitResult,
    CommitStatus,
    DeleteResult,
    ExecuteResult,
    ReaderLike,
    UpdateResult,
    Version,
    VersionRef,
)
from pennon.verification import VerifyReport
from pennon.write import write_dataset

if TYPE_CHECKING:
    from pennon.types import Reference

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "CleanupExplanation",
    "CleanupStats",
    "DataFile",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "DeleteResult",
    "ExecuteResult",
    "FragmentMetadata",
    "Index",
    "IndexFile",
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
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "Version",
    "VersionRef",
    "write_dataset",
]

_SYSTEM_COLUMNS = {"with_row_id": "_rowid", "with_row_address": "_rowaddr"}


class LanceDataset(CommittingDataset, EvolvingDataset, HistoryDataset, UpdatingDataset, UpkeepDataset):
    """A table at one version.

    Made by [dataset][pennon.dataset] and [write_dataset][pennon.write_dataset], whose parameters are described
    there. Methods that change the table move the object to the version they made; after an error the object keeps
    its version. It pickles as its URI and version, without a commit lock, and can be used in forked and spawned
    processes.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://lance-dataset", mode="overwrite")
    >>> table
    LanceDataset('memory://lance-dataset', version=1, rows=3)
    """

    _counters_seen = Counters()

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
        session: Session | None = None,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        *,
        asof: datetime | str | None = None,
        durability: str = "full",
        commit_timeout: timedelta | None = None,
        max_retries: int | None = None,
    ) -> None:
        # Pyarrow's own initialiser refuses to make datasets.
        refuse(
            serialized_manifest=serialized_manifest,
            read_params=read_params,
            namespace_client=namespace_client,
            table_id=table_id,
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            base_store_params=base_store_params,
        )
        self._native = _native.Dataset.open(
            os.fspath(uri),
            {
                "version": version,
                "asof": None if asof is None else instant(asof),
                "storage_options": strings(storage_options),
                "durability": durability,
                "cache_bytes": metadata_cache_size_bytes,
                "session": native_session(session),
                "commit_lock": lock(commit_lock),
                "commit_timeout": commit_timeout,
                "max_retries": max_retries,
            },
        )
        self._default_scan_options = dict(default_scan_options or {})

    @classmethod
    def _wrap(
        cls,
        native: _native.Dataset,
        *,
        default_scan_options: Mapping[str, Any] | None = None,
    ) -> LanceDataset:
        found = cls.__new__(cls)
        found._native = native
        found._default_scan_options = dict(default_scan_options or {})
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        options = self._native.storage_options
        settings = self._native.commit_settings
        return _reopen, (self.uri, self.version, options, self._default_scan_options, *settings)

    def __repr__(self) -> str:
        try:
            rows = str(self._native.num_rows)
        except UnsupportedError:  # files of version 0.1
            rows = "unknown"
        return f"LanceDataset({self.uri!r}, version={self.version}, rows={rows})"

    def __copy__(self) -> LanceDataset:
        return self.checkout_version(self.version)

    # Properties of the table.

    @property
    def uri(self) -> str:
        """The URI of the table."""
        return self._native.uri

    @property
    def version(self) -> int:
        """The version of this object."""
        return self._native.version

    @property
    def latest_version(self) -> int:
        """The newest version of the table, looked up at each call."""
        return self._native.latest_version()

    @property
    def schema(self) -> pa.Schema:
        """The columns, and the system columns that the default scan options add."""
        schema = self._native.schema
        for option, name in _SYSTEM_COLUMNS.items():
            if self._default_scan_options.get(option):
                schema = schema.append(pa.field(name, pa.uint64()))
        return schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""
        return LanceSchema._of(self._native.lance_schema)

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

    def session(self) -> Session:
        """The caches of this table, to open others with."""
        return Session._of(self._native.session())

    def counters(self) -> Counters:
        """Requests, bytes, retries, look-ups in caches and decoded rows since the table was opened.

        All objects from one [dataset][pennon.dataset] or [write_dataset][pennon.write_dataset] share them:
        other versions, branches and fragments, and all tables of one [Session][pennon.Session]. Reading a data file
        counts one request for each range of bytes that is read at once.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://counters", mode="overwrite")
        >>> table.to_table(filter="a > 1").num_rows
        2
        >>> table.counters().rows_decoded
        3
        """
        return Counters._of(self._native.counters())

    def io_stats_snapshot(self) -> IOStats:
        """Requests and bytes since the last [io_stats_incremental][pennon.LanceDataset.io_stats_incremental].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://io-stats", mode="overwrite")
        >>> table.io_stats_incremental().written_bytes > 0
        True
        >>> table.io_stats_snapshot()
        IOStats(read_iops=0, read_bytes=0, write_iops=0, written_bytes=0)
        """
        return IOStats._of(self.counters(), self._counters_seen)

    def io_stats_incremental(self) -> IOStats:
        """Requests and bytes since the last call, or since the table was opened."""
        now = self.counters()
        stats, self._counters_seen = IOStats._of(now, self._counters_seen), now
        return stats

    @property
    def partition_expression(self) -> pc.Expression:
        """Not supported, as in pylance."""
        raise UnsupportedError("Tables have no partition expression")

    def validate(self) -> None:
        """Check that the files of this version exist and match the manifest, row ids included.

        Opens every data and deletion file. [verify][pennon.verify] also looks at the other versions, and lists
        everything that is wrong.

        Raises
        ------
        pennon.CorruptError
            A file is missing or damaged; the message names the first fault.
        """
        self._native.validate()

    def verify(self, *, data: bool = False) -> VerifyReport:
        """Look for damage: in this version down to its rows, in the others for files that are missing.

        The same as [verify][pennon.verify] of its URI.
        """
        return VerifyReport._of(_native.verify(self._native, data))

    # Fragments.

    def get_fragments(self, filter: pc.Expression | None = None) -> list[LanceFragment]:
        """The fragments in the table's order."""
        if filter is not None:
            raise InvalidInputError("get_fragments takes no filter: fragments are not partitions")
        return [LanceFragment(self, fragment) for fragment in self._native.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment with this id; `None` if the version has no such fragment."""
        found = self._native.fragment(fragment_id)
        return None if found is None else LanceFragment(self, found)

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
        return LanceDataset._wrap(native, default_scan_options=defaults)

    def checkout_latest(self) -> None:
        """Move to the newest version."""
        self._native.checkout_latest()

    def restore(self) -> None:
        """Commit this version again as the newest one.

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

    def commit_status(self, uuid: str) -> CommitStatus:
        """Whether a transaction was committed to this branch, according to its current versions.

        Call it after a [CommitUnknownError][pennon.CommitUnknownError], or to check a commit of another process.

        Parameters
        ----------
        uuid
            The transaction, such as `error.uuid`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://commit-status", mode="overwrite")
        >>> table.commit_status(table.read_transaction(1).uuid)
        CommitStatus(committed=True, version=1)
        >>> table.commit_status("8d2f0b7a-0000-4000-8000-000000000000").committed
        False
        """
        version, known = self._native.commit_status(uuid)
        return CommitStatus(committed=(version is not None) if known else None, version=version)

    # Changes.

    def insert(self, data: ReaderLike, *, mode: str = "append", **kwargs: Any) -> None:
        """Append rows, or overwrite the table, and move to the new version.

        Parameters and errors as in [write_dataset][pennon.write_dataset].
        """
        self._native = write_dataset(data, self, mode=mode, **kwargs)._native

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
            SQL text, or a pyarrow expression. Rows for which it is null are kept.
        conflict_retries
            Retries on the newest version after other writers changed the same rows.
        retry_timeout
            No retry starts after this time.

        Raises
        ------
        pennon.InvalidInputError
            The predicate does not parse, names an unknown column, or is not boolean.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delete", mode="overwrite")
        >>> table.delete("a >= 2")
        {'num_deleted_rows': 2}
        """
        if isinstance(predicate, str):
            return {"num_deleted_rows": self._native.delete(predicate, conflict_retries, retry_timeout)}
        if not isinstance(predicate, pc.Expression):
            raise TypeError(f"predicate must be SQL text or a pyarrow expression, not {type(predicate).__name__}")

        def at(base: _native.Dataset, found: pa.Array) -> tuple[int, _native.Dataset]:
            return _native.delete_rows(base, found, str(predicate))

        return {"num_deleted_rows": self._at_matches(predicate, conflict_retries, retry_timeout, at)}

    def truncate_table(self) -> None:
        """Delete all rows; the schema is kept."""
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
            There is no such table, unless `ignore_not_found` is true.
        """
        _native.Dataset.drop_table(os.fspath(base_uri), strings(storage_options), bool(ignore_not_found))

    # Methods of pyarrow's class that need data of its own.

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
        """Not supported, as in pylance."""
        raise UnsupportedError("replace_schema is not supported")


def _version(entry: _native.VersionEntry) -> Version:
    return {
        "version": entry["version"],
        "timestamp": local(entry["timestamp"]),
        "metadata": entry["metadata"],
    }


def _reopen(
    uri: str,
    version: int,
    options: dict[str, str],
    scan_options: dict[str, Any],
    durability: str,
    max_retries: int,
    commit_timeout: timedelta,
) -> LanceDataset:
    """Unpickles a dataset."""
    return LanceDataset(
        uri,
        version,
        storage_options=options,
        default_scan_options=scan_options,
        durability=durability,
        commit_timeout=commit_timeout,
        max_retries=max_retries,
    )
