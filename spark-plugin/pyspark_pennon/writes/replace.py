"""Replace where: rows that satisfy a condition are deleted and those of a frame added, in one commit.

Spark evaluates the condition on the pinned version, so that it means what it means in `DataFrame.where`; the row
ids of what is to go are a source of a merge by `_rowid` that deletes what matches, and the rows of the frame, which
have no id, are what it inserts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.catalyst.asterisks import refuse_asterisk
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.reads.frames import read
from pyspark_pennon.spark_api import as_column
from pyspark_pennon.tasks.plans import ShippedPlan
from pyspark_pennon.tasks.retries import retried
from pyspark_pennon.types.schema import ROW_ID
from pyspark_pennon.types.storable import append_schema
from pyspark_pennon.writes.new_columns import missing_fields, with_columns
from pyspark_pennon.writes.plan import WritePlan
from pyspark_pennon.writes.tasks import REPLACES, only_where, run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pyspark_pennon.options.source import WriteOptions


def replace_rows(
    frame: DataFrame, data: StructType, options: WriteOptions, condition: Column | str
) -> dict[str, int]:
    """Replace the rows of a table for which `condition` is true by those of `frame`.

    Raises
    ------
    pennon.CommitConflictError
        Another writer changed rows that are replaced, in every attempt, or overwrote or restored the table.
    """

    def attempt() -> dict[str, int]:
        table: Any = tables.open_table(ReadOptions(options.uri, options.storage_options))
        is_sensitive = options.is_case_sensitive
        new = missing_fields(table.schema, data, is_sensitive=is_sensitive) if options.merge_schema else []
        columns = append_schema(pa.schema([*table.schema, *new]), data, is_sensitive=is_sensitive)
        both = _Replacement(frame, columns, table, options, condition)
        return both.applied(with_columns(table, new))

    return retried(attempt, f"the replacement of rows of {options.uri}")


class _Replacement:
    """The rows to add, and the ids of those to delete, of one version of a table."""

    def __init__(
        self, frame: DataFrame, columns: pa.Schema, table: Any, options: WriteOptions, condition: Column | str
    ) -> None:
        from pyspark.sql import functions as fn

        self._options, self._columns = options, columns
        refuse_asterisk(frame.where(as_column(condition)))
        replaced = read(
            frame.sparkSession,
            options.uri,
            columns=[],
            where=condition,
            version=int(table.version),
            with_row_id=True,
            storage_options=options.storage_options,
        )
        added = only_where(frame, condition).withColumn(ROW_ID, fn.lit(None).cast("long"))
        self._rows = added.unionByName(replaced.withColumn(REPLACES, fn.lit(True)), allowMissingColumns=True)

    def applied(self, table: Any) -> dict[str, int]:
        """Write and commit, on the version that was read, perhaps with more columns."""
        from pennon import jobs

        options = self._options
        columns = (column.with_nullable(True) for column in self._columns)
        source = pa.schema([pa.field(ROW_ID, pa.uint64()), *columns])
        merge = table.merge_insert(ROW_ID).when_matched_delete().when_not_matched_insert_all()
        job = jobs.plan_merge(merge, source, durability=options.durability)
        plan = WritePlan(
            plan=ShippedPlan.of(job, options.storage_options, options.durability),
            columns=source.serialize().to_pybytes(),
            version=int(table.version),
            must_create=False,
            is_append=False,
            uri=options.uri,
            file_parameters=dict(options.file_parameters),
            message=options.commit_message,
        )
        return run(self._rows, plan, REPLACES)
