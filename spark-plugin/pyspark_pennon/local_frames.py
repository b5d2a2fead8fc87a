"""Frames of rows that the driver has, which Spark shows without a task where it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon.spark_api import HAS_DATA_SOURCES, spark_context
from pyspark_pennon.types.schema import expected_schema, parsed_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def local_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """`spark.createDataFrame(rows, schema)`; a time without a zone is local.

    A list would cost a worker in Python for each action. Before 4.0 Spark takes no Arrow tables; Spark Connect
    makes one of the list itself.
    """
    if not HAS_DATA_SOURCES or spark_context(spark) is None:
        return spark.createDataFrame(rows, schema)
    kind: Any = parsed_schema(schema)
    columns = expected_schema(kind)
    values = zip(*rows, strict=True) if rows else ((),) * len(columns)
    arrays = [
        pa.array([_arrow_value(value, field.type) for value in column], field.type)
        for column, field in zip(values, columns, strict=True)
    ]
    table: Any = pa.Table.from_arrays(arrays, schema=columns)
    return spark.createDataFrame(table, kind)


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    """A value of Spark as pyarrow takes it."""
    if isinstance(value, datetime):
        return value if kind.tz is None else value.astimezone(timezone.utc)
    if isinstance(value, tuple) and pa.types.is_struct(kind):
        return {kind.field(at).name: _arrow_value(member, kind.field(at).type) for at, member in enumerate(value)}
    return list(value.items()) if isinstance(value, dict) else value


def frame_without_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame to analyse. Its optimiser does not know that it has no rows: it leaves a condition where it is."""
    from pyspark.sql import DataFrame

    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return spark.range(1).mapInArrow(_nothing, schema)
    nothing = spark.sparkContext._jsc.emptyRDD().rdd()
    made = session.internalCreateDataFrame(nothing, session.parseDataType(schema.json()), False)
    return DataFrame(made, spark)


def _nothing(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())
