"""Versions of one row, and rows that come back."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.seeds import seeds
from support.tables import numbers


def steps(table: pennon.LanceDataset, row: int) -> list[tuple[str, int, Any]]:
    found = table.history(row).to_pylist()
    return [(step["_change_type"], step["_commit_version"], step["text"]) for step in found]


def lineage(table: pennon.LanceDataset) -> dict[int, tuple[int, int]]:
    """Both versions of each row by id."""
    columns = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    return {
        row[columns[0]]: (row[columns[1]], row[columns[2]]) for row in table.to_table(columns=columns).to_pylist()
    }


def back_to(table: pennon.LanceDataset, version: int) -> None:
    table.checkout_version(version).restore()
    table.checkout_latest()


def test_history_of_a_row(table: pennon.LanceDataset, uri: str) -> None:
    table.update({"text": "'two'"}, where="id in (3, 4)")
    table.insert(numbers(2, 10))
    table.delete("id = 3")
    table.update({"text": "'five'"}, where="id = 4")
    back_to(table, 2)
    assert steps(table, 3) == [
        ("insert", 1, "row 3"),
        ("update", 2, "two"),
        ("delete", 4, None),
        ("insert", 6, "two"),
    ]
    assert steps(table, 4) == [
        ("insert", 1, "row 4"),
        ("update", 2, "two"),
        ("update", 5, "five"),
        ("update", 6, "two"),
    ]
    assert steps(table, 5) == [("insert", 1, "row 5")]
    assert steps(table, 10) == [("insert", 3, "row 10"), ("delete", 6, None)]
    assert steps(table.checkout_version(4), 3) == steps(table, 3)[:3]
    assert steps(table.checkout_version(5), 10) == steps(table, 10)[:1]
    first = table.history(4).to_pylist()[1]
    times = {version["version"]: version["timestamp"] for version in table.versions()}
    assert first["_commit_timestamp"].astimezone().replace(tzinfo=None) == times[2]
    assert (first["_operation"], first["_commit_message"]) == ("Update", None)
    place = table.checkout_version(2)._take_row_addresses([first["_rowaddr"]])
    assert place["text"].to_pylist() == ["two"]
    table.insert(numbers(1, 50), mode="overwrite")
    assert steps(table, 3)[-1] == ("delete", 7, None)


def test_history_knows_messages_and_columns_by_id(table: pennon.LanceDataset) -> None:
    fragments = pennon.fragment.write_fragments(numbers(1, 10), table)
    operation = pennon.LanceOperation.Append(fragments)
    table = pennon.LanceDataset.commit(table, operation, read_version=1, commit_message="one more")
    found = table.history(10).to_pylist()
    assert [(step["_operation"], step["_commit_message"]) for step in found] == [("Append", "one more")]


def test_history_of_cleaned_up_versions(table: pennon.LanceDataset) -> None:
    for text in ("a", "b", "c"):
        table.update({"text": f"'{text}'"}, where="id = 3")
    table.delete("id = 5")
    table.delete("id = 6")
    table.tags.create("b", 3)
    table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert steps(table, 3) == [("insert", 1, None), ("update", 3, "b"), ("update", 4, "c")]
    about = table.history(3).to_pylist()
    assert [step["_operation"] for step in about] == [None, "Update", None]
    # Seen first in the next version that is left.
    assert steps(table, 5) == [("insert", 1, "row 5"), ("delete", 6, None)]
    assert steps(table, 7) == [("insert", 1, "row 7")]


@pytest.mark.parametrize("seed", seeds(4))
def test_history_is_what_all_versions_say(uri: str, seed: int) -> None:
    """Against a walk over every version."""
    dice = random.Random(seed)
    table = pennon.write_dataset(numbers(20), uri, max_rows_per_file=7)
    next_id = 20
    for step in range(30):
        kind = dice.choice(["append", "delete", "delete", "update", "update", "restore", "rows", "overwrite"])
        if kind == "append":
            table.insert(numbers(3, next_id))
            next_id += 3
        elif kind == "delete":
            table.delete(f"id % 4 = {dice.randrange(4)} and id > {dice.randrange(next_id)}")
        elif kind == "update":
            table.update({"text": f"'{step}'"}, where=f"id % 3 = {dice.randrange(3)}")
        elif kind == "restore":
            back_to(table, dice.randrange(1, table.version + 1))
        elif kind == "rows":
            version = dice.randrange(1, table.version + 1)
            there = sorted(lineage(table.checkout_version(version)))
            if there:
                table.restore_rows(dice.sample(there, dice.randrange(1, len(there) + 1)), version)
        elif dice.random() < 0.3:
            table.insert(numbers(2, next_id), mode="overwrite")
            next_id += 2
    table.validate()
    expected: dict[int, list[tuple[str, int, Any]]] = {}
    before: dict[int, Any] = {}
    for version in range(1, table.version + 1):
        older = table.checkout_version(version)
        updated = lineage(older)
        rows = {row["_rowid"]: row["text"] for row in older.to_table(with_row_id=True).to_pylist()}
        for row in before.keys() | rows.keys():
            steps_of = expected.setdefault(row, [])
            if row not in rows:
                steps_of.append(("delete", version, None))
            elif row not in before:
                steps_of.append(("insert", version, rows[row]))
            elif before[row] != updated[row]:
                steps_of.append(("update", version, rows[row]))
        before = updated
    for row, wanted in expected.items():
        assert steps(table, row) == wanted, row


def test_rows_come_back(table: pennon.LanceDataset) -> None:
    table.delete("id in (2, 3)")
    table.update({"text": "'new'"}, where="id in (5, 6)")
    before = lineage(table)
    assert table.restore_rows([3, 5, 5], 1) == {"num_restored_rows": 2}
    assert table.version == 4
    rows = {row["_rowid"]: row["text"] for row in table.to_table(with_row_id=True).to_pylist()}
    assert rows == {row: f"row {row}" for row in range(10) if row != 2} | {6: "new"}
    assert lineage(table) == before | {3: (1, 4), 5: (1, 4)}
    assert table.take_rows([3, 5, 2])["text"].to_pylist() == ["row 3", "row 5"]
    assert type(table.read_transaction(4).operation).__name__ == "Update"
    assert [step[:2] for step in steps(table, 3)] == [("insert", 1), ("delete", 2), ("insert", 4)]
    assert [step[:2] for step in steps(table, 5)] == [("insert", 1), ("update", 3), ("update", 4)]
    changes = table.changes(3).read_all().select(["_change_type", "_rowid"]).to_pylist()
    assert [tuple(change.values()) for change in changes] == [("update_postimage", 5), ("insert", 3)]
    table.tags.create("first", 1)
    assert table.restore_rows([2], "first") == {"num_restored_rows": 1}
    assert table.count_rows() == 10
    assert table.restore_rows([], 1) == {"num_restored_rows": 0}
    table.validate()


def test_rows_that_are_not_there(table: pennon.LanceDataset) -> None:
    table.delete("id = 2")
    table.insert(numbers(1, 10))
    with pytest.raises(pennon.NotFoundError, match=r"2 of 3 row ids do not live in version 2, the first is 2"):
        table.restore_rows([99, 2, 4], 2)
    with pytest.raises(pennon.NotFoundError, match=r"There is no version 9"):
        table.restore_rows([1], 9)
    table.cleanup_old_versions(timedelta(0))
    with pytest.raises(pennon.NotFoundError, match=r"Version 1 was cleaned up .*retain_versions"):
        table.restore_rows([2], 1)
    assert table.version == table.latest_version == 3
    with pytest.raises(pennon.NotFoundError, match=r"no row .* has row id 11"):
        table.history(11)


def test_rows_of_a_version_that_the_handle_does_not_know(table: pennon.LanceDataset) -> None:
    older = pennon.dataset(table.uri)
    table.insert(numbers(1, 10))
    table.update({"text": "'new'"}, where="id = 10")
    # The row lives, in a version after that of the handle.
    assert older.restore_rows([10], 2) == {"num_restored_rows": 1}
    rows = older.to_table(with_row_id=True, filter="id = 10").to_pylist()
    assert rows == [{"id": 10, "text": "row 10", "_rowid": 10}]
    older.validate()


def test_ids_that_another_branch_gave_out(table: pennon.LanceDataset) -> None:
    branch = table.create_branch("other")
    branch.insert(numbers(2, 10))
    with pytest.raises(pennon.InvalidInputError, match=r"row 10 of version \d was made on another branch"):
        table.restore_rows([10], ("other", None))
    assert table.count_rows() == 10


def test_rows_without_identity(uri: str) -> None:
    table = pennon.write_dataset(numbers(3), uri, enable_stable_row_ids=False)
    with pytest.raises(pennon.InvalidInputError, match="history requires stable row ids"):
        table.history(1)
    with pytest.raises(pennon.InvalidInputError, match="restore_rows requires stable row ids"):
        table.restore_rows([1], 1)


def test_rows_of_another_schema(uri: str) -> None:
    table = pennon.write_dataset(numbers(3), uri)
    wider = numbers(2, 20).append_column(pa.field("more", pa.int64()), pa.array([1, 2]))
    table.insert(wider, mode="overwrite")
    assert table.restore_rows([1], 1) == {"num_restored_rows": 1}
    rows = table.to_table(with_row_id=True).to_pylist()
    assert rows[-1] == {"id": 1, "text": "row 1", "more": None, "_rowid": 1}
    strict = pa.schema(
        [pa.field("id", pa.int64()), pa.field("text", pa.utf8()), pa.field("more", pa.int64(), False)]
    )
    table.insert(wider.cast(strict), mode="overwrite")
    with pytest.raises(pennon.InvalidInputError, match="column more may not be null"):
        table.restore_rows([1], 1)
    table.insert(pa.table({"id": ["x"]}), mode="overwrite")
    with pytest.raises(pennon.UnsupportedError, match="column id had another type"):
        table.restore_rows([1], 1)
    assert table.version == table.latest_version == 5


@pytest.mark.parametrize("change", ["cast", "drop"])
def test_rows_with_a_column_of_another_type(uri: str, change: str) -> None:
    """The old values are not lost without a word, whichever field id the column has now."""
    table = pennon.write_dataset({"id": [0, 1], "v": [7, 8]}, uri)
    if change == "cast":
        table.alter_columns({"path": "v", "data_type": pa.int32()})
    else:
        table.drop_columns(["v"])
        table.add_columns(pa.field("w", pa.int64()))
        table.add_columns(pa.field("v", pa.int64()))
    table.update({"id": "10"}, where="id = 0")
    before = table.to_table(with_row_id=True)
    with pytest.raises(pennon.UnsupportedError, match="column v had another type in version 1, or was another"):
        table.restore_rows([0], 1)
    assert table.to_table(with_row_id=True) == before


def test_rows_with_a_column_of_another_name(table: pennon.LanceDataset) -> None:
    """A column that was renamed is the same, even if no file is left from before."""
    table.add_columns({"half": "id / 2"})
    table.delete("id = 5")
    table.alter_columns({"path": "half", "name": "part"})
    # The operation comes after the message, far into the manifest.
    table.insert(pa.table({"id": [10], "text": ["new"], "part": [0]}), commit_message="long" * 200)
    assert table.optimize.compact_files().fragments_removed > 0
    assert table.restore_rows([5], 2) == {"num_restored_rows": 1}
    assert table.to_table(filter="id = 5")["part"].to_pylist() == [2]
    table.delete("id = 6")
    assert table.optimize.compact_files().fragments_removed > 0
    assert table.restore_rows([6], 2) == {"num_restored_rows": 1}


@pytest.mark.parametrize(
    "values",
    [pa.array(range(10)), pa.array([{"m": i} for i in range(10)]), pa.array([[i] for i in range(10)])],
    ids=["numbers", "structs", "lists"],
)
def test_rows_of_another_column_with_the_id(table: pennon.LanceDataset, values: pa.Array) -> None:
    """A field id that was given out again, or began again, is no other column's values."""
    table.add_columns(pa.table({"half": values}).to_reader())
    table.delete("id = 5")
    table.drop_columns(["half"])
    assert table.optimize.compact_files().fragments_removed > 0
    table.add_columns(pa.table({"other": values[1:]}).to_reader())
    with pytest.raises(pennon.UnsupportedError, match="other has the field id that column half had in version 2"):
        table.restore_rows([5], 2)
    assert table.restore_rows([5], 1) == {"num_restored_rows": 1}
    table.insert(pa.table({"number": [1], "letters": ["x"]}), mode="overwrite")
    with pytest.raises(pennon.UnsupportedError, match="number has the field id that column id had in version 1"):
        table.restore_rows([5], 1)
    assert table.version == table.latest_version


