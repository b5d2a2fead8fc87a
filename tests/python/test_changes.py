"""The change feed: windows, columns, images, and what is said when it cannot be told."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.long import long
from support.tables import numbers


def feed(table: pennon.LanceDataset, *window: Any, **options: Any) -> list[dict[str, Any]]:
    return table.changes(*window, **options).read_all().to_pylist()


def kinds(table: pennon.LanceDataset, *window: Any, **options: Any) -> list[tuple[str, int]]:
    return [(row["_change_type"], row["_rowid"]) for row in feed(table, *window, columns=[], **options)]


@pytest.fixture
def changed(table: pennon.LanceDataset) -> pennon.LanceDataset:
    """Ten rows; 2: two more; 3: rows 0, 5 and 10 gone; 4: version 2 again; 5: two other rows."""
    table.insert(numbers(2, 10))
    table.delete("id in (0, 5, 10)")
    table.checkout_version(2).restore()
    table.checkout_latest()
    table.insert(numbers(2, 20), mode="overwrite")
    return table


def test_windows(changed: pennon.LanceDataset) -> None:
    assert kinds(changed, 1, 2) == [("insert", 10), ("insert", 11)]
    assert kinds(changed, 2, 3) == [("delete", 0), ("delete", 5), ("delete", 10)]
    assert kinds(changed, 1, 3) == [("delete", 0), ("delete", 5), ("insert", 11)]
    assert kinds(changed, 3, 4) == [("insert", 0), ("insert", 5), ("insert", 10)]
    assert kinds(changed, 2, 4) == []
    assert kinds(changed, 2, 4, mode="each") == kinds(changed, 2, 3) + kinds(changed, 3, 4)
    gone = [("delete", row) for row in range(12)]
    assert kinds(changed, 4) == [*gone, ("insert", 12), ("insert", 13)]
    assert kinds(changed, 0) == [("insert", 12), ("insert", 13)]
    assert kinds(changed, 0, 1) == [("insert", row) for row in range(10)]
    assert kinds(changed, 3, 3) == []
    # Without an end, the version of the object.
    assert kinds(changed.checkout_version(3), 2) == kinds(changed, 2, 3)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_restore_brings_a_column_back(table: pennon.LanceDataset, compacted: bool) -> None:
    """The lineage does not tell: the values are compared."""
    table.add_columns({"half": "CASE WHEN id < 4 THEN id / 2 END"})  # version 2
    table.drop_columns(["half"])
    if compacted:
        table.delete("id = 9")
        table.optimize.compact_files()
    dropped = table.version
    table.checkout_version(2).restore()
    table.checkout_latest()
    back = [row for row in feed(table, dropped, images="both") if row["_rowid"] < 9]
    assert [row["_rowid"] for row in back] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [row["half"] for row in back] == [None, 0, None, 0, None, 1, None, 1]
    assert kinds(table, 2) == []
    each = feed(table, 2, mode="each")
    assert [(row["_commit_version"], row["half"]) for row in each if row["_rowid"] == 2] == [
        (3, None),
        (table.version, 1),
    ]


@pytest.mark.parametrize("name", ["half", "other"])
@pytest.mark.parametrize("cleaned", [False, True])
def test_a_field_id_is_given_out_again(table: pennon.LanceDataset, name: str, cleaned: bool) -> None:
    """After a compaction nothing tells but the versions between; without them the values are compared as well.

    Under another name it is another column.
    """
    table.add_columns({"half": "CASE WHEN id < 3 THEN id / 2 END"})
    field, begin = table.lance_schema.field("half").id, table.version
    table.tags.create("begin", begin)
    table.drop_columns(["half"])
    table.delete("id > 7")
    assert table.optimize.compact_files().fragments_removed > 0
    table.add_columns(pa.field(name, pa.int64()))
    assert table.lance_schema.field(name).id == field
    assert kinds(table, begin, begin + 1) == []
    if cleaned:
        table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    changed = [row for row in feed(table, "begin", images="both") if row["_change_type"] != "delete"]
    expected = [(0, 0), (0, None), (1, 0), (1, None), (2, 1), (2, None)]
    assert [(row["_rowid"], row[name]) for row in changed] == (expected if name == "half" else [])


def test_a_restore_goes_back_to_the_column_that_had_the_id(table: pennon.LanceDataset) -> None:
    """No version between lacks the column, but it is another one."""
    table.add_columns({"half": "CASE WHEN id < 3 THEN id / 2 END"})
    first = table.version
    table.drop_columns(["half"])
    table.delete("id > 7")
    assert table.optimize.compact_files().fragments_removed > 0
    table.add_columns(pa.field("other", pa.int64()))
    later = table.version
    table.insert(numbers(1, 30))
    table.checkout_version(first).restore()
    table.checkout_latest()
    restored = table.version
    table.insert(numbers(1, 40))
    for begin, end in [(later + 1, restored), (later, restored), (later, table.version)]:
        for mode in ("net", "each"):
            changed = feed(table, begin, end, images="both", mode=mode)
            updates = [(row["_rowid"], row["half"]) for row in changed if row["_change_type"].startswith("update")]
            assert updates == [(0, None), (0, 0), (1, None), (1, 0), (2, None), (2, 1)], (begin, end, mode)


def test_by_tag_and_time(changed: pennon.LanceDataset) -> None:
    changed.tags.create("second", 2)
    changed.tags.create("third", 3)
    assert kinds(changed, "second", "third") == kinds(changed, 2, 3)
    times = [version["timestamp"] for version in changed.versions()]
    assert kinds(changed, times[1], times[2]) == kinds(changed, 2, 3)
    aware = times[1].astimezone(timezone.utc)
    assert kinds(changed, aware, 3) == kinds(changed, 2, 3)
    assert kinds(changed, times[0] - timedelta(days=1), 1) == kinds(changed, 0, 1)
    assert kinds(changed, (None, 2), (None, 3)) == kinds(changed, 2, 3)


def test_images(changed: pennon.LanceDataset) -> None:
    reader = changed.changes(2, 3)
    assert isinstance(reader, pa.RecordBatchReader)
    about = pa.schema(
        [
            pa.field("_change_type", pa.utf8(), nullable=False),
            pa.field("_rowid", pa.uint64(), nullable=False),
            pa.field("_commit_version", pa.uint64(), nullable=False),
            pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        ]
    )
    assert reader.schema == pa.schema([*about, pa.field("id", pa.int64()), pa.field("text", pa.utf8())])
    found = reader.read_all().to_pylist()
    assert [(row["id"], row["text"]) for row in found] == [(None, None)] * 3
    when = changed.versions()[2]["timestamp"].astimezone(timezone.utc)
    assert {(row["_commit_version"], row["_commit_timestamp"]) for row in found} == {(3, when)}
    both = feed(changed, 2, 3, images="both", columns=["text"])
    assert [row["text"] for row in both] == ["row 0", "row 5", "row 10"]
    each = feed(changed, 1, 3, mode="each")
    assert [(row["_commit_version"], row["id"]) for row in each] == [
        (2, 10),
        (2, 11),
        (3, None),
        (3, None),
        (3, None),
    ]
    assert feed(changed, 0, 1, columns=["text", "id"])[3]["text"] == "row 3"


def test_nested_columns_are_nullable_all_the_way(uri: str) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", inner, nullable=False)])
    table = pennon.write_dataset(pa.table({"a": [1, 2], "b": [{"x": 1}, {"x": 2}]}, schema=schema), uri)
    table.delete("a = 1")
    assert [(row["a"], row["b"]) for row in feed(table, 0, 1)] == [(1, {"x": 1}), (2, {"x": 2})]
    assert [(row["a"], row["b"]) for row in feed(table, 1)] == [(None, None)]
    assert [(row["a"], row["b"]) for row in feed(table, 1, images="both")] == [(1, {"x": 1})]


def test_columns_of_another_type_have_no_old_values(table: pennon.LanceDataset) -> None:
    """An overwrite gives the same field ids to other columns."""
    table.insert(pa.table({"id": ["x"], "words": ["y"]}), mode="overwrite")
    found = feed(table, 1, images="both")
    assert [row["id"] for row in found] == [None] * 10 + ["x"]
    assert [row["words"] for row in found] == [None] * 10 + ["y"]


def test_large_windows_come_in_batches(uri: str) -> None:
    table = pennon.write_dataset(numbers(250_000), uri, max_rows_per_file=70_000)
    table.delete("id % 3 = 0")
    batches = list(table.changes(1, images="both"))
    assert len(batches) > 1
    assert [i for batch in batches for i in batch["id"].to_pylist()] == list(range(0, 250_000, 3))


@pytest.mark.parametrize("kind", [pytest.param("post", marks=long), "both", "drop_unchanged"])
def test_large_values_come_in_parts(uri: str, kind: str) -> None:
    """Values that take more than a batch can have; in the file they take little."""
    rows, size = 40, 1 << 23
    values = [chr(ord("a") + at % 26) * size for at in range(rows)]
    batches = (pa.record_batch({"id": [at], "text": [values[at]], "n": [0]}) for at in range(rows))
    schema = pa.schema({"id": pa.int64(), "text": pa.string(), "n": pa.int64()})
    table = pennon.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), uri, max_rows_per_file=25)
    table.update({"n": "n + id % 2"})
    images: Any = "both" if kind == "both" else "post"
    found = list(table.changes(1, images=images, drop_unchanged=kind == "drop_unchanged"))
    kinds = ["update_preimage", "update_postimage"] if kind == "both" else ["update_postimage"]
    expected = [
        (change, at, at % 2 if change == "update_postimage" else 0)
        for at in range(rows)
        for change in kinds
        if kind != "drop_unchanged" or at % 2
    ]
    read = []
    for batch in found:
        assert batch.nbytes < 1 << 28
        texts = batch["text"]
        for at, row in enumerate(batch.select(["_change_type", "id", "n"]).to_pylist()):
            read.append((row["_change_type"], row["id"], row["n"]))
            assert texts[at].as_py() == values[row["id"]]
    assert len(found) > 2
    assert sorted(read, key=lambda row: row[1]) == expected


def test_cleaned_up(changed: pennon.LanceDataset) -> None:
    changed.tags.create("kept", 2)
    changed.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert kinds(changed, "kept") == [("delete", row) for row in range(12)] + [("insert", 12), ("insert", 13)]
    would_have_kept = r"A tag on it would have kept it, and so would a cleanup with more retain_versions"
    with pytest.raises(pennon.NotFoundError, match=r"Version 3 was cleaned up .*each version.*" + would_have_kept):
        changed.changes(2, mode="each")
    with pytest.raises(pennon.NotFoundError, match=r"Version 1 was cleaned up .*" + would_have_kept):
        changed.changes(1)
    with pytest.raises(pennon.NotFoundError, match=r"Version 4 was cleaned up .*" + would_have_kept):
        changed.changes(2, 4)
    with pytest.raises(pennon.NotFoundError, match=r"Version 1 was cleaned up .* before the oldest"):
        changed.changes(datetime(2000, 1, 1))
    with pytest.raises(pennon.NotFoundError, match=r"Version 1 was cleaned up"):
        changed.changes(0, mode="each")
    assert kinds(changed, 0) == [("insert", 12), ("insert", 13)]


@pytest.mark.parametrize("mode", ["net", "each"])
@pytest.mark.parametrize("images", ["post", "both"])
def test_parts_are_the_whole(uri: str, mode: Any, images: Any) -> None:
    """Each change is in one part, whole, and no part has most of a large feed."""
    table = pennon.write_dataset(numbers(200_000), uri, max_rows_per_file=60_000)
    table.insert(numbers(40_000))
    table.update({"text": "'changed'"}, where="id % 3 = 0")
    table.delete("id % 7 = 0")
    table.add_columns({"double": "id * 2"})
    columns = ["_change_type", "_rowid", "_commit_version", "text", "double"]
    expected = table.changes(1, mode=mode, images=images).read_all().select(columns)
    parts = [table.changes(1, mode=mode, images=images, part=(number, 4)).read_all() for number in range(4)]
    order = [(name, "ascending") for name in ("_commit_version", "_rowid", "_change_type")]
    assert pa.concat_tables(parts).select(columns).sort_by(order) == expected.sort_by(order)
    assert max(part.num_rows for part in parts) < expected.num_rows / 2
    if images == "both":
        for part in parts:
            kinds = part["_change_type"].to_pylist()
            assert kinds.count("update_preimage") == kinds.count("update_postimage")
    assert table.changes(1, columns=[], part=(999, 1000)).read_all().num_rows == 0


def test_a_cleanup_moves_no_change_to_another_part(uri: str) -> None:
    table = pennon.write_dataset(numbers(100), uri, max_rows_per_file=30)
    table.tags.create("begin", 1)
    table.insert(numbers(100))
    table.optimize.compact_files()
    table.insert(numbers(40))
    before = [table.changes(1, images="both", part=(number, 3)).read_all() for number in range(3)]
    assert sum(part.num_rows for part in before) == 140
    table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert [version["version"] for version in table.versions()] == [1, table.version]
    for number, expected in enumerate(before):
        assert table.changes(1, images="both", part=(number, 3)).read_all() == expected


def test_columns_of_a_later_version(uri: str) -> None:
    table = pennon.write_dataset(numbers(2), uri)
    table.insert(numbers(1, 2))
    table.alter_columns({"path": "text", "name": "word"})
    table.add_columns({"more": "id + 1"})
    feed = table.changes(1, 2, columns_of="table").read_all()
    assert feed.select(["id", "word", "more"]).to_pylist() == [{"id": 2, "word": "row 2", "more": None}]
    assert table.changes(1, 2).read_all().column_names[-2:] == ["id", "text"]


@pytest.mark.parametrize("part", [(1, 1), (-1, 2), (0, 0), (3, 2), (0, 2**32)])
def test_a_part_that_is_not_there(changed: pennon.LanceDataset, part: tuple[int, int]) -> None:
    with pytest.raises(pennon.InvalidInputError, match=f"part {part[0]} of {part[1]}: expected a number from 0"):
        changed.changes(1, part=part)
    with pytest.raises(TypeError, match="the number of a part and how many there are, not 3"):
        changed.changes(1, part=3)  # type: ignore[arg-type]


def test_bad_input(changed: pennon.LanceDataset, tmp_path: Path) -> None:
    with pytest.raises(pennon.NotFoundError, match=r"There is no version 9 .* the newest is 5"):
        changed.changes(1, 9)
    with pytest.raises(pennon.NotFoundError, match="tag nobody does not exist"):
        changed.changes("nobody")
    with pytest.raises(pennon.InvalidInputError, match="begin version 3 is newer than end version 2"):
        changed.changes(3, 2)
    with pytest.raises(pennon.InvalidInputError, match="The end is version 0"):
        changed.changes(0, 0)
    with pytest.raises(pennon.InvalidInputError, match="words"):
        changed.changes(1, columns=["words"])
    with pytest.raises(pennon.InvalidInputError, match="Duplicate column name: id"):
        changed.changes(1, columns=["id", "id"])
    with pytest.raises(TypeError, match="columns must be a list"):
        changed.changes(1, columns="id")
    with pytest.raises(pennon.InvalidInputError, match='mode is "all"'):
        changed.changes(1, mode="all")
    with pytest.raises(pennon.InvalidInputError, match='images is "pre"'):
        changed.changes(1, images="pre")
    branch = changed.create_branch("other", 4)
    branch.insert(numbers(1, 50), mode="overwrite")
    with pytest.raises(pennon.InvalidInputError, match="not in one history"):
        branch.changes(("main", 2))
    assert kinds(branch, 4)[-1] == ("insert", 12)
    named = pennon.write_dataset({"_change_type": [1], "a": [2]}, str(tmp_path / "named"))
    with pytest.raises(pennon.InvalidInputError, match="_change_type"):
        named.changes(0)
    assert feed(named, 0, columns=["a"])[0]["a"] == 2


def test_without_stable_ids(uri: str) -> None:
    table = pennon.write_dataset(numbers(3), uri, enable_stable_row_ids=False)
    table.delete("id = 1")
    with pytest.raises(
        pennon.InvalidInputError, match=r"requires stable row ids, version . of .* does not use them"
    ):
        table.changes(1)
    delta = table.delta(1)
    assert delta.get_inserted_rows().read_all().num_rows == 0
    with pytest.raises(ValueError, match="requires stable row ids"):
        delta.get_deleted_row_ids()


def test_a_lost_file_is_an_error(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 1")
    for path in Path(uri, "_deletions").iterdir():
        path.unlink()
    # Another handle: this one has the vector in memory.
    with pytest.raises(pennon.CorruptError, match="deletion file"):
        pennon.dataset(uri).changes(1).read_all()


def test_delta(changed: pennon.LanceDataset) -> None:
    delta = changed.delta(begin_version=1, end_version=3)
    assert delta.get_inserted_rows().read_all().select(["id", "_rowid"]).to_pylist() == [{"id": 11, "_rowid": 11}]
    assert delta.get_deleted_row_ids().read_all().to_pydict() == {"_rowid": [0, 5]}
    assert [type(t.operation).__name__ for t in delta.list_transactions()] == ["Append", "Delete"]
    assert changed.delta(4).get_inserted_rows().read_all()["id"].to_pylist() == [20, 21]
    with pytest.raises(ValueError, match="Must specify either compared_against"):
        changed.delta()
    with pytest.raises(ValueError, match="Must specify both"):
        changed.delta(begin_version=1)
    with pytest.raises(
        pennon.InvalidInputError, match="compared_against is 1, begin_version 3 and end_version None"
    ):
        changed.delta(1, begin_version=3)
    with pytest.raises(pennon.NotFoundError):
        changed.delta(begin_version=1, end_version=9).get_inserted_rows()


def test_delta_looks_at_fragments_that_changed(table: pennon.LanceDataset) -> None:
    """The same rows as a filter over all fragments gives, and if the begin is gone."""
    table.insert(numbers(5, 10))
    table.update({"text": "'new'"}, "id = 3 or id = 12")
    table.delete("id = 11")
    table.checkout_version(2).restore()
    table.checkout_latest()
    table.insert(numbers(5, 20))
    table.update({"text": "'newer'"}, "id = 4 or id = 21")

    def found(begin: int, end: int) -> list[list[int]]:
        delta = table.delta(begin_version=begin, end_version=end)
        rows = [delta.get_inserted_rows(), delta.get_updated_rows()]
        return [sorted(batches.read_all()["_rowid"].to_pylist()) for batches in rows]

    def expected(begin: int, end: int) -> list[list[int]]:
        columns = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        rows = [list(row.values()) for row in table.checkout_version(end).to_table(columns=columns).to_pylist()]
        created = [row for row, created, _ in rows if begin < created <= end]
        updated = [row for row, created, updated in rows if created <= begin < updated <= end]
        return [sorted(created), sorted(updated)]

    newest = table.version
    windows = [(begin, end) for end in range(1, newest + 1) for begin in range(1, end + 1)]
    assert [found(*window) for window in windows] == [expected(*window) for window in windows]
    assert expected(newest - 1, newest)[1]
    table.cleanup_old_versions(timedelta(0))
    for begin in range(1, newest):
        assert found(begin, newest) == expected(begin, newest)
