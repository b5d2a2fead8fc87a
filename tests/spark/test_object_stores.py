"""The verbs on a table in S3, as moto's server plays it, with the options of the store given to each call."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pennon
import pytest
from pennon.jobs import JobPlan
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType
from pyspark_pennon import LanceTable, apply_changes, read, write
from support.object_stores import BUCKET, Cloud, running_cloud

from tests.spark.test_cluster import LOCAL_CLUSTER, run
from tests.spark.test_processes import ended, started

long = pytest.mark.skipif(os.environ.get("PENNON_LONG_TESTS") != "1", reason="minutes: PENNON_LONG_TESTS=1")


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


def environment(cloud: Cloud) -> dict[str, str]:
    """How processes reach the store without options."""
    names = ("aws_endpoint", "aws_access_key_id", "aws_secret_access_key", "aws_region")
    found = {name.upper(): cloud.storage_options[name] for name in names}
    return {**found, "AWS_ALLOW_HTTP": "true"}


def new_uri() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/table.lance"


@long
def test_executors_are_killed_next_to_s3(cloud: Cloud, tmp_path: Path) -> None:
    uri = new_uri()
    output = run(LOCAL_CLUSTER, tmp_path, "failures", PENNON_TEST_TABLE=uri, **environment(cloud))
    assert output.count("an executor killed") == 3, output
    assert "update, each task with a twin" in output
    assert pennon.dataset(uri, storage_options=cloud.storage_options).verify(data=True).ok


def rows(uri: str, cloud: Cloud) -> dict[str, int]:
    dataset = lance.dataset(uri, storage_options=cloud.storage_options)
    dataset.validate()
    found = dataset.to_table().to_pylist()
    by_key = {row["key"]: row["n"] for row in found}
    assert len(by_key) == len(found)
    return by_key


def make(uri: str, cloud: Cloud) -> None:
    pennon.write_dataset({"key": ["old", "other"], "n": [1, 2]}, uri, storage_options=cloud.storage_options)


@long
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["merge", "append"])
def test_a_driver_is_killed_next_to_s3(spark: SparkSession, cloud: Cloud, when: str, verb: str) -> None:
    uri = new_uri()
    make(uri, cloud)
    process = started(when, uri, verb, "1", **environment(cloud))
    _, errors = ended(process)
    assert process.returncode == -signal.SIGKILL, errors[-2000:]
    before = {"old": 1, "other": 2}
    after = {**before, "new": 8, **({"old": 7} if verb == "merge" else {})}
    assert rows(uri, cloud) == (before if when == "before" else after)
    table = LanceTable.forPath(spark, uri, storage_options=cloud.storage_options)
    left = table.verify(leftovers=True).where("message LIKE '%the kind data%'").collect()
    assert bool(left) == (when == "before")
    assert not table.verify(data=True).collect()


@long
def test_two_spark_jobs_and_the_reference_in_s3(cloud: Cloud) -> None:
    uri, commits = new_uri(), 50
    make(uri, cloud)
    jobs = [("spark", "a"), ("spark", "b"), ("reference", "c")]
    writers = [started(kind, uri, name, str(commits), **environment(cloud)) for kind, name in jobs]
    outputs = [ended(process) for process in writers]
    expected = {"old": 1, "other": 2}
    for process, (output, errors), (kind, name) in zip(writers, outputs, jobs, strict=True):
        assert process.returncode == 0, errors[-3000:]
        assert len(output.split()) == commits
        for at, word in enumerate(output.split()):
            key = word[1:]
            if word[0] == "-":
                del expected[key]
                continue
            expected[key] = at
            # Each second change of a Spark job, a merge, updates the row of the one before.
            if kind == "spark" and at % 3 == 1:
                expected[f"{name}-{at - 1}"] = 1000 + at
    assert rows(uri, cloud) == expected
    assert pennon.dataset(uri, storage_options=cloud.storage_options).version == 1 + 3 * commits


def test_a_lost_answer_of_s3(spark: SparkSession, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, options = new_uri(), cloud.storage_options
    make(uri, cloud)
    commit, calls = JobPlan.commit, list[str]()

    def losing(plan: JobPlan, results: Any, **given: Any) -> Any:
        report = commit(plan, results, **given)
        calls.append(plan.uuid)
        if calls.count(plan.uuid) == 1:
            raise pennon.CommitUnknownError("the answer was lost", plan.uuid)
        return report

    monkeypatch.setattr(JobPlan, "commit", losing)
    table = LanceTable.forPath(spark, uri, storage_options=options)
    frame = spark.createDataFrame([("old", 7), ("new", 8)], "key string, n long")
    merge = table.alias("t").merge(frame.alias("s"), "t.key = s.key")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    wider = spark.createDataFrame([("last", 9, "x")], "key string, n long, more string")
    write(wider, uri, mode="append", merge_schema=True, storage_options=options)
    write(frame.selectExpr("concat(key, '!') key", "n"), uri, mode="append", storage_options=options)
    table.delete("key = 'old!'")
    assert rows(uri, cloud) == {"old": 7, "other": 2, "new": 8, "last": 9, "new!": 8}
    assert (table.version, len(calls), len(set(calls))) == (5, 6, 3)
