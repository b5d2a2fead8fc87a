"""Rows that Spark finds are deleted and updated by a job of `pennon`, in one commit.

Conditions and new values are Spark's: the columns that they name are read with the address of each row, Spark
filters and computes, and a task hands addresses and values to the part of the job that read them. There is no
shuffle: partition and task have one number. After a conflict with another writer only what changed is read again.

A condition that Pennon's SQL says exactly needs no Spark to find rows that are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.catalyst.asterisks import refuse_asterisk
from pyspark_pennon.catalyst.needed_columns import has_subquery, needed_columns
from pyspark_pennon.errors import invalid, repeated, suggestion, wrong_type
from pyspark_pennon.options.provider import stored
from pyspark_pennon.reads.addressed_rows import block_of
from pyspark_pennon.reads.frames import table_frame
from pyspark_pennon.reads.reader import spark_batches
from pyspark_pennon.spark_api import as_column, check_condition, is_expression, parallelism
from pyspark_pennon.target import Target, check_system_names
from pyspark_pennon.tasks.executor import run_partitions, run_tasks
from pyspark_pennon.tasks.plans import ShippedPlan, numbered
from pyspark_pennon.tasks.retries import committed, published, retried
from pyspark_pennon.tasks.workers import mapped
from pyspark_pennon.types.assigned_values import assigned
from pyspark_pennon.types.batches import spark_rows, table_rows
from pyspark_pennon.types.column_names import assigned_name, is_case_sensitive, with_stored_names
from pyspark_pennon.types.schema import CHANGE_TYPE, ROW_ADDRESS, ROW_ID, expected_schema, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pyspark_pennon.catalyst.conditions import Condition
    from pyspark_pennon.options.source import ReadOptions

ADDRESS = pa.field(ROW_ADDRESS, pa.int64())
"""Spark has no unsigned integers."""

ROWS_PER_TASK = 1 << 20
"""Changes that a task holds in memory, about."""

LEAST_ROWS_PER_TASK = 50_000
"""A task for fewer costs more than it gains, and makes small files."""

DRIVER_BYTES = 64 << 20
"""At most this much the driver reads itself to find rows: to start tasks takes Spark longer."""


def delete_rows(target: Target, condition: Column | str | None) -> DataFrame:
    """Delete the rows for which a condition is true: see `LanceTable.delete`."""
    table = target.open()
    if condition is None:
        return _delete_all(target, table)
    shown = condition if isinstance(condition, str) else str(condition)
    found = _analysed(target, table, condition)
    if found.is_exact:
        return _delete_where(target, table, found, shown)
    return _change_where(target, table, condition, {}, skipped=found.predicate, shown=shown)


def update_rows_where(
    target: Target, condition: Column | str | None, values: Mapping[str, Column | str]
) -> DataFrame:
    """Give columns of the rows for which a condition is true new values: see `LanceTable.update`."""
    table = target.open()
    checked = assigned_columns(table.schema, values, target)
    skipped = None if condition is None else _analysed(target, table, condition).predicate
    return _change_where(target, table, condition, checked, skipped=skipped)


def assigned_columns(
    columns: pa.Schema, values: Mapping[str, Column | str], target: Target | None
) -> dict[str, Column | str]:
    """The values by the names that the table has for the columns; refuses others, and two for one column.

    Parameters
    ----------
    target
        The table, where names may be spelled as Spark reads them; None where they must be the same.
    """
    if not isinstance(values, Mapping):
        raise wrong_type(f"The values are {values!r}: expected a dict of columns and values")
    if not values:
        raise invalid("No column gets a value: expected a dict of columns and values")
    is_sensitive = target is None or is_case_sensitive(target.spark)
    checked: dict[str, Column | str] = {}
    for key, value in values.items():
        name: str | None = str(key)
        if target is not None:
            name = assigned_name(columns.names, str(key), target.alias, is_sensitive=is_sensitive)
        if name is None or name not in columns.names:
            hint = suggestion(str(key), {name: name for name in columns.names})
            raise invalid(f"There is no column '{key}'; {hint}The columns are {', '.join(columns.names)}")
        if name in checked:
            raise invalid(f"The column '{name}' gets two values: one of them by the name '{key}'")
        check_value(name, value)
        checked[name] = value
    return checked


def check_value(name: str, value: object) -> None:
    """Refuse what is not a value of a column."""
    if not is_expression(value):
        raise wrong_type(
            f"The value of column '{name}' is {value!r}: expected a Column, or an expression in Spark's SQL as "
            "text (a literal by functions.lit)"
        )


def typed_values(frame: DataFrame, table: Any, values: Mapping[str, Column | str]) -> list[Column]:
    """New values, computed from a frame, in the Spark types of the table's columns and under their names."""
    columns = {name: as_column(value) for name, value in values.items()}
    return [value.alias(name) for name, value in assigned(frame, table.schema, columns).items()]


