"""Every verb once, with releases of PySpark other than the pinned one, and through Spark Connect."""

from __future__ import annotations

import os
from datetime import time
from pathlib import Path
from typing import Any

import pandas as pd
import pennon
import pyarrow as pa
import pyspark
import pyspark_pennon
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable
from pyspark_pennon.spark_api import HAS_DATA_SOURCES, HAS_STREAMS, TimeType
from support.spark_frames import counts

CONNECT = os.environ.get("PENNON_LANE") == "connect"
ROWS = 1000
sources = pytest.mark.skipif(
    not HAS_DATA_SOURCES, reason=f"PySpark {pyspark.__version__} has no Python data sources"
)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    rows = spark.range(ROWS)
    return rows.select("id", fn.concat(fn.lit("s"), rows.id.cast("string")).alias("s"), (rows.id * 0.5).alias("x"))


def values(uri: str, **scan: Any) -> list[dict[str, Any]]:
    return sorted(pennon.dataset(uri).to_table(**scan).to_pylist(), key=lambda row: row["id"])


def expected() -> list[dict[str, Any]]:
    return [{"id": n, "s": f"s{n}", "x": n * 0.5} for n in range(ROWS)]


def test_rows_come_back(spark: SparkSession, frame: DataFrame, table: LanceTable, uri: str) -> None:
    assert values(uri) == expected()
    read = pyspark_pennon.read(spark, uri, columns=["id", "x"], where="id % 2 = 0", with_row_id=True)
    assert sorted(map(tuple, read.collect())) == [(n, n * 0.5, n) for n in range(0, ROWS, 2)]
    before = table.toDF()
    pyspark_pennon.write(frame.limit(3), uri, mode="append")
    assert before.count() == ROWS
    assert table.count() == pennon.dataset(uri).count_rows() == ROWS + 3


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "error"])
def test_modes_of_a_write(frame: DataFrame, table: LanceTable, uri: str, mode: str) -> None:
    few = frame.where("id < 10")
    if mode == "error":
        with pytest.raises(pennon.AlreadyExistsError):
            pyspark_pennon.write(few, uri, mode=mode)
    else:
        pyspark_pennon.write(few, uri, mode=mode)
    assert pennon.dataset(uri).count_rows() == (10 if mode == "overwrite" else ROWS)


def test_rows_are_changed(frame: DataFrame, table: LanceTable, uri: str) -> None:
    model = {row["id"]: row for row in expected()}
    assert counts(table.delete("id % 100 = 7")) == (0, 10, 0)
    model = {id: row for id, row in model.items() if id % 100 != 7}
    assert counts(table.update("id < 3", {"s": "upper(s)"})) == (3, 0, 0)
    model |= {id: {**model[id], "s": f"S{id}"} for id in range(3)}
    source = frame.where("id < 20").withColumn("x", fn.lit(1.0)).withColumn("id", fn.col("id") + 990)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    assert counts(merge.whenMatchedUpdate(set={"x": "s.x"}).whenNotMatchedInsertAll().execute()) == (10, 0, 10)
    model |= {id: {**model[id], "x": 1.0} for id in range(990, 1000)}
    model |= {id: {"id": id, "s": f"s{id - 990}", "x": 1.0} for id in range(1000, 1010)}
    assert values(uri) == [model[id] for id in sorted(model)]


def test_a_merge_whose_clauses_name_columns_of_the_table(frame: DataFrame, table: LanceTable, uri: str) -> None:
    given = frame.where("id % 100 = 0").select("id", (frame.x + 1).alias("more"))
    merge = table.alias("t").merge(given.alias("s"), "t.id = s.id")
    merge = merge.whenMatchedDelete("t.s = 's500'").whenMatchedUpdate("s.more > 1", {"x": "t.x + s.more"})
    done = merge.whenNotMatchedBySourceUpdate("t.s = 's7'", {"s": "concat(t.s, '!')"}).execute()
    assert counts(done) == (9, 1, 0)
    model = {row["id"]: row for row in expected() if row["id"] != 500}
    model |= {id: {**model[id], "x": id + 1.0} for id in range(100, 1000, 100) if id != 500}
    model[7]["s"] = "s7!"
    assert values(uri) == [model[id] for id in sorted(model)]


def test_a_condition_with_a_function_of_python(table: LanceTable, uri: str) -> None:
    @fn.pandas_udf("boolean")  # type: ignore[call-overload]
    def is_square(numbers: pd.Series) -> pd.Series:
        return numbers.map(lambda number: int(number**0.5) ** 2 == number)

    assert counts(table.delete(is_square(fn.col("id")))) == (0, 32, 0)
    assert pennon.dataset(uri).count_rows("id in (0, 1, 4, 9, 961)") == 0


