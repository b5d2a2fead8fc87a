"""The verbs on a table in S3, as moto's server plays it, with the options of the store given to each call."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from pennon.jobs import JobPlan
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType
from pyspark_pennon import LanceTable, apply_changes, optimize, read, row_changes, write
from pyspark_pennon.merge import attempt as merge_attempt
from pyspark_pennon.tasks import executor
from pyspark_pennon.writes import tasks as write_tasks
from support.long import long
from support.object_stores import BUCKET, Cloud, running_cloud

from tests.spark.test_cluster import LOCAL_CLUSTER, run
from tests.spark.test_processes import ended, started


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


def data_files(table: LanceTable, age: timedelta | None = None) -> set[str]:
    """The data files of a table in the bucket, which may be made older than they are."""
    keys = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys
    prefix = table.uri.removeprefix(f"s3://{BUCKET}/") + "/data/"
    found = {name: key for name, key in keys.items() if name.startswith(prefix)}
    for key in found.values() if age is not None else ():
        key.last_modified -= age
    return {name.removeprefix(prefix) for name in found}


def used_files(table: LanceTable) -> set[str]:
    """The data files that versions refer to."""
    newest = table._target.open()
    versions = [newest.checkout_version(entry["version"]) for entry in newest.versions()]
    parts = [part for version in versions for part in version.get_fragments()]
    return {file.path for part in parts for file in part.metadata.files}


def assert_vacuumed(table: LanceTable) -> None:
    """Orphans are there: left alone while they are young, then found by `verify` and removed by a vacuum."""
    orphans = data_files(table) - used_files(table)
    assert orphans
    rows = table.toDF().count()
    assert not table.verify().collect()
    for kind, removed in (("unverified", set()), ("orphan", orphans)):
        left = table.verify(leftovers=True).where("message LIKE '%the kind data%'").collect()
        assert [(row.severity, row.kind, row.files) for row in left] == [("leftover", kind, len(orphans))]
        found = [row.path for row in table.vacuum(dryRun=True).where("kind = 'data'").collect()]
        assert {path.rpartition("/")[2] for path in found} == removed
        if kind == "unverified":
            data_files(table, age=timedelta(days=30))
    assert table.vacuum().first().num_removed_data_files == len(orphans)
    assert data_files(table) == used_files(table)
    assert not table.verify(data=True, leftovers=True).where("message LIKE '%the kind data%'").collect()
    assert table.toDF().count() == rows


def new_uri() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/table.lance"


@long
def test_executors_are_killed_next_to_s3(spark: SparkSession, cloud: Cloud, tmp_path: Path) -> None:
    uri = new_uri()
    output = run(LOCAL_CLUSTER, tmp_path, "failures", PENNON_TEST_TABLE=uri, **environment(cloud))
    assert output.count("an executor killed") == 3, output
    assert "update, each task with a twin" in output
    assert pennon.dataset(uri, storage_options=cloud.storage_options).verify(data=True).ok
    assert_vacuumed(LanceTable.forPath(spark, uri, storage_options=cloud.storage_options))


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
def test_a_driver_is_killed_between_groups_of_a_compaction_next_to_s3(spark: SparkSession, cloud: Cloud) -> None:
    uri, options = new_uri(), cloud.storage_options
    pennon.write_dataset({"id": list(range(80))}, uri, max_rows_per_file=10, storage_options=options)
    process = started("between", uri, "compaction", "1", **environment(cloud))
    _, errors = ended(process)
    assert process.returncode == -signal.SIGKILL, errors[-2000:]
    table = LanceTable.forPath(spark, uri, storage_options=options)

    def check(fragments: int) -> None:
        dataset = lance.dataset(uri, storage_options=options)
        dataset.validate()
        found = dataset.to_table(with_row_id=True).to_pylist()
        assert sorted((row["_rowid"], row["id"]) for row in found) == [(at, at) for at in range(80)]
        assert len(dataset.get_fragments()) == fragments

    # Of four tasks the two of the first group are committed, and those of the second have written their files.
    check(6)
    assert len(data_files(table) - used_files(table)) == 2
    metrics = table.optimize().executeCompaction(target_rows_per_fragment=20).first().metrics
    assert (metrics.numFragmentsRemoved, metrics.numFragmentsAdded) == (4, 2)
    check(4)
    assert_vacuumed(table)
    check(4)


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


def test_a_lost_answer_of_a_compaction_in_s3(spark: SparkSession, cloud: Cloud, lost_compaction: list[int]) -> None:
    uri, options = new_uri(), cloud.storage_options
    ids = {"key": [f"{at:02}" for at in range(40)], "n": list(range(40))}
    pennon.write_dataset(ids, uri, max_rows_per_file=10, storage_options=options)
    table = LanceTable.forPath(spark, uri, storage_options=options)
    table.optimize().executeCompaction()
    assert len(lance.dataset(uri, storage_options=options).get_fragments()) == 1
    assert rows(uri, cloud) == dict(zip(ids["key"], ids["n"], strict=True))
    assert [row.operation for row in table.history().collect()].count("Rewrite") == 1
    assert len(lost_compaction) == 1
    assert data_files(table) == used_files(table)


ROWS = 40


@pytest.fixture
def by_value() -> Iterator[None]:
    """Executors cannot import the tests."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def numbers(spark: SparkSession, cloud: Cloud) -> LanceTable:
    uri = new_uri()
    data = {"id": list(range(ROWS)), "n": [0] * ROWS}
    pennon.write_dataset(data, uri, max_rows_per_file=10, storage_options=cloud.storage_options)
    return LanceTable.forPath(spark, uri, storage_options=cloud.storage_options)


