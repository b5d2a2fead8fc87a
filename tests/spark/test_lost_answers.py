"""Commits whose answer is lost: each verb of `LanceTable` asks once more, and what it did is there once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.jobs import JobPlan
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StructField, StructType
from pyspark_pennon import LanceTable, read, row_changes, write
from pyspark_pennon.streams.sink import StreamBatch, StreamWriter, WrittenOfBatch
from pyspark_pennon.tasks import executor

ROWS = 12


def rows(uri: str) -> dict[int, int]:
    """By the reference, which must find the table sound and each key once."""
    dataset = lance.dataset(uri)
    dataset.validate()
    found = dataset.to_table(columns=["id", "n"]).to_pylist()
    by_id = {row["id"]: row["n"] for row in found}
    assert len(by_id) == len(found)
    return by_id


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    pennon.write_dataset({"id": list(range(ROWS)), "n": [0] * ROWS}, uri, max_rows_per_file=4)
    return LanceTable.forPath(spark, uri)


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first answer to each commit is lost; gives the uuids of commits, in the order of the calls."""
    commit, publish, calls = JobPlan.commit, pennon.LanceDataset.commit, list[str]()

    def lose(uuid: str) -> None:
        calls.append(uuid)
        if calls.count(uuid) == 1:
            raise pennon.CommitUnknownError("the answer was lost", uuid)

    def losing(plan: JobPlan, results: Any, **options: Any) -> Any:
        report = commit(plan, results, **options)
        lose(plan.uuid)
        return report

    def losing_too(table: Any, transaction: pennon.Transaction, **options: Any) -> Any:
        done = publish(table, transaction, **options)
        lose(transaction.uuid)
        return done

    monkeypatch.setattr(JobPlan, "commit", losing)
    monkeypatch.setattr(pennon.LanceDataset, "commit", staticmethod(losing_too))
    return calls


def merged(table: LanceTable, spark: SparkSession) -> Any:
    source = spark.createDataFrame([(1, 9), (50, 9)], "id long, n long").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    return merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def changed_by_id(table: LanceTable, spark: SparkSession) -> Any:
    ids = table.toDF(with_row_id=True).where("id = 3")
    return table.updateRows(ids.select("_rowid", fn.lit(9).cast("long").alias("n")))


def changed_by_key(table: LanceTable, spark: SparkSession) -> Any:
    return table.updateColumnsFrom(spark.createDataFrame([(2, 9)], "id long, n long"), "id")


def in_others(table: LanceTable, spark: SparkSession) -> Any:
    spark.range(2).createOrReplaceTempView("first_two")
    return table.delete("id IN (SELECT id FROM first_two)")


def replaced(table: LanceTable, spark: SparkSession) -> Any:
    new = spark.createDataFrame([(5, 9)], "id long, n long")
    return write(new, table.uri, mode="overwrite", replace_where="id = 5")


BEFORE = dict.fromkeys(range(ROWS), 0)

