"""Batch reads: one version pinned on the driver, fragments divided among tasks.

`partitions` runs once, on the driver's side, and resolves the version; every partition carries it,
so tasks that start minutes apart, or run again, see the same table. A task gets a descriptor
(URI, version, fragment ids, storage options) and opens the table itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_pennon import tables
from pyspark_pennon.filters import Translator, conjunction
from pyspark_pennon.schema import expected_schema, spark_batch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_pennon.options import ReadOptions

ROWS_PER_TASK = 131_072
"""Neighbouring fragments share a task until it has this many rows, unless the option
`fragments_per_task` says otherwise: a task costs Spark some 10 ms."""


@dataclass(frozen=True)
class FragmentPartition(InputPartition):
    """Fragments of one version for one task."""

    version: int
    fragments: tuple[int, ...]


class Reader(DataSourceReader):
    """Reads the columns of `schema` from one version of a table."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Pin the version and group its fragments into tasks."""
        snapshot = tables.open_table(self._options)
        tables.check_columns(snapshot, self._options, self._schema)
        groups = group_fragments(tables.fragment_rows(snapshot), self._options.fragments_per_task)
        # Without partitions Spark would generate one that carries no version.
        return [FragmentPartition(snapshot.version, ids) for ids in groups or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Scan the partition's fragments; runs in a task."""
        assert isinstance(partition, FragmentPartition)
        if not partition.fragments:
            return
        options = replace(self._options, version=partition.version)
        target = expected_schema(self._schema)
        for batch in tables.scan(options, partition.fragments, self._schema.fieldNames()):
            yield spark_batch(batch, target)


class FilteringReader(Reader):
    """A reader that takes over the filters it can apply exactly."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        """Take over the filters that translate exactly; return the others to Spark."""
        snapshot = tables.open_table(self._options)
        kinds = {field.name: field.dataType for field in self._schema.fields}
        translator = Translator(tables.full_schema(snapshot), kinds)
        taken = [] if self._options.filter is None else [self._options.filter]
        refused = []
        for pushed in filters:
            predicate = translator.translate(pushed)
            if predicate is None:
                refused.append(pushed)
            else:
                taken.append(predicate)
        # The filters were translated with the types of this version.
        self._options = replace(self._options, filter=conjunction(taken), version=snapshot.version)
        return iter(refused)


def group_fragments(fragments: list[tuple[int, int]], per_task: int | None = None) -> list[tuple[int, ...]]:
    """Divide `(fragment id, rows)` pairs, in order, into one group per task."""
    groups: list[list[int]] = []
    rows_in_last = 0
    for fragment, rows in fragments:
        full = rows_in_last >= ROWS_PER_TASK if per_task is None else bool(groups) and len(groups[-1]) >= per_task
        if not groups or full:
            groups.append([])
            rows_in_last = 0
        groups[-1].append(fragment)
        rows_in_last += rows
    return [tuple(group) for group in groups]
