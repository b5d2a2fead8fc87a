"""Tasks that fail for good when others have written their files: nothing is committed, and the files are found."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import NumberFormatException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, optimize, read, row_changes, write
from pyspark_pennon.merge import attempt as merge_attempt
from pyspark_pennon.tasks import executor

ROWS = 40


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    pennon.write_dataset({"id": list(range(ROWS)), "n": [0] * ROWS}, uri, max_rows_per_file=10)
    return LanceTable.forPath(spark, uri)


def failing(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Partition 1 writes its files, and then fails for good."""
    original = module.run_partitions

    def run(frame: Any, call: Callable[[int, Any], Any], title: str, **options: Any) -> Any:
        def fail(number: int, batches: Any) -> Any:
            done = call(number, batches)
            if number == 1:
                raise pennon.InvalidInputError("task 1 fails for good")
            return done

        return original(frame, fail, title, **options)

    monkeypatch.setattr(module, "run_partitions", run)


def updated(_spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_changes, "parallelism", lambda _spark: 4)
    monkeypatch.setattr("pyspark_pennon.tables.LEAST_FILE_BYTES", 1)
    failing(monkeypatch, row_changes)
    table.update("id % 2 = 0", {"n": "n + 1"})


def merged(spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_changes, "LEAST_ROWS_PER_TASK", 10)
    failing(monkeypatch, merge_attempt)
    source = spark.range(20, 60).selectExpr("id", "9L n").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.execute()