def changes_schema(columns: pa.Schema, names: list[str], *, change_type: bool = False) -> pa.Schema:
    """The Arrow schema of changes that tasks are given.

    Raises
    ------
    pennon.InvalidInputError
        A column is called as the one that says what becomes of a row.
    """
    if CHANGE_TYPE in names:
        raise invalid(
            f"The column '{CHANGE_TYPE}' gets a value, and in tasks a column of this name says what becomes of a "
            "row: leave it out, or rename it by alter_columns of pennon"
        )
    kind = [pa.field(CHANGE_TYPE, pa.string())] if change_type else []
    return pa.schema([ADDRESS, *kind, *(columns.field(name).with_nullable(True) for name in names)])


def _analysed(target: Target, table: Any, condition: Column | str) -> Condition:
    from pyspark_pennon.catalyst.conditions import analysed

    check_condition(condition)
    columns = tables.read_schema(table, target.all_columns(table))
    return analysed(target.spark, table, columns, condition, target.alias, asterisks=False)


def _delete_all(target: Target, table: Any) -> DataFrame:
    """Delete all rows, which needs no column of them, so it is done on the driver."""
    from pennon import jobs

    plan = jobs.plan_delete(table, "true", tasks=1, storage_options=stored(target.storage_options))
    report = published(plan, lambda plan: [task.run() for task in plan.tasks], f"delete from {target.uri}")
    return target.metrics(deleted=0 if report is None else int(report.rows))


def _delete_where(target: Target, table: Any, condition: Condition, shown: str) -> DataFrame:
    """Delete the rows for which an exact predicate is true: on the driver if there is little to read."""
    from pennon import jobs

    tasks = _searching_tasks(target, table, condition)
    first = jobs.plan_change_rows(
        table,
        pa.schema([pa.field(ROW_ADDRESS, pa.uint64())]),
        columns=[],
        filter=condition.predicate,
        predicate=shown,
        tasks=tasks or 1,
        storage_options=stored(target.storage_options),
    )
    title = f"delete from {target.uri}"

    def run(plan: Any) -> list[Any]:
        # After a conflict there may be more to read: what others have added.
        if tasks == 0 and plan is first:
            return [_delete_found(task) for task in plan.tasks]
        shipped = ShippedPlan.of(plan, target.storage_options)
        parts = [shipped.only(number) for number in range(len(shipped))]
        return run_tasks(target.spark, parts, title, call=lambda part: _delete_found(part.task(0)))

    report = published(first, run, title)
    return target.metrics() if report is None else target.counted(report)


def _delete_found(task: Any) -> Any:
    """The result of a task that deletes what it reads."""
    return task.run(task.to_reader())


def _searching_tasks(target: Target, table: Any, condition: Condition) -> int:
    """Into how many tasks of Spark a search for rows is divided; 0 if it is for the driver."""
    columns = sorted(condition.references or table.schema.names)
    width = tables.row_width(table, columns)
    if width is not None and width * table.count_rows() <= DRIVER_BYTES:
        return 0
    options = target.options(filter_sql=condition.predicate)

    def tasks(options: ReadOptions) -> int:
        return int(tables.plan_read(table, options, columns, parallelism(target.spark)).num_tasks)

    return tasks(options) if tasks(replace(options, bytes_per_task=DRIVER_BYTES)) > 1 else 0


