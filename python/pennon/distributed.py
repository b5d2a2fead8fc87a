"""Reads, writes and deletes whose work is done by many processes.

Workers get descriptors: URI, version, fragment ids, storage options. One process commits, once. If the response
to a commit is lost, a retry with the same `uuid` returns the version that the first attempt made.

Examples
--------
>>> import pennon
>>> import pyarrow as pa
>>> from pennon import distributed
>>> schema = pa.schema({"a": pa.int64()})
>>> parts = [
...     distributed.write_fragments(pa.table({"a": [start, start + 1]}), "memory://parts")[0]
...     for start in (0, 10)
... ]
>>> table = distributed.commit_overwrite("memory://parts", parts, schema, uuid="9f3c")
>>> [task.fragments for task in distributed.plan_scan("memory://parts", version=table.version)]
[(0,), (1,)]
>>> matches = distributed.matching_rows("memory://parts", table.version, "a > 0", [0, 1])
>>> [(fragment, rows) for fragment, rows, _ in matches]
[(0, 1), (1, 2)]
>>> distributed.commit_delete("memory://parts", table.version, matches, "a > 0", uuid="9f3d")
(3, LanceDataset('memory://parts', version=2, rows=1))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._input import to_reader
from pennon._options import strings
from pennon._table.writing import native_options
from pennon.dataset import LanceDataset

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.types import Columns, ReaderLike, Reference

__all__ = [
    "Match",
    "ScanTask",
    "commit_append",
    "commit_delete",
    "commit_overwrite",
    "matching_rows",
    "plan_scan",
    "write_fragments",
]

Match = tuple[int, int, bytes]
"""Fragment id, number of rows, and their offsets as a roaring bitmap in its portable form."""


@dataclass(frozen=True)
class ScanTask:
    """Part of a scan of one version, for one worker; it can be pickled."""

    uri: str
    version: int
    fragments: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Open the table and read this part of it."""
        table = _open(self.uri, self.version, dict(self.storage_options))
        wanted = set(self.fragments)
        parts = [part for part in table.get_fragments() if part.fragment_id in wanted]
        return table.scanner(fragments=parts, **self.options).to_batches()


def plan_scan(
    uri: str | PathLike[str],
    *,
    version: Reference | None = None,
    columns: Columns | None = None,
    filter: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    fragments_per_task: int = 1,
) -> list[ScanTask]:
    """Pin a version and divide its fragments among tasks.

    Raises
    ------
    pennon.InvalidInputError
        A column is unknown or the filter is invalid; raised before any task runs.
    """
    table = _open(uri, version, storage_options)
    options = {"columns": columns, "filter": filter}
    table.scanner(**options)  # type: ignore[arg-type]
    ids = [part.fragment_id for part in table.get_fragments()]
    groups = [ids[at : at + fragments_per_task] for at in range(0, len(ids), fragments_per_task)]
    stored = strings(storage_options)
    return [ScanTask(table.uri, table.version, tuple(group), options, stored) for group in groups]


def write_fragments(
    data: ReaderLike,
    uri: str | PathLike[str],
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
) -> tuple[bytes, int]:
    """Write rows to files that no version refers to yet.

    Parameters
    ----------
    data
        Rows, as in [write_dataset][pennon.write_dataset].
    uri
        Where the table is or will be.
    version
        The version that the rows will be appended to; by default the files are for a new or overwritten table.
    storage_options, durability, max_rows_per_file, max_bytes_per_file, data_storage_version
        As in [write_dataset][pennon.write_dataset].

    Returns
    -------
    tuple
        The fragments as bytes, for `commit_append` or `commit_overwrite`, and the number of rows.
    """
    options = native_options(
        storage_options=storage_options,
        durability=durability,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        data_storage_version=data_storage_version,
    )
    reader = to_reader(data)
    if version is None:
        return _native.write_new_fragments(fspath(uri), reader, options)
    table = _open(uri, version, storage_options, durability)
    return _native.write_fragments(table._native, reader, options)


def commit_append(
    uri: str | PathLike[str],
    version: int,
    written: Sequence[bytes],
    *,
    uuid: str,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
) -> LanceDataset:
    """Append fragments that were written for a version.

    Raises
    ------
    pennon.CommitConflictError
        Another writer overwrote the table.
    """
    table = _open(uri, version, storage_options, durability)
    native = _native.commit_append(table._native, list(written), uuid)
    return LanceDataset._wrap(native)


def commit_overwrite(
    uri: str | PathLike[str],
    written: Sequence[bytes],
    schema: pa.Schema,
    *,
    uuid: str,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
    enable_stable_row_ids: bool | None = None,
    data_storage_version: str | None = None,
    must_create: bool = False,
) -> LanceDataset:
    """Make fragments the whole content of a table, which is created if it does not exist.

    Parameters
    ----------
    written
        Fragments from `write_fragments` without a version; an empty list makes an empty table.
    schema
        The schema that all of them were written with.
    must_create
        Whether the table must not exist.

    Raises
    ------
    pennon.AlreadyExistsError
        The table exists, and `must_create` is true.
    """
    options = native_options(
        mode="create" if must_create else "overwrite",
        storage_options=storage_options,
        durability=durability,
        enable_stable_row_ids=enable_stable_row_ids,
        data_storage_version=data_storage_version,
    )
    native = _native.commit_new(fspath(uri), list(written), schema, uuid, options)
    return LanceDataset._wrap(native)


def matching_rows(
    uri: str | PathLike[str],
    version: int,
    predicate: str,
    fragments: Sequence[int],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[Match]:
    """The rows of some fragments for which a predicate is true; fragments without any are left out."""
    return _native.matching_rows(_open(uri, version, storage_options)._native, predicate, list(fragments))


def commit_delete(
    uri: str | PathLike[str],
    version: int,
    matches: Sequence[Match],
    predicate: str,
    *,
    uuid: str,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
) -> tuple[int, LanceDataset]:
    """Delete rows that were found at a version.

    Returns
    -------
    tuple
        Number of rows deleted, and the dataset at the new version.

    Raises
    ------
    pennon.CommitConflictError
        Another writer changed one of the rows after that version. Retryable: find the rows again.
    """
    table = _open(uri, version, storage_options, durability)
    deleted, native = _native.commit_delete(table._native, list(matches), predicate, uuid)
    return deleted, LanceDataset._wrap(native)


def _open(
    uri: str | PathLike[str],
    version: Reference | None,
    storage_options: Mapping[str, str] | None,
    durability: str = "full",
) -> LanceDataset:
    return LanceDataset(uri, version, storage_options=dict(storage_options or {}), durability=durability)
