"""Names that not every release of PySpark has: those of the installed one, or stand-ins of the same shape.

| name | of PySpark from |
|---|---|
| the Python data source (`spark.read.format`), frames as Arrow tables, types from text, `try_cast` | 4.0 |
| the type of times | 4.1 |
| limits of its streams | 4.3 |
"""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_pennon.errors import wrong_type

HAS_DATA_SOURCES = find_spec("pyspark.sql.datasource") is not None
"""Whether Spark has data sources in Python."""

HAS_STREAMS = HAS_DATA_SOURCES and find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether these can limit the batches of a stream, without which there are no streams of tables."""

TimeType: Any = getattr(types, "TimeType", None)
"""The type of times of a day, or None."""


_log = logging.getLogger(__name__)

raises_changes = False
"""Whether [has_changed][] takes no error for one of another release: in tests, with the release that is known."""

_CHANGES = (
    *("Py4JError", "Py4JJavaError", "ImportError", "AttributeError", "TypeError"),
    *("KeyError", "IndexError", "ValueError", "JSONDecodeError"),
)


def has_changed(error: Exception, consequence: str) -> bool:
    """Whether an error may come from classes of Spark that are others in another release; it is logged then.

    Parameters
    ----------
    consequence
        What is done without them, for the log.
    """
    # The subclasses of these are errors of a user.
    if raises_changes or type(error).__name__ not in _CHANGES:
        return False
    _log.debug("PySpark %s is not as expected: %s", pyspark.__version__, consequence, exc_info=error)
    return True


def spark_context(spark: SparkSession) -> SparkContext | None:
    """The context of a session, which a session of Spark Connect does not have."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def parallelism(spark: SparkSession) -> int:
    """Tasks that the session runs at once."""
    context = spark_context(spark)
    return max(1, (os.cpu_count() or 1) if context is None else int(context.defaultParallelism))


def is_frame(value: object) -> bool:
    """Whether this is a frame of Spark."""
    return _is_of_spark(value, "DataFrame")


def is_expression(value: object) -> bool:
    """Whether this is text or a Column."""
    return isinstance(value, str) or _is_of_spark(value, "Column")


def _is_of_spark(value: object, name: str) -> bool:
    """Whether this is of a class with the name, of which Spark Connect, before 4.0, has one of its own."""
    return any(kind.__name__ == name and kind.__module__.startswith("pyspark.sql") for kind in type(value).__mro__)


def check_condition(value: object, name: str = "A condition") -> None:
    """Raises `InvalidTypeError`, which calls the value by the name, for all but text and Columns."""
    if not is_expression(value):
        raise wrong_type(f"{name} is {value!r}: expected a Column, or text in Spark's SQL")


def as_column(value: Column | str) -> Column:
    """A condition or value: text is Spark's SQL. Raises `InvalidTypeError` for all but text and Columns."""
    from pyspark.sql import functions as fn

    check_condition(value)
    return fn.expr(value) if isinstance(value, str) else value


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame, collected."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    old: Any = frame
    return pa.Table.from_batches(old._collect_as_arrow(), to_arrow_schema(frame.schema))


def parsed_type(text: str) -> types.DataType:
    """A type, or a schema, from its text. Raises an exception of Spark if it is none."""
    if hasattr(types.DataType, "fromDDL"):
        return types.DataType.fromDDL(text)
    old: Any = types
    found: types.DataType = old._parse_datatype_string(text)
    return found


def try_cast(value: Column, kind: types.DataType) -> Column:
    """A cast by Spark's ANSI rules that gives null for a value that does not fit."""
    from pyspark.sql import Column
    from pyspark.sql import functions as fn

    if hasattr(Column, "try_cast"):
        return value.try_cast(kind)
    cast = fn.expr(f"value -> try_cast(value AS {kind.simpleString()})")
    return fn.call_function("transform", fn.array(value), cast)[0]


if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        InputPartition,
        WriterCommitMessage,
    )
else:
    try:
        from pyspark.sql.datasource import (
            DataSourceArrowWriter,
            DataSourceReader,
            InputPartition,
            WriterCommitMessage,
        )
    except ImportError:

        class DataSourceReader:
            """Reads rows for Spark."""

        class DataSourceArrowWriter:
            """Writes rows of Spark."""

        class InputPartition:
            """What a task reads."""

        class WriterCommitMessage:
            """What a task wrote."""

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:

        class DataSourceStreamArrowWriter:
            """Writes batches of a stream."""


__all__ = [
    "HAS_DATA_SOURCES",
    "HAS_STREAMS",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "InputPartition",
    "TimeType",
    "WriterCommitMessage",
    "as_column",
    "check_condition",
    "has_changed",
    "is_expression",
    "is_frame",
    "parallelism",
    "parsed_type",
    "spark_context",
    "to_arrow",
    "try_cast",
]