def test_upkeep(table: LanceTable, frame: DataFrame, uri: str) -> None:
    pyspark_pennon.write(frame.limit(5), uri, mode="append")
    table.delete("id = 3")
    table.addColumns({"y": "id + 1"})
    assert values(uri, columns=["id", "y"], filter="id < 2") == [{"id": 0, "y": 1}] * 2 + [{"id": 1, "y": 2}] * 2
    before = table.toDF().orderBy("id", "_rowid" if "_rowid" in table.toDF().columns else "s").collect()
    (row,) = table.optimize().executeCompaction().collect()
    assert row.metrics.numFilesAdded == 1
    assert table.toDF().orderBy("id", "s").collect() == before
    versions = [row.version for row in table.history().collect()]
    assert versions == sorted(versions, reverse=True)
    assert table.detail().collect()[0].numRows == pennon.dataset(uri).count_rows()
    assert table.vacuum(retentionHours=0, dryRun=True).count() > 0
    table.restoreToVersion(1)
    assert pennon.dataset(uri).count_rows() == ROWS


def test_changes(spark: SparkSession, table: LanceTable, uri: str) -> None:
    table.delete("id < 5")
    table.update("id = 7", {"s": "'seven'"})
    found = pyspark_pennon.read_changes(spark, uri, starting_version=2)
    kinds = {(row._change_type, row.id, row.s) for row in found.collect()}
    assert kinds == {
        *(("delete", n, f"s{n}") for n in range(5)),
        ("update_preimage", 7, "s7"),
        ("update_postimage", 7, "seven"),
    }


def test_errors_are_typed(spark: SparkSession, table: LanceTable, uri: str) -> None:
    with pytest.raises(pennon.NotFoundError):
        pyspark_pennon.read(spark, f"{uri}-not-there")
    with pytest.raises(Exception, match="nope"):
        table.delete("nope = 3")
    with pytest.raises(pennon.SchemaMismatchError, match="extra"):
        pyspark_pennon.write(spark.range(3).withColumn("extra", fn.lit(1)), uri, mode="append")
    assert pennon.dataset(uri).version == 1


def test_nested_values(spark: SparkSession, uri: str) -> None:
    rows = [(1, [1.0, 2.0], {"a": 1}, (2, "x")), (2, None, {}, None), (3, [], None, (None, None))]
    frame = spark.createDataFrame(rows, "id long, l array<double>, m map<string,int>, s struct<a int, b string>")
    pyspark_pennon.write(frame, uri)
    assert sorted(pyspark_pennon.read(spark, uri).collect()) == sorted(frame.collect())


def test_times(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"t": pa.array([time(12, 30)], pa.time64("us"))}), uri)
    if TimeType is None:
        with pytest.raises(pennon.InvalidInputError, match=r"from 4\.1 on"):
            pyspark_pennon.read(spark, uri)
    else:
        # Spark Connect does not return times.
        assert pyspark_pennon.read(spark, uri).select(fn.col("t").cast("string")).collect()[0].t == "12:30:00"


def test_without_data_sources(spark: SparkSession) -> None:
    assert hasattr(pyspark_pennon, "DefaultSource") == HAS_DATA_SOURCES


@sources
def test_the_data_source(spark: SparkSession, frame: DataFrame, table: LanceTable, uri: str) -> None:
    frame.limit(7).write.format("pennon").mode("append").save(uri)
    assert spark.read.format("pennon").load(uri).count() == ROWS + 7
    assert spark.read.format("pennon").option("version", 1).load(uri).where("id < 10").count() == 10
    table.delete("id = 3")
    feed = spark.read.format("pennon").option("readChangeFeed", True).option("startingVersion", 3).load(uri)
    assert {(row._change_type, row.id) for row in feed.collect()} == {("delete", 3)}


@sources
def test_streams(spark: SparkSession, frame: DataFrame, table: LanceTable, uri: str, tmp_path: Path) -> None:
    copy = f"{uri}-copy"
    writer = spark.readStream.format("pennon").load(uri).writeStream.format("pennon").option("path", copy)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    if HAS_STREAMS:
        query.awaitTermination(120)
        assert values(copy) == expected()
    else:
        with pytest.raises(Exception, match=r"Streams of tables need PySpark 4\.3"):
            query.awaitTermination(120)


def test_upserts_of_a_stream(spark: SparkSession, frame: DataFrame, table: LanceTable, uri: str) -> None:
    if CONNECT:
        with pytest.raises(pennon.UnsupportedError, match="Spark Connect"):
            pyspark_pennon.upsert_batches(uri, ["id"])(frame, 0)
    else:
        with pytest.raises(pennon.InvalidInputError, match="foreachBatch"):
            pyspark_pennon.upsert_batches(uri, ["id"])(frame, 0)