def fails(mark: Path, *, for_good: bool) -> None:
    """The first attempt of one task that comes here, or each attempt of this task, fails."""
    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        mark.write_text(str(number))
    except FileExistsError:
        if not for_good or number != int(mark.read_text() or -1):
            return
    raise pennon.StoreError("the store is gone")


def failing(call: Callable[..., Any], mark: Path, for_good: bool) -> Callable[..., Any]:
    """The work of a task, which fails when its files are written."""

    def run(*given: Any) -> Any:
        done = call(*given)
        fails(mark, for_good=for_good)
        return done

    return run


def appended(spark: SparkSession, table: LanceTable) -> dict[int, int]:
    frame = spark.range(100, 110, 1, 2).selectExpr("id", "1L n")
    write(frame, table.uri, mode="append", storage_options=table._target.storage_options)
    return dict.fromkeys(range(100, 110), 1)


def updated(_spark: SparkSession, table: LanceTable) -> dict[int, int]:
    table.update("id % 2 = 0 AND length(string(id)) > 0", {"n": "n + 1"})
    return dict.fromkeys(range(0, ROWS, 2), 1)


def merged(spark: SparkSession, table: LanceTable) -> dict[int, int]:
    source = spark.range(20, 60).selectExpr("id", "9L n").alias("s")
    table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    return dict.fromkeys(range(20, 60), 9)


def compacted(_spark: SparkSession, table: LanceTable) -> dict[int, int]:
    table.optimize().executeCompaction(target_rows_per_fragment=20)
    return {}


@pytest.mark.usefixtures("by_value")
@pytest.mark.parametrize(
    "verb", [merged, *(pytest.param(other, marks=long) for other in (appended, updated, compacted))]
)
def test_tasks_that_fail_next_to_s3(
    spark: SparkSession,
    cloud: Cloud,
    numbers: LanceTable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: Callable[[SparkSession, LanceTable], dict[int, int]],
) -> None:
    """First for good: nothing is committed; then once: what the other attempt did is there. Orphans are removed."""
    monkeypatch.setattr(row_changes, "LEAST_ROWS_PER_TASK", 10)
    for_good = True

    def changed(original: Callable[..., Any]) -> Callable[..., Any]:
        return failing(original, tmp_path / f"failed-{for_good}", for_good)

    partitions, tasks = executor.run_partitions, executor.run_tasks
    for module in (merge_attempt, row_changes, write_tasks):
        monkeypatch.setattr(
            module,
            "run_partitions",
            lambda frame, call, *given, **options: partitions(frame, changed(call), *given, **options),
        )
    monkeypatch.setattr(
        optimize,
        "run_tasks",
        lambda *given, **options: tasks(*given, call=changed(lambda task: task.run()), **options),
    )
    before = found(numbers)
    with pytest.raises(pennon.StoreError, match="the store is gone"):
        verb(spark, numbers)
    assert (tmp_path / "failed-True").exists()
    assert numbers.version == 1
    assert found(numbers) == before
    left = data_files(numbers) - used_files(numbers)
    assert left
    for_good = False
    changes = verb(spark, numbers)
    assert (tmp_path / "failed-False").exists()
    after = found(numbers)
    assert {key: n for key, (n, _) in after.items()} == {**{key: n for key, (n, _) in before.items()}, **changes}
    assert all(after[key][1] == row_id for key, (_, row_id) in before.items())
    assert left < data_files(numbers) - used_files(numbers)
    assert_vacuumed(numbers)
    assert found(numbers) == after


def found(table: LanceTable) -> dict[int, tuple[int, int]]:
    """Number and row id by key, as the reference reads them."""
    dataset = lance.dataset(table.uri, storage_options=dict(table._target.storage_options))
    dataset.validate()
    read = dataset.to_table(with_row_id=True).to_pylist()
    by_id = {row["id"]: (row["n"], row["_rowid"]) for row in read}
    assert len(by_id) == len(read)
    return by_id
