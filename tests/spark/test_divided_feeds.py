"""Feeds in parts: net ones, large versions, feeds over changes of columns; all as the wheel's."""

from __future__ import annotations

import math
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark_pennon import read_changes
from pyspark_pennon.feed import changes, history, partitions
from pyspark_pennon.feed.changes import read_partition
from pyspark_pennon.feed.partitions import FeedRange
from pyspark_pennon.options.feed import FeedOptions
from support.spark_frames import sorted_rows


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "ROWS_PER_TASK", 4)
    monkeypatch.setattr(partitions, "ROWS_PER_PART", 4)
    monkeypatch.setattr(history, "ROWS_OF_A_CHANGE", 2)


def divided(uri: str, begin: int, *, net: bool = False, columns: list[str] | None = None) -> list[Any]:
    """The parts of a feed up to the newest version. Its rows are those of the wheel's, whether or not updates that
    changed nothing are left out.
    """
    table = pennon.dataset(uri)
    end = table.version
    for unchanged in (True, False):
        options = FeedOptions(uri, net_changes=net, drop_unchanged=unchanged, read_change_feed=True)
        schema = changes.feed_schema(table, columns)
        names = columns or table.schema.names
        parts = partitions.plan(table, options, names, begin, end)
        found = [batch for part in parts for batch in read_partition(options, part, schema)]
        wanted = table.changes(
            begin, columns=columns, mode="net" if net else "each", images="both", drop_unchanged=unchanged
        )
        assert sorted_rows(found) == sorted_rows(wanted.read_all().to_batches())
    return parts


def test_a_net_feed_is_divided(spark: SparkSession, uri: str) -> None:
    table = pennon.write_dataset({"id": list(range(30)), "text": ["a"] * 30}, uri, max_rows_per_file=10)
    table.update({"text": "'b'"}, where="id % 2 = 0")
    table.delete("id >= 25")
    table.insert({"id": [30, 31], "text": ["c", "d"]})
    table.optimize.compact_files()
    parts = divided(uri, 1, net=True)
    # 5 rows were deleted, 13 updated, 2 inserted: 4 for each task.
    assert [part.part for part in parts] == [(number, 5) for number in range(5)]
    frame = read_changes(spark, uri, starting_version=2, net=True)
    assert frame.rdd.getNumPartitions() == len(parts)
    assert frame.count() == 5 + 2 * 13 + 2
    reader = spark.read.format("pennon").option("readChangeFeed", True).option("netChanges", True)
    loaded = reader.option("startingVersion", 2).load(uri)
    assert sorted_rows(loaded.toArrow().to_batches()) == sorted_rows(frame.toArrow().to_batches())


