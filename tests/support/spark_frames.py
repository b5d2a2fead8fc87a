"""Frames of Spark as values: what their plans print, what verbs and feeds say, what is in a table afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def plan_texts(frame: DataFrame) -> str:
    """Everything that Spark prints of a frame, its plans and its schema."""
    execution = frame._jdf.queryExecution()
    plans = (execution.analyzed(), execution.optimizedPlan(), execution.executedPlan())
    trees = "".join(plan.treeString() + plan.toJSON() for plan in plans)
    return execution.toString() + trees + repr(frame) + str(frame.schema.json())


def counts(metrics: DataFrame) -> tuple[int, int, int]:
    """The updated, deleted and inserted rows of a verb, whose sum is what it affected."""
    (row,) = metrics.collect()
    assert row.num_affected_rows == row.num_updated_rows + row.num_deleted_rows + row.num_inserted_rows
    return row.num_updated_rows, row.num_deleted_rows, row.num_inserted_rows


def stream(spark: SparkSession, uri: str, **options: Any) -> DataFrame:
    return spark.readStream.format("pennon").options(**options).load(uri)


def sorted_rows(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Rows with their names in one order, sorted: for comparison."""
    return sorted(repr(sorted(row.items())) for batch in batches for row in batch.to_pylist())


def rows_by_id(uri: str) -> dict[int, dict[str, Any]]:
    """The rows by their row ids, as the reference reads them."""
    # The environments of tests/lanes do not have it.
    import lance

    dataset = lance.dataset(uri)
    dataset.validate()
    return {row.pop("_rowid"): row for row in dataset.to_table(with_row_id=True).to_pylist()}
