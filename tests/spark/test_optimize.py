"""Compaction by Spark tasks: groups, conditions, other writers in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pennon
import pytest
from pennon.optimize import Compaction
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable
from pyspark_pennon.tasks import retries


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """120 rows in twelve fragments."""
    return pennon.write_dataset({"id": list(range(120))}, uri, max_rows_per_file=10)


def rows(uri: str) -> dict[int, int]:
    dataset = lance.dataset(uri)
    dataset.validate()
    found = dataset.to_table(with_row_id=True)
    return dict(zip(found["_rowid"].to_pylist(), found["id"].to_pylist(), strict=True))


def run(spark: SparkSession, uri: str, where: str | None = None, **options: Any) -> Row:
    builder = LanceTable.forPath(spark, uri).optimize()
    frame = (builder if where is None else builder.where(where)).executeCompaction(**options)
    assert frame.columns == ["path", "metrics", "version"]
    found = frame.first()
    assert found is not None
    assert (found.path, found.version) == (uri, pennon.dataset(uri).version)
    return found.metrics


def meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Make `change` once, after the first tasks are done and before their commit."""
    commit, done = Compaction.commit, []

    def later(*args: Any) -> Any:
        if not done:
            done.append(1)
            change()
        return commit(*args)

    monkeypatch.setattr(Compaction, "commit", staticmethod(later))


def test_groups_are_commits(spark: SparkSession, table: pennon.LanceDataset) -> None:
    before = rows(table.uri)
    # Six tasks of two fragments, four in a group on two cores.
    metrics = run(spark, table.uri, target_rows_per_fragment=20)
    assert (metrics.numFragmentsRemoved, metrics.numFragmentsAdded, metrics.numConflicts) == (12, 6, 0)
    assert (metrics.numFilesRemoved, metrics.numFilesAdded) == (12, 6)
    assert metrics.numCommits == 2
    assert rows(table.uri) == before
    metrics = run(spark, table.uri, target_rows_per_fragment=20)
    assert (metrics.numCommits, metrics.numFragmentsRemoved) == (0, 0)


def test_a_condition_chooses_fragments(spark: SparkSession, table: pennon.LanceDataset) -> None:
    before = rows(table.uri)
    metrics = run(spark, table.uri, where="id >= 95 AND id < 111")
    assert (metrics.numFragmentsRemoved, metrics.numFragmentsAdded) == (3, 1)
    left = [fragment.fragment_id for fragment in pennon.dataset(table.uri).get_fragments()]
    assert set(range(9)) <= set(left)
    assert rows(table.uri) == before
    assert run(spark, table.uri, where="id < 0").numCommits == 0
    # A function that only Spark has, and one in Python.
    assert run(spark, table.uri, where="conv(id, 10, 16) IN ('0', 'A')").numFragmentsRemoved == 2
    thirties = fn.udf(lambda at: at // 10 == 3, "boolean")(fn.col("id"))
    builder = LanceTable.forPath(spark, table.uri).optimize().where(thirties | (fn.col("id") < 50))
    # A second condition narrows the first; `3 / 2` is 1 in Pennon's dialect, and 1.5 for Spark.
    metrics = builder.where(filter_sql="id / 10 >= 3").executeCompaction().first().metrics
    assert (metrics.numFragmentsRemoved, metrics.numFragmentsAdded) == (2, 1)
    assert rows(table.uri) == before
    version = pennon.dataset(table.uri).version
    with pytest.raises(AnalysisException, match="nope"):
        run(spark, table.uri, "nope = 1")
    with pytest.raises(AnalysisException, match="PARSE_SYNTAX_ERROR"):
        run(spark, table.uri, "id = = 1")
    with pytest.raises(pennon.InvalidInputError, match="nope"):
        LanceTable.forPath(spark, table.uri).optimize().where(filter_sql="nope = 1").executeCompaction()
    with pytest.raises(pennon.InvalidInputError, match="expected a condition, or filter_sql"):
        LanceTable.forPath(spark, table.uri).optimize().where()
    for options, message in [
        ({"size": 1}, "Invalid compaction option: size"),
        ({"num_threads": 1}, "no option 'num_threads'"),
    ]:
        with pytest.raises(pennon.InvalidInputError, match=message):
            run(spark, table.uri, None, **options)
    assert pennon.dataset(table.uri).version == version


def test_deletes_meanwhile_are_kept(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: pennon.dataset(table.uri).delete("id % 3 = 0"))
    metrics = run(spark, table.uri)
    assert (metrics.numFragmentsRemoved, metrics.numConflicts) == (12, 0)
    assert sorted(rows(table.uri).values()) == [at for at in range(120) if at % 3]


def test_fragments_that_others_compacted(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(table.uri)
    chosen = {"target_rows_per_fragment": 20, "max_source_fragments": 2}
    meanwhile(monkeypatch, lambda: pennon.dataset(table.uri).optimize.compact_files(**chosen))
    metrics = run(spark, table.uri, target_rows_per_fragment=20)
    # One task met fragments that were gone; the others of its group were committed one by one.
    assert metrics.numConflicts == 1
    assert metrics.numFragmentsRemoved == 10
    assert rows(table.uri) == before
    fragments = pennon.dataset(table.uri).get_fragments()
    assert {fragment.count_rows() for fragment in fragments} == {20}


def test_conflicts_without_end_are_reported(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def conflict(*_args: object) -> None:
        attempts.append(1)
        raise pennon.CommitConflictError("somebody was faster", retryable=False)

    monkeypatch.setattr(Compaction, "commit", staticmethod(conflict))
    with pytest.raises(pennon.CommitConflictError, match="somebody was faster"):
        run(spark, table.uri)
    assert len(attempts) == retries.MAX_ATTEMPTS
