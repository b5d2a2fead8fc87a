"""Drivers that end around a commit, and several writers of one table.

With `PENNON_LONG_TESTS=1` each is a process of its own, and drivers are killed. Without, the commit of a driver
raises what nothing catches, in the session of the tests: what another driver finds is the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.jobs import JobPlan
from pennon.optimize import Compaction
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable
from support.long import long
from support.spark_session import environment

WRITER = str(Path(__file__).parent / "cluster" / "writer.py")
COMMITS = 50


def started(*arguments: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WRITER, *arguments],
        env={**environment(), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process printed; what it started ends with it."""
    try:
        return process.communicate(timeout=800)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def make(uri: str) -> None:
    pennon.write_dataset(pa.table({"key": ["old", "other"], "n": pa.array([1, 2], pa.int64())}), uri)


def rows(uri: str) -> list[tuple[str, int]]:
    found = lance.dataset(uri)
    found.validate()
    return sorted((row["key"], row["n"]) for row in found.to_table().to_pylist())


class DriverEndedError(BaseException):
    """The driver is gone: nothing of it may catch this, nor commit afterwards."""


def killed(*arguments: str) -> None:
    process = started(*arguments)
    _, errors = ended(process)
    assert process.returncode == -signal.SIGKILL, errors[-2000:]


