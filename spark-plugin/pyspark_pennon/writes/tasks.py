"""The tasks of a write, and its commit.

The tasks run over the partitions of the frame, and their results come to the driver, which commits. So errors are
those of `pennon`, modes that Spark refuses to data sources work, and no storage option appears in a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.errors import invalid
from pyspark_pennon.spark_api import as_column
from pyspark_pennon.tasks.executor import run_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from pyspark_pennon.writes.plan import WritePlan

REPLACES = "__pennon_replaces"
"""The column that says whether a row may replace others."""


def only_where(frame: DataFrame, condition: Column | str) -> DataFrame:
    """The frame with a column that says of each row whether the condition is true."""
    from pyspark.sql import functions as fn

    return frame.withColumn(REPLACES, fn.coalesce(as_column(condition), fn.lit(False)))


def run(
    frame: DataFrame,
    plan: WritePlan,
    check: str | None = None,
    *,
    properties: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Write the rows of a frame by its tasks and commit.

    Parameters
    ----------
    check
        A boolean column that must be true in each row, and is not written.
    properties
        As in [WritePlan.commit][pyspark_pennon.writes.plan.WritePlan.commit].
    """

    def write_rows(number: int, batches: Iterator[pa.RecordBatch]) -> Any:
        return plan.write_partition(number, batches if check is None else _checked(batches, check))

    results = run_partitions(frame, write_rows, f"write to {plan.uri}")
    return plan.commit([result for result in results if result is not None], properties)


def _checked(batches: Iterator[pa.RecordBatch], check: str) -> Iterator[pa.RecordBatch]:
    """The batches without the column of the check, which is true in all of their rows."""
    import pyarrow.compute as pc

    for batch in batches:
        refused = batch.num_rows - (pc.sum(batch.column(check)).as_py() or 0)
        if refused:
            raise invalid(
                f"{refused} rows of a batch do not satisfy replace_where: a replacement may only have rows that it "
                "would replace"
            )
        yield batch.drop_columns([check])