def _change_where(
    target: Target,
    table: Any,
    condition: Column | str | None,
    values: dict[str, Column | str],
    *,
    skipped: str | None,
    shown: str | None = None,
) -> DataFrame:
    """Delete or update rows and say how many; commit nothing if no row matches.

    Parameters
    ----------
    skipped
        True in Pennon's SQL for each row for which `condition` is: others are not read.
    shown
        The condition as the transaction tells it.
    """
    from pennon import jobs

    everything = target.everything(table)
    matching = everything if condition is None else everything.where(as_column(condition))
    verb = "update" if values else "delete from"
    new_values = typed_values(matching, table, values)
    wanted = matching.select(ROW_ADDRESS, *new_values)
    refuse_asterisk(wanted, target.alias)
    names = [name for name in needed_columns(wanted, everything) if name != ROW_ADDRESS]
    schema = changes_schema(table.schema, list(values))
    if has_subquery(wanted):
        return retried(lambda: _change_shuffled(target, condition, values, shown), f"{verb} {target.uri}")
    read_plan = tables.plan_read(
        table,
        target.options(),
        names or [ROW_ID],
        parallelism(target.spark),
        least_bytes=tables.LEAST_FILE_BYTES if values else None,
    )
    plan = jobs.plan_change_rows(
        table,
        schema,
        columns=names,
        filter=skipped,
        batch_size_bytes=tables.BATCH_BYTES,
        blob_handling="all_binary",
        predicate=shown,
        tasks=max(1, read_plan.num_tasks),
        storage_options=stored(target.storage_options),
    )
    read = everything.select(*(quoted(name) for name in names), ROW_ADDRESS).schema
    title = f"{verb} {target.uri}"

    def run(plan: Any) -> list[Any]:
        shipped = ShippedPlan.of(plan, target.storage_options)
        if not len(shipped):
            return []
        frame = target.named(_scanned(target.spark, shipped, read))
        if condition is not None:
            frame = frame.where(as_column(condition))
        frame = frame.select(ROW_ADDRESS, *new_values)
        return run_partitions(frame, _writing(shipped, schema), title, tasks=len(shipped))

    report = published(plan, run, title)
    return target.metrics() if report is None else target.counted(report)


def _change_shuffled(
    target: Target, condition: Column | str | None, values: dict[str, Column | str], shown: str | None
) -> DataFrame:
    """Delete or update rows that Spark may have shuffled to find them: each goes to the owner of its block."""
    from pennon import jobs

    table = target.open()
    rows = target.named(table_frame(target.spark, table, target.all_columns(table)))
    matching = rows if condition is None else rows.where(as_column(condition))
    wanted = matching.select(ROW_ADDRESS, *typed_values(matching, table, values))
    schema = changes_schema(table.schema, list(values))
    storage_options = stored(target.storage_options)
    plan = jobs.plan_change_rows(table, schema, predicate=shown, storage_options=storage_options)
    shipped = ShippedPlan.of(plan, target.storage_options)
    title = f"change rows of {target.uri}"
    results = _run_owned(target, table, wanted, _writing(shipped, schema), title, counted=matching)
    if not results:
        return target.metrics()
    return target.counted(committed(plan, results))


def _run_owned(
    target: Target,
    table: Any,
    changes: DataFrame,
    write: Callable[[int, Iterator[pa.RecordBatch]], Any],
    title: str,
    *,
    counted: DataFrame,
) -> list[Any]:
    """Results of tasks that each get all changes of a block of rows, those with changes only.

    Parameters
    ----------
    counted
        A frame with as many rows as `changes`, which takes less to count.
    """
    from pyspark.sql import functions as fn

    # A row has one change at most. Where this makes more tasks than cores, to count the changes costs less.
    tasks = number_of_tasks(target.spark, int(table.count_rows()))
    if tasks > parallelism(target.spark):
        tasks = number_of_tasks(target.spark, counted.count())
    owned = changes.repartition(tasks, block_of(fn.col(ROW_ADDRESS)))
    return [result for result in run_partitions(owned, write, title, tasks=tasks) if result.rows]


