"""Verbs of Spark and the same verbs of the wheel: equal in rows, ids, versions of rows, and change feed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, write

ROWS = 60
VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]


def make(uri: str) -> pennon.LanceDataset:
    """Four versions, so that rows differ in theirs; nulls, and a fragment with deletions."""
    table = pennon.write_dataset(
        {
            "id": list(range(ROWS)),
            "n": pa.array([at % 7 if at % 5 else None for at in range(ROWS)], pa.int32()),
            "text": [f"row {at}" for at in range(ROWS)],
            "list": [[at, None] for at in range(ROWS)],
        },
        uri,
        max_rows_per_file=20,
    )
    table.update({"text": "'early'"}, where="id % 9 = 0")
    table.delete("id IN (3, 33)")
    more = {"id": [100, 101], "n": pa.array([1, None], pa.int32()), "text": ["late", None], "list": [[1], None]}
    table.insert(pa.table(more))
    return table


def found(uri: str) -> list[dict[str, Any]]:
    """All rows with ids and versions, by Pennon; the reference must find the same."""
    dataset = lance.dataset(uri)
    dataset.validate()
    names = ["id", "n", "text", "list"]
    rows = pennon.dataset(uri).to_table(columns=[*names, *VERSIONS], with_row_id=True).to_pylist()
    theirs = dataset.to_table(columns=[*names, *VERSIONS], with_row_id=True).to_pylist()
    assert sorted(rows, key=lambda row: row["_rowid"]) == sorted(theirs, key=lambda row: row["_rowid"])
    return sorted(rows, key=lambda row: row["_rowid"])


def feed(uri: str, since: int) -> list[dict[str, Any]]:
    rows = pennon.dataset(uri).changes(since, mode="each", images="both").read_all().to_pylist()
    for row in rows:
        row.pop("_commit_timestamp", None)
    return sorted(rows, key=repr)


def by_ids(table: LanceTable) -> Any:
    ids = table.toDF(columns=["id"], with_row_id=True).where("id IN (2, 9, 101)")
    return table.updateRows(ids.selectExpr("_rowid", "int(id * 2) n", "array(id) list"))


def by_ids_alone(table: pennon.LanceDataset) -> Any:
    rows = table.to_table(columns=["id"], filter="id IN (2, 9, 101)", with_row_id=True).to_pylist()
    new = {"n": [row["id"] * 2 for row in rows], "list": [[row["id"]] for row in rows]}
    return table.update_rows([row["_rowid"] for row in rows], new)


def replaced(table: LanceTable) -> Any:
    spark = table._spark
    new = spark.sql(
        "SELECT 200L id, 3 n, 'new' text, array(7L) list UNION ALL SELECT 201L, 3, NULL, NULL"
    ).coalesce(1)
    return write(new, table.uri, mode="overwrite", replace_where="n = 3")


def replaced_alone(table: pennon.LanceDataset) -> Any:
    """What the wheel has for it: a merge by row id that deletes what it finds, and inserts what has no id."""
    gone = table.to_table(columns=[], filter="n = 3", with_row_id=True)["_rowid"].to_pylist()
    columns = {"id": [200, 201], "n": [3, 3], "text": ["new", None], "list": [[7], None]}
    empty = [None] * len(gone)
    source = pa.table(
        {
            "_rowid": pa.array([*gone, None, None], pa.uint64()),
            "id": pa.array([*empty, *columns["id"]], pa.int64()),
            "n": pa.array([*empty, *columns["n"]], pa.int32()),
            "text": pa.array([*empty, *columns["text"]], pa.string()),
            "list": pa.array([*empty, *columns["list"]], pa.list_(pa.int64())),
        }
    )
    return table.merge_insert("_rowid").when_matched_delete().when_not_matched_insert_all().execute(source)


Pair = tuple[Callable[[LanceTable], Any], Callable[[pennon.LanceDataset], Any]]

VERBS: dict[str, Pair] = {
    "delete": (lambda table: table.delete("n = 2 OR id = 100"), lambda table: table.delete("n = 2 OR id = 100")),
    "delete of nulls": (lambda table: table.delete(fn.col("n").isNull()), lambda table: table.delete("n IS NULL")),
    "delete of a fragment": (
        lambda table: table.delete("id BETWEEN 20 AND 39"),
        lambda table: table.delete("id BETWEEN 20 AND 39"),
    ),
    "update": (
        lambda table: table.update("n > 3", {"n": "n + 10", "text": "concat(text, '!')"}),
        lambda table: table.update({"n": "n + 10", "text": "concat(text, '!')"}, where="n > 3"),
    ),
    "update that changes no value": (
        lambda table: table.update("id = 5", {"text": "text"}),
        lambda table: table.update({"text": "text"}, where="id = 5"),
    ),
    "updateRows": (by_ids, by_ids_alone),
    "replace_where": (replaced, replaced_alone),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_that_of_the_wheel(spark: SparkSession, tmp_path: Path, verb: str) -> None:
    ours, alone = str(tmp_path / "spark"), str(tmp_path / "alone")
    before = make(ours).version
    table = make(alone)
    by_spark, by_wheel = VERBS[verb]
    by_spark(LanceTable.forPath(spark, ours))
    by_wheel(table)
    assert pennon.dataset(ours).version == pennon.dataset(alone).version == before + 1
    assert found(ours) == found(alone)
    changes = feed(ours, before)
    assert changes
    assert changes == feed(alone, before)
    assert feed(ours, 0) == feed(alone, 0)
    frame = LanceTable.forPath(spark, ours).changes(before + 1).drop("_commit_timestamp")
    by_tasks = [row.asDict(recursive=True) for row in frame.collect()]
    assert sorted(map(_plain, by_tasks)) == sorted(map(_plain, changes))


def _plain(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
