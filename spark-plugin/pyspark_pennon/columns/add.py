"""`LanceTable.addColumns`: new columns of all rows, computed by Spark or by a function next to the files.

A job of `pennon` divides the fragments. A task reads the columns that are needed of its fragments, in their
order, and writes a file with the new columns for each. Partition and task have one number, and the address of each
row goes through Spark with its values: rows that come back in another order, or not at all, are an error and not a
table with values in wrong rows.

With a checkpoint tasks run in groups, and the results of each group are recorded. Results are small: they name the
files. After a conflict, or in a later run, results of fragments that have not changed are used again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.catalyst.asterisks import refuse_asterisk
from pyspark_pennon.catalyst.needed_columns import needed_columns, other_rows
from pyspark_pennon.columns.checkpoint import Checkpoint
from pyspark_pennon.columns.function_identity import digest
from pyspark_pennon.errors import invalid, mismatch, missing
from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.options.provider import stored
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.row_changes import check_value
from pyspark_pennon.spark_api import as_column, parallelism
from pyspark_pennon.target import Target
from pyspark_pennon.tasks.executor import run_partitions, run_tasks
from pyspark_pennon.tasks.orphans import mark_not_orphans
from pyspark_pennon.tasks.plans import ShippedPlan, numbered
from pyspark_pennon.tasks.retries import committed, retried
from pyspark_pennon.types.batches import spark_rows, table_rows
from pyspark_pennon.types.column_names import is_case_sensitive, refuse_repeated, stored_names
from pyspark_pennon.types.schema import (
    FRAGMENT_BITS,
    ROW_ADDRESS,
    ROW_ID,
    SYSTEM_COLUMNS,
    expected_schema,
    parsed_schema,
    quoted,
)
from pyspark_pennon.types.storable import frame_schema, new_table_schema, refuse_other_case

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

TASKS_PER_CORE = 8
"""Tasks of a run with a checkpoint, at least: what is lost with a group is a part of the work."""

_IDENTITY = re.compile(r"@[0-9a-f]+|#\d+L?")
"""What Spark's text of an expression has of the objects of a process."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expressions:
    """New columns that Spark computes."""

    target: Target
    values: dict[str, Column | str]
    types: pa.Schema | None

    @classmethod
    def of(
        cls,
        target: Target,
        values: Mapping[str, Column | str],
        schema: pa.Schema | StructType | str | None,
        others: Mapping[str, object],
    ) -> Expressions:
        """Check what a user gave."""
        if not isinstance(values, Mapping) or not values:
            raise invalid(
                f"New columns come from a dict of names and expressions, or from a function: found {values!r}"
            )
        for name, value in values.items():
            check_value(name, value)
        for option, setting in others.items():
            if setting is not None:
                raise invalid(f"{option} is for functions, and expressions were given")
        types = None if schema is None else given_schema(schema)
        if types is not None and set(types.names) != set(values):
            raise invalid(f"The schema has the columns {', '.join(types.names)}; expected {', '.join(values)}")
        return cls(target, dict(values), types)

    @property
    def names(self) -> list[str]:
        """The new columns."""
        return list(self.values)

    def describe(self) -> str:
        """The work, for the comparison with a checkpoint: the same in another process."""
        values = "; ".join(f"{name} = {_IDENTITY.sub('', str(value))}" for name, value in self.values.items())
        return values if self.types is None else f"{values} as {_shown(self.types)}"

    def schema(self, table: Any) -> pa.Schema:
        """The Arrow schema of the new columns."""
        wanted = self._wanted(self.target.everything(table))
        refuse_asterisk(wanted, self.target.alias)
        found = other_rows(wanted)
        if found is not None:
            raise invalid(
                f"A new column is computed from its own row, and {self.describe()} needs others: found {found}"
            )
        if self.types is not None:
            return pa.schema([self.types.field(name) for name in self.values])
        return frame_schema(wanted.schema)

    def read_columns(self, table: Any) -> list[str]:
        """The columns of the table that the values name."""
        everything = self.target.everything(table)
        return [name for name in needed_columns(self._wanted(everything), everything) if name != ROW_ADDRESS]

    def run(self, table: Any, plan: Any, schema: pa.Schema, numbers: list[int]) -> list[Any]:
        """The results of some tasks."""
        everything = self.target.everything(table)
        names = self.read_columns(table)
        read = everything.select(*(quoted(name) for name in names), ROW_ADDRESS).schema
        expected = expected_schema(read)
        shipped = ShippedPlan.of(plan, self.target.storage_options)
        storage_options = self.target.storage_options

        def rows(at: int) -> Iterator[pa.RecordBatch]:
            if at < len(numbers):
                yield from spark_rows(fragment_batches(shipped.task(numbers[at]), names, storage_options), expected)

        def write(at: int, batches: Iterator[pa.RecordBatch]) -> Any:
            if at >= len(numbers):
                return None
            task = shipped.task(numbers[at])
            return task.run(table_rows(in_order(task, batches), schema))

        frame = self.target.named(numbered(self.target.spark, len(numbers), rows, read))
        frame = frame.select(ROW_ADDRESS, *self._columns())
        found = run_partitions(frame, write, _title(self.target), tasks=len(numbers))
        return [result for result in found if result is not None]

    def _wanted(self, everything: DataFrame) -> DataFrame:
        return everything.select(*self._columns())

    def _columns(self) -> list[Column]:
        return [as_column(value).alias(name) for name, value in self.values.items()]


