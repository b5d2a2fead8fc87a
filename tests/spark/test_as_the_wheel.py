"""Verbs of Spark and the same verbs of the wheel: equal in rows, ids, versions of rows, and change feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, write
from pyspark_pennon.merge.builder import MergeBuilder

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
    spark = table._target.spark
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


MERGED = {
    "id": [5, 9, 36, 100, 300, 301],
    "n": [50, None, 2, 7, 4, None],
    "text": ["five", "nine", None, "hundred", "new", "newer"],
    "list": [[5], [], None, [1, None], [3], None],
}
"""Four rows that are there, one of them null in the table where this is not, and two that are not."""


def merged_rows() -> pa.Table:
    types = {"id": pa.int64(), "n": pa.int32(), "text": pa.string(), "list": pa.list_(pa.int64())}
    return pa.table({name: pa.array(MERGED[name], kind) for name, kind in types.items()})


def merging(table: LanceTable, columns: Sequence[str] = ("id", "n", "text", "list")) -> MergeBuilder:
    frame = table._target.spark.createDataFrame(merged_rows()).select(*columns)
    return table.alias("t").merge(frame.repartition(3).alias("s"), "t.id = s.id")


def all_clauses(table: LanceTable) -> Any:
    merge = merging(table).whenMatchedDelete("s.text IS NULL").whenMatchedUpdate("s.n > t.n", {"n": "t.n + s.n"})
    merge = merge.whenMatchedUpdate(set={"text": "s.text"}).whenNotMatchedInsertAll("s.n IS NOT NULL")
    merge = merge.whenNotMatchedInsert(values={"id": "s.id", "text": "upper(s.text)"})
    merge = merge.whenNotMatchedBySourceUpdate("t.id < 10", {"n": "coalesce(t.n, 0) + 1"})
    return merge.whenNotMatchedBySourceDelete("t.id > 50").execute()


def all_clauses_alone(table: pennon.LanceDataset) -> Any:
    """A job of the wheel whose changes are decided here, row by row: `merge_insert` has fewer clauses."""
    found = table.to_table(with_row_address=True).to_pylist()
    given = {row["id"]: row for row in merged_rows().to_pylist()}
    changes: list[dict[str, Any]] = []
    for row in found:
        other = given.get(row["id"])
        change = {"_change_type": "update", **row}
        if other is None and row["id"] < 10:
            changes.append(change | {"n": (row["n"] or 0) + 1})
        elif (other is None and row["id"] > 50) or (other is not None and other["text"] is None):
            changes.append({"_change_type": "delete", "_rowaddr": row["_rowaddr"]})
        elif other is not None and None not in (other["n"], row["n"]) and other["n"] > row["n"]:
            changes.append(change | {"n": row["n"] + other["n"]})
        elif other is not None:
            changes.append(change | {"text": other["text"]})
    changes.append({"_change_type": "insert", **given[300]})
    changes.append({"_change_type": "insert", "id": 301, "text": "NEWER"})
    system = [pa.field("_rowaddr", pa.uint64()), pa.field("_change_type", pa.string())]
    schema = pa.schema([*system, *table.schema])
    plan = jobs.plan_change_rows(table, schema, keys=["id"], tasks=1)
    return plan.commit([plan.tasks[0].run(pa.Table.from_pylist(changes, schema))])


def of_one_column(table: LanceTable) -> Any:
    merge = merging(table, ["id", "n"]).whenMatchedUpdate(set={"n": "s.n"})
    return merge.whenNotMatchedBySourceDelete("t.n = 4").execute()


def of_one_column_alone(table: pennon.LanceDataset) -> Any:
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete("n = 4")
    return merge.execute(merged_rows().select(["id", "n"]))


def inserted_and_deleted_alone(table: pennon.LanceDataset) -> Any:
    merge = table.merge_insert("id").when_not_matched_insert_all().when_not_matched_by_source_delete()
    return merge.execute(merged_rows())


def new_rows() -> pa.Table:
    return merged_rows().slice(4)


def written(mode: str, partitions: int) -> Callable[[LanceTable], Any]:
    def run(table: LanceTable) -> Any:
        frame = table._target.spark.createDataFrame(new_rows())
        frame = frame.coalesce(1) if partitions == 1 else frame.repartition(partitions)
        return write(frame, table.uri, mode=mode)  # type: ignore[arg-type]

    return run


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
    "merge": (
        lambda table: merging(table).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(),
        lambda table: (
            table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(merged_rows())
        ),
    ),
    "merge with a condition": (
        lambda table: merging(table).whenMatchedUpdateAll("s.n > t.n").execute(),
        lambda table: (
            table.merge_insert("id").when_matched_update_all("source.n > target.n").execute(merged_rows())
        ),
    ),
    "merge that deletes": (
        lambda table: merging(table).whenMatchedDelete().whenNotMatchedInsertAll().execute(),
        lambda table: (
            table.merge_insert("id").when_matched_delete().when_not_matched_insert_all().execute(merged_rows())
        ),
    ),
    "merge that inserts": (
        lambda table: merging(table).whenNotMatchedInsertAll().execute(),
        lambda table: table.merge_insert("id").when_not_matched_insert_all().execute(merged_rows()),
    ),
    "merge that deletes what the source lacks": (
        lambda table: merging(table).whenNotMatchedInsertAll().whenNotMatchedBySourceDelete().execute(),
        inserted_and_deleted_alone,
    ),
    "merge of one column": (of_one_column, of_one_column_alone),
    "merge that updates what the source lacks": (
        lambda table: merging(table).whenNotMatchedBySourceUpdate("t.n = 1", {"text": "'left'"}).execute(),
        lambda table: table.update({"text": "'left'"}, where="n = 1 AND id NOT IN (5, 9, 36, 100, 300, 301)"),
    ),
    "merge of all clauses": (all_clauses, all_clauses_alone),
    "append": (written("append", 1), lambda table: table.insert(new_rows())),
    "append of several tasks": (written("append", 2), lambda table: table.insert(new_rows())),
    "overwrite": (
        written("overwrite", 1),
        lambda table: pennon.write_dataset(new_rows(), table.uri, mode="overwrite"),
    ),
    "compaction": (
        lambda table: table.optimize().executeCompaction(),
        lambda table: table.optimize.compact_files(),
    ),
    "restore": (
        lambda table: table.restoreToVersion(2),
        lambda table: table.checkout_version(2).restore(),
    ),
}

ANY_ORDER = [verb for verb in VERBS if verb.startswith("merge") or verb == "append of several tasks"]
"""Verbs whose new rows come from several tasks: which of them gets which of the new ids is open."""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_that_of_the_wheel(spark: SparkSession, tmp_path: Path, verb: str) -> None:
    ours, alone = str(tmp_path / "spark"), str(tmp_path / "alone")
    before = make(ours).version
    table = make(alone)
    newest_id = max(row["_rowid"] for row in found(ours))
    by_spark, by_wheel = VERBS[verb]
    by_spark(LanceTable.forPath(spark, ours))
    by_wheel(table)
    # A compaction reserves the numbers of its fragments before.
    commits = 2 if verb == "compaction" else 1
    assert pennon.dataset(ours).version == pennon.dataset(alone).version == before + commits
    changes = feed(ours, before)
    assert bool(changes) == (verb != "compaction")
    frame = LanceTable.forPath(spark, ours).changes(before + 1).drop("_commit_timestamp")
    by_tasks = [row.asDict(recursive=True) for row in frame.collect()]
    assert sorted(map(_plain, by_tasks)) == sorted(map(_plain, changes))
    pairs = [(found(ours), found(alone)), (changes, feed(alone, before)), (feed(ours, 0), feed(alone, 0))]
    for rows, expected in pairs:
        if verb in ANY_ORDER:
            assert without_new_ids(rows, newest_id) == without_new_ids(expected, newest_id)
        else:
            assert rows == expected
    if verb in ANY_ORDER:
        ids = {row["id"]: row["_rowid"] for row in found(ours)}
        assert all(ids[row["id"]] == row["_rowid"] for row in changes if row["_change_type"] == "insert")


def without_new_ids(rows: list[dict[str, Any]], newest_id: int) -> tuple[list[str], list[int]]:
    """The rows, with ids only of those that were there before, and the ids of the others by themselves."""
    new = sorted(row["_rowid"] for row in rows if row["_rowid"] > newest_id)
    known = [{**row, "_rowid": None if row["_rowid"] > newest_id else row["_rowid"]} for row in rows]
    return sorted(map(_plain, known)), new


def _plain(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