def test_many_rows_make_no_more_than_so_many_tasks(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MOST_RANGES", 3)
    pennon.write_dataset({"id": list(range(40))}, uri).update({"id": "id + 1"})
    parts = divided(uri, 1, net=True)
    assert [part.part for part in parts] == [(0, 3), (1, 3), (2, 3)]


def test_each_core_has_a_part(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "ROWS_PER_PART", 100)
    table = pennon.write_dataset({"id": list(range(40))}, uri)
    table.update({"id": "id + 1"}, where="id < 10")
    options = FeedOptions(uri, read_change_feed=True)
    for cores, parts in {1: 1, 2: 2, 3: 3, 64: 3}.items():
        # 10 rows changed: enough for three tasks of 4.
        assert len(partitions.plan(table, options, ["id"], 1, 2, cores)) == parts
    frame = read_changes(spark, uri, starting_version=2)
    assert frame.rdd.getNumPartitions() == 2
    assert sorted_rows(frame.toArrow().to_batches()) == sorted_rows(pennon.dataset(uri).changes(1, images="both"))
    # A net feed counts the changes instead of all rows.
    net = FeedOptions(uri, net_changes=True, read_change_feed=True)
    assert [part.part for part in partitions.plan(pennon.dataset(uri), net, ["id"], 1, 2, 64)] == [
        (number, 3) for number in range(3)
    ]
    # Several versions share the cores.
    pennon.dataset(uri).update({"id": "id + 1"}, where="id < 10")
    shared = partitions.plan(pennon.dataset(uri), options, ["id"], 1, 3, 4)
    assert [(part.end, part.part) for part in shared] == [(end, (number, 2)) for end in (2, 3) for number in (0, 1)]


def test_values_that_changed_without_a_trace_are_compared(uri: str) -> None:
    pennon.write_dataset({"id": [1, 2, 3], "text": ["a", "b", "c"]}, uri)
    theirs = lance.dataset(uri)
    fragment = theirs.get_fragment(0)
    new, fields = fragment.update_columns(pa.table({"id": [2], "text": ["B"]}), left_on="id")
    update = lance.LanceOperation.Update(updated_fragments=[new], fields_modified=fields)
    lance.LanceDataset.commit(uri, update, read_version=1)
    parts = divided(uri, 1, net=True)
    assert [part.part for part in parts] == [None]
    found = pennon.dataset(uri).changes(1, images="post").read_all()
    assert found["text"].to_pylist() == ["B"]


def test_a_feed_over_changes_of_columns(uri: str) -> None:
    rows = {"id": list(range(12)), "text": ["a"] * 12, "extra": list(range(12))}
    table = pennon.write_dataset(rows, uri, max_rows_per_file=4)
    table.update({"text": "'b'"}, where="id = 1")
    table.alter_columns({"path": "text", "name": "word"})
    table.insert({"id": list(range(12, 24)), "word": ["c"] * 12, "extra": [0] * 12})
    table.add_columns({"half": "id / 2"})
    table.delete("id = 2")
    parts = divided(uri, 0)
    ranges = [part for part in parts if isinstance(part, FeedRange)]
    assert {part.shown_as for part in ranges if part.end < 5} == {6}
    assert len({(part.begin, part.end) for part in ranges}) > 3
    assert max(part.part[1] for part in ranges if part.part) == 6


@pytest.mark.parametrize("by", ["pennon", "pylance"])
def test_large_deletes_are_divided(uri: str, by: str) -> None:
    pennon.write_dataset({"id": list(range(40))}, uri, max_rows_per_file=20)
    for condition in ("id < 13", "id = 13", "id >= 20 AND id < 40"):
        (pennon if by == "pennon" else lance).dataset(uri).delete(condition)
    parts = divided(uri, 1)
    # The second one is counted, since it rewrote a file of deletions that has many rows: it removed one.
    assert [(part.begin, part.end, part.part) for part in parts] == [
        *((1, 2, (number, 4)) for number in range(4)),
        (2, 3, None),
        *((3, 4, (number, 5)) for number in range(5)),
    ]


def test_a_column_that_went_and_came_back(uri: str) -> None:
    table = pennon.write_dataset({"id": [1, 2], "extra": [7, None]}, uri)
    for number in (2, 3):
        table.update({"extra": f"{number}"}, where="id = 1")
    table.drop_columns(["extra"])
    table.delete("id = 2")
    pennon.dataset(uri, version=3).restore()
    table = pennon.dataset(uri)
    table.update({"extra": "9"})
    parts = divided(uri, 0)
    assert [part for part in parts if isinstance(part, FeedRange) and part.shown_as]
    divided(uri, 1)
    divided(uri, 4)
    for begin in range(1, table.version):
        divided(uri, begin, net=True)
        divided(uri, begin, net=True, columns=["extra"])


def test_members_of_structs_change(uri: str) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    rows = pa.table({"id": [1, 2], "pair": pa.array([{"a": 1, "b": 2}, None], kind)})
    table = pennon.write_dataset(rows, uri)
    table.update({"id": "id + 1"})
    table.drop_columns(["pair.b"])
    table.update({"id": "id + 1"})
    divided(uri, 1, net=True)
    divided(uri, 0)


def test_nested_values_and_times_keep_what_they_are(uri: str) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "list": [[1.0, math.nan], [], None],
            "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "struct": [{"x": "a", "y": [1]}, None, {"x": None, "y": None}],
            "time": pa.array([1, 2, None], pa.timestamp("us")),
            "small": pa.array([1, None, 3], pa.uint8()),
        }
    )
    table = pennon.write_dataset(rows, uri, data_storage_version="2.2")
    table.update({"time": "time"}, where="id < 3")
    table.update({"id": "id + 10"}, where="id = 3")
    divided(uri, 1, net=True)
    divided(uri, 1, net=True, columns=["time", "struct"])


