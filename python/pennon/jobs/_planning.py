"""Plans by kind of work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pennon import _native
from pennon._options import strings
from pennon.dataset import LanceDataset
from pennon.errors import InvalidInputError
from pennon.jobs._connection import Connection
from pennon.jobs._plan import JobPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.types import BlobHandling, Columns, Durability, FileVersion, Reference

TableLike: TypeAlias = "LanceDataset | str | PathLike[str]"
"""A table: a dataset, whose version is pinned, or a URI, whose newest version is."""


def plan_scan(
    table: TableLike,
    *,
    columns: Columns | None = None,
    filter: str | None = None,
    batch_size: int | None = None,
    batch_size_bytes: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    blob_handling: BlobHandling | None = None,
    version: Reference | None = None,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> JobPlan:
    """Divide a scan of one version. [Task.to_batches][pennon.jobs.Task.to_batches] gives the rows of a task.

    Parameters
    ----------
    table
        A dataset, whose version is read, or a URI.
    columns, filter, batch_size, batch_size_bytes, with_row_id, with_row_address, blob_handling
        As in [LanceDataset.scanner][pennon.LanceDataset.scanner].
    version
        The version to read where `table` is a URI; the newest by default.
    tasks
        Number of tasks, at most. Fragments much larger than a task are divided by rows, small ones share a task.
    bytes_per_task
        Bytes of data files of a task, about, instead of a number of tasks; 256 MiB.
    storage_options
        Options of the object store; by default those of the dataset.

    Raises
    ------
    pennon.InvalidInputError
        A column is unknown or the filter is invalid.
    """
    work = {
        "columns": list(columns.items()) if isinstance(columns, Mapping) else columns and list(columns),
        "filter": filter,
        "batch_size": batch_size,
        "batch_size_bytes": batch_size_bytes,
        "with_row_id": with_row_id,
        "with_row_address": with_row_address,
        "blob_handling": blob_handling,
    }
    return _planned(table, {"scan": work}, tasks, bytes_per_task, storage_options, version=version)


def plan_append(
    table: TableLike,
    *,
    tasks: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Prepare tasks that are given rows to append.

    Parameters
    ----------
    table
        A dataset, or a URI. Rows must fit the columns of this version.
    tasks
        Number of tasks; by default as many as there will be, see [JobPlan.task][pennon.jobs.JobPlan.task].
    storage_options, durability
        As in [write_dataset][pennon.write_dataset]; by default those of the dataset.
    """
    return _planned(table, {"append": {}}, tasks, None, storage_options, durability)


def plan_overwrite(
    uri: str | PathLike[str],
    schema: pa.Schema,
    *,
    mode: Literal["create", "overwrite"] = "overwrite",
    tasks: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "full",
    enable_stable_row_ids: bool | None = None,
    enable_v2_manifest_paths: bool | None = None,
    data_storage_version: FileVersion | None = None,
) -> JobPlan:
    """Prepare tasks that are given the rows of a new table, or the whole new content of one.

    Parameters
    ----------
    uri
        Where the table is or will be.
    schema
        The schema of the rows of all tasks.
    mode
        `create` if there must be no table yet.
    tasks
        Number of tasks; by default as many as there will be, see [JobPlan.task][pennon.jobs.JobPlan.task].
    storage_options, durability, enable_stable_row_ids, enable_v2_manifest_paths, data_storage_version
        As in [write_dataset][pennon.write_dataset].
    """
    if mode not in ("create", "overwrite"):
        raise InvalidInputError(f"mode is {mode!r}; expected 'create' or 'overwrite'")
    connection = Connection.of(storage_options, durability)
    request = connection.request(
        mode=mode,
        enable_stable_row_ids=enable_stable_row_ids,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        data_storage_version=data_storage_version,
    )
    return JobPlan(_native.JobPlan.new_table(fspath(uri), schema, tasks, request), connection)


def plan_delete(
    table: TableLike,
    predicate: str,
    *,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Divide the deletion of the rows for which a predicate is true; other parameters as in `plan_scan`."""
    return _planned(table, {"delete": {"predicate": predicate}}, tasks, bytes_per_task, storage_options, durability)


def plan_update(
    table: TableLike,
    updates: Mapping[str, str],
    where: str | None = None,
    *,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Divide an update: whole rows are written to new fragments and keep their ids.

    Parameters
    ----------
    updates
        SQL expression over the row as it was, by column.
    where
        Predicate of the rows; all rows without one.
    table, tasks, bytes_per_task, storage_options, durability
        As in `plan_scan` and `plan_append`.
    """
    work = {"assignments": sorted(updates.items()), "predicate": where}
    return _planned(table, {"update": work}, tasks, bytes_per_task, storage_options, durability)


def _planned(
    table: TableLike,
    work: dict[str, Any],
    tasks: int | None,
    bytes_per_task: int | None,
    storage_options: Mapping[str, str] | None,
    durability: Durability | None = None,
    version: Reference | None = None,
) -> JobPlan:
    if isinstance(table, LanceDataset):
        if version is not None:
            raise InvalidInputError("A version was given for a dataset, which has one: check it out, or give a URI")
        stored = {**table._native.storage_options, **strings(storage_options)}
        connection = Connection.of(stored, durability or table._native.commit_settings[0])
        opened = table
    else:
        connection = Connection.of(storage_options, durability or "full")
        opened = connection.open(fspath(table), version)
    native = _native.JobPlan.plan(opened._native, json.dumps(work), tasks, bytes_per_task)
    return JobPlan(native, connection)
