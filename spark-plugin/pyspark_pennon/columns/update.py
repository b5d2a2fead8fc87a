"""`LanceTable.updateColumnsFrom`: new values of columns from a frame, by key.

Spark joins the keys of the table, with the address of each row, with the frame: nothing else of the table is read
or shuffled. New values go to the task that owns the fragment, which writes new files of these columns. A row for
each task goes along, so that tasks whose fragments have no match report, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pennon.errors import invalid, repeated
from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.options.provider import stored
from pyspark_pennon.reads.frames import table_frame
from pyspark_pennon.row_changes import assigned_columns, repeated_row_named, typed_values
from pyspark_pennon.spark_api import parallelism
from pyspark_pennon.target import Target, check_system_names
from pyspark_pennon.tasks.executor import described, run_partitions
from pyspark_pennon.tasks.plans import ShippedPlan
from pyspark_pennon.tasks.retries import committed, retried
from pyspark_pennon.types.batches import table_rows
from pyspark_pennon.types.column_names import is_case_sensitive, stored_names, with_stored_names
from pyspark_pennon.types.schema import FRAGMENT_BITS, ROW_ADDRESS, ROW_ID, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TASK = "_pennon_task"
_FRAGMENT = "_pennon_fragment"
_KEY = "_pennon_key_"


def update_columns_from(target: Target, data: DataFrame, keys: list[str]) -> DataFrame:
    """Give columns new values from a frame: see `LanceTable.updateColumnsFrom`."""
    return retried(lambda: _attempt(target, data, keys), f"an update of columns of {target.uri}")


def _attempt(target: Target, data: DataFrame, keys: list[str]) -> DataFrame:
    from pennon import jobs
    from pyspark.sql import functions as fn

    table = target.open()
    known = [ROW_ID, *table.schema.names]
    data = with_stored_names(data, known)
    keys = stored_names(known, keys, is_sensitive=is_case_sensitive(target.spark))
    names = _checked(table, data, keys)
    check_system_names(target.spark, [*keys, *names])
    address = pa.field(ROW_ADDRESS, pa.uint64())
    schema = pa.schema([address, *(table.schema.field(name).with_nullable(True) for name in names)])
    plan = jobs.plan_update_columns(table, schema, ROW_ADDRESS, storage_options=stored(target.storage_options))
    if not plan.num_tasks:
        return target.metrics()
    matches = _matches(target, table, data, keys, names)
    spark = target.spark
    owners = [(fragment, task.number) for task in plan.tasks for fragment, _ in task.slices]
    owner = fn.broadcast(local_frame(spark, owners, f"{_FRAGMENT} long, {_TASK} int"))
    fragment = fn.shiftright(fn.col(ROW_ADDRESS), FRAGMENT_BITS)
    owned = matches.join(owner, fragment == fn.col(_FRAGMENT)).drop(_FRAGMENT)
    every = spark.range(0, plan.num_tasks).select(fn.col("id").cast("int").alias(_TASK))
    partitions = max(1, min(plan.num_tasks, 4 * parallelism(spark)))
    divided = owned.unionByName(every, allowMissingColumns=True).repartition(partitions, _TASK)
    shipped = ShippedPlan.of(plan, target.storage_options)

    def write(_number: int, batches: Iterator[pa.RecordBatch]) -> list[Any]:
        parts = (part for batch in batches for part in _by_task(batch))
        return [
            shipped.task(number).run(source=_once(table_rows((rows for _, rows in found), schema).read_all()))
            for number, found in groupby(parts, key=lambda part: part[0])
        ]

    title = f"update columns of {target.uri}"
    with described(target.spark, title), repeated_row_named(lambda: _repeated(matches, target, table, keys)):
        found = run_partitions(divided.sortWithinPartitions(_TASK), write, title, tasks=partitions)
    results = [result for part in found for result in part]
    if not any(result.rows for result in results):
        return target.metrics()
    return target.metrics(updated=committed(plan, results).rows)


def _checked(table: Any, data: DataFrame, keys: list[str]) -> list[str]:
    """The columns that get values. Raises `InvalidInputError` for keys and columns that cannot be."""
    if not keys:
        raise invalid("No key was given: expected one or more columns, or _rowid")
    for key in keys:
        if key not in data.columns:
            raise invalid(f"The frame lacks the key '{key}': its columns are {', '.join(data.columns)}")
        if key != ROW_ID and key not in table.schema.names:
            raise invalid(f"The table lacks the key '{key}': its columns are {', '.join(table.schema.names)}")
    names = [name for name in data.columns if name not in keys]
    unknown = [name for name in names if name not in table.schema.names]
    if unknown:
        raise invalid(
            f"The frame has the column '{unknown[0]}', which the table lacks: drop it, or make it by addColumns "
            f"first; the columns are {', '.join(table.schema.names)}"
        )
    if len(set(data.columns)) < len(data.columns):
        raise invalid(f"A column occurs more than once in the frame: its columns are {', '.join(data.columns)}")
    assigned_columns(table.schema, {name: name for name in names}, None)
    return names


def _matches(target: Target, table: Any, data: DataFrame, keys: list[str], names: list[str]) -> DataFrame:
    """The addresses of rows with their new values."""
    stored = _keys(target, table, keys)
    given = data.select(
        *(data[quoted(key)].alias(f"{_KEY}{at}") for at, key in enumerate(keys)),
        *typed_values(data, table, {name: data[quoted(name)] for name in names}),
    )
    condition = stored[quoted(keys[0])] == given[f"{_KEY}0"]
    for at, key in enumerate(keys[1:], 1):
        condition = condition & (stored[quoted(key)] == given[f"{_KEY}{at}"])
    return stored.join(given, condition).select(
        stored[ROW_ADDRESS].alias(ROW_ADDRESS), *(given[quoted(name)] for name in names)
    )


def _keys(target: Target, table: Any, keys: list[str]) -> DataFrame:
    """Keys and addresses of all rows."""
    options = target.options(
        version=int(table.version),
        columns=tuple(key for key in keys if key != ROW_ID),
        with_row_id=ROW_ID in keys,
        with_row_address=True,
    )
    return table_frame(target.spark, table, options)


def _by_task(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a batch, which is sorted by task, divided; without the rows that only name a task."""
    numbers = batch.column(_TASK).to_numpy()
    rows = batch.drop_columns([_TASK])
    start = 0
    while start < len(numbers):
        number = int(numbers[start])
        end = int(numbers.searchsorted(number, side="right"))
        part = rows.slice(start, end - start)
        yield number, part.filter(pc.is_valid(part.column(ROW_ADDRESS)))
        start = end


def _once(values: pa.Table) -> pa.Table:
    """The same new values. Raises `RepeatedRowError` if two are for one row: the job would take either."""
    if pc.count_distinct(values[ROW_ADDRESS]).as_py() < values.num_rows:
        raise repeated("Several rows of the frame match one row of the table: expected at most one")
    return values


def _repeated(matches: DataFrame, target: Target, table: Any, keys: list[str]) -> str | None:
    """A sentence about a row that several rows of the frame match, if there is one."""
    from pyspark.sql import functions as fn

    counted = matches.groupBy(ROW_ADDRESS).agg(fn.count("*").alias("n")).where("n > 1")
    row = counted.orderBy(ROW_ADDRESS).first()
    if row is None:
        return None
    found = _keys(target, table, keys).where(fn.col(ROW_ADDRESS) == row[ROW_ADDRESS]).first()
    shown = {key: found[key] for key in keys} if found is not None else {}
    return f"{row['n']} rows of the frame match one row of the table, whose key is {shown}: expected at most one"