def compacted(_spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    run = optimize._Rewrite.run

    def fail(task: optimize._Rewrite) -> Any:
        done = run(task)
        if 2 in [fragment.id for fragment in task.task.fragments]:
            raise pennon.InvalidInputError("task 1 fails for good")
        return done

    original = optimize.run_tasks
    monkeypatch.setattr(
        optimize,
        "run_tasks",
        lambda spark, tasks, title, **given: original(spark, tasks, title, call=fail, **given),
    )
    table.optimize().executeCompaction(target_rows_per_fragment=20)


def appended(spark: SparkSession, table: LanceTable, _monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(at: int) -> int:
        if at == 39:
            import time

            from pyspark import TaskContext

            time.sleep(2 if TaskContext.get().attemptNumber() == 0 else 0)
            raise ValueError("task 1 fails for good")
        return at

    frame = spark.range(0, 40, 1, 2).select("id", fn.udf(refuse, "long")("id").alias("n"))
    write(frame, table.uri, mode="append")


@pytest.mark.parametrize("verb", [updated, merged, compacted, appended])
def test_nothing_is_committed_and_orphans_are_found(
    spark: SparkSession,
    table: LanceTable,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    verb: Callable[[SparkSession, LanceTable, pytest.MonkeyPatch], None],
) -> None:
    before = lance.dataset(uri).to_table(with_row_id=True).to_pylist()
    files = {path.name for path in Path(uri, "data").iterdir()}
    with pytest.raises(Exception, match="task 1 fails for good"):
        verb(spark, table, monkeypatch)
    assert pennon.dataset(uri).version == 1
    assert lance.dataset(uri).to_table(with_row_id=True).to_pylist() == before
    orphans = {path.name for path in Path(uri, "data").iterdir()} - files
    assert orphans
    # A write may be in flight: young files are kept.
    assert not table.verify().collect()
    (left,) = table.verify(leftovers=True).collect()
    assert (left.severity, left.kind, left.files) == ("leftover", "unverified", len(orphans))
    assert not table.vacuum(0, dryRun=True).collect()
    month_ago = time.time() - 30 * 86400
    for name in orphans:
        os.utime(Path(uri, "data", name), (month_ago, month_ago))
    (left,) = table.verify(leftovers=True).collect()
    assert (left.kind, left.files) == ("orphan", len(orphans))
    assert {Path(row.path).name for row in table.vacuum(dryRun=True).collect()} == orphans
    assert table.vacuum().first().num_removed_data_files == len(orphans)
    assert {path.name for path in Path(uri, "data").iterdir()} == files
    assert not table.verify(leftovers=True).collect()


def ended(spark: SparkSession, table: LanceTable, verb: str, value: Any) -> None:
    """A verb with a value that a function in Python computes."""
    source = spark.range(30, 50, 1, 1).select("id", value.alias("n"))
    if verb == "update":
        table.update(set={"n": value})
    elif verb == "merge":
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    else:
        write(source, table.uri, mode="append")


@pytest.mark.parametrize("verb", ["update", "merge", "write"])
def test_a_worker_that_ends(spark: SparkSession, table: LanceTable, uri: str, verb: str) -> None:
    value = fn.udf(lambda _at: os._exit(3), "long")("id")
    with pytest.raises(pennon.PennonError, match="A Python worker of a task ended without an answer") as caught:
        ended(spark, table, verb, value)
    assert len(str(caught.value)) < 400
    assert isinstance(caught.value.__cause__, Py4JJavaError)
    assert pennon.dataset(table.uri).version == 1


def test_a_value_that_does_not_fit_is_written_once(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    pennon.write_dataset(pa.table({"id": [1], "n": pa.array([1], pa.int8())}), uri)
    calls = tmp_path / "calls"

    def value(at: int) -> int:
        with calls.open("a") as file:
            file.write("1")
        return at * 300

    frame = spark.range(1, 2, 1, 1).select("id", fn.udf(value, "long")("id").alias("n"))
    with pytest.raises(pennon.SchemaMismatchError, match=r"column 'n': .* 300 not in range") as caught:
        write(frame, uri, mode="append")
    assert caught.value.__cause__ is None
    assert calls.read_text() == "1"
    calls.unlink()
    with pytest.raises(pennon.InvalidInputError, match="1 rows of a batch do not satisfy replace_where"):
        write(frame, uri, mode="overwrite", replace_where="id = 7")
    assert calls.read_text() == "1"


@pytest.mark.parametrize("verb", ["update", "merge", "write"])
def test_stages_that_fail_at_once(
    spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Spark has the errors of several stages in one, if it hears of them at once."""
    java = spark._jvm
    several = java.org.apache.spark.SparkException(
        "[STAGE_MATERIALIZATION_MULTIPLE_FAILURES] Multiple failures (2) in stage materialization", None
    )
    for at in (1, 2):
        cause = java.java.lang.NumberFormatException(f"[CAST_INVALID_INPUT] {at}")
        several.addSuppressed(java.org.apache.spark.SparkException("Job aborted due to stage failure", cause))
    outer = java.org.apache.spark.SparkException("Exception thrown in awaitResult: ", several)

    def fail(_frame: Any) -> Any:
        raise Py4JJavaError("An error occurred while calling o1.getResult.\n", outer)

    monkeypatch.setattr(executor, "to_arrow", fail)
    with pytest.raises(NumberFormatException, match=r"^\[CAST_INVALID_INPUT\] 1") as caught:
        ended(spark, table, verb, fn.col("id"))
    assert caught.value.__cause__ is None
    assert pennon.dataset(table.uri).version == 1


@pytest.mark.parametrize("verb", ["update", "merge", "write"])
def test_a_job_that_is_cancelled(spark: SparkSession, table: LanceTable, uri: str, verb: str) -> None:
    def slow(at: int) -> int:
        import time

        time.sleep(0.1)
        return at

    context = spark.sparkContext

    def cancel() -> None:
        ends = time.monotonic() + 60
        while not context.statusTracker().getActiveJobsIds():
            assert time.monotonic() < ends
            time.sleep(0.05)
        context.cancelAllJobs()

    with ThreadPoolExecutor(1) as executor:
        cancelled = executor.submit(cancel)
        with pytest.raises(pennon.PennonError) as caught:
            ended(spark, table, verb, fn.udf(slow, "long")("id"))
        cancelled.result()
    start = "The job was cancelled before its commit: Job "
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith(" cancelled as part of cancellation of all jobs")
    assert isinstance(caught.value.__cause__, Py4JJavaError)
    assert pennon.dataset(table.uri).version == 1


def test_conditions_too_deep_for_spark(spark: SparkSession, table: LanceTable, uri: str) -> None:
    deep = reduce(or_, [fn.col("id") == at for at in range(2500)])
    source = spark.range(5).withColumnRenamed("id", "key")
    verbs: list[Callable[[], Any]] = [
        lambda: read(spark, uri, where=deep),
        lambda: table.delete(deep),
        lambda: table.update(deep, {"n": "1"}),
        lambda: table.merge(source, (fn.col("id") == fn.col("key")) & deep).whenMatchedDelete().execute(),
        lambda: table.addColumns({"more": deep}),
        lambda: table.optimize().where(deep).executeCompaction(),
        lambda: write(spark.range(3), uri, mode="overwrite", replace_where=deep),
    ]
    for verb in verbs:
        with pytest.raises(pennon.UnsupportedError, match=r"nested too deeply for Spark, .* Use isin\(\)"):
            verb()
    assert table.version == 1
