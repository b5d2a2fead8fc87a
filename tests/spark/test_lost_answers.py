"""Commits whose answer is lost: each verb of `LanceTable` asks once more, and what it did is there once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pennon
import pytest
from pennon.jobs import JobPlan
from pennon.optimize import Compaction
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, write

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
    commit, calls = JobPlan.commit, list[str]()

    def losing(plan: JobPlan, results: Any, **options: Any) -> Any:
        report = commit(plan, results, **options)
        calls.append(plan.uuid)
        if calls.count(plan.uuid) == 1:
            raise pennon.CommitUnknownError("the answer was lost", plan.uuid)
        return report

    monkeypatch.setattr(JobPlan, "commit", losing)
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
    return write(new, table._uri, mode="overwrite", replace_where="id = 5")


BEFORE = dict.fromkeys(range(ROWS), 0)

VERBS: dict[str, tuple[Callable[[LanceTable, SparkSession], Any], dict[int, int]]] = {
    "delete": (lambda table, spark: table.delete("id % 2 = 0"), dict.fromkeys(range(1, ROWS, 2), 0)),
    "delete what a subquery has": (in_others, dict.fromkeys(range(2, ROWS), 0)),
    "update": (lambda table, spark: table.update("id < 3", {"n": "n + 9"}), {**BEFORE, 0: 9, 1: 9, 2: 9}),
    "merge": (merged, {**BEFORE, 1: 9, 50: 9}),
    "updateRows": (changed_by_id, {**BEFORE, 3: 9}),
    "updateColumnsFrom": (changed_by_key, {**BEFORE, 2: 9}),
    "addColumns": (lambda table, spark: table.addColumns({"more": "id + 1"}), BEFORE),
    "replace where": (replaced, {**BEFORE, 5: 9}),
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


def test_a_compaction_whose_answer_is_lost(table: LanceTable, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, calls = Compaction.commit, list[int]()

    def losing(*given: Any) -> Any:
        metrics = commit(*given)
        calls.append(1)
        if len(calls) == 1:
            raise pennon.CommitUnknownError("the answer was lost")
        return metrics

    monkeypatch.setattr(Compaction, "commit", staticmethod(losing))
    table.optimize().executeCompaction()
    assert len(lance.dataset(uri).get_fragments()) == 1
    assert rows(uri) == BEFORE
    assert [row.operation for row in table.history().collect()].count("Rewrite") == 1
    assert len(calls) == 1


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
