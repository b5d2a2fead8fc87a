"""Indices that Spark's tasks build."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pennon
import pyspark_pennon
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable
from pyspark_pennon.indices.build import IndexBuild

ROWS = 3000


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    rows = spark.range(ROWS).select("id", (fn.col("id") % 7).alias("k"), fn.array(fn.col("id") % 3).alias("l"))
    pyspark_pennon.write(rows.repartition(5), uri)
    return LanceTable.forPath(spark, uri)


@pytest.mark.parametrize(
    ("column", "kind", "predicate", "count"),
    [
        ("id", "BTREE", "id between 10 and 19", 10),
        ("k", "bitmap", "k in (1, 2)", 858),
        ("l", "LABEL_LIST", "array_has(l, 2)", 1000),
        ("id", "ZONEMAP", "id between 10 and 19", 10),
        ("id", "BLOOMFILTER", "id in (7, 3000000)", 1),
    ],
)
def test_an_index_is_built_by_tasks(table: LanceTable, column: str, kind: str, predicate: str, count: int) -> None:
    table.createIndex(column, kind)
    ours = pennon.dataset(table.uri)
    assert ours.version == 2
    assert len(ours.list_indices()) == 2  # a segment of each of the two tasks
    assert ours.stats.index_stats(f"{column}_idx")["num_unindexed_rows"] == 0
    plan = ours.scanner(filter=predicate).explain_plan()
    assert f"rows found by indices: {column}_idx" in plan
    assert ours.count_rows(predicate) == count
    theirs = lance.dataset(table.uri).scanner(filter=predicate)
    assert "ScalarIndexQuery" in theirs.explain_plan()
    assert theirs.count_rows() == count
    assert pyspark_pennon.read(table._target.spark, table.uri, filter_sql=predicate).count() == count


def test_tasks_of_filtered_reads_search_an_index(spark: SparkSession, tmp_path: Path) -> None:
    """With the index of a table whose values are in reverse order they find what that has in these places."""
    uris = [str(tmp_path / name) for name in ("table", "reversed")]
    for uri, ids in zip(uris, (list(range(ROWS)), list(range(ROWS))[::-1]), strict=True):
        pennon.write_dataset({"id": ids, "k": [1] * ROWS}, uri, max_rows_per_file=600)
        pennon.dataset(uri).create_scalar_index("id", "BTREE")
    (index,), (other,) = (list(Path(uri, "_indices").iterdir()) for uri in uris)
    for file in other.iterdir():
        shutil.copy(file, index / file.name)
    predicate, uri = "id BETWEEN 10 AND 19", uris[0]
    found = pyspark_pennon.read(spark, uri, columns=["id", "k"], filter_sql=predicate).collect()
    assert sorted(row.id for row in found) == list(range(ROWS - 20, ROWS - 10))
    # Of these Spark finds that the condition is not true for any.
    assert pyspark_pennon.read(spark, uri, where=f"{predicate} AND k = 1").count() == 0
    handle = LanceTable.forPath(spark, uri)
    assert handle.delete(f"{predicate} AND k % 1 = 0").first().num_deleted_rows == 0
    # Without an index that helps.
    assert pyspark_pennon.read(spark, uri).where(predicate).count() == 10
    assert pyspark_pennon.read(spark, uri, where="id * 2 BETWEEN 20 AND 38").count() == 10
    # Without Spark.
    assert handle.delete(predicate).first().num_deleted_rows == 10
    assert pyspark_pennon.read(spark, uri).where(predicate).count() == 10


def test_care(spark: SparkSession, table: LanceTable) -> None:
    table.createIndex("id", parameters={"zone_size": 100})
    more = spark.range(ROWS, ROWS + 10).select(
        "id", fn.lit(1).cast("long").alias("k"), fn.array(fn.col("id")).alias("l")
    )
    pyspark_pennon.write(more, table.uri, mode="append")
    (row,) = table.indices().collect()
    assert (row.name, row.type, row.columns, row.segments) == ("id_idx", "BTree", ["id"], 2)
    assert (row.indexed_rows, row.unindexed_rows) == (ROWS, 10)
    table.optimizeIndices(["id_idx"])
    assert table.indices().collect()[0].unindexed_rows == 0
    table.optimizeIndices(retrain=True)
    assert table.indices().collect()[0].segments == 1
    assert table.delete("id = 5").collect()[0].num_deleted_rows == 1
    table.optimize().executeCompaction()
    assert table.indices().collect()[0].unindexed_rows == 0
    table.dropIndex("id_idx")
    assert table.indices().count() == 0


def test_after_a_conflict_segments_of_unchanged_fragments_are_kept(
    table: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, groups = IndexBuild._segments, []

    def built(index: IndexBuild, read: Any, fragments: list[list[int]], shared: Any) -> list[Any]:
        segments = build(index, read, fragments, shared)
        if not groups:
            kept = [part.fragment_id for part in read.get_fragments() if part.fragment_id not in fragments[1]]
            pennon.dataset(table.uri).optimize.compact_files(excluded_fragment_ids=kept)
        groups.append(fragments)
        return segments

    monkeypatch.setattr(IndexBuild, "_segments", built)
    table.createIndex("id")
    assert len(groups[0][1]) > 1
    assert groups[1] == [[5]]
    (row,) = table.indices().collect()
    assert (row.segments, row.indexed_rows, row.unindexed_rows) == (2, ROWS, 0)
    for id in range(0, ROWS, 100):
        assert pennon.dataset(table.uri).count_rows(f"id = {id}") == 1
        assert lance.dataset(table.uri).count_rows(f"id = {id}") == 1
    (left,) = table.verify(leftovers=True).collect()
    assert (left.severity, left.files) == ("leftover", 2)  # those of one segment


def test_a_table_that_is_made_again_meanwhile(table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of the table before are not those of the new one, even if their files are there."""
    build, builds = IndexBuild._segments, 0
    old = pennon.dataset(table.uri).to_table()

    def built(index: IndexBuild, read: Any, fragments: list[list[int]], shared: Any) -> list[Any]:
        nonlocal builds
        segments = build(index, read, fragments, shared)
        builds += 1
        if builds == 1:
            for name in ("data", "_versions", "_transactions", "_deletions"):
                shutil.rmtree(f"{table.uri}/{name}", ignore_errors=True)
            rows = max(fragment.count_rows() for fragment in read.get_fragments())
            pennon.write_dataset(old.sort_by([("id", "descending")]), table.uri, max_rows_per_file=rows)
        return segments

    monkeypatch.setattr(IndexBuild, "_segments", built)
    table.createIndex("id")
    assert builds == 2
    for id in (0, 7, old.num_rows - 1):
        assert lance.dataset(table.uri).to_table(["id"], filter=f"id = {id}").to_pydict() == {"id": [id]}


def test_what_is_refused(table: LanceTable) -> None:
    with pytest.raises(pennon.NotFoundError, match="nope"):
        table.createIndex("nope")
    with pytest.raises(pennon.UnsupportedError):
        table.createIndex("id", "NOPE")
    with pytest.raises(pennon.SchemaMismatchError, match="values with an order"):
        table.createIndex("l")
    table.createIndex("id")
    with pytest.raises(pennon.AlreadyExistsError, match="id_idx"):
        table.createIndex("id", replace=False)
    with pytest.raises(pennon.AlreadyExistsError, match="different fields"):
        table.createIndex("k", name="id_idx")
    with pytest.raises(pennon.NotFoundError, match="nope"):
        table.dropIndex("nope")
    assert pennon.dataset(table.uri).version == 2


def test_a_column_in_another_case(table: LanceTable) -> None:
    table.createIndex("ID")
    assert [(row.name, row.columns) for row in table.indices().collect()] == [("id_idx", ["id"])]


def test_a_table_without_rows(spark: SparkSession, uri: str) -> None:
    pyspark_pennon.write(spark.range(0), uri)
    table = LanceTable.forPath(spark, uri)
    table.createIndex("id")
    assert table.indices().collect()[0].name == "id_idx"
