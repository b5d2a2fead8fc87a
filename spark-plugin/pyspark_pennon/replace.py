"""Replace where: rows that satisfy a condition are deleted and those of a frame added, in one commit.

Spark evaluates the condition on the pinned version, so that it means what it means in `DataFrame.where`; the row
ids of what is to go are a source of a merge by `_rowid` that deletes what matches, and the rows of the frame, which
have no id, are what it inserts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.errors import invalid
from pyspark_pennon.frames import read
from pyspark_pennon.merge_attempt import fragments_of
from pyspark_pennon.new_columns import add_columns, missing_fields
from pyspark_pennon.plans import ShippedPlan
from pyspark_pennon.retries import retried
from pyspark_pennon.schema import ROW_ID
from pyspark_pennon.storable import append_schema
from pyspark_pennon.write_plan import WritePlan
from pyspark_pennon.writes import nothing_done, only_where, refusal, run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pyspark_pennon.options import WriteOptions


def replace_rows(
    frame: DataFrame, data: StructType, options: WriteOptions, condition: Column | str
) -> dict[str, int]:
    """Replace the rows of a table for which `condition` is true by those of `frame`.

    Raises
    ------
    pennon.CommitConflictError
        Another writer changed rows that are replaced, in every attempt.
    """

    def attempt() -> dict[str, int]:
        table: Any = tables.find_table(options.uri, options.storage_options)
        new = missing_fields(table.schema, data) if options.merge_schema else []
        columns = pa.schema([*table.schema, *new])
        both = _Replacement(frame, append_schema(columns, data), table, options, condition)
        done = both.applied(table) if not new else both.with_columns(new)
        # Another writer has changed rows before the columns were there: now they are.
        return attempt() if done is None else done

    return retried(attempt, f"the replacement of rows of {options.uri}")


class _Replacement:
    """The rows to add, and the ids of those to delete, of one version of a table."""

    def __init__(
        self, frame: DataFrame, columns: pa.Schema, table: Any, options: WriteOptions, condition: Column | str
    ) -> None:
        from pyspark.sql import functions as fn

        self._table, self._options, self._columns = table, options, columns
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
        self._check = added.columns[-2]
        self._rows = added.unionByName(replaced.withColumn(self._check, fn.lit(True)), allowMissingColumns=True)

    def with_columns(self, new: list[pa.Field]) -> dict[str, int] | None:
        """Add columns and apply, if there are rows and all satisfy the condition.

        None if other writers changed rows before the columns were added, so that it has to be done again.
        """
        from pyspark.sql import functions as fn

        self._rows = self._rows.persist()
        try:
            counts = self._rows.agg(fn.count(fn.lit(1)), fn.count_if(~fn.col(self._check))).first()
            assert counts is not None
            if not counts[0]:
                return nothing_done(self._table)
            if counts[1]:
                raise invalid(refusal(counts[1], "the frame"))
            table = add_columns(self._table, new, self._options.storage_options)
            return self.applied(table) if fragments_of(table) == fragments_of(self._table) else None
        finally:
            self._rows.unpersist()

    def applied(self, table: Any) -> dict[str, int]:
        """Write and commit, on a version whose rows are those that were read."""
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
        )
        return run(self._rows, plan, self._check)