@dataclass(frozen=True)
class BatchFunction:
    """New columns that a function computes, batch by batch."""

    target: Target
    function: Callable[[Any], Any]
    types: pa.Schema
    columns: list[str] | None
    is_pandas: bool
    batch_size: int | None

    @classmethod
    def of(
        cls,
        target: Target,
        function: Callable[[Any], Any],
        schema: pa.Schema | StructType | str | None,
        columns: Sequence[str] | None,
        batch_format: str,
        batch_size: int | None,
    ) -> BatchFunction:
        """Check what a user gave."""
        if schema is None:
            raise invalid(
                "A function was given without a schema: expected the new columns as an Arrow or Spark schema"
            )
        if batch_format not in ("arrow", "pandas"):
            raise invalid(f"batchFormat is {batch_format!r}: expected 'arrow' or 'pandas'")
        if batch_size is not None and batch_size < 1:
            raise invalid(f"batchSize is {batch_size}: expected at least 1")
        if isinstance(columns, str):
            raise invalid(f"readColumns is the text {columns!r}: expected a list of names")
        types = given_schema(schema)
        if not types.names:
            raise invalid("The schema has no columns: expected those that the function computes")
        listed = None if columns is None else list(columns)
        return cls(target, function, types, listed, batch_format == "pandas", batch_size)

    @property
    def names(self) -> list[str]:
        """The new columns."""
        return list(self.types.names)

    def describe(self) -> str:
        """The work, for the comparison with a checkpoint: the same in another process."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{name} ({digest(self.function)}) of {self.columns} as {_shown(self.types)}"

    def schema(self, table: Any) -> pa.Schema:
        """The Arrow schema of the new columns."""
        self.read_columns(table)
        return self.types

    def read_columns(self, table: Any) -> list[str]:
        """The columns that the function gets."""
        known = table.schema.names
        if self.columns is None:
            return list(known)
        is_sensitive = is_case_sensitive(self.target.spark)
        names = stored_names([*known, *SYSTEM_COLUMNS], self.columns, is_sensitive=is_sensitive)
        for name in names:
            if name not in known and name not in SYSTEM_COLUMNS:
                raise invalid(f"There is no column '{name}' to read; the columns are {', '.join(known)}")
        return list(dict.fromkeys(names))

    def run(self, table: Any, plan: Any, schema: pa.Schema, numbers: list[int]) -> list[Any]:
        """The results of some tasks."""
        shipped = ShippedPlan.of(plan, self.target.storage_options)
        names = self.read_columns(table)
        function, is_pandas, batch_size = self.function, self.is_pandas, self.batch_size
        storage_options = self.target.storage_options

        def write(number: int) -> Any:
            task = shipped.task(number)

            def values() -> Iterator[pa.RecordBatch]:
                for batch in fragment_batches(task, names, storage_options, batch_size):
                    given = batch.select(names)
                    yield from _computed(
                        function(given.to_pandas() if is_pandas else given), schema, batch.num_rows
                    )

            return task.run(pa.RecordBatchReader.from_batches(schema, values()))

        return run_tasks(self.target.spark, numbers, _title(self.target), call=write)


def add_columns(target: Target, work: Expressions | BatchFunction, path: str | PathLike[str] | None) -> DataFrame:
    """Give all rows new columns: see `LanceTable.addColumns`."""
    import pennon
    from pennon import jobs

    checkpoint = None if path is None else Checkpoint(path, target.uri, work.describe())
    table = target.open()
    found = None if checkpoint is None else checkpoint.load()
    results: list[Any] = []
    if found is not None and checkpoint is not None:
        plan = jobs.JobPlan.from_json(found.plan, storage_options=stored(target.storage_options))
        results = [jobs.TaskResult.from_json(text) for text in found.results]
        status = table.commit_status(plan.uuid)
        if status.committed:
            checkpoint.remove()
            return _report(target, table.checkout_version(status.version))
        check_new(table, work.names)
        _log.info("new columns of %s: %d of %d tasks are done", target.uri, len(results), plan.num_tasks)
    else:
        check_new(table, work.names)
        plan = _planned(target, work, table, is_divided=checkpoint is not None)
    state: list[Any] = [plan, results]

    def attempt() -> Any:
        plan, results = state
        state[1] = results = _results(target, work, plan, results, checkpoint)
        try:
            return committed(plan, results).dataset
        except pennon.CommitConflictError as error:
            if error.retryable:
                check_new(target.open(), work.names)
                state[:] = [plan.renew(results), []]
            raise

    try:
        done = retried(attempt, f"the addition of columns to {target.uri}")
    except pennon.NotFoundError as error:
        if found is None or checkpoint is None:
            raise
        _log.warning("what %s records is gone, and is computed again: %s", path, error)
        checkpoint.remove()
        return add_columns(target, work, path)
    if checkpoint is not None:
        checkpoint.remove()
    return _report(target, done)


def _planned(target: Target, work: Expressions | BatchFunction, table: Any, *, is_divided: bool) -> Any:
    from pennon import jobs

    schema = work.schema(table)
    columns = [name for name in work.read_columns(table) if name in table.schema.names]
    cores = parallelism(target.spark)
    tasks = int(tables.plan_read(table, target.options(), columns or [ROW_ID], cores).num_tasks)
    if is_divided:
        tasks = max(tasks, cores * TASKS_PER_CORE)
    return jobs.plan_add_columns(table, schema, tasks=max(1, tasks), storage_options=stored(target.storage_options))


def _results(
    target: Target,
    work: Expressions | BatchFunction,
    plan: Any,
    results: list[Any],
    checkpoint: Checkpoint | None,
) -> list[Any]:
    """The results of all tasks of a plan, given those that are there."""
    done = {result.number for result in results}
    missing = [number for number in range(plan.num_tasks) if number not in done]
    table = target.open(plan.version)
    schema = work.schema(table)
    size = len(missing) if checkpoint is None else 2 * parallelism(target.spark)
    if checkpoint is not None:
        _save(checkpoint, plan, results)
    for start in range(0, len(missing), max(1, size)):
        results = [*results, *work.run(table, plan, schema, missing[start : start + size])]
        if checkpoint is not None:
            _save(checkpoint, plan, results)
    return results


def _save(checkpoint: Checkpoint, plan: Any, results: list[Any]) -> None:
    """Record results; their files are no orphans, whatever happens then."""
    checkpoint.save(plan, results)
    mark_not_orphans(results)


def _report(target: Target, table: Any) -> DataFrame:
    row = (int(table.count_rows()), int(table.version))
    return local_frame(target.spark, [row], "num_affected_rows long, version long")


def check_new(table: Any, names: Sequence[str]) -> None:
    """Refuse names that a table has, or that no column can have."""
    refuse_repeated(names)
    for at, name in enumerate(names):
        if name in table.schema.names:
            raise invalid(
                f"The table has a column '{name}': give it new values by update or updateColumnsFrom, or drop it"
            )
        if name in SYSTEM_COLUMNS:
            raise invalid(f"'{name}' is a system column, which every table has by itself")
        refuse_other_case([*table.schema.names, *names[:at]], name)


def fragment_batches(
    task: Any, columns: list[str], storage_options: Mapping[str, str], batch_size: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The live rows of the fragments of a task, in order, with their addresses; runs on an executor."""
    table = tables.open_table(ReadOptions(task.uri, storage_options, task.version))
    fragments = {fragment.fragment_id: fragment for fragment in table.get_fragments()}
    for number, _ in task.slices:
        if number not in fragments:
            raise missing(
                f"Version {task.version} of {task.uri} has no fragment {number} now: the table was dropped and "
                "made again meanwhile",
                task.uri,
            )
        scanner = fragments[number].scanner(
            columns=list(dict.fromkeys([*columns, ROW_ADDRESS])), batch_size=batch_size, blob_handling="all_binary"
        )
        yield from scanner.to_batches()