@pytest.mark.parametrize("is_process", [False, pytest.param(True, marks=long)], ids=["raised", "killed"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_ends_around_its_commit(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, when: str, is_process: bool
) -> None:
    make(uri)
    old = pennon.dataset(uri).to_table(filter="key = 'old'", with_row_id=True)["_rowid"].to_pylist()
    commit = JobPlan.commit

    def ends(plan: JobPlan, results: Any, **options: Any) -> Any:
        if when == "after":
            commit(plan, results, **options)
        raise DriverEndedError

    if is_process:
        killed(when, uri, "merge", "1")
    else:
        monkeypatch.setattr(JobPlan, "commit", ends)
        with pytest.raises(DriverEndedError):
            merged(spark, uri)
        monkeypatch.undo()
    expected = [("new", 8), ("old", 7), ("other", 2)]
    assert rows(uri) == (expected if when == "after" else [("old", 1), ("other", 2)])
    orphans = orphans_of(uri)
    assert bool(orphans) == (when == "before")
    # What the driver was to do is done again by another one: once, and with the same ids.
    done = merged(spark, uri).first()
    assert (done.num_updated_rows, done.num_inserted_rows) == ((1, 1) if when == "before" else (2, 0))
    assert rows(uri) == expected
    assert pennon.dataset(uri).to_table(filter="key = 'old'", with_row_id=True)["_rowid"].to_pylist() == old
    assert_removed(LanceTable.forPath(spark, uri), orphans)
    assert rows(uri) == expected


def merged(spark: SparkSession, uri: str) -> DataFrame:
    frame = spark.sql("SELECT * FROM VALUES ('old', 7L), ('new', 8L) AS s(key, n)").alias("s")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(frame, "t.key = s.key")
    return merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def orphans_of(uri: str) -> set[str]:
    """Data files that no version refers to."""
    table = pennon.dataset(uri)
    versions = [table.checkout_version(number) for number in range(1, table.version + 1)]
    parts = [part for version in versions for part in version.get_fragments()]
    used = {file.path for part in parts for file in part.metadata.files}
    return {path.name for path in Path(uri, "data").iterdir()} - used


def assert_removed(table: LanceTable, orphans: set[str]) -> None:
    """Orphans are found by `verify` and removed by a vacuum once they are old enough."""
    month_ago = 30 * 24 * 3600
    for name in orphans:
        path = Path(table.uri, "data", name)
        os.utime(path, (path.stat().st_mtime - month_ago,) * 2)
    assert not table.verify().collect()
    left = table.verify(leftovers=True).where("kind = 'orphan' AND message LIKE '%the kind data%'").collect()
    assert sum(row.files for row in left) == len(orphans)
    paths = [Path(row.path) for row in table.vacuum(dryRun=True).collect()]
    assert {path.name for path in paths if path.parent.name == "data"} == orphans
    table.vacuum()
    assert not orphans & {path.name for path in Path(table.uri, "data").iterdir()}


@long
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_driver_is_killed_around_the_commit_of_an_append(spark: SparkSession, uri: str, when: str) -> None:
    make(uri)
    killed(when, uri, "append", "1")
    old = [("old", 1), ("other", 2)]
    assert rows(uri) == (old if when == "before" else [("new", 8), *old])
    assert pennon.dataset(uri).version == (1 if when == "before" else 2)
    orphans = orphans_of(uri)
    assert len(orphans) == (1 if when == "before" else 0)
    assert_removed(LanceTable.forPath(spark, uri), orphans)
    assert len(rows(uri)) == (2 if when == "before" else 3)


@pytest.mark.parametrize("is_process", [False, pytest.param(True, marks=long)], ids=["raised", "killed"])
def test_a_driver_ends_between_groups_of_a_compaction(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, is_process: bool
) -> None:
    """What is committed stays, and what is left is done by the next one."""
    ids = list(range(80))
    pennon.write_dataset({"id": ids}, uri, max_rows_per_file=10)
    commit, groups = Compaction.commit, list[int]()

    def ends(*given: Any) -> Any:
        groups.append(1)
        if len(groups) == 2:
            raise DriverEndedError
        return commit(*given)

    if is_process:
        killed("between", uri, "compaction", "1")
    else:
        monkeypatch.setattr(Compaction, "commit", staticmethod(ends))
        monkeypatch.setattr("pyspark_pennon.optimize.parallelism", lambda _spark: 1)
        with pytest.raises(DriverEndedError):
            LanceTable.forPath(spark, uri).optimize().executeCompaction(target_rows_per_fragment=20)
        monkeypatch.undo()

    def found() -> list[tuple[int, int]]:
        dataset = lance.dataset(uri)
        dataset.validate()
        return [(row["_rowid"], row["id"]) for row in dataset.to_table(with_row_id=True).to_pylist()]

    assert sorted(found()) == [(at, at) for at in ids]
    # Of four tasks the two of the first group are committed: four fragments became two.
    assert [row.operation for row in LanceTable.forPath(spark, uri).history().collect()].count("Rewrite") == 1
    assert len(lance.dataset(uri).get_fragments()) == 6
    orphans = orphans_of(uri)
    assert len(orphans) == 2
    table = LanceTable.forPath(spark, uri)
    metrics = table.optimize().executeCompaction(target_rows_per_fragment=20).first().metrics
    assert (metrics.numFragmentsRemoved, metrics.numFragmentsAdded) == (4, 2)
    assert sorted(found()) == [(at, at) for at in ids]
    assert_removed(table, orphans)
    assert sorted(found()) == [(at, at) for at in ids]


@long
def test_two_spark_jobs_and_the_reference(uri: str) -> None:
    make(uri)
    writers = [
        started("spark", uri, "a", str(COMMITS)),
        started("spark", uri, "b", str(COMMITS)),
        started("reference", uri, "c", str(COMMITS)),
    ]
    outputs = [ended(process) for process in writers]
    expected = {"old", "other"}
    for process, (output, errors) in zip(writers, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
        said = output.split()
        assert len(said) == COMMITS
        for word in said:
            (expected.add if word[0] == "+" else expected.discard)(word[1:])
    found = [key for key, _ in rows(uri)]
    assert found == sorted(expected)
    # A version for each commit, after the one that made the table.
    assert pennon.dataset(uri).version == 1 + 3 * COMMITS
    values = dict(rows(uri))
    for name in ("a", "b"):
        assert all(values[f"{name}-{at}"] == 1001 + at for at in range(0, COMMITS - 1, 3))
