"""The other verbs of a table, and all clauses of a merge; streams where the release of PySpark has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pennon
import pyarrow as pa
import pyspark
import pyspark_pennon
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable
from pyspark_pennon.spark_api import HAS_STREAMS
from support.long import long
from support.spark_frames import counts

CONNECT = os.environ.get("PENNON_LANE") == "connect"
ROWS = 100
streams = pytest.mark.skipif(
    not HAS_STREAMS, reason=f"Streams of tables need PySpark 4.3, found {pyspark.__version__}"
)

Rows = dict[int, dict[str, Any]]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    rows = spark.range(0, ROWS, 1, 4)
    # A merge inserts rows without x.
    return rows.selectExpr("id", "concat('s', id) AS s", "nullif(id * 0.5D, -1D) AS x")


@pytest.fixture
def model() -> Rows:
    return {n: {"id": n, "s": f"s{n}", "x": n * 0.5} for n in range(ROWS)}


def check(uri: str, model: Rows) -> None:
    found = pennon.dataset(uri).to_table().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [model[id] for id in sorted(model)]


def test_updates(spark: SparkSession, table: LanceTable, uri: str, model: Rows) -> None:
    assert counts(table.update(fn.col("id") % 10 == 3, {"x": fn.col("x") + 1, "s": fn.lit("three")})) == (10, 0, 0)
    assert counts(table.updateExpr("id = 4", {"s": "concat(s, '!')"})) == (1, 0, 0)
    model |= {id: {**model[id], "x": id * 0.5 + 1, "s": "three"} for id in range(3, ROWS, 10)}
    model[4]["s"] = "s4!"
    check(uri, model)
    ids = pennon.dataset(uri).to_table(columns=["id"], with_row_id=True, filter="id IN (3, 8)").to_pylist()
    by_id = spark.createDataFrame([(row["_rowid"], row["id"] * 10.0) for row in ids], "_rowid long, x double")
    assert counts(table.updateRows(by_id)) == (2, 0, 0)
    taken = table.takeRows(by_id.select("_rowid"), columns=["id", "x"]).collect()
    assert {(row.id, row.x) for row in taken} == {(3, 30.0), (8, 80.0)}
    assert counts(table.update({"x": "0.0"})) == (ROWS, 0, 0)
    assert pennon.dataset(uri).count_rows("x = 0") == ROWS


def test_a_merge_with_every_clause(table: LanceTable, frame: DataFrame, uri: str, model: Rows) -> None:
    source = frame.where("id < 30").select((fn.col("id") + 85).alias("id"), "s", fn.lit(-1.0).alias("x"))
    merge = table.alias("t").merge(source.alias("s"), fn.expr("t.id = s.id"))
    merge = merge.whenMatchedDelete("s.id = 85").whenMatchedUpdate("s.id < 90", {"x": "t.x + s.x"})
    merge = merge.whenMatchedUpdateAll("s.id < 95")
    merge = merge.whenNotMatchedInsert("s.id < 105", {"id": "s.id", "s": "upper(s.s)"})
    merge = merge.whenNotMatchedInsertAll("s.id < 110")
    merge = merge.whenNotMatchedBySourceDelete("t.id < 2").whenNotMatchedBySourceUpdate(
        fn.expr("t.id < 4"), {"s": fn.lit("left")}
    )
    assert counts(merge.execute()) == (11, 3, 10)
    for id in (0, 1, 85):
        del model[id]
    model |= {id: {**model[id], "s": "left"} for id in (2, 3)}
    model |= {id: {**model[id], "x": id * 0.5 - 1} for id in range(86, 90)}
    model |= {id: {"id": id, "s": f"s{id - 85}", "x": -1.0} for id in range(90, 95)}
    model |= {id: {"id": id, "s": f"S{id - 85}", "x": None} for id in range(100, 105)}
    model |= {id: {"id": id, "s": f"s{id - 85}", "x": -1.0} for id in range(105, 110)}
    check(uri, model)


def test_a_merge_of_new_columns(table: LanceTable, frame: DataFrame, uri: str, model: Rows) -> None:
    source = frame.where("id < 3").withColumn("y", fn.col("id") * 2)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").withSchemaEvolution()
    assert counts(merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()) == (3, 0, 0)
    check(uri, {id: {**row, "y": id * 2 if id < 3 else None} for id, row in model.items()})
    repeated = source.unionByName(source)
    with pytest.raises(pennon.InvalidInputError, match="match"):
        table.alias("t").merge(repeated.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()


def test_columns(spark: SparkSession, table: LanceTable, uri: str, tmp_path: Path, model: Rows) -> None:
    table.addColumns({"a": fn.col("id") + 1, "b": "upper(s)"})

    def doubled(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"c": pa.compute.multiply(batch["id"], 2)}

    def named(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"d": rows["s"] + "."})

    table.addColumns(doubled, pa.schema({"c": pa.int64()}), readColumns=["id"], checkpoint=tmp_path / "checkpoint")
    table.addColumns(named, "d string", readColumns=["s"], batchFormat="pandas")
    scores = spark.createDataFrame([(1, 7.0), (50, 8.0), (1000, 9.0)], "id long, x double")
    assert counts(table.updateColumnsFrom(scores, on="id")) == (2, 0, 0)
    model[1]["x"], model[50]["x"] = 7.0, 8.0
    more = {id: {"a": id + 1, "b": f"S{id}", "c": id * 2, "d": f"s{id}."} for id in model}
    check(uri, {id: {**row, **more[id]} for id, row in model.items()})


def test_replaced_rows_and_builders(spark: SparkSession, frame: DataFrame, uri: str, model: Rows) -> None:
    made = LanceTable.create(spark).location(uri).addColumns(frame.schema).property("owner", "lanes").execute()
    assert made.properties()["owner"] == "lanes"
    pyspark_pennon.write(frame, uri, mode="append")
    few = frame.where("id < 3").withColumn("id", fn.col("id") + 20)
    pyspark_pennon.write(few, uri, mode="overwrite", replace_where="id BETWEEN 20 AND 29")
    for id in range(23, 30):
        del model[id]
    model |= {id: {"id": id, "s": f"s{id - 20}", "x": (id - 20) * 0.5} for id in (20, 21, 22)}
    check(uri, model)
    LanceTable.createOrReplace(spark).location(uri).addColumn("n", "INT").execute()
    assert made.setProperties({"k": "v"})["k"] == "v"
    assert "k" not in made.unsetProperties(["k"])
    assert (pennon.dataset(uri).schema.names, made.count()) == (["n"], 0)


def test_versions(spark: SparkSession, table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.createTag("first", 1)
    table.delete("id >= 50")
    assert [(row.tag, row.version) for row in table.tags().collect()] == [("first", 1)]
    assert table.toDF(tag="first").count() == ROWS
    dev = table.createBranch("dev", "first")
    assert counts(dev.delete("id < 10")) == (0, 10, 0)
    assert (dev.count(), table.count()) == (90, 50)
    assert [(row.branch, row.parentVersion) for row in table.branches().collect()] == [("dev", 1)]
    assert pyspark_pennon.read(spark, uri, branch="dev").count() == 90
    clone = table.clone(str(tmp_path / "clone"), version="first")
    assert clone.toDF().count() == ROWS
    table.deleteBranch("dev")
    times = {row.version: row.timestamp for row in table.history().collect()}
    table.delete("id >= 10")
    table.restoreToTimestamp(times[2])
    assert table.count() == 50
    table.restoreToVersion("first")
    assert table.count() == ROWS
    table.updateTag("first", 2)
    table.deleteTag("first")
    assert table.vacuum(retentionHours=0).collect()[0].num_removed_versions > 0
    assert len(pennon.dataset(uri).versions()) == 1
    assert table.verify(data=True).count() == 0


def test_compaction(table: LanceTable, frame: DataFrame, uri: str) -> None:
    pyspark_pennon.write(frame.where("id < 5").withColumn("id", fn.col("id") + 1000), uri, mode="append")
    before = len(pennon.dataset(uri).get_fragments())
    (none,) = table.optimize().where("id > 5000").executeCompaction().collect()
    assert none.metrics.numCommits == 0
    (row,) = table.optimize().where("id >= 0").executeCompaction(target_rows_per_fragment=1000).collect()
    assert row.metrics.numFragmentsRemoved == before > len(pennon.dataset(uri).get_fragments())
    assert table.toDF().count() == ROWS + 5


def test_feeds(table: LanceTable, uri: str) -> None:
    table.update("id < 2", {"s": "'two'"})
    table.delete("id = 1")
    net = table.changes(2, net=True).select("_change_type", "id", "s").collect()
    assert {tuple(row) for row in net} == {
        ("update_preimage", 0, "s0"),
        ("update_postimage", 0, "two"),
        ("delete", 1, "s1"),
    }
    times = {row.version: row.timestamp for row in table.history().collect()}
    assert table.changes(startingTimestamp=times[3]).select("id").collect() == [(1,)]


@pytest.mark.parametrize(
    "kind", ["BTREE", "BITMAP", *(pytest.param(kind, marks=long) for kind in ("ZONEMAP", "BLOOMFILTER"))]
)
def test_indices(spark: SparkSession, frame: DataFrame, table: LanceTable, uri: str, kind: str) -> None:
    table.createIndex("id", kind)
    pyspark_pennon.write(frame.withColumn("id", fn.col("id") + ROWS), uri, mode="append")
    assert table.indices().collect()[0].unindexed_rows == ROWS
    table.optimizeIndices()
    (index,) = table.indices().collect()
    assert (index.name, index.unindexed_rows, index.indexed_rows) == ("id_idx", 0, 2 * ROWS)
    found = pyspark_pennon.read(spark, uri, filter_sql="id IN (7, 150)").collect()
    assert sorted(row.id for row in found) == [7, 150]
    table.dropIndex("id_idx")
    assert table.indices().count() == 0


@pytest.fixture
def by_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are divided among tasks, too."""
    from pyspark_pennon.indices import care as index_care
    from pyspark_pennon.reads import searches

    monkeypatch.setattr(searches, "_LEAST_TASK_BYTES", 1 << 10)
    monkeypatch.setattr(index_care, "_LEAST_ROWS", 100)
    for module in (index_care, searches):
        monkeypatch.setattr(module, "parallelism", lambda _: 2)