def test_changes_of_columns_share_tasks(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "ROWS_PER_TASK", 100)
    table = pennon.write_dataset({"id": [0]}, uri)
    for number in range(1, 7):
        table.add_columns({f"more{number}": "id + 1"})
        table.insert({"id": [number], **{f"more{at}": [0] for at in range(1, number + 1)}})
    # Up to the last change of columns, and the append after it.
    assert [(part.begin, part.end, part.shown_as) for part in divided(uri, 0)] == [(0, 11, 13), (11, 13, None)]
    # A column that none of them changed.
    assert [(part.begin, part.end, part.shown_as) for part in divided(uri, 0, columns=["id"])] == [(0, 13, None)]


def test_columns_that_swapped_their_names(spark: SparkSession, uri: str) -> None:
    table = pennon.write_dataset({"id": [1, 2], "a": ["a1", "a2"], "b": ["b1", "b2"]}, uri)
    table.update({"a": "'A1'"}, where="id = 1")
    for name, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        table.alter_columns({"path": name, "name": new})
    table.update({"a": "'B2'"}, where="id = 2")
    table.delete("id = 1")
    divided(uri, 0)
    divided(uri, 0, columns=["b"])
    divided(uri, 1, net=True)
    table.insert({"id": [3], "a": ["b3"], "b": ["a3"]})
    columns = ["id", "a", "b", "_change_type"]
    shown = read_changes(spark, uri, starting_version=1).orderBy("_commit_version", "id", "_change_type")
    assert [tuple(row) for row in shown.select(columns).collect()] == [
        (1, "b1", "a1", "insert"),
        (2, "b2", "a2", "insert"),
        (1, "b1", "A1", "update_postimage"),
        (1, "b1", "a1", "update_preimage"),
        (2, "B2", "a2", "update_postimage"),
        (2, "b2", "a2", "update_preimage"),
        (1, "b1", "A1", "delete"),
        (3, "b3", "a3", "insert"),
    ]
    # An overwrite gives the columns new ids: each is the one with its name.
    pennon.write_dataset({"b": ["x"], "a": ["y"], "id": [9]}, uri, mode="overwrite")
    for begin in range(pennon.dataset(uri).version):
        divided(uri, begin)


def test_an_overwrite_after_names_changed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It numbers the columns again, so that equal fields before and after it say nothing."""
    monkeypatch.setattr(partitions, "ROWS_PER_TASK", 4)
    table = pennon.write_dataset({"id": [1, 2], "a": ["x", "y"], "b": ["p", "q"]}, uri)
    table.alter_columns({"path": "b", "name": "c"})
    for number in range(9):
        table.update({"c": f"'U{number}'"}, where="id = 1")
    pennon.write_dataset({"id": [3], "a": ["z"], "c": ["r"]}, uri, mode="overwrite")
    parts = divided(uri, 1)
    assert parts[0].shown_as == 12
    assert parts[-1].shown_as is None


def test_an_overwrite_with_columns_in_another_order_that_was_taken_back(uri: str) -> None:
    table = pennon.write_dataset({"id": [1, 2], "a": ["x", "y"], "b": ["p", "q"]}, uri)
    table.insert({"id": [5], "a": ["x"], "b": ["old"]})
    pennon.write_dataset({"id": [3], "b": ["z"], "a": ["r"]}, uri, mode="overwrite")
    pennon.dataset(uri, version=2).restore()
    table = pennon.dataset(uri)
    for name, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        table.alter_columns({"path": name, "name": new})
    for begin in range(table.version):
        divided(uri, begin)
