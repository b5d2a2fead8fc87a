"""The distributed delete against a plain list, and its conflicts with other writers."""

from __future__ import annotations

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.jobs import JobPlan
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable, table


@pytest.fixture
def dataset(uri: str) -> pennon.LanceDataset:
    """60 rows in six fragments."""
    rows = pa.table({"id": pa.array(range(60)), "part": pa.array([at % 7 for at in range(60)])})
    return pennon.write_dataset(rows, uri, max_rows_per_file=10)


def rows(uri: str) -> dict[int, int]:
    """Row id to id, by the reference."""
    dataset = lance.dataset(uri)
    dataset.validate()
    found = dataset.to_table(columns=["id"], with_row_id=True)
    return dict(zip(found["_rowid"].to_pylist(), found["id"].to_pylist(), strict=True))


def test_against_a_model(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, dataset.uri)
    model = rows(dataset.uri)
    for version, (predicate, keeps) in enumerate(
        [
            ("id % 5 = 0 AND part <> 3", lambda at: at % 5 or at % 7 == 3),
            ("id >= 20 AND id < 30", lambda at: not 20 <= at < 30),
            ("id = 1000", lambda at: True),
            ("NULL = id", lambda at: True),
        ],
        start=2,
    ):
        done = handle.delete(predicate, tasks=version)
        left = {row_id: at for row_id, at in model.items() if keeps(at)}
        assert done == {"num_deleted_rows": len(model) - len(left), "version": version, "attempts": 1}
        assert rows(dataset.uri) == left
        model = left
    assert handle.version == 5
    assert handle.toDF(columns=["id"]).count() == len(model)
    assert handle.toDF(version=1).count() == 60
    assert [fragment.fragment_id for fragment in pennon.dataset(dataset.uri).get_fragments()] == [0, 1, 3, 4, 5]
    history = handle.history().collect()
    assert [(row.version, row.operation) for row in history][:2] == [(5, "Delete"), (4, "Delete")]
    assert history[0].operationMetrics["numRows"] == len(model)


def test_deletes_of_other_rows_meanwhile_are_merged(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = between(monkeypatch, lambda: pennon.dataset(dataset.uri).delete("id = 1"))
    done = LanceTable.forPath(spark, dataset.uri).delete("id = 2")
    assert (done["num_deleted_rows"], done["attempts"], attempts) == (1, 1, [1])
    assert {1, 2}.isdisjoint(rows(dataset.uri).values())
    assert len(rows(dataset.uri)) == 58


def test_a_conflict_begins_anew(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = between(monkeypatch, lambda: pennon.dataset(dataset.uri).delete("id = 2"))
    done = LanceTable.forPath(spark, dataset.uri).delete("id < 4")
    assert (done["num_deleted_rows"], done["attempts"], attempts) == (3, 2, [1, 1])
    assert sorted(rows(dataset.uri).values()) == list(range(4, 60))


def test_conflicts_without_end_are_reported(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflict(*_args: object) -> None:
        raise pennon.CommitConflictError("somebody was faster")

    monkeypatch.setattr(JobPlan, "commit", conflict)
    monkeypatch.setattr(table, "MAX_ATTEMPTS", 2)
    with pytest.raises(pennon.CommitConflictError, match="somebody was faster"):
        LanceTable.forPath(spark, dataset.uri).delete("id = 1")


def between(monkeypatch: pytest.MonkeyPatch, change: object) -> list[int]:
    """Make `change` once, after the rows of the first attempt were found; gives a mark per attempt."""
    attempts: list[int] = []
    commit = JobPlan.commit

    def later(*args: object) -> object:
        if not attempts:
            change()
        attempts.append(1)
        return commit(*args)

    monkeypatch.setattr(JobPlan, "commit", later)
    return attempts


def test_errors(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    handle = LanceTable.forPath(spark, uri)
    for predicate, message in [("id >", "parsing"), ("nope = 1", "nope"), ("id + 1", "boolean")]:
        with pytest.raises(ValueError, match=message):
            handle.delete(predicate)
    assert handle.version == 1
    assert LanceTable.isLanceTable(spark, uri)
    assert not LanceTable.isLanceTable(spark, f"{uri}-not")
    with pytest.raises(ValueError, match="not found"):
        LanceTable.forPath(spark, f"{uri}-not")