@pytest.mark.usefixtures("by_tasks")
@pytest.mark.parametrize("kind", [None, "IVF_PQ", "IVF_HNSW_SQ"])
def test_the_nearest(spark: SparkSession, uri: str, kind: str | None) -> None:
    """Divided by fragments without an index, by queries with one; rows are taken in by tasks."""
    vectors = np.random.default_rng(0).normal(size=(1000, 8)).astype("f4")

    def part(start: int, end: int) -> pa.Table:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors[start:end].reshape(-1)), 8)
        return pa.table({"id": range(start, end), "vec": column})

    pennon.write_dataset(part(0, 600), uri, max_rows_per_file=150)
    table = LanceTable.forPath(spark, uri)
    options: dict[str, Any] = {}
    if kind is not None:
        parameters = {"num_partitions": 2, **({"num_sub_vectors": 4} if kind == "IVF_PQ" else {"m": 8})}
        table.createIndex("vec", kind, parameters=parameters)
        options = {"nprobes": 2, "refine_factor": 20, "ef": 500}
    pennon.write_dataset(part(600, 1000), uri, mode="append", max_rows_per_file=150)
    table.optimizeIndices()
    asked = [(n, vectors[n].tolist()) for n in (5, 700, 999)]
    queries = spark.createDataFrame(asked, "n int, vec array<float>")
    rows = pyspark_pennon.nearest(spark, uri, queries, 3, column="vec", options=options).collect()
    assert len(rows) == 9
    for n, vector in asked:
        exact = pennon.dataset(uri).to_table(
            columns=["id"], nearest={"column": "vec", "q": vector, "k": 3, "use_index": False}
        )
        assert [row.id for row in rows if row.n == n] == exact["id"].to_pylist()


