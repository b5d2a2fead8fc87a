"""Plans by kind of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pennon import _native
from pennon._compaction import option_parts
from pennon._options import checked_number, location, strings
from pennon._table.keyed_data import source_schema
from pennon._table.writing import existing, for_reader, native_options
from pennon.dataset import LanceDataset
from pennon.errors import InvalidInputError
from pennon.jobs._connection import Connection
from pennon.jobs._plan import JobPlan
from pennon.jobs._request import columns_of, opened_table, planned
from pennon.jobs._task import ChangeFunction

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pennon.jobs._request import TableLike
    from pennon.merge_insert import MergeInsertBuilder
    from pennon.optimize import CompactionOptions
    from pennon.types import BlobHandling, Columns, Durability, FileVersion, Reference


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
    workers: int | None = None,
    least_bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> JobPlan:
    """Divide a scan of one version. [Task.to_batches][pennon.jobs.Task.to_batches] gives the rows of a task.

    Rows at the begin or end of a fragment that the filter cannot match, by statistics, are in no task.

    Parameters
    ----------
    table
        A dataset, whose version is read, or a URI.
    columns, filter, batch_size, batch_size_bytes, with_row_id, with_row_address, blob_handling
        As in [LanceDataset.scanner][pennon.LanceDataset.scanner].
    version
        The version to read where `table` is a URI; the newest by default.
    tasks
        Number of tasks, at most. Large fragments are divided by rows, small ones share a task.
    bytes_per_task
        Instead of a number of tasks: bytes of data files of each, about; 256 MiB.
    workers, least_bytes_per_task
        How many tasks will run at the same time. Each worker gets the same number of tasks, of at most about
        `bytes_per_task`; there are fewer if they would be of less than `least_bytes_per_task`, which is 1 MiB.
    storage_options
        Options of the object store; by default those of the dataset.

    Raises
    ------
    pennon.InvalidInputError
        A column is unknown, the filter is invalid, `tasks` was given and `bytes_per_task` or `workers` as well, or
        `least_bytes_per_task` without `workers`.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://job-scan", mode="overwrite", max_rows_per_file=2)
    >>> plan = jobs.plan_scan(table, filter="a > 1")
    >>> sorted(a for task in plan.tasks for batch in task.to_batches() for a in batch["a"].to_pylist())
    [2, 3]
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
    if workers is None and least_bytes_per_task is not None:
        raise InvalidInputError("least_bytes_per_task is for tasks of workers: say how many workers there are")
    divided_for = None if workers is None else (workers, least_bytes_per_task)
    return planned(
        table, {"scan": work}, tasks, bytes_per_task, storage_options, version=version, workers=divided_for
    )


