"""The tasks of a write, and its commit.

The tasks run in a `mapInArrow` over the frame, and their results come to the driver, which commits. So errors of
the check and of the commit are those of `pennon`, modes that Spark refuses to data sources work, and no storage
option appears in a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.errors import internal, invalid
from pyspark_pennon.spark_api import to_arrow
from pyspark_pennon.tasks.executor import raise_named, spark_context, watched
from pyspark_pennon.tasks.orphans import current, files_of
from pyspark_pennon.tasks.progress import Done
from pyspark_pennon.tasks.workers import mapped
from pyspark_pennon.writes.plan import WritePlan, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

REPLACES = "__pennon_replaces"
"""The column that says whether a row may replace others."""


def only_where(frame: DataFrame, condition: Column | str) -> DataFrame:
    """The frame with a column that says of each row whether the condition is true."""
    from pyspark.sql import functions as fn

    verdict = fn.expr(condition) if isinstance(condition, str) else condition
    return frame.withColumn(REPLACES, fn.coalesce(verdict, fn.lit(False)))


def run(frame: DataFrame, plan: WritePlan, check: str | None = None) -> dict[str, int]:
    """Write the rows of a frame by its tasks and commit.

    Parameters
    ----------
    check
        A boolean column that must be true in each row, and is not written.
    """
    spark, files = frame.sparkSession, current()
    left = None if files is None else files.accumulator(spark_context(spark))
    try:
        with watched(spark, f"write to {plan.uri}", None) as done:
            found = to_arrow(mapped(frame, _task(plan, check, left, done), "result string"))
        texts = [text for text in found.column("result").to_pylist() if text is not None]
        if files is not None:
            files.add([result_of(text) for text in texts])
        return plan.commit(texts)
    except Exception as error:
        raise_named(error)


def _task(
    plan: WritePlan, check: str | None, left: Any, done: Any
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with the rows of its partition: the result is JSON."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        for batch in batches:
            if check is None:
                yield batch
                continue
            refused = batch.num_rows - (pc.sum(batch.column(check)).as_py() or 0)
            if refused:
                raise invalid(
                    f"{refused} rows of a batch do not satisfy replace_where: a replacement may only have rows "
                    "that it would replace"
                )
            yield batch.drop_columns([check])

    def write_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise internal("a partition is written by a Spark task, which this process does not run")
        text = plan.write_partition(context.partitionId(), rows(batches))
        result = None if text is None else result_of(text)
        if result is not None and left is not None:
            left.add(files_of(result))
        if done is not None:
            done.add(Done.of(result))
        yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=["result"])

    return write_rows
