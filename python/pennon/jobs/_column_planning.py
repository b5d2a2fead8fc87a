"""Plans of work on columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.jobs._plan import JobPlan
from pennon.jobs._request import columns_of, opened_table, planned
from pennon.jobs._task import ColumnFunction
from pennon.udf import BatchUDF, normalize_transform

if TYPE_CHECKING:
    from pennon.jobs._request import TableLike
    from pennon.types import Durability


def plan_add_columns(
    table: TableLike,
    transforms: Mapping[str, str] | BatchUDF | Callable[[pa.RecordBatch], Any] | pa.Schema,
    *,
    read_columns: list[str] | None = None,
    batch_size: int | None = None,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Divide new columns of all rows: each task writes them for some fragments, each of them whole.

    Parameters
    ----------
    transforms
        A dict of names and SQL expressions, or a function over batches as in
        [LanceDataset.add_columns][pennon.LanceDataset.add_columns]. Where tasks run in other processes, the
        function must be one that can be pickled; it is not part of their JSON. Or the schema of columns that tasks
        are given: [Task.run][pennon.jobs.Task.run] gets them for all live rows of the fragments in
        [Task.slices][pennon.jobs.Task.slices], in that order.
    read_columns
        The columns that a function gets; by default all of the table.
    batch_size
        The most rows that a function or an expression gets at once.
    table, tasks, bytes_per_task, storage_options, durability
        As in `plan_scan` and `plan_append`.

    Raises
    ------
    pennon.InvalidInputError
        An expression does not parse, or the table has the column already.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> data = {"a": [1, 2, 3]}
    >>> table = pennon.write_dataset(data, "memory://job-columns", mode="overwrite", max_rows_per_file=2)
    >>> plan = jobs.plan_add_columns(table, {"b": "a + 1"})
    >>> jobs.run(plan).dataset.to_table()["b"].to_pylist()
    [2, 3, 4]
    """
    if isinstance(transforms, Mapping):
        work = {"expressions": {"expressions": list(transforms.items()), "batch_size": batch_size}}
        return planned(table, {"add_columns": work}, tasks, bytes_per_task, storage_options, durability)
    dataset, _ = opened_table(table, storage_options, durability, None)
    if isinstance(transforms, pa.Schema):
        if read_columns is not None or batch_size is not None:
            raise InvalidInputError(
                "Columns to read or a size of batches were given, but no function that gets them"
            )
        given = {"values": {"schema": columns_of(transforms)}}
        return planned(dataset, {"add_columns": given}, tasks, bytes_per_task, storage_options, durability)
    udf = normalize_transform(transforms, dataset, read_columns, None)
    if not isinstance(udf, BatchUDF):
        raise InvalidInputError(
            f"New columns come from expressions or a function, found {type(transforms).__name__}; for columns of "
            "other data use plan_join_columns"
        )
    values = {"values": {"schema": columns_of(udf.output_schema)}}
    plan = planned(dataset, {"add_columns": values}, tasks, bytes_per_task, storage_options, durability)
    return JobPlan(plan._native, plan._connection, ColumnFunction(udf, read_columns, batch_size))


def plan_join_columns(
    table: TableLike,
    schema: pa.Schema,
    left_on: str,
    right_on: str | None = None,
    *,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Divide new columns that come from other data by a key, as in [merge][pennon.LanceDataset.merge].

    Each task is given all of that data, as the `source` of [run][pennon.jobs.run] or
    [Task.run][pennon.jobs.Task.run]. Rows without a match get null.

    Parameters
    ----------
    schema
        The columns of the data: the key and the new columns.
    left_on
        The key in the table, `_rowid` and `_rowaddr` included.
    right_on
        The key in the data; by default that of the table.
    table, tasks, bytes_per_task, storage_options, durability
        As in `plan_scan` and `plan_append`.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"id": [1, 2]}, "memory://job-join", mode="overwrite")
    >>> names = pa.table({"id": [2], "name": ["bob"]})
    >>> plan = jobs.plan_join_columns(table, names.schema, "id")
    >>> jobs.run(plan, source=names).dataset.to_table().to_pylist()
    [{'id': 1, 'name': None}, {'id': 2, 'name': 'bob'}]
    """
    work = {"join": {"left_on": left_on, "right_on": right_on or left_on, "source": columns_of(schema)}}
    return planned(table, {"add_columns": work}, tasks, bytes_per_task, storage_options, durability)


def plan_update_columns(
    table: TableLike,
    schema: pa.Schema,
    left_on: str = "_rowid",
    right_on: str | None = None,
    *,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability | None = None,
) -> JobPlan:
    """Divide new values of columns that come from other data by a key.

    Columns are rewritten, rows stay where they are. Parameters as in `plan_join_columns`; the columns besides the
    key are those of the table that change, in rows that have a match.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"id": [1, 2], "n": [0, 0]}, "memory://job-update-columns", mode="overwrite")
    >>> new = pa.table({"id": [2], "n": [7]})
    >>> plan = jobs.plan_update_columns(table, new.schema, "id")
    >>> jobs.run(plan, source=new).dataset.to_table().to_pylist()
    [{'id': 1, 'n': 0}, {'id': 2, 'n': 7}]
    """
    work = {"left_on": left_on, "right_on": right_on or left_on, "source": columns_of(schema)}
    return planned(table, {"update_columns": work}, tasks, bytes_per_task, storage_options, durability)