VERBS: dict[str, tuple[Callable[[LanceTable, SparkSession], Any], dict[int, int]]] = {
    "delete": (lambda table, spark: table.delete("id % 2 = 0"), dict.fromkeys(range(1, ROWS, 2), 0)),
    "delete without a condition": (lambda table, spark: table.delete(), {}),
    "delete what a subquery has": (in_others, dict.fromkeys(range(2, ROWS), 0)),
    "update": (lambda table, spark: table.update("id < 3", {"n": "n + 9"}), {**BEFORE, 0: 9, 1: 9, 2: 9}),
    "merge": (merged, {**BEFORE, 1: 9, 50: 9}),
    "updateRows": (changed_by_id, {**BEFORE, 3: 9}),
    "updateColumnsFrom": (changed_by_key, {**BEFORE, 2: 9}),
    "addColumns": (lambda table, spark: table.addColumns({"more": "id + 1"}), BEFORE),
    "replace where": (replaced, {**BEFORE, 5: 9}),
    "append": (
        lambda table, spark: write(spark.range(50, 51).withColumn("n", fn.lit(9)), table.uri, mode="append"),
        {**BEFORE, 50: 9},
    ),
    "createIndex": (lambda table, spark: table.createIndex("id", "BITMAP", replace=False), BEFORE),
    "setProperties": (lambda table, spark: table.setProperties({"owner": "flights"}), BEFORE),
    "unsetProperties": (lambda table, spark: table.unsetProperties(["owner"]), BEFORE),
    "restoreToVersion": (lambda table, spark: table.restoreToVersion(1), BEFORE),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_whose_answer_is_lost_happens_once(
    spark: SparkSession, table: LanceTable, uri: str, lost: list[str], verb: str
) -> None:
    run, expected = VERBS[verb]
    run(table, spark)
    assert len(lost) == 2
    assert lost[0] == lost[1]
    assert pennon.dataset(uri).version == 2
    assert rows(uri) == expected
    assert read(spark, uri).count() == len(expected)


def test_the_care_of_indices_whose_answer_is_lost(
    table: LanceTable, uri: str, lost: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_pennon.indices.care._LEAST_ROWS", 1)
    table.createIndex("id", "BITMAP")
    table.optimizeIndices(retrain=True)
    assert [lost.count(uuid) for uuid in lost] == [2] * 4
    assert pennon.dataset(uri).version == 3
    assert rows(uri) == BEFORE


def test_an_index_whose_answers_are_all_lost(table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, calls = pennon.LanceDataset.commit, list[str]()

    def losing(base: Any, transaction: pennon.Transaction, **options: Any) -> Any:
        commit(base, transaction, **options)
        calls.append(transaction.uuid)
        raise pennon.CommitUnknownError("the answer was lost", transaction.uuid)

    monkeypatch.setattr(pennon.LanceDataset, "commit", staticmethod(losing))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    table.createIndex("id", "BITMAP", replace=False)
    assert (len(calls), len(set(calls)), pennon.dataset(uri).version) == (5, 1, 2)


def a_batch(uri: str, number: int, *, overwrite: bool) -> tuple[StreamWriter, list[Any]]:
    """A batch of one row before its commit, with the messages of its tasks."""
    schema = StructType([StructField("id", LongType()), StructField("n", LongType())])
    writer, batch = StreamWriter.of({"path": uri}, schema, overwrite=overwrite), StreamBatch("query", number)
    plan = writer.plan.with_uuid(batch.uuid)
    new = pa.record_batch([[ROWS + number], [9]], ["id", "n"])
    return writer, [WrittenOfBatch(0, plan.write_partition(0, iter([new])), batch, plan)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_batch_of_a_stream_whose_answer_is_lost(
    table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    commit, calls = JobPlan.commit, list[str]()

    def losing(plan: JobPlan, results: Any, **options: Any) -> Any:
        done = commit(plan, results, **options)
        calls.append(plan.uuid)
        if len(calls) % 3:
            raise pennon.CommitUnknownError("the answer was lost", plan.uuid)
        return done

    monkeypatch.setattr(JobPlan, "commit", losing)
    expected = {} if overwrite else dict(BEFORE)
    for batch in range(2):
        writer, messages = a_batch(uri, batch, overwrite=overwrite)
        writer.commit(messages, batch)
        expected = {**({} if overwrite else expected), ROWS + batch: 9}
        assert rows(uri) == expected
        assert pennon.dataset(uri).version == 2 + batch
    assert calls == [StreamBatch("query", batch).uuid for batch in (0, 0, 0, 1, 1, 1)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_batch_that_two_processes_commit_at_the_same_time(
    table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    both = [a_batch(uri, 0, overwrite=overwrite) for _ in range(2)]
    # Each looks before the other one commits.
    monkeypatch.setattr(StreamBatch, "is_committed", lambda _batch, _table: False)
    for writer, messages in both:
        writer.commit(messages, 0)
    assert rows(uri) == {**({} if overwrite else BEFORE), ROWS: 9}
    made = pennon.dataset(uri)
    assert made.version == 2
    assert made.read_transaction(2).transaction_properties == StreamBatch("query", 0).properties


@pytest.mark.parametrize("verb", ["merge", "write"])
@pytest.mark.parametrize("fault", ["the last is missing", "the first is missing", "the last is there two times"])
def test_a_result_of_a_task_that_spark_loses(
    spark: SparkSession, table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch, verb: str, fault: str
) -> None:
    collect = executor.to_arrow

    def losing(frame: Any) -> pa.Table:
        found = collect(frame).sort_by("number")
        count = found.num_rows
        assert count > 1
        kept = {"the last is missing": range(count - 1), "the first is missing": range(1, count)}
        return found.take([*kept.get(fault, [*range(count), count - 1])])

    monkeypatch.setattr(executor, "to_arrow", losing)
    monkeypatch.setattr(row_changes, "LEAST_ROWS_PER_TASK", 4)
    source = spark.range(0, ROWS, 1, 4).selectExpr("id", "id + 50 AS n")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll()
    change = {"merge": merge.execute, "write": lambda: write(source, uri, mode="append")}[verb]
    with pytest.raises(pennon.InternalError, match=r"Spark gave results of tasks \[.*, expected one of each of \d"):
        change()
    assert rows(uri) == BEFORE
    assert pennon.dataset(uri).version == 1


def test_each_process_of_a_batch_opens_the_table_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pennon.write_dataset({"id": [1], "n": [0]}, uri)
    open_table, opened = pennon.dataset, list[str]()

    def counted(uri: str, *given: Any, **options: Any) -> Any:
        opened.append(uri)
        return open_table(uri, *given, **options)

    monkeypatch.setattr(pennon, "dataset", counted)
    writer, messages = a_batch(uri, 0, overwrite=False)
    assert len(opened) == 1
    sent = pickle.loads(pickle.dumps(writer))
    assert (sent.plan, sent.table, len(opened)) == (writer.plan, None, 1)
    writer.commit(messages, 0)
    assert len(opened) == 1
    assert open_table(uri).version == 2


def test_a_table_of_a_stream_whose_creation_is_not_answered(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create, calls = pennon.write_dataset, list[str]()

    def losing(data: Any, uri: str, **options: Any) -> Any:
        calls.append(uri)
        create(data, uri, **options)
        raise pennon.CommitUnknownError("the answer was lost")

    monkeypatch.setattr(pennon, "write_dataset", losing)
    writer = StreamWriter.of({"path": uri}, StructType([StructField("id", LongType())]), overwrite=False)
    assert calls == [uri, uri]
    assert (writer.plan.version, pennon.dataset(uri).version) == (1, 1)


def test_new_columns_of_a_write_whose_answer_is_lost(
    spark: SparkSession, table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, calls = pennon.LanceDataset.commit, list[int]()

    def losing(*given: Any, **options: Any) -> Any:
        commit(*given, **options)
        calls.append(1)
        raise pennon.CommitUnknownError("the answer was lost")

    monkeypatch.setattr(pennon.LanceDataset, "commit", staticmethod(losing))
    new = spark.createDataFrame([(50, 9, "x")], "id long, n long, more string")
    write(new, uri, mode="append", merge_schema=True)
    assert (len(calls), pennon.dataset(uri).version) == (1, 2)
    assert rows(uri) == {**BEFORE, 50: 9}
    assert read(spark, uri).where("more = 'x'").count() == 1


def test_a_compaction_whose_answer_is_lost(table: LanceTable, uri: str, lost_compaction: list[int]) -> None:
    table.optimize().executeCompaction()
    assert len(lance.dataset(uri).get_fragments()) == 1
    assert rows(uri) == BEFORE
    assert [row.operation for row in table.history().collect()].count("Rewrite") == 1
    assert len(lost_compaction) == 1


def test_an_answer_that_never_comes(table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def unknown(plan: JobPlan, _results: Any, **_options: Any) -> Any:
        calls.append(plan.uuid)
        raise pennon.CommitUnknownError("nobody answers", plan.uuid)

    monkeypatch.setattr(JobPlan, "commit", unknown)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(pennon.CommitUnknownError, match="nobody answers"):
        table.update("id < 3", {"n": "n + 9"})
    assert (len(calls), len(set(calls))) == (5, 1)
    assert rows(uri) == BEFORE


def test_a_replacement_whose_removal_of_properties_is_not_answered(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    LanceTable.create(spark).location(uri).addColumn("id", "long").property("old", "1").execute()
    update, calls = pennon.LanceDataset.update_config, list[int]()

    def losing(*given: Any) -> Any:
        done = update(*given)
        calls.append(1)
        if len(calls) == 1:
            raise pennon.CommitUnknownError("the answer was lost")
        return done

    monkeypatch.setattr(pennon.LanceDataset, "update_config", losing)
    LanceTable.replace(spark).location(uri).addColumn("id", "long").property("new", "2").execute()
    assert pennon.dataset(uri).config() == {"new": "2"}
