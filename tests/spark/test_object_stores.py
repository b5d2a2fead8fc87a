"""The verbs on a table in S3, as moto's server plays it, with the options of the store given to each call."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import lance
import pennon
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType
from pyspark_pennon import LanceTable, apply_changes, read, write
from support.object_stores import BUCKET, Cloud, running_cloud


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with running_cloud() as found:
        yield found


@fn.udf(returnType=LongType())
def squared(value: int) -> int:
    return value * value


def test_verbs_in_s3(spark: SparkSession, cloud: Cloud, tmp_path: Path) -> None:
    uri, options = f"s3://{BUCKET}/{uuid.uuid4().hex}/table.lance", cloud.storage_options
    frame = spark.range(100).select(
        "id", (fn.col("id") % 7).alias("n"), fn.concat(fn.lit("row "), "id").alias("text")
    )
    write(frame, uri, storage_options=options)
    write(spark.createDataFrame([(100, 1, "late")], frame.schema), uri, mode="append", storage_options=options)
    table = LanceTable.forPath(spark, uri, storage_options=options).alias("t")
    model = {at: (at % 7, f"row {at}") for at in range(100)} | {100: (1, "late")}

    def check() -> None:
        rows = lance.dataset(uri, storage_options=options).to_table().to_pylist()
        assert {row["id"]: (row["n"], row["text"]) for row in rows} == model
        assert len(rows) == len(model)

    check()
    ids = pennon.dataset(uri, storage_options=options).to_table(columns=["id"], with_row_id=True).to_pylist()
    assert table.delete(squared("id") < 26).first().num_deleted_rows == 6
    model = {at: row for at, row in model.items() if at > 5}
    assert table.update("t.id BETWEEN 10 AND 19", {"n": "t.n + 50"}).first().num_updated_rows == 10
    model.update({at: (at % 7 + 50, f"row {at}") for at in range(10, 20)})
    source = spark.createDataFrame([(12, 1, "merged"), (300, 2, "new"), (13, 0, "gone")], frame.schema).alias("s")
    merge = table.merge(source, "t.id = s.id").whenMatchedDelete("s.text = 'gone'")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    model.update({12: (1, "merged"), 300: (2, "new")})
    del model[13]
    table.updateColumnsFrom(spark.createDataFrame([(20, "column")], "id long, text string"), on="id")
    model[20] = (6, "column")
    check()
    assert read(spark, uri, where="n > 49", storage_options=options).count() == 8
    second = f"{uri}-second"
    feed = spark.readStream.format("pennon").option("readChangeFeed", True)
    for name, value in options.items():
        feed = feed.option(f"storage.{name}", value)
    applied = apply_changes(second, "id", storage_options=options)
    writer = feed.load(uri).writeStream.foreachBatch(applied).trigger(availableNow=True)
    assert writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    copy = lance.dataset(second, storage_options=options).to_table().to_pylist()
    assert {row["id"]: (row["n"], row["text"]) for row in copy} == model
    done = table.optimize().executeCompaction().first().metrics
    assert done.numFragmentsRemoved > done.numFragmentsAdded
    check()
    table.addColumns({"square": squared("id")}, checkpoint=tmp_path / "columns.json")
    found = lance.dataset(uri, storage_options=options).to_table().to_pylist()
    assert all(row["square"] == row["id"] ** 2 for row in found)
    assert table.verify(data=True).count() == 0
    kept = {row["id"]: row["_rowid"] for row in ids}
    now = pennon.dataset(uri, storage_options=options).to_table(columns=["id"], with_row_id=True).to_pylist()
    assert all(kept[row["id"]] == row["_rowid"] for row in now if row["id"] in kept)
    changes = table.changes(3).groupBy("_change_type").count().collect()
    assert {row["_change_type"]: row["count"] for row in changes}["delete"] == 7
    table.vacuum(0)
    assert lance.dataset(uri, storage_options=options).count_rows() == len(model)
