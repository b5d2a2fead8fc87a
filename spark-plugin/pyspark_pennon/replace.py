"""Replace where: rows that satisfy a condition are deleted and those of a frame added, in one commit.

Spark evaluates the condition on the pinned version, so that it means what it means in `DataFrame.where`; the row
ids of what is to go are a source of a merge by `_rowid` that deletes what matches, and the rows of the frame, which
have no id, are what it inserts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.frames import read
from pyspark_pennon.plans import ShippedPlan
from pyspark_pennon.retries import retried
from pyspark_pennon.schema import ROW_ID
from pyspark_pennon.storable import append_schema
from pyspark_pennon.write_plan import WritePlan, add_missing_columns
from pyspark_pennon.writes import only_where, run

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
        table = tables.find_table(options.uri, options.storage_options)
        if options.merge_schema:
            table = add_missing_columns(table, options, data, None)
        return _attempt(frame, data, table, options, condition)

    return retried(attempt, f"the replacement of rows of {options.uri}")


def _attempt(
    frame: DataFrame, data: StructType, table: Any, options: WriteOptions, condition: Column | str
) -> dict[str, int]:
    import pyarrow as pa
    from pennon import jobs
    from pyspark.sql import functions as fn

    fields = append_schema(table.schema, data)
    source = pa.schema([pa.field(ROW_ID, pa.uint64()), *(column.with_nullable(True) for column in fields)])
    merge = table.merge_insert(ROW_ID).when_matched_delete().when_not_matched_insert_all()
    job = jobs.plan_merge(merge, source, durability=options.durability)
    shipped = ShippedPlan.of(job, options.storage_options, options.durability)
    plan = WritePlan(
        plan=shipped,
        columns=source.serialize().to_pybytes(),
        version=int(table.version),
        must_create=False,
        is_append=False,
        uri=options.uri,
        file_parameters=dict(options.file_parameters),
    )
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
    check = added.columns[-2]
    both = added.unionByName(replaced.withColumn(check, fn.lit(True)), allowMissingColumns=True)
    return run(both, plan, check)
