"""Batch reads through the data source: one version, divided into tasks by `pennon.jobs`.

Spark asks for the schema when a frame is made, and for the tasks at the first action, each in a process of its own.
So the schema carries the version to the tasks: the first field has it in its metadata, under `pennon.read`,
with the location whose version it is, which is that of a branch if a tag or branch was asked for, and with the time
at which it was made: the same version of a table that was made again at the same URI has another. A schema that a
person gives by `.schema(...)` has no such metadata, unless it is that of another frame of the same table, whose
version it then means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.catalyst.filters import Translator, conjunction
from pyspark_pennon.errors import invalid, noted
from pyspark_pennon.spark_api import DataSourceReader, InputPartition
from pyspark_pennon.tasks.plans import ShippedPlan
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.types.arrow_facts import READ
from pyspark_pennon.types.batches import spark_rows
from pyspark_pennon.types.schema import expected_schema
from pyspark_pennon.version_times import version_microseconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from pyspark_pennon.options.source import ReadOptions


def pinned_schema(options: ReadOptions) -> StructType:
    """The schema of a frame, with the version that it will read."""
    table = tables.open_table(options)
    schema = tables.read_schema(table, tables.with_stored_columns(table, options))
    first = schema.fields[0]
    found = {"location": table.uri, "version": table.version, "made": version_microseconds(table)}
    first.metadata = {**first.metadata, READ: {**_asked(options), **found}}
    return schema


def _pin(options: ReadOptions, schema: StructType) -> dict[str, Any] | None:
    """The version that the schema carries, if it is of a frame with the same URI and reference."""
    asked = _asked(options)
    for field in schema.fields:
        pin: Any = field.metadata.get(READ)
        if isinstance(pin, dict) and "location" in pin and {**pin, **asked} == pin:
            return pin
    return None


def _asked(options: ReadOptions) -> dict[str, str]:
    version = "" if options.version is None else repr(options.version)
    return {
        "uri": options.uri,
        "asked": version,
        "branch": options.branch or "",
        "timestamp": str(options.timestamp or ""),
    }


@dataclass(frozen=True)
class TaskPartition(InputPartition):
    """A task of a scan; None of an empty table, for which Spark wants a partition as well."""

    plan: ShippedPlan | None


class Reader(DataSourceReader):
    """Reads the columns of `schema` from one version of a table."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        pin = _pin(options, schema)
        self._options = options if pin is None else options.at(pin["location"], int(pin["version"]))
        self._made = None if pin is None else pin.get("made")
        self._schema = schema

    @noted()
    def partitions(self) -> Sequence[InputPartition]:
        """Divide the version into tasks."""
        table = self._opened()
        tables.check_asked(table, self._options, self._schema)
        # The processors of the executors are not known here.
        names = tables.asked_columns(table, self._schema)
        plan = tables.plan_read(table, self._options, names, os.cpu_count() or 1)
        shipped = ShippedPlan.of(plan, self._options.storage_options)
        return [TaskPartition(shipped.only(number)) for number in range(len(shipped))] or [TaskPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Scan the partition's rows; runs in a task."""
        assert isinstance(partition, TaskPartition)
        if partition.plan is None:
            return
        with quick_task():
            yield from spark_batches(partition.plan.task(0), expected_schema(self._schema))

    def _opened(self) -> Any:
        """The table, at the version of the frame. Raises an error if it is another table now."""
        table = tables.open_table(self._options)
        made = version_microseconds(table)
        if self._made is not None and made != self._made:
            raise invalid(
                f"The frame is of another table: version {table.version} of {self._options.uri} was made {made} "
                f"microseconds after 1970, and that of the frame {self._made}. A table that was dropped and made "
                "again is another one: load it again"
            )
        return table


def spark_batches(task: Any, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task of a scan, in the types that Spark expects."""
    return spark_rows(task.to_reader(), target)


class FilteringReader(Reader):
    """A reader that takes over the filters it can apply exactly."""

    @noted()
    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Take over the filters that translate exactly; return the others to Spark."""
        table = self._opened()
        kinds = {field.name: field.dataType for field in self._schema.fields}
        translator = Translator(tables.full_schema(table), kinds)
        taken = [] if self._options.filter_sql is None else [self._options.filter_sql]
        refused = []
        for pushed in filters:
            predicate = translator.translate(pushed)
            if predicate is None:
                refused.append(pushed)
            else:
                taken.append(predicate)
        # The filters were translated with the types of this version.
        self._options = replace(self._options.at(table.uri, table.version), filter_sql=conjunction(taken))
        return iter(refused)
