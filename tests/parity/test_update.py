"""Updates next to those of the reference: values, ids, versions, errors; both go on with what the other wrote."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.compare import assert_both_agree, assert_same, contents, file_versions
from support.seeds import seeds
from support.spread import spread

SPILL = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"}
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float32()),
        ("l", pa.list_(pa.int32())),
        ("st", STRUCT),
        ("d", pa.date32()),
        pa.field("must", pa.int64(), nullable=False),
    ]
)


def rows(start: int, count: int) -> pa.Table:
    ids = list(range(start, start + count))
    columns = {
        "id": ids,
        "v": [None if i % 7 == 3 else i for i in ids],
        "s": [f"row {i}" for i in ids],
        "f": [i / 2 for i in ids],
        "l": [None if i % 5 == 0 else [i, i + 1] for i in ids],
        "st": [None if i % 6 == 1 else {"x": i, "y": f"y{i}"} for i in ids],
        "d": [date(2020, 1, 1 + i % 28) for i in ids],
        "must": ids,
    }
    return pa.table(columns, schema=SCHEMA)


def by_id(dataset: lance.LanceDataset | pennon.LanceDataset) -> pa.Table:
    return contents(dataset).drop_columns(["_rowaddr"]).sort_by("_rowid")


def pair(tmp_path: Path, count: int = 40, **options: Any) -> tuple[pennon.LanceDataset, lance.LanceDataset]:
    """The same table twice, written by the reference."""
    for name in ("ours", "theirs"):
        lance.write_dataset(
            rows(0, count), tmp_path / name, enable_stable_row_ids=True, max_rows_per_file=15, **options
        )
    return pennon.dataset(str(tmp_path / "ours")), lance.dataset(str(tmp_path / "theirs"))


SAME = pytest.mark.parametrize(
    ("updates", "where"),
    [
        ({"v": "v + 1"}, None),
        ({"v": "v + 1"}, "id % 3 = 0"),
        ({"v": "NULL"}, "v > 10"),
        ({"v": "1"}, "id > 1000"),
        ({"v": "1"}, "false"),
        ({"v": "1"}, "v > 5 or v is null"),
        ({"id": "v", "v": "id"}, "v is not null"),
        ({"v": "'7'"}, "id = 2"),
        ({"v": "2.7"}, "id < 9"),
        ({"v": "f"}, "id < 9"),
        ({"v": "id = 1"}, None),
        ({"s": "id", "f": "id"}, "id > 20"),
        ({"s": "concat(s, '!')", "must": "must * 2"}, "s like 'row 1%'"),
        ({"d": "'2021-05-06'"}, "id = 3"),
        ({"d": "date '2021-05-06'"}, "id = 3"),
        ({"d": "5"}, "id = 3"),
        ({"l": "[1, 2]"}, "l is null"),
        ({"l": "make_array(v, v)"}, "id < 20"),
        ({"st": "named_struct('x', 9, 'y', 'z')"}, "st is null"),
        ({"st": "named_struct('y', s, 'x', v)"}, "id < 20"),
        ({"v": "st.x", "s": "st.y"}, "id > 3"),
        ({"v": "9"}, "_rowid = 17"),
        ({"v": "9"}, "_rowaddr >= 4294967296"),
    ],
)


@SAME
def test_same_results(tmp_path: Path, updates: dict[str, str], where: str | None) -> None:
    ours, theirs = pair(tmp_path)
    assert ours.update(updates, where, mode="rewrite_rows") == theirs.update(updates, where)
    assert ours.version == theirs.version
    assert_same(by_id(ours), by_id(theirs))
    assert_both_agree(tmp_path / "ours")
    operation = ours.read_transaction(ours.version).operation
    expected = theirs.read_transaction(theirs.version).operation
    assert sorted(operation.fields_for_preserving_frag_bitmap) == sorted(expected.fields_for_preserving_frag_bitmap)
    assert operation.removed_fragment_ids == expected.removed_fragment_ids
    assert len(operation.new_fragments) == len(expected.new_fragments)
    # The reference goes on with what we wrote.
    again = lance.dataset(str(tmp_path / "ours"))
    again.update({"v": "v * 2"}, "id < 30")
    theirs.update({"v": "v * 2"}, "id < 30")
    assert_same(by_id(again), by_id(theirs))


@SAME
def test_columns_written_anew(tmp_path: Path, updates: dict[str, str], where: str | None) -> None:
    """The same values, ids and versions as in rows that moved; addresses stay, and the reference goes on."""
    ours, theirs = pair(tmp_path)
    for table in (ours, theirs):
        table.delete("id in (0, 1, 14, 20, 39)")
    before = ours.to_table(columns=["_rowid", "_rowaddr"])
    assert ours.update(updates, where, mode="rewrite_columns") == theirs.update(updates, where)
    assert_same(by_id(ours), by_id(theirs))
    assert_same(ours.to_table(columns=["_rowid", "_rowaddr"]), before)
    assert_both_agree(tmp_path / "ours")
    operation = lance.dataset(str(tmp_path / "ours")).read_transaction(3).operation
    assert operation.update_mode == "rewrite_columns"
    assert len(operation.new_fragments) == 0
    again = lance.dataset(str(tmp_path / "ours"))
    for table in (again, theirs):
        table.update({"v": "v * 2"}, "id < 30")
        table.delete("id % 9 = 5")
        table.optimize.compact_files()
    assert_same(by_id(again), by_id(theirs))
    assert_both_agree(tmp_path / "ours")


def test_columns_of_columns(tmp_path: Path) -> None:
    """File after file is replaced; one without a live column goes."""
    ours, theirs = pair(tmp_path)
    for updates in ({"v": "v + 1"}, {"v": "v + 1", "s": "'a'"}, {"s": "'b'"}, {"st": "NULL"}, {"v": "id"}):
        ours.update(updates, "id % 2 = 0", mode="rewrite_columns")
        theirs.update(updates, "id % 2 = 0")
        assert_same(by_id(ours), by_id(theirs))
        assert_both_agree(tmp_path / "ours")
    files = [f.fields for f in ours.get_fragments()[0].metadata.files]
    assert [sorted(set(fields)) for fields in files[1:]] == [[2], [7, 8], [1]]


NEW = [
    ({"_rowid": pa.array([1, 33, 7], pa.uint64()), "v": pa.array([20, None, 5], pa.int32())}, "_rowid", None),
    ({"_rowaddr": pa.array([2, 1 << 32], pa.uint64()), "v": pa.array([20, 1], pa.int32())}, "_rowaddr", None),
    ({"id": [2, 99], "s": ["new", "lost"], "v": pa.array([1, 2], pa.int32())}, "id", None),
    ({"x": [2, 99], "s": ["new", "lost"]}, "id", "x"),
    ({"v": pa.array([5, None], pa.int32()), "s": ["five", "none"]}, "v", None),
    ({"id": [2, 2], "s": ["first", "last"]}, "id", None),
    ({"id": [99], "s": ["lost"]}, "id", None),
]


@pytest.mark.parametrize(("data", "left_on", "right_on"), NEW)
def test_columns_of_fragments(tmp_path: Path, data: dict[str, Any], left_on: str, right_on: str | None) -> None:
    ours, theirs = pair(tmp_path)
    for table in (ours, theirs):
        table.delete("id in (0, 4, 16)")
    results = []
    for module, table in ((pennon, ours), (lance, theirs)):
        fragments, modified, offsets = [], set(), {}
        for fragment in table.get_fragments():
            new, fields, rows = fragment.update_columns(pa.table(data), left_on, right_on, with_offsets=True)
            fragments.append(new)
            modified.update(fields)
            offsets[fragment.fragment_id] = rows
            assert fragment.update_columns(pa.table(data), left_on, right_on)[1] == fields
        update = module.LanceOperation.Update(
            updated_fragments=fragments,
            fields_modified=sorted(modified),
            update_mode="rewrite_columns",
            updated_fragment_offsets=offsets,
        )
        done = module.LanceDataset.commit(table, update, read_version=2)
        results.append((contents(done), modified, offsets))
    assert_same(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]
    assert_both_agree(tmp_path / "ours")


@pytest.mark.parametrize(
    ("data", "left_on"),
    [
        ({"id": pa.array([2], pa.int32()), "s": ["x"]}, "id"),
        ({"id": [2], "zz": ["x"]}, "id"),
        ({"s": ["x"]}, "_rowid"),
        ({"id": [2], "s": ["x"]}, "zz"),
        ({"_rowid": ["2"], "s": ["x"]}, "_rowid"),
    ],
)
def test_columns_of_fragments_that_cannot_be(tmp_path: Path, data: dict[str, Any], left_on: str) -> None:
    ours, theirs = pair(tmp_path)
    before = sorted((tmp_path / "ours").rglob("*"))
    for table in (ours, theirs):
        with pytest.raises(ValueError, match=r".+"):
            table.get_fragments()[0].update_columns(pa.table(data), left_on)
    assert sorted((tmp_path / "ours").rglob("*")) == before


def test_columns_without_stable_row_ids(tmp_path: Path) -> None:
    data = pa.table({"a": [1, 2, 3], "b": [1, 2, 3], "c": ["x"] * 3})
    plain = pennon.write_dataset(data, str(tmp_path / "plain"), enable_stable_row_ids=False)
    plain.update({"a": "a + 1"}, "b > 1", mode="rewrite_columns")
    assert plain.to_table().to_pydict() == {"a": [1, 3, 4], "b": [1, 2, 3], "c": ["x"] * 3}
    assert_both_agree(tmp_path / "plain")


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_columns_in_files_of_other_versions(tmp_path: Path, version: str) -> None:
    data = rows(0, 30).drop_columns(["st"])
    ours = pennon.write_dataset(data, str(tmp_path / "t"), data_storage_version=version, max_rows_per_file=9)
    ours.update({"v": "id", "l": "make_array(v, 1)"}, "id % 3 = 1", mode="rewrite_columns")
    assert_both_agree(tmp_path / "t")
    assert ours.to_table(filter="id % 3 = 1")["v"].to_pylist() == list(range(1, 30, 3))


@pytest.mark.parametrize(
    ("updates", "where", "kind"),
    [
        ({}, None, ValueError),
        ({"zz": "1"}, None, ValueError),
        ({"V": "1"}, None, ValueError),
        ({"st.x": "5"}, None, ValueError),
        ({"_rowid": "5"}, None, ValueError),
        ({"v": "v +++ )"}, None, ValueError),
        ({"v": "zz + 1"}, None, ValueError),
        ({"v": 5}, None, TypeError),
        ({"must": "NULL"}, None, OSError),
        ({"must": "v"}, None, OSError),
        ({"v": "'seven'"}, None, ValueError),
        ({"v": "s"}, None, OSError),
        ({"v": "5000000000"}, None, ValueError),
        ({"v": "id * 5000000000"}, "id = 1", OSError),
        ({"l": "'a'"}, None, ValueError),
        ({"v": "1 / (id - 2)"}, None, OSError),
        ({"v": "1"}, "", ValueError),
        ({"v": "1"}, "zz = 1", ValueError),
        ({"v": "1"}, "id + 1", OSError),
        ({"v": "1"}, "id ==== 1", ValueError),
        ({"v": "1"}, 5, TypeError),
    ],
)
def test_same_errors(tmp_path: Path, updates: dict[str, str], where: str | None, kind: type[Exception]) -> None:
    ours, theirs = pair(tmp_path)
    before = sorted(p for p in (tmp_path / "ours").rglob("*"))
    with pytest.raises(kind):
        theirs.update(updates, where)
    with pytest.raises(kind) as raised:
        ours.update(updates, where)
    assert isinstance(raised.value, (pennon.PennonError, TypeError))
    assert sorted(p for p in (tmp_path / "ours").rglob("*")) == before
    assert ours.version == theirs.version == 1


def test_pyarrow_expressions(tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path)
    where = (pc.field("v") > 11) & (pc.field("s") != "row 20")
    assert ours.update({"f": "f * 2"}, where) == theirs.update({"f": "f * 2"}, where)
    assert_same(by_id(ours), by_id(theirs))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_versions_of_new_files(tmp_path: Path, version: str) -> None:
    ours, theirs = pair(tmp_path, data_storage_version="2.1")
    # Files of version 2.0 hold no null structs.
    where = "id < 20 and st is not null"
    for table, mode in ((ours, {"mode": "rewrite_rows"}), (theirs, {})):
        table.update({"v": "v + 1"}, where, data_storage_version=version, **mode)
        assert table.data_storage_version == "2.1"
    assert file_versions(ours)[-1] == [version]
    assert_same(by_id(ours), by_id(theirs))
    assert_both_agree(tmp_path / "ours")
    # Columns of rows that stay are written in that version too.
    ours.update({"v": "v + 1"}, "id >= 20", data_storage_version=version, mode="rewrite_columns")
    assert [version] in [files[1:] for files in file_versions(ours)]
    assert_both_agree(tmp_path / "ours")
    for wrong in ("0.1", "9.0"):
        with pytest.raises((ValueError, OSError)):
            ours.update({"v": "1"}, data_storage_version=wrong)


def test_without_stable_row_ids(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        lance.write_dataset(rows(0, 40), tmp_path / name, max_rows_per_file=15)
    ours, theirs = pennon.dataset(str(tmp_path / "ours")), lance.dataset(str(tmp_path / "theirs"))
    for table in (ours, theirs):
        table.update({"v": "v + 1"}, "id % 3 = 0")
        table.delete("id % 4 = 1")
        table.update({"s": "concat(s, '?')"}, "id > 20 or v < 3")
    assert_same(contents(ours), contents(theirs))
    assert_both_agree(tmp_path / "ours")


def test_type_of_what_the_schema_forbids(tmp_path: Path) -> None:
    """Members of structs that must not be null, and items of lists."""
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("st", inner), ("l", pa.list_(pa.field("item", pa.int32(), False)))])
    data = pa.table({"id": [1, 2], "st": [{"x": 1, "y": "a"}, None], "l": [[1], [2, 3]]}, schema=schema)
    ours = pennon.write_dataset(data, str(tmp_path / "t"))
    ours.update({"st": "named_struct('x', 5, 'y', 'b')"}, "id = 2")
    assert ours.to_table(filter="id = 2")["st"].to_pylist() == [{"x": 5, "y": "b"}]
    with pytest.raises(pennon.SchemaMismatchError, match="st"):
        ours.update({"st": "named_struct('x', NULL, 'y', 'b')"}, "id = 2")
    ours.update({"id": "id + 1"})
    assert_both_agree(tmp_path / "t")


def change(table: Any, dice: random.Random, next_id: int) -> int:
    """One change that either side can make."""
    kind = dice.choice(["append", "update", "update", "update", "delete"])
    if kind == "append":
        table.insert(rows(next_id, 20))
        return next_id + 20
    if kind == "update":
        every = dice.choice([1, 3, 7])
        mode: dict[str, Any] = {}
        if isinstance(table, pennon.LanceDataset):
            modes = ["auto", "rewrite_rows", "rewrite_columns"]
            mode = {"mode": random.Random(str(table.version)).choice(modes)}
        updates = dice.choice(
            [{"v": "v + 1"}, {"s": "concat(s, '+')", "f": "f * 2"}, {"l": "make_array(v)", "st": "NULL"}]
        )
        table.update(updates, where=f"id % {every} = {dice.randrange(every)}", **mode)
    else:
        table.delete(f"id % 11 = {dice.randrange(11)} and id > {dice.randrange(next_id)}")
    return next_id


@spread(of=1)
@pytest.mark.parametrize("spill", [False, True], ids=["inline", "spilled"])
@pytest.mark.parametrize("seed", seeds(4))
def test_taking_turns(tmp_path: Path, seed: int, spill: bool) -> None:
    """Both change one table in turns; another table is changed by the reference alone."""
    pair(tmp_path)
    uri, alone = str(tmp_path / "ours"), lance.dataset(str(tmp_path / "theirs"))
    if spill:
        pennon.dataset(uri).update_config(SPILL)
        alone.update_config(SPILL)
    dice, same_dice, next_id = random.Random(seed), random.Random(seed), 40
    for _ in range(10):
        table = random.Random(f"{seed} {next_id}").choice([pennon, pennon, lance]).dataset(uri)
        expected = change(alone, same_dice, next_id)
        next_id = change(table, dice, next_id)
        assert next_id == expected
        assert_both_agree(uri)
        assert_same(by_id(pennon.dataset(uri)), by_id(alone))


def test_many_rows_fill_several_files(tmp_path: Path) -> None:
    """More rows than one file takes; the reference reads ids and versions of all of them."""
    count = 1_200_000
    data = pa.table({"a": pa.array(range(count), pa.int64()), "b": pa.array(range(count), pa.int64())})
    ours = pennon.write_dataset(data, str(tmp_path / "t"), max_rows_per_file=500_000)
    assert ours.update({"a": "a + 1"}, "b % 100 != 0", mode="rewrite_rows") == {"num_rows_updated": 1_188_000}
    new = ours.read_transaction(2).operation.new_fragments
    assert [f.physical_rows for f in new] == [1_048_576, 1_188_000 - 1_048_576]
    table = assert_both_agree(tmp_path / "t").sort_by("_rowid")
    assert table["_rowid"].to_pylist() == table["b"].to_pylist()
    assert pc.sum(table["a"]).as_py() == count * (count - 1) // 2 + 1_188_000