def plan_append(
    table: TableLike,
    *,
    tasks: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
    compatible_with: str | None = None,
) -> JobPlan:
    """Prepare tasks that are given rows to append.

    Parameters
    ----------
    table
        A dataset, or a URI. Rows must fit the columns of this version, to which those of
        [with_new_columns][pennon.LanceDataset.with_new_columns] belong.
    tasks
        Number of tasks, at most 1,048,576; by default as many as there will be, see
        [JobPlan.task][pennon.jobs.JobPlan.task].
    storage_options, durability, compatible_with
        As in [write_dataset][pennon.write_dataset]; the first two are by default those of the dataset.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": [1]}, "memory://job-append", mode="overwrite")
    >>> plan = jobs.plan_append(table, tasks=2)
    >>> results = [task.run({"a": [task.number + 10]}) for task in plan.tasks]
    >>> plan.commit(results).dataset.to_table()["a"].to_pylist()
    [1, 10, 11]
    """
    if compatible_with is not None:
        table, _ = opened_table(table, storage_options, durability, None)
        for_reader(native_options(mode="append"), compatible_with, None, table.uri, table._native)
    return planned(table, {"append": {}}, tasks, None, storage_options, durability)


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
    compatible_with: str | None = None,
    config: Mapping[str, str] | None = None,
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
        Number of tasks, at most 1,048,576; by default as many as there will be, see
        [JobPlan.task][pennon.jobs.JobPlan.task].
    storage_options, durability, enable_stable_row_ids, enable_v2_manifest_paths, data_storage_version,
    compatible_with
        As in [write_dataset][pennon.write_dataset]. Files of a table that exists keep their version by default.
    config
        Entries of the table config, which the version has that the job commits.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon import jobs
    >>> plan = jobs.plan_overwrite("memory://job-overwrite", pa.schema({"a": pa.int64()}), tasks=2)
    >>> results = [task.run({"a": [task.number]}) for task in plan.tasks]
    >>> plan.commit(results).dataset.to_table()["a"].to_pylist()
    [0, 1]
    """
    if mode not in ("create", "overwrite"):
        raise InvalidInputError(f"mode is {mode!r}; expected 'create' or 'overwrite'")
    if tasks is not None:
        checked_number("tasks", tasks)
    connection = Connection.of(storage_options, durability)
    request = connection.request(
        mode=mode,
        enable_stable_row_ids=enable_stable_row_ids,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        data_storage_version=data_storage_version,
        config=strings(config, "config"),
    )
    found = existing(location(uri), request) if mode == "overwrite" else None
    for_reader(request, compatible_with, enable_stable_row_ids, location(uri), found)
    present = None if found is None else found.data_storage_version
    if request["data_storage_version"] is None and present not in ("0.1", "legacy"):
        request["data_storage_version"] = present
    return JobPlan(_native.JobPlan.new_table(location(uri), schema, tasks, request), connection)


def plan_delete(
    table: TableLike,
    predicate: str,
    *,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Divide the deletion of the rows for which a predicate is true; other parameters as in `plan_scan`.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> data = {"a": [1, 2, 3]}
    >>> table = pennon.write_dataset(data, "memory://job-delete", mode="overwrite", max_rows_per_file=2)
    >>> plan = jobs.plan_delete(table, "a > 1")
    >>> jobs.run(plan).rows
    2
    """
    return planned(table, {"delete": {"predicate": predicate}}, tasks, bytes_per_task, storage_options, durability)


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

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> data = {"a": [1, 2, 3]}
    >>> table = pennon.write_dataset(data, "memory://job-update", mode="overwrite", max_rows_per_file=2)
    >>> plan = jobs.plan_update(table, {"a": "a * 2"}, where="a > 1")
    >>> jobs.run(plan).dataset.to_table()["a"].to_pylist()
    [1, 4, 6]
    """
    work = {"assignments": sorted(updates.items()), "predicate": where}
    return planned(table, {"update": work}, tasks, bytes_per_task, storage_options, durability)


def plan_merge(
    merge: MergeInsertBuilder,
    schema: pa.Schema,
    *,
    tasks: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Prepare tasks that are given the rows of a source, to merge them into the version of a dataset.

    Each task joins its rows with the table and writes whole rows to new fragments; rows that are updated keep their
    ids. Rows of the source with equal keys must be given to one task; the tasks see to that by themselves if each
    of them is given the whole `source`, see [Task.run][pennon.jobs.Task.run].

    Parameters
    ----------
    merge
        The clauses: what [LanceDataset.merge_insert][pennon.LanceDataset.merge_insert] returns. Of its options
        `memory_limit` counts, for each task.
    schema
        The columns of the source.
    tasks
        Number of tasks, at most 1,048,576; by default as many as there will be, see
        [JobPlan.task][pennon.jobs.JobPlan.task].
        Required if rows that only the table has are deleted.
    storage_options, durability
        As in [write_dataset][pennon.write_dataset]; by default those of the dataset.

    Raises
    ------
    pennon.InvalidInputError
        No clause changes anything, a key is unknown, a condition does not parse, or columns were to be rewritten.
    pennon.SchemaMismatchError
        The source has columns of other types, or columns that the table does not have.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"id": [1, 2, 3], "n": [0, 0, 0]}, "memory://jobs-merge")
    >>> merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    >>> source = pa.table({"id": [3, 4], "n": [7, 7]})
    >>> done = jobs.run(jobs.plan_merge(merge, source.schema, tasks=2), source=source)
    >>> done.counts
    {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
    >>> sorted(done.dataset.to_table()["n"].to_pylist())
    [0, 0, 7, 7]
    """
    request = merge._request
    options: dict[str, Any] = {**request}
    if request["write_mode"] == "rewrite_columns":
        raise InvalidInputError("A merge that tasks share writes whole rows: found write_mode 'rewrite_columns'")
    for name in ("data_storage_version", "target_bases", "target_all_bases"):
        if options[name] is not None:
            raise InvalidInputError(f"A merge that tasks share cannot have {name}: found {options[name]!r}")
    clauses = ("on", "when_matched", "condition", "insert", "delete_unmatched", "delete_condition", "memory_limit")
    columns = source_schema(schema, request["on"])
    work = {**{name: options[name] for name in clauses}, "source": columns_of(columns)}
    dataset = LanceDataset._wrap(merge._dataset._native)
    return planned(dataset, {"merge": work}, tasks, None, storage_options, durability)


