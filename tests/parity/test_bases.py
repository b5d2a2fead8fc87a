"""Data files under further roots: where they go is the same for both, and both read what the other wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree

MODULES: dict[str, Any] = {"pennon": pennon, "lance": lance}


def rows(count: int, start: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + count), pa.int64())})


def bases(side: str, root: Path) -> list[Any]:
    base = MODULES[side].DatasetBasePath
    return [base(str(root / "zero"), "zero", True), base(str(root / "one"), "one", False)]


def places(uri: Path) -> list[int | None]:
    return [fragment.metadata.files[0].base_id for fragment in pennon.dataset(uri).get_fragments()]


def on_disk(root: Path) -> Counter[str]:
    return Counter(str(path.parent.relative_to(root)) for path in root.rglob("*.lance"))


@pytest.mark.parametrize("maker", MODULES)
@pytest.mark.parametrize("writer", MODULES)
def test_where_files_go(tmp_path: Path, maker: str, writer: str) -> None:
    uri = tmp_path / "table"
    make, write = MODULES[maker].write_dataset, MODULES[writer].write_dataset
    make(
        rows(10),
        str(uri),
        initial_bases=bases(maker, tmp_path),
        target_bases=["one"],
        max_rows_per_file=5,
        enable_stable_row_ids=True,
    )
    assert places(uri) == [2, 2]
    found = {
        id: (base.path, base.name, base.is_dataset_root) for id, base in pennon.dataset(uri).base_paths().items()
    }
    assert found == {1: (str(tmp_path / "zero"), "zero", True), 2: (str(tmp_path / "one"), "one", False)}
    for options, expected in (
        ({}, [None, None]),
        ({"target_bases": []}, [None, None]),
        ({"target_bases": ["one", "zero"]}, [2, 1]),
        ({"target_bases": [str(tmp_path / "zero")]}, [1, 1]),
        ({"target_bases": [str(uri), "one"]}, [None, 2]),
        ({"target_all_bases": True}, [None, 1]),
        ({"target_all_bases": False}, [1, 2]),
    ):
        before = len(places(uri))
        write(rows(4, 100 * before), str(uri), mode="append", max_rows_per_file=2, **options)
        assert places(uri)[before:] == expected, options
    assert on_disk(tmp_path) == {"one": 5, "zero/data": 5, "table/data": 6}
    MODULES[writer].dataset(str(uri)).delete("id % 3 = 0")
    assert_both_agree(uri)
    assert pennon.verify(uri).ok
    write(rows(3), str(uri), mode="overwrite", target_bases=["zero"])
    assert places(uri) == [1]
    assert_both_agree(uri)


@pytest.mark.parametrize("side", MODULES)
def test_bases_of_a_table_that_exists(tmp_path: Path, side: str) -> None:
    uri = tmp_path / "table"
    table = MODULES[side].write_dataset(rows(3), str(uri))
    first, second = bases(side, tmp_path)
    assert table.add_bases([first]) is table
    assert (table.version, pennon.dataset(uri).version) == (2, 2)
    table.add_bases([second], transaction_properties={"why": "room"})
    assert {id: base.name for id, base in pennon.dataset(uri).base_paths().items()} == {1: "zero", 2: "one"}
    assert table.read_transaction(3).transaction_properties["why"] == "room"
    base = MODULES[side].DatasetBasePath
    for taken in (base(str(tmp_path / "zero"), "two"), base(str(tmp_path / "two"), "zero")):
        with pytest.raises(ValueError, match="already"):
            table.add_bases([taken])
    other = pennon if side == "lance" else lance
    other.write_dataset(rows(3, 10), str(uri), mode="append", target_bases=["one"])
    assert places(uri) == [None, 2]
    assert_both_agree(uri)
    written = MODULES[side].fragment.write_fragments(rows(4), table, target_all_bases=True, max_rows_per_file=1)
    assert [fragment.files[0].base_id for fragment in written] == [None, 1, 2, None]


@pytest.mark.parametrize("side", MODULES)
def test_bases_of_two_writers(tmp_path: Path, side: str) -> None:
    """Different ones are all registered, each with an id of its own."""
    uri = tmp_path / "table"
    table = MODULES[side].write_dataset(rows(3), str(uri))
    stale, other = MODULES[side].dataset(str(uri)), MODULES[side].dataset(str(uri))
    first, second = bases(side, tmp_path)
    table.add_bases([first])
    stale.add_bases([second])
    assert {id: base.name for id, base in pennon.dataset(uri).base_paths().items()} == {1: "zero", 2: "one"}
    with pytest.raises(OSError, match="UpdateBases"):
        other.add_bases([second])
    table = MODULES[side].write_dataset(rows(4, 10), stale, mode="append", target_bases=["one", "zero"])
    assert places(uri) == [None, 2]
    assert_both_agree(uri)


@pytest.mark.parametrize("side", MODULES)
def test_merges(tmp_path: Path, side: str) -> None:
    uri = tmp_path / "table"
    data = rows(10).append_column("n", rows(10)["id"]).append_column("m", rows(10)["id"])
    write = MODULES[side].write_dataset
    table = write(data, str(uri), initial_bases=bases(side, tmp_path), enable_stable_row_ids=True)
    own = str(uri)
    for use, expected in (
        (lambda merge: merge.target_bases(["one"]), 2),
        (lambda merge: merge.target_bases([str(tmp_path / "zero"), "one"]), 1),
        (lambda merge: merge.target_bases([own, "one"]), None),
        (lambda merge: merge.target_all_bases(), None),
        (lambda merge: merge.target_all_bases(False), 1),
    ):
        source = pa.table({"id": [3, 100 + table.version], "n": [0, 0], "m": [1, 1]})
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        use(merge).execute(source)
        assert places(uri)[-1] == expected
    # New columns lie below the own root, wherever their fragment does.
    written = next(f for f in pennon.dataset(uri).get_fragments() if f.metadata.files[0].base_id == 2)
    key = written.to_table(columns=["id"])["id"][0].as_py()
    merge = table.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").target_bases(["one"])
    before = on_disk(tmp_path)
    assert merge.execute(pa.table({"id": [key], "n": [50]}))["num_updated_rows"] == 1
    assert on_disk(tmp_path) - before == {"table/data": 1}
    assert_both_agree(uri)
    assert pennon.verify(uri).ok


@pytest.mark.parametrize("target", ["table", "zero", "one"])
@pytest.mark.parametrize("mode", ["rewrite_rows", "rewrite_columns"])
def test_no_file_is_left_by_merges_that_fail(tmp_path: Path, target: str, mode: str) -> None:
    uri = tmp_path / "table"
    data = pa.table({name: range(10) for name in ("id", "n", "m")})
    table = pennon.write_dataset(data, uri, initial_bases=bases("pennon", tmp_path))
    stale = pennon.dataset(uri)
    table.update({"m": "0"}, "id = 3")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    merge = stale.merge_insert("id").when_matched_update_all().write_mode(mode)
    merge.target_bases([str(uri) if target == "table" else target]).conflict_retries(0)
    source = data.select(["id", "n"]).slice(2, 4)
    with pytest.raises(pennon.CommitConflictError):
        merge.execute(source)
    assert "num_updated_rows=4" in merge.analyze_plan(source)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("side", MODULES)
def test_options_that_make_no_sense(tmp_path: Path, side: str) -> None:
    uri = str(tmp_path / "table")
    write = MODULES[side].write_dataset
    for options in ({"target_bases": ["one"]}, {"target_all_bases": False}):
        with pytest.raises(OSError, match=r"[Bb]ase"):
            write(rows(3), uri, **options)
    write(rows(3), uri, initial_bases=bases(side, tmp_path))
    for options in (
        {"target_bases": ["three"]},
        {"target_bases": ["one"], "target_all_bases": True},
        {"initial_bases": bases(side, tmp_path)},
    ):
        for mode in ("append", "overwrite"):
            with pytest.raises(OSError, match=r"[Bb]ase"):
                write(rows(3), uri, mode=mode, **options)
    assert pennon.dataset(uri).version == 1
    assert on_disk(tmp_path) == {"table/data": 1}


def test_paths_that_escape_or_lead_nowhere(tmp_path: Path) -> None:
    """The reference registers all of these."""
    uri = tmp_path / "table"
    table = pennon.write_dataset(rows(3), uri)
    wrong = ("", f"{tmp_path}/a/../b", "../b", "zzz://bucket/b", f"{tmp_path}/a\0b")
    for path in (*wrong, str(uri), f"{uri}/data"):
        with pytest.raises(pennon.InvalidInputError):
            table.add_bases([pennon.DatasetBasePath(path, "b")])
    for path in wrong:
        with pytest.raises(pennon.InvalidInputError):
            pennon.write_dataset(rows(3), tmp_path / "new", initial_bases=[pennon.DatasetBasePath(path, "b")])
    climbing = pennon.LanceOperation.UpdateBases([pennon.DatasetBasePath(f"{tmp_path}/a/../b", "b")])
    with pytest.raises(pennon.InvalidInputError):
        pennon.LanceDataset.commit(uri, climbing, read_version=1)
    assert pennon.dataset(uri).version == 1
    assert not (tmp_path / "new" / "_versions").exists()


def test_a_failed_write_leaves_nothing_anywhere(tmp_path: Path) -> None:
    def broken() -> Any:
        yield rows(2).to_batches()[0]
        raise RuntimeError("no more")

    uri = tmp_path / "table"
    table = pennon.write_dataset(rows(3), uri, initial_bases=bases("pennon", tmp_path))
    before = on_disk(tmp_path)
    reader = pa.RecordBatchReader.from_batches(rows(0).schema, broken())
    with pytest.raises(RuntimeError, match="no more"):
        pennon.write_dataset(reader, uri, mode="append", target_all_bases=False, max_rows_per_file=1)
    assert on_disk(tmp_path) == before
    stale = pennon.dataset(uri)
    table.insert(rows(1), mode="overwrite")
    with pytest.raises(pennon.CommitConflictError):
        pennon.write_dataset(rows(4), stale, mode="append", target_all_bases=False, max_rows_per_file=1)
    assert sum(on_disk(tmp_path).values()) == sum(before.values()) + 1


@pytest.mark.parametrize("side", MODULES)
def test_workers_of_a_table_that_is_not_there(tmp_path: Path, side: str) -> None:
    """Files that are written before there is a table lie where it will look for them."""
    uri, module = str(tmp_path / "table"), MODULES[side]
    new = module.fragment.write_fragments(
        rows(10),
        uri,
        mode="create",
        initial_bases=bases(side, tmp_path),
        target_bases=["one", "zero"],
        max_rows_per_file=4,
        return_transaction=True,
    )
    assert on_disk(tmp_path) == {"one": 2, "zero/data": 1}
    module.LanceDataset.commit(uri, new)
    assert places(Path(uri)) == [2, 1, 2]
    assert assert_both_agree(uri)["id"].to_pylist() == list(range(10))
    with pytest.raises((ValueError, OSError), match="Base reference 'two' not found in available bases"):
        module.fragment.write_fragments(rows(1), uri + "2", mode="create", target_bases=["two"])
