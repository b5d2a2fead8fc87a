"""The error of a verb that fails names the files that its tasks wrote and no version refers to: exactly those."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, row_changes, tables, write
from pyspark_pennon.columns import add as columns
from pyspark_pennon.tasks.orphans import sentence
from support.spark_frames import frame_of

ROWS = 40


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    fields = [pa.field("id", pa.int64()), pa.field("n", pa.int64(), nullable=False)]
    rows = pa.table({"id": range(ROWS), "n": [0] * ROWS}, pa.schema(fields))
    pennon.write_dataset(rows, uri, max_rows_per_file=10)
    return LanceTable.forPath(spark, uri)


def files_in(uri: str) -> dict[str, int]:
    """Bytes by path of the files that hold data, or indices."""
    folders = [Path(uri, name) for name in ("data", "_deletions", "_indices")]
    found = (path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(uri)): path.stat().st_size for path in found}


def referred(uri: str) -> set[str]:
    """Files that a version refers to."""
    found = set()
    newest = pennon.dataset(uri)
    for entry in newest.versions():
        version = newest.checkout_version(entry["version"])
        for fragment in version.get_fragments():
            found.update(f"data/{file.path}" for file in fragment.metadata.files)
            deletions = fragment.metadata.deletion_file
            if deletions is not None:
                found.add(deletions.path(fragment.fragment_id))
    return found


def named(error: BaseException) -> tuple[set[str], str]:
    """The files that the note of an error names, and what it says of them."""
    (note,) = error.__notes__
    text, _, paths = note.rpartition(": ")
    return set(paths.split(", ")), text


def check(table: LanceTable, error: BaseException) -> dict[str, int]:
    """The files that are named are those on disk that no version refers to, as many as `verify` counts."""
    uri = table.uri
    orphans = {path: size for path, size in files_in(uri).items() if path not in referred(uri)}
    paths, text = named(error)
    assert paths == set(orphans)
    left = table.verify(leftovers=True).where("severity = 'leftover'").collect()
    counted = [row for row in left if re.search("the kind (data|index|deletion)", row.message)]
    assert sum(row.files for row in counted) == len(orphans)
    size = sum(row.size_bytes for row in counted)
    assert size == sum(orphans.values())
    files = "1 file" if len(orphans) == 1 else f"{len(orphans)} files"
    assert text.startswith(
        f"No version of {uri} refers to {files} that finished tasks wrote ({size:,} B); a vacuum"
    )
    return orphans


def fails_after(uri: str, files: int) -> Callable[[Any], Any]:
    """A function of Spark's that fails for 39, when others have written so many files and are done."""
    folder = Path(uri, "data")
    before = len(list(folder.iterdir()))

    def value(at: int) -> int:
        if at == ROWS - 1:
            for _ in range(600):
                if len(list(folder.iterdir())) >= before + files:
                    break
                time.sleep(0.1)
            time.sleep(2 if TaskContext.get().attemptNumber() == 0 else 0)
            raise ValueError("no value for 39")
        return at

    return fn.udf(value, "long")


def test_a_merge(spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_changes, "LEAST_ROWS_PER_TASK", 10)
    source = spark.range(ROWS).selectExpr("id", "nullif(id, 39) AS n").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll()
    with pytest.raises(pennon.PennonError, match="null") as caught:
        merge.execute()
    assert check(table, caught.value)
    assert table.version == 1


def test_an_update(table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_changes, "parallelism", lambda _spark: 4)
    monkeypatch.setattr(tables, "LEAST_FILE_BYTES", 1)
    with pytest.raises(PySparkException, match="no value for 39") as caught:
        table.update(set={"n": fails_after(table.uri, 3)("id")})
    assert len(check(table, caught.value)) == 3


def damage(uri: str, fragment: int) -> None:
    """Cut the end of the data file of a fragment off."""
    (file,) = pennon.dataset(uri).get_fragment(fragment).metadata.files
    path = Path(uri, "data", file.path)
    path.write_bytes(path.read_bytes()[:-40])


def test_a_compaction(table: LanceTable) -> None:
    damage(table.uri, 3)
    with pytest.raises(pennon.PennonError) as caught:
        table.optimize().executeCompaction(target_rows_per_fragment=20)
    (path,) = check(table, caught.value)
    assert path.startswith("data/")
    assert table.version == 1


