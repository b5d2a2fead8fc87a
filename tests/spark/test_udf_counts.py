"""Functions in Python in conditions and values: evaluated once for each row, also where a task is run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, write
from support.spread import spread

ROWS = 60


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    pennon.write_dataset({"id": list(range(ROWS)), "n": [0] * ROWS}, uri, max_rows_per_file=10)
    return LanceTable.forPath(spark, uri)


class Calls:
    """Functions that count the rows for which finished tasks have called them."""

    def __init__(self, spark: SparkSession, mark: Path) -> None:
        self.rows = spark.sparkContext.accumulator(0)
        self.mark = str(mark)

    def udf(self, value: Callable[[Any], Any], kind: str) -> Callable[[str], Column]:
        """The first task that comes to the id 15 fails at it, once."""
        counted, mark = self.rows, self.mark

        def called(at: Any) -> Any:
            import os

            counted.add(1)
            if at == 15:
                try:
                    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    raise OSError("the task is run again")
            return value(at)

        function = fn.udf(called, kind)
        return lambda text: function(fn.expr(text))


def source(spark: SparkSession, start: int, stop: int) -> DataFrame:
    return spark.range(start, stop, 1, 2).selectExpr("id", "1L n").alias("s")


def merge(table: LanceTable, frame: DataFrame, condition: Column | str) -> Any:
    return table.alias("t").merge(frame, condition)


Case = tuple[Callable[[SparkSession, LanceTable, Any], Any], str, int, int]

CASES: dict[str, Case] = {
    # What is done, with which kind of function; how many rows the function is called for, and rows with n > 0 then.
    "delete": (lambda spark, table, is_even: table.delete(is_even("id")), "boolean", ROWS, 0),
    "a condition of an update": (
        lambda spark, table, is_even: table.update(is_even("id"), {"n": "n + 1"}),
        "boolean",
        ROWS,
        ROWS // 2,
    ),
    "a value of an update": (
        lambda spark, table, value: table.update("id >= 10", {"n": value("id")}),
        "long",
        ROWS - 10,
        ROWS - 10,
    ),
    "read": (
        lambda spark, table, is_even: read(spark, table.uri, where=is_even("id")).collect(),
        "boolean",
        ROWS,
        0,
    ),
    "read of one column": (
        lambda spark, table, is_even: read(spark, table.uri, columns=["n"], where=is_even("id")).collect(),
        "boolean",
        ROWS,
        0,
    ),
    "replace_where": (
        lambda spark, table, is_even: write(
            spark.range(100, 120, 2).selectExpr("id", "1L n"),
            table.uri,
            mode="overwrite",
            replace_where=is_even("id"),
        ),
        "boolean",
        # Of the table, and those that come in.
        ROWS + 10,
        10,
    ),
    "the condition of a merge": (
        lambda spark, table, is_even: (
            merge(table, source(spark, 10, 80), (fn.col("t.id") == fn.col("s.id")) & is_even("t.id + t.n * s.n"))
            .whenMatchedUpdateAll()
            .execute()
        ),
        "boolean",
        # Pairs with one key.
        50,
        25,
    ),
    "the condition of a merge on the key": (
        lambda spark, table, is_even: (
            merge(table, source(spark, 10, 80), (fn.col("t.id") == fn.col("s.id")) & is_even("t.id"))
            .whenMatchedUpdateAll()
            .execute()
        ),
        "boolean",
        # Rows of the table within the bounds of the source; Spark infers that it holds for the source as well.
        50 + 70,
        25,
    ),
    "the condition of a clause": (
        lambda spark, table, is_even: (
            merge(table, source(spark, 10, 80), "t.id = s.id").whenMatchedUpdateAll(is_even("s.id")).execute()
        ),
        "boolean",
        50,
        25,
    ),
    "a value of a merge with new columns": (
        lambda spark, table, value: (
            merge(table, source(spark, 10, 80).withColumn("more", fn.lit("x")).alias("s"), "t.id = s.id")
            .withSchemaEvolution()
            .whenMatchedUpdate(set={"n": value("s.id"), "more": "s.more"})
            .execute()
        ),
        "long",
        50,
        50,
    ),
    "addColumns": (lambda spark, table, value: table.addColumns({"more": value("id")}), "long", ROWS, 0),
}


@spread(of=1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fails", [False, True])
def test_a_function_is_called_once_for_each_row(
    spark: SparkSession, table: LanceTable, tmp_path: Path, name: str, fails: bool
) -> None:
    run, kind, expected, positive = CASES[name]
    mark = tmp_path / "mark"
    if not fails:
        mark.touch()
    calls = Calls(spark, mark)
    run(spark, table, calls.udf((lambda at: at % 2 == 0) if kind == "boolean" else (lambda at: at + 1), kind))
    # Of a task that is run again Spark counts the attempt that finished.
    assert calls.rows.value == expected
    assert mark.exists()
    found = lance.dataset(table.uri).to_table(columns=["n"])["n"].to_pylist()
    assert sum(n > 0 for n in found) == positive