def plan_change_rows(
    table: TableLike,
    schema: pa.Schema,
    *,
    columns: Columns | None = None,
    filter: str | None = None,
    batch_size: int | None = None,
    batch_size_bytes: int | None = None,
    blob_handling: BlobHandling | None = None,
    decide: Callable[[pa.RecordBatch], Any] | None = None,
    updates: Sequence[str] | None = None,
    keys: Sequence[str] = (),
    exact_keys: bool = True,
    predicate: str | None = None,
    version: Reference | None = None,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Prepare tasks whose input says which rows are deleted, updated and inserted: by an engine of one's own.

    The changes that a task is given are rows with these columns:

    - `_rowaddr` (uint64 or int64): the row of the pinned version; null for a row that is inserted.
    - `_change_type` (string, may be left out): `delete`, `update` or `insert`. Without it a row without an address
      is inserted; others are updated if there are columns of the table, else deleted.
    - columns of the table: new values. An update gives all of them; columns that are not there keep their values,
      and are null in inserted rows. They are cast to the types of the table, unless that would change a value: see
      [update_rows][pennon.LanceDataset.update_rows].

    Rows that are updated keep their ids. Each row of the table is changed once, by one task.

    Parameters
    ----------
    table
        A dataset, whose version is read, or a URI.
    schema
        The columns of the changes.
    columns, filter, batch_size, batch_size_bytes, blob_handling
        What a task reads to decide, with `_rowaddr`: [Task.to_batches][pennon.jobs.Task.to_batches] gives it, and
        the task changes rows of the fragments that it reads. Blobs are read as bytes by default, which can be
        written again. Without `columns` tasks read nothing and may change any row; they are as many as there will
        be, or `tasks`.
    decide
        Makes changes of a batch that was read: a function that can be pickled where tasks run in other processes;
        it is not part of their JSON. Tasks are run without rows then.
    updates
        The columns that updates give values, where inserted rows have more; by default all that are there.
    keys
        Columns whose values in inserted rows the transaction names: of two jobs, or a job and a merge, that insert
        one key at a time, one fails with a conflict. Rows that others append meanwhile are one if they have such a
        key.
    exact_keys
        Whether rows match where their keys are the same, and only there. With False, for a match by a cast or an
        expression, each row that others insert meanwhile is a conflict.
    predicate
        What the history shows of a job that only deletes rows, which is a delete then.
    version, tasks, bytes_per_task, storage_options, durability
        As in `plan_scan` and `plan_append`.

    Raises
    ------
    pennon.InvalidInputError
        `schema` has no addresses, or a column that the table does not have; a column to read is unknown, or a key
        is not among the columns.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"name": ["Ann", "Bob", "Cid"]}, "memory://jobs-change-rows")
    >>> schema = pa.schema({"_rowaddr": pa.uint64(), "name": pa.string()})
    >>> def shout(batch):
    ...     batch = batch.filter(pc.equal(batch["name"], "Bob"))
    ...     return {"_rowaddr": batch["_rowaddr"], "name": pc.utf8_upper(batch["name"])}
    >>> plan = jobs.plan_change_rows(table, schema, columns=["name"], decide=shout)
    >>> jobs.run(plan).counts
    {'num_inserted_rows': 0, 'num_updated_rows': 1, 'num_deleted_rows': 0}
    """
    scan: dict[str, Any] | None = None
    if columns is not None:
        listed = list(columns.items()) if isinstance(columns, Mapping) else list(columns)
        scan = {
            "columns": listed,
            "filter": filter,
            "batch_size": batch_size,
            "batch_size_bytes": batch_size_bytes,
            "blob_handling": blob_handling or "all_binary",
        }
    elif any(given is not None for given in (filter, batch_size, batch_size_bytes, blob_handling, decide)):
        raise InvalidInputError("A filter, batch size or function was given, but no columns for tasks to read")
    work = {
        "scan": scan,
        "changes": columns_of(schema),
        "updates": None if updates is None else list(updates),
        "keys": list(keys),
        "exact_keys": exact_keys,
        "predicate": predicate,
    }
    plan = planned(
        table, {"change_rows": work}, tasks, bytes_per_task, storage_options, durability, version=version
    )
    if decide is None:
        return plan
    return JobPlan(plan._native, plan._connection, ChangeFunction(decide, schema))


def plan_compaction(
    table: TableLike,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
    **options: Unpack[CompactionOptions],
) -> JobPlan:
    """Divide a compaction: a task for the fragments that are written together.

    Parameters
    ----------
    table
        A dataset or a URI.
    **options
        Those of [compact_files][pennon.optimize.DatasetOptimizer.compact_files], without `num_threads`,
        `max_seconds` and `partial_progress`.
    storage_options, durability
        As in [write_dataset][pennon.write_dataset]; by default those of the dataset.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> data = {"a": [1, 2, 3]}
    >>> table = pennon.write_dataset(data, "memory://job-compaction", mode="overwrite", max_rows_per_file=2)
    >>> plan = jobs.plan_compaction(table)
    >>> len(jobs.run(plan).dataset.get_fragments())
    1
    """
    for name in ("num_threads", "max_seconds", "partial_progress"):
        if options.get(name) is not None:
            raise InvalidInputError(f"A compaction that tasks share cannot have {name}: whoever runs them decides")
    opened, connection = opened_table(table, storage_options, durability, None)
    return JobPlan(_native.JobPlan.compaction(opened._native, option_parts(options)), connection)


def plan_verify(
    table: TableLike,
    *,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> JobPlan:
    """Divide a verification of the data of one version: each task decodes every page of some fragments.

    [JobPlan.commit][pennon.jobs.JobPlan.commit] commits nothing; it does what [verify][pennon.verify] does without
    `data`, and its report has everything that was found in [JobReport.verification][pennon.jobs.JobReport]. Files
    that only other versions have are not decoded: `verify` with `data` does that.

    Parameters
    ----------
    table, tasks, bytes_per_task, storage_options
        As in `plan_scan`.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": list(range(100))}, "memory://jobs-verify", max_rows_per_file=10)
    >>> jobs.run(jobs.plan_verify(table, tasks=3)).verification.ok
    True
    """
    return planned(table, {"verify": {}}, tasks, bytes_per_task, storage_options)
