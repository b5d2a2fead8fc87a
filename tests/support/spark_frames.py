"""Frames of Spark as values: what their plans print, what verbs and feeds say, what is in a table afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
    """A frame of rows and their schema in DDL, by Arrow: of tuples each job would start a Python worker."""
    fields = to_arrow_schema(StructType.fromDDL(schema))
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(fields)]
    return spark.createDataFrame(pa.table(columns, schema=fields))


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


def last_batch(folder: Path) -> Path:
    """The note of the last batch, in a folder of a checkpoint."""
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def forget_last_batch(checkpoint: Path) -> None:
    """Crash after the commit of the last batch, before Spark noted it."""
    note = last_batch(checkpoint / "commits")
    note.unlink()
    note.with_name(f".{note.name}.crc").unlink(missing_ok=True)


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