def test_rows_of_another_branch(table: pennon.LanceDataset) -> None:
    """Its columns may have the field ids of others."""
    table.create_branch("dev").add_columns({"half": "id / 2"})
    table.tags.create("halves", ("dev", 2))
    table.add_columns({"other": "id * 2"})
    table.delete("id = 5")
    with pytest.raises(pennon.UnsupportedError, match="other has the field id that column half had in version 2"):
        table.restore_rows([5], "halves")
    assert table.restore_rows([5], 1) == {"num_restored_rows": 1}


def test_the_same_row_comes_back_once(table: pennon.LanceDataset, uri: str) -> None:
    """However many bring it back at the same time."""
    table.delete("id < 5")
    handles = [pennon.dataset(uri) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda handle: handle.restore_rows([1, 3], 1), handles))
    assert done == [{"num_restored_rows": 2}] * 6
    newest = pennon.dataset(uri)
    newest.validate()
    assert sorted(newest.to_table(with_row_id=True)["_rowid"].to_pylist()) == [1, 3, 5, 6, 7, 8, 9]
    assert newest.version == 8


def test_a_failed_restore_leaves_nothing(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 3")
    before = sorted(str(path) for path in Path(uri).rglob("*"))
    with pytest.raises(pennon.NotFoundError):
        table.restore_rows([3, 77], 1)
    assert sorted(str(path) for path in Path(uri).rglob("*")) == before


def test_when_versions_move(table: pennon.LanceDataset) -> None:
    """The table in the readme, line by line."""
    first = lineage(table)
    assert first == dict.fromkeys(range(10), (1, 1))
    table.insert(numbers(1, 10))
    assert lineage(table) == first | {10: (2, 2)}
    table.update({"text": "text"}, where="id in (1, 2)")
    expected = first | {10: (2, 2), 1: (1, 3), 2: (1, 3)}
    assert lineage(table) == expected
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(numbers(2, 10))
    expected |= {10: (2, 4), 11: (4, 4)}
    assert lineage(table) == expected
    table.delete("id = 5")
    del expected[5]
    assert lineage(table) == expected
    table.add_columns([pa.field("nothing", pa.int32())])
    table.alter_columns({"path": "nothing", "name": "empty"})
    table.drop_columns(["empty"])
    assert table.version == 8
    assert lineage(table) == expected
    table.restore_rows([5, 10], 2)
    expected |= {5: (1, 9), 10: (2, 9)}
    assert lineage(table) == expected
    table.add_columns({"double": "id * 2"})
    assert lineage(table) == {row: (created, 10) for row, (created, _) in expected.items()}
    table.alter_columns({"path": "double", "data_type": pa.int32()})
    assert lineage(table) == {row: (created, 11) for row, (created, _) in expected.items()}
    back_to(table, 9)
    assert lineage(table) == expected
    if hasattr(table, "optimize"):
        table.optimize.compact_files()
        assert table.version > 12
        assert lineage(table) == expected
    version = table.version + 1
    table.insert(numbers(2, 50), mode="overwrite")
    assert lineage(table) == {12: (version, version), 13: (version, version)}


def test_the_insert_of_a_row_in_a_version_that_is_not_there(table: pennon.LanceDataset, uri: str) -> None:
    """Its number is known, and nothing else if the row was updated since."""
    table.update({"text": "'two'"}, where="id in (3, 4)")
    table.insert(numbers(1, 10))
    table.update({"text": "'ten'"}, where="id in (4, 10)")
    whole = {row: steps(table, row) for row in range(11)}
    branch, clone = table.create_branch("dev", 4), table.shallow_clone(uri + "-clone", 4)
    table.update_config({"a": "b"})
    table.cleanup_old_versions(timedelta(0))
    assert [version["version"] for version in table.versions()] == [4, 5]
    for other in (branch, clone, table):
        for row in range(11):
            (kind, version, _), *middle, last = [*whole[row][:1], *whole[row]]
            expected = whole[row] if len(whole[row]) == 1 else [(kind, version, None), last]
            assert steps(other, row) == expected, (other.uri, row, middle)
        first = other.history(4).to_pylist()[0]
        assert {first[name] for name in ("_commit_timestamp", "_operation", "_rowaddr", "id")} == {None}
    branch.delete("id = 4")
    assert steps(branch, 4) == [("insert", 1, None), ("update", 4, "ten"), ("delete", 5, None)]


def test_the_insert_of_a_row_between_versions_that_are_left(table: pennon.LanceDataset) -> None:
    table.tags.create("first", 1)
    table.insert(numbers(2, 10))
    table.update({"text": "'ten'"}, where="id in (3, 10)")
    for left in (3, 4):
        if left == 4:
            table.delete("id = 0")
        table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        assert [version["version"] for version in table.versions()] == [1, left]
        assert steps(table, 10) == [("insert", 2, None), ("update", 3, "ten")]
        assert steps(table, 11) == [("insert", 2, "row 11")]
        assert steps(table, 3) == [("insert", 1, "row 3"), ("update", 3, "ten")]