def finished(writer: Any, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None


@streams
def test_a_feed_as_a_stream(spark: SparkSession, table: LanceTable, uri: str, tmp_path: Path) -> None:
    """From the snapshot on, batch by batch, into a table that has what happened; restarted after a change."""
    log, checkpoint = str(tmp_path / "log"), tmp_path / "checkpoint"

    def run() -> None:
        feed = spark.readStream.format("pennon").option("readChangeFeed", True).option("maxRowsPerTrigger", 40)
        rows = feed.load(uri).select("id", fn.col("_change_type").alias("kind"))
        finished(rows.writeStream.format("pennon").option("path", log), checkpoint)

    run()
    assert pennon.dataset(log).count_rows("kind = 'insert'") == ROWS
    table.delete("id < 5")
    run()
    run()
    found = pennon.dataset(log)
    assert (found.count_rows(), found.count_rows("kind = 'delete'")) == (ROWS + 5, 5)


@streams
def test_a_sink_in_complete_mode(spark: SparkSession, table: LanceTable, uri: str, tmp_path: Path) -> None:
    target = str(tmp_path / "counts")
    rows = spark.readStream.format("pennon").load(uri).groupBy((fn.col("id") % 3).alias("rest")).count()
    finished(
        rows.writeStream.format("pennon").outputMode("complete").option("path", target), tmp_path / "checkpoint"
    )
    assert sorted(tuple(row.values()) for row in pennon.dataset(target).to_table().to_pylist()) == [
        (0, 34),
        (1, 33),
        (2, 33),
    ]


def from_files(frame: DataFrame, folder: Path) -> DataFrame:
    """A stream that every release has; the rows are those of the first call."""
    if not folder.exists():
        frame.write.parquet(str(folder))
    return frame.sparkSession.readStream.schema(frame.schema).parquet(str(folder))


@streams
def test_a_sink_for_other_streams(frame: DataFrame, uri: str, tmp_path: Path) -> None:
    rows = from_files(frame, tmp_path / "files")
    finished(rows.writeStream.format("pennon").option("path", uri), tmp_path / "checkpoint")
    assert pennon.dataset(uri).count_rows() == ROWS


@pytest.mark.skipif(
    CONNECT, reason="A function for foreachBatch runs on the server of Spark Connect, see test_verbs"
)
def test_upserts_of_other_streams(
    frame: DataFrame, table: LanceTable, uri: str, tmp_path: Path, model: Rows
) -> None:
    source = frame.where("id < 10").select((fn.col("id") + 95).alias("id"), "s", "x")
    for _ in range(2):  # the second time there is nothing left to do
        writer = from_files(source, tmp_path / "files").writeStream
        finished(writer.foreachBatch(pyspark_pennon.upsert_batches(uri, "id")), tmp_path / "checkpoint")
    model |= {id: {"id": id, "s": f"s{id - 95}", "x": (id - 95) * 0.5} for id in range(95, 105)}
    check(uri, model)