def in_order(task: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches. Raises `InvalidInputError` for rows in another order than that in which they were read."""
    import numpy as np

    positions = {fragment: at for at, (fragment, _) in enumerate(task.slices)}
    last = -1
    for batch in batches:
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        ranks = addresses & ((1 << FRAGMENT_BITS) - 1)
        for fragment in np.unique(addresses >> FRAGMENT_BITS):
            ranks[addresses >> FRAGMENT_BITS == fragment] |= positions.get(int(fragment), -1) << FRAGMENT_BITS
        if len(ranks) and (ranks[0] <= last or (np.diff(ranks) <= 0).any()):
            raise invalid("The new columns are in another order than the rows: expected values computed row by row")
        last = int(ranks[-1]) if len(ranks) else last
        yield batch


def _computed(found: Any, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """What a function returned, as batches with the columns of `schema`."""
    from pennon.errors import PennonError

    try:
        table = _returned(found, schema)
        if sorted(table.column_names) != sorted(schema.names):
            raise mismatch(
                f"The function returned the columns {', '.join(table.column_names)}; expected "
                f"{', '.join(schema.names)}"
            )
        if table.num_rows != rows:
            raise mismatch(f"The function returned {table.num_rows} rows for a batch of {rows} rows")
        for field in schema:
            if not field.nullable and table[field.name].null_count:
                raise mismatch(f"The function returned nulls in the column {field.name}, which may not be null")
        batches = table.select(schema.names).cast(schema).to_batches()
    except PennonError:  # some of them are a ValueError
        raise
    except (TypeError, ValueError, pa.ArrowNotImplementedError) as error:
        raise mismatch(f"What the function returned does not become {_shown(schema)}: {error}") from error
    yield from batches


def _returned(found: Any, schema: pa.Schema) -> pa.Table:
    if isinstance(found, Mapping):
        return pa.table(dict(found))
    if hasattr(found, "__dataframe__") and type(found).__module__.startswith("pandas"):
        # For a null in a column that may have none pyarrow raises a bare ValueError.
        wanted = _nullable(schema) if set(found.columns) == set(schema.names) else None
        return pa.Table.from_pandas(found, schema=wanted)
    if hasattr(found, "__arrow_c_array__") or hasattr(found, "__arrow_c_stream__"):
        return pa.table(found)
    raise mismatch(f"The function returned {type(found).__name__}: expected a batch of the new columns")


def given_schema(schema: pa.Schema | StructType | str) -> pa.Schema:
    """An Arrow schema from one of Arrow, of Spark, or from its text."""
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, str):
        schema = parsed_schema(schema)
    if not hasattr(schema, "fields"):
        raise invalid(
            f"The schema is a {type(schema).__name__}: expected an Arrow schema, a StructType or its text"
        )
    return new_table_schema(schema)


def _title(target: Target) -> str:
    return f"add columns to {target.uri}"


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