def test_an_index(table: LanceTable) -> None:
    damage(table.uri, 3)
    with pytest.raises(pennon.PennonError) as caught:
        table.createIndex("id", "BITMAP")
    orphans = check(table, caught.value)
    assert {path.split("/")[0] for path in orphans} == {"_indices"}


def test_new_columns(table: LanceTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_TASK_BYTES", 1)
    damage(table.uri, 3)

    def double(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"more": [value * 2 for value in batch.column("id").to_pylist()]}

    with pytest.raises(pennon.PennonError) as caught:
        table.addColumns(double, schema="more long", readColumns=["id"])
    # Old files of fragments are in the results of these tasks as well, and are not named.
    assert check(table, caught.value)
    # What a checkpoint records is used when the work goes on: the tasks are done in two groups, 3 is in the second.
    monkeypatch.setattr(columns, "parallelism", lambda _spark: 1)
    monkeypatch.setattr(columns, "TASKS_PER_CORE", 4)
    with pytest.raises(pennon.PennonError) as caught:
        table.addColumns(double, schema="more long", readColumns=["id"], checkpoint=tmp_path / "checkpoint")
    recorded = json.loads((tmp_path / "checkpoint").read_text())["results"]
    found = {path for text in recorded for path in jobs.TaskResult.from_json(text).files}
    assert len(found) == 2
    (path,) = named(caught.value)[0]
    assert path not in found


def test_a_commit_that_is_refused(spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer changes the row during each attempt: the files of all attempts are named."""
    from pyspark_pennon.tasks import retries

    monkeypatch.setattr(retries.retried, "__kwdefaults__", {"is_repeatable": False, "attempts": 3})
    uri = table.uri

    def value(at: int) -> int:
        pennon.dataset(uri).update({"n": "n + 1"}, where=f"id = {at}")
        return -1

    source = spark.range(5, 6, 1, 1).selectExpr("id").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    with pytest.raises(pennon.CommitConflictError) as caught:
        merge.whenMatchedUpdate(set={"n": fn.udf(value, "long")("s.id")}).execute()
    assert len(check(table, caught.value)) == 3
    assert table.version == 4
    assert read(spark, uri).where("id = 5").first().n == 3


def test_a_compaction_that_is_refused(
    spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first group is committed, and another writer compacts the rest first, in the last attempt too."""
    from pennon.optimize import Compaction
    from pyspark_pennon.tasks import retries

    monkeypatch.setattr(retries.retried, "__kwdefaults__", {"is_repeatable": False, "attempts": 1})
    monkeypatch.setattr("pyspark_pennon.optimize.parallelism", lambda _spark: 1)
    pennon.write_dataset({"id": list(range(40, 80)), "n": [0] * 40}, table.uri, mode="append", max_rows_per_file=10)
    commit, groups = Compaction.commit, list[int]()

    def races(dataset: Any, *given: Any) -> Any:
        groups.append(1)
        if len(groups) == 2:
            pennon.dataset(table.uri).optimize.compact_files(target_rows_per_fragment=20)
        return commit(dataset, *given)

    monkeypatch.setattr(Compaction, "commit", staticmethod(races))
    with pytest.raises(pennon.CommitConflictError) as caught:
        table.optimize().executeCompaction(target_rows_per_fragment=20)
    # The files of the first group belong to a version.
    assert len(check(table, caught.value)) == 2
    assert table.count() == 80


def test_nobody_knows_whether_it_is_committed(
    spark: SparkSession, table: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pennon.jobs import JobPlan

    def lost(plan: JobPlan, _results: Any, **_given: Any) -> Any:
        raise pennon.CommitUnknownError("the answer was lost", plan.uuid)

    monkeypatch.setattr(JobPlan, "commit", lost)
    frame = frame_of(spark, [(100, 1)], "id long, n long")
    with pytest.raises(pennon.CommitUnknownError) as caught:
        write(frame, table.uri, mode="append")
    assert not getattr(caught.value, "__notes__", [])


def test_of_many_files_the_first_are_named() -> None:
    text = sentence("memory://t", {f"data/{at:02}.lance": 1_000_000 for at in range(30)})
    assert text.startswith(
        "No version of memory://t refers to 30 files that finished tasks wrote (30.0 MB); a vacuum"
    )
    assert text.endswith("data/18.lance, data/19.lance, ...")
    assert sentence("memory://t", {}) == ""
