"""Columns made of Catalyst's own expressions, which name attributes by their ids instead of by text.

A function in Python gives a frame new attributes: neither the alias of a side of a merge nor a Column that a person
took from a frame finds them any more. [restored][] gives them the names, aliases and ids that they had before.

Nothing of this is there in a session of Spark Connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.catalyst.plans import attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession


def column_of(spark: SparkSession, expression: Any) -> Column:
    """A resolved expression as a Column."""
    sql = spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    try:
        from pyspark.sql.classic.column import Column as Made
    except ImportError:  # before 4.0
        from pyspark.sql import Column as Old

        return Old(sql.Column(expression))
    return Made(sql.classic.ExpressionUtils.column(expression))


def internal_function(spark: SparkSession, name: str, *arguments: Column) -> Column:
    """A call of a function that Spark has for itself, from 4.0 on."""
    from pyspark.sql.classic.column import Column as Made
    from pyspark.sql.classic.column import _to_seq

    made = getattr(getattr(spark._jvm.org.apache.spark.sql, "Column$"), "MODULE$")  # type: ignore[union-attr]
    given = _to_seq(spark.sparkContext, [argument._jc for argument in arguments])
    return Made(made.internalFn(name, given))


def restored(frame: DataFrame, former: Sequence[Any]) -> DataFrame:
    """The frame with its columns, in their order, as other attributes: their names, aliases and ids."""
    spark = frame.sparkSession
    scala = spark._jvm.scala  # type: ignore[union-attr]
    nothing = getattr(getattr(scala.collection.immutable, "Nil$"), "MODULE$")
    alias = spark._jvm.org.apache.spark.sql.catalyst.expressions.Alias  # type: ignore[union-attr]
    columns = []
    for attribute, old in zip(attributes(frame) or [], former, strict=True):
        metadata = scala.Option.apply(old.metadata())
        renamed = alias(attribute, old.name(), old.exprId(), old.qualifier(), metadata, nothing)
        columns.append(column_of(spark, renamed))
    return frame.select(*columns)