def number_of_tasks(spark: SparkSession, rows: int) -> int:
    """How many tasks share the changes of so many rows."""
    most = max(parallelism(spark), -(-rows // ROWS_PER_TASK))
    return max(1, min(-(-rows // LEAST_ROWS_PER_TASK), most))


def _scanned(spark: SparkSession, shipped: ShippedPlan, schema: Any) -> DataFrame:
    """What the tasks of a job read, a partition each."""
    expected = expected_schema(schema)

    def rows(number: int) -> Iterator[pa.RecordBatch]:
        if number < len(shipped):
            yield from spark_batches(shipped.task(number), expected)

    return numbered(spark, len(shipped), rows, schema)


def _writing(shipped: ShippedPlan, schema: pa.Schema) -> Callable[[int, Iterator[pa.RecordBatch]], Any]:
    """What a task of Spark does with the changes in its partition: the result of a task of the job."""

    def write(number: int, batches: Iterator[pa.RecordBatch]) -> Any:
        return shipped.task(number).run(table_rows(batches, schema))

    return write


def take_rows(target: Target, ids: DataFrame, columns: tuple[str, ...] | None) -> DataFrame:
    """The rows with the ids of a frame: see `LanceTable.takeRows`."""
    table = target.open()
    if ids.columns != [ROW_ID]:
        raise invalid(f"The ids have the columns {', '.join(ids.columns)}; expected _rowid alone")
    _check_ids(ids)
    options = target.options(version=int(table.version), columns=columns)
    options = tables.with_stored_columns(table, options, target.spark)
    names = [*(name for name in tables.read_columns(table, options) if name != ROW_ID), ROW_ID]
    full = target.options(version=int(table.version), columns=tuple(names))
    schema = tables.read_schema(table, full)
    expected = expected_schema(schema)

    def taken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened = tables.open_table(full)
        for batch in batches:
            if batch.num_rows:
                rows = opened.take_rows(batch.column(0), columns=names, blob_handling="all_binary")
                yield from spark_rows(rows, expected)

    return mapped(ids.select(ids[ROW_ID].cast("long").alias(ROW_ID)), taken, schema)


def _check_ids(frame: DataFrame) -> None:
    """Refuse ids with a fraction, which a cast to long would cut off: they would be those of other rows."""
    from pyspark.sql.types import DecimalType, FractionalType

    kind = frame.schema[ROW_ID].dataType
    if isinstance(kind, FractionalType) and not (isinstance(kind, DecimalType) and kind.scale == 0):
        raise invalid(f"The column _rowid has the type {kind.simpleString()}; expected long")


def update_rows(target: Target, data: DataFrame) -> DataFrame:
    """Give the rows with the ids of a frame new values: see `LanceTable.updateRows`."""
    if ROW_ID not in data.columns:
        raise invalid(f"The new values have the columns {', '.join(data.columns)}; expected _rowid and others")
    _check_ids(data)
    with repeated_row_named(lambda: _repeated_id(data)):
        return retried(lambda: _update_rows(target, data), f"update rows of {target.uri}")


@contextmanager
def repeated_row_named(find: Callable[[], str | None]) -> Iterator[None]:
    """A `RepeatedRowError` of the block says which row it is about.

    Parameters
    ----------
    find
        Gives a sentence about such a row, or None. To look for it may take as long as the block.
    """
    from pennon.errors import RepeatedRowError

    try:
        yield
    except RepeatedRowError:
        sentence = find()
        if sentence is None:
            raise
        raise repeated(sentence) from None


def _repeated_id(data: DataFrame) -> str | None:
    row = data.groupBy(ROW_ID).count().where("count > 1").first()
    if row is None:
        return None
    return f"{row[1]} rows of the frame have the _rowid {row[0]}: expected each id at most once"


def _update_rows(target: Target, data: DataFrame) -> DataFrame:
    from pennon import jobs

    table = target.open()
    data = with_stored_names(data, [ROW_ID, *table.schema.names])
    names = [name for name in data.columns if name != ROW_ID]
    assigned_columns(table.schema, {name: name for name in names}, None)
    check_system_names(target.spark, names)
    schema = changes_schema(table.schema, names)
    plan = jobs.plan_change_rows(table, schema, storage_options=stored(target.storage_options))
    shipped = ShippedPlan.of(plan, target.storage_options)
    addressed = _addressed(target, int(table.version), data, names, table)
    title = f"update rows of {target.uri}"
    results = _run_owned(target, table, addressed, _writing(shipped, schema), title, counted=data)
    return target.counted(committed(plan, results)) if results else target.metrics()


def _addressed(target: Target, version: int, data: DataFrame, names: list[str], table: Any) -> DataFrame:
    """New values with the addresses of their rows instead of ids."""
    from pyspark.sql.types import LongType, StructField, StructType

    columns = pa.schema([pa.field(ROW_ID, pa.uint64()), *table.schema])
    values = assigned(data, columns, {name: data[quoted(name)] for name in [ROW_ID, *names]})
    typed = data.select(*(value.alias(name) for name, value in values.items()))
    schema = StructType([StructField(ROW_ADDRESS, LongType()), *typed.schema.fields[1:]])
    expected = expected_schema(schema)
    options = target.options(version=version)

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened = tables.open_table(options)
        for batch in batches:
            if batch.num_rows:
                found = opened.take_rows(batch.column(0), columns=[ROW_ADDRESS], missing="error")
                address = found[ROW_ADDRESS].combine_chunks().cast(pa.int64())
                yield pa.RecordBatch.from_arrays([address, *batch.columns[1:]], schema=expected)

    return mapped(typed, look_up, schema)
