"""Repair: everything that can be had of damaged files, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.files import flip, manifest

ROWS = 3_000
Writer = Callable[..., Any]


@pytest.fixture(params=["pennon", "pylance"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Deletes, an append, an update and an index, by either writer."""
    library: Any = pennon if request.param == "pennon" else lance
    uri = str(tmp_path / "table")
    rows = pa.table({"a": range(ROWS), "b": [str(n) for n in range(ROWS)]})
    library.write_dataset(rows, uri, max_rows_per_file=1_000, enable_stable_row_ids=True)
    library.dataset(uri).delete("a % 7 = 0")
    library.write_dataset(pa.table({"a": range(ROWS, ROWS + 100), "b": ["x"] * 100}), uri, mode="append")
    library.dataset(uri).update({"b": "'u'"}, where="a = 5")
    library.dataset(uri).create_scalar_index("a", "BTREE")
    return uri


def fresh(uri: str, version: int | None = None) -> pa.Table:
    table = pennon.dataset(uri, version, session=pennon.Session())
    return table.to_table(with_row_id=True).sort_by("_rowid")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def kinds(report: pennon.RepairReport) -> list[str]:
    return [action.kind for action in report.actions]


def test_nothing_is_wrong(uri: str) -> None:
    report = pennon.repair(uri, apply=True)
    assert report.ok
    assert report.actions == []
    assert str(report) == f"{uri}: nothing is wrong"


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_manifests(uri: str, version: int) -> None:
    good = {number: fresh(uri, number) for number in range(1, 6)}
    timestamps = {v["version"]: v["timestamp"].replace(microsecond=0) for v in pennon.dataset(uri).versions()}
    whole = manifest(uri, version).read_bytes()
    cut(manifest(uri, version))
    planned = pennon.repair(uri)
    assert kinds(planned) == ["rebuild_file"]
    assert not planned.ok
    # Looking changes nothing.
    assert manifest(uri, version).read_bytes() == whole[:-20]
    report = pennon.repair(uri, apply=True)
    assert report.ok, str(report)
    assert {number: fresh(uri, number) for number in range(1, 6)} == good
    assert lance.dataset(uri, version=version).to_table().num_rows == good[version].num_rows
    assert len(list(Path(uri, "_damaged").rglob(manifest(uri, version).name))) == 1
    now = {v["version"]: v["timestamp"].replace(microsecond=0) for v in pennon.dataset(uri).versions()}
    assert list(now.values()) == sorted(now.values())
    assert all(abs(now[number] - made) < timedelta(minutes=1) for number, made in timestamps.items())
    assert pennon.dataset(uri, version).describe_indices() == [] or version == 5
    lance.write_dataset(pa.table({"a": [-1], "b": ["after"]}), uri, mode="append")
    assert pennon.dataset(uri).count_rows() == good[5].num_rows + 1


def test_a_manifest_without_its_transaction(uri: str) -> None:
    name = pennon.dataset(uri, 2).version
    for path in Path(uri, "_transactions").iterdir():
        if path.name.startswith("1-"):
            path.unlink()
    cut(manifest(uri, name))
    report = pennon.repair(uri, apply=True)
    assert report.actions == []
    assert not report.ok
    assert [finding.path for finding in report.remaining if "manifest" in finding.kind] == [
        str(manifest(uri, name))
    ]


def test_deletion_files(uri: str) -> None:
    good = [fresh(uri, number) for number in range(1, 6)]
    for path in Path(uri, "_deletions").iterdir():
        cut(path)
    report = pennon.repair(uri, apply=True)
    assert report.ok, str(report)
    assert set(kinds(report)) == {"rebuild_file"}
    assert [fresh(uri, number) for number in range(1, 6)] == good
    assert lance.dataset(uri).to_table().sort_by("a") == fresh(uri).drop_columns(["_rowid"]).sort_by("a")


def test_a_deletion_file_of_rows_that_nothing_tells(tmp_path: Path) -> None:
    """Rows that may have been deleted do not come back."""
    uri = str(tmp_path / "table")
    table = pennon.write_dataset({"a": list(range(100))}, uri)
    table.delete("a in (3, 4)")
    table.delete("a in (5, 6)")
    # Neither the version before nor the predicate is left.
    pennon.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    [path] = Path(uri, "_deletions").iterdir()
    cut(path)
    report = pennon.repair(uri, apply=True)
    assert kinds(report) == ["quarantine_fragment"]
    assert "which of its 100 rows were deleted is not known" in str(report)
    assert report.actions[0].row_ids == ((0, 100),)
    assert pennon.dataset(uri).count_rows() == 0
    properties = pennon.dataset(uri).read_transaction(pennon.dataset(uri).version).transaction_properties
    assert properties["pennon.quarantined"] == "fragment=0 rows=100 row_ids=0..100"


def test_transaction_files(uri: str) -> None:
    for path in Path(uri, "_transactions").iterdir():
        cut(path)
    report = pennon.repair(uri, apply=True)
    assert report.ok, str(report)
    assert set(kinds(report)) <= {"rebuild_file"}
    assert pennon.dataset(uri).get_transactions()


def test_files_of_an_index(uri: str) -> None:
    good = fresh(uri)
    for path in Path(uri, "_indices").rglob("page_data.lance"):
        cut(path)
    report = pennon.repair(uri, apply=True)
    assert kinds(report) == ["rebuild_index"]
    table = pennon.dataset(uri, session=pennon.Session())
    assert table.to_table(filter="a = 77 or a = 78").num_rows == 1
    assert "BTree" in table.scanner(filter="a = 78").explain_plan()
    assert fresh(uri) == good
    # The version before refers to the damaged file still.
    assert {finding.version for finding in report.remaining} == {5}


def test_files_of_a_copy(uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    shutil.copytree(uri, copy)
    good = [fresh(uri, number) for number in range(1, 6)]
    for number, path in enumerate(sorted(Path(uri).rglob("*"))):
        if path.suffix == ".manifest" and path != manifest(uri, 1):
            cut(path)
        elif path.is_file() and path.suffix in (".lance", ".arrow", ".txn"):
            # A version whose manifest is gone was cleaned up; other files that are gone are missing.
            (Path.unlink if number % 2 else cut)(path)
    report = pennon.repair(uri, copy=copy, apply=True)
    assert report.ok, str(report)
    assert set(kinds(report)) == {"copy_file"}
    assert [fresh(uri, number) for number in range(1, 6)] == good


def test_a_copy_that_is_damaged_as_well(uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    pennon.seal(uri)
    shutil.copytree(uri, copy)
    [largest] = sorted(Path(uri, "data").iterdir(), key=lambda path: path.stat().st_size)[-1:]
    flip(largest, 1_000)
    # The file is there, has the same size and decodes; the seal says that it is another one.
    flip(Path(copy, "data", largest.name), 1_001)
    shutil.rmtree(Path(copy, "_seals"), ignore_errors=True)
    report = pennon.repair(uri, copy=copy)
    assert "copy_file" not in kinds(report)


def test_two_manifests_in_a_row(uri: str) -> None:
    good = {number: fresh(uri, number) for number in range(1, 6)}
    for version in (2, 3, 4, 5):
        cut(manifest(uri, version))
    report = pennon.repair(uri, apply=True)
    assert report.ok, str(report)
    assert {number: fresh(uri, number) for number in range(1, 6)} == good


def test_a_transaction_that_was_not_committed(tmp_path: Path) -> None:
    """The name of the transaction's file is in the damaged manifest, or the manifest is not made again."""
    uri = str(tmp_path / "table")
    pennon.write_dataset({"a": [1, 2, 3, 4, 5]}, uri)
    other = str(tmp_path / "other")
    shutil.copytree(uri, other)
    pennon.dataset(other).delete("a = 1")
    [orphan] = [path for path in Path(other, "_transactions").iterdir() if path.name.startswith("1-")]
    pennon.dataset(uri).delete("a > 3")
    for path in Path(uri, "_transactions").iterdir():
        if path.name.startswith("1-"):
            path.unlink()
    shutil.copy(orphan, Path(uri, "_transactions"))
    cut(manifest(uri, 2))
    assert pennon.repair(uri).actions == []


def test_a_copy_that_went_another_way(tmp_path: Path) -> None:
    uri, copy = str(tmp_path / "table"), str(tmp_path / "copy")
    pennon.write_dataset({"a": [1, 2, 3, 4, 5]}, uri)
    shutil.copytree(uri, copy)
    pennon.dataset(uri).delete("a = 1")
    pennon.dataset(copy).delete("a > 2")
    for path in Path(uri, "_transactions").iterdir():
        if path.name.startswith("1-"):
            path.unlink()
    cut(manifest(uri, 2))
    assert pennon.repair(uri, copy=copy).actions == []


def test_garbage_in_a_copy(uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    shutil.copytree(uri, copy)
    for directory in ("_deletions", "_transactions", "data"):
        for path in Path(copy, directory).iterdir():
            path.write_bytes(b"garbage")
    for path in Path(uri, "_deletions").iterdir():
        cut(path)
    assert "copy_file" not in kinds(pennon.repair(uri, copy=copy))


def test_what_was_replaced_is_kept(uri: str) -> None:
    damaged = []
    for _ in range(2):
        cut(manifest(uri, 3))
        damaged.append(manifest(uri, 3).read_bytes())
        assert pennon.repair(uri, apply=True).ok
    kept = [path.read_bytes() for path in Path(uri, "_damaged").rglob("*.manifest")]
    assert sorted(kept) == sorted(damaged)


def test_deletions_after_a_restore(tmp_path: Path) -> None:
    """As many deleted rows are not the same rows after a restore."""
    uri = str(tmp_path / "table")
    table = pennon.write_dataset({"a": list(range(20))}, uri)
    table.delete("a in (1, 2, 3)")
    old = pennon.dataset(uri, 1)
    old.restore()
    pennon.dataset(uri).delete("a in (10, 11, 12)")
    good = fresh(uri)
    [path] = [path for path in Path(uri, "_deletions").iterdir() if path.name.startswith("0-3-")]
    cut(path)
    report = pennon.repair(uri, apply=True)
    assert report.ok, str(report)
    assert "the predicate of the delete that made version 4" in str(report)
    assert fresh(uri) == good


def test_rows_of_damaged_pages(tmp_path: Path) -> None:
    """Rows in other pages stay."""
    uri = str(tmp_path / "table")
    rows = pa.table({"a": range(200_000), "b": [f"{n:050}" for n in range(200_000)]})
    pennon.write_dataset(rows, uri, max_bytes_per_file=1 << 30)
    [path] = Path(uri, "data").iterdir()
    reader = pennon.file.LanceFileReader(str(path))
    pages = reader.metadata().columns[1].pages
    assert len(pages) > 1
    flip(path, pages[0].buffers[-1].position + 5_000)
    report = pennon.repair(uri, apply=True)
    assert kinds(report) == ["quarantine_fragment"]
    lost = pages[0].num_rows
    assert report.actions[0].row_ids == ((0, lost),)
    options = {"verify_reads": "pages"}
    left = pennon.dataset(uri, storage_options=options, session=pennon.Session())
    assert left.count_rows() == 200_000 - lost
    assert left.to_table(filter=f"a >= {lost}")["a"].to_pylist() == list(range(lost, 200_000))


def test_a_damaged_tag_is_a_finding(uri: str) -> None:
    pennon.dataset(uri).tags.create("first", 1)
    [path] = Path(uri, "_refs", "tags").iterdir()
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    [finding] = pennon.verify(uri).findings
    assert finding.kind == "damaged_reference"
    assert str(path) in finding.message
    with pytest.raises(pennon.CorruptError, match="were changed after they were written"):
        pennon.dataset(uri).cleanup_old_versions(timedelta(0))


def test_seals_go_with_a_branch(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"a": [1]}), uri)
    lance.dataset(uri).create_branch("dev")
    lance.write_dataset(pa.table({"a": [2]}), lance.dataset(uri).checkout_version(("dev", None)), mode="append")
    branch = str(Path(uri, "tree", "dev"))
    pennon.seal(branch)
    assert list(Path(branch, "_seals").rglob("*.seal"))
    pennon.dataset(uri).branches.delete("dev")
    assert not list(Path(branch).rglob("*.seal"))


def test_rows_of_an_older_version(uri: str) -> None:
    good = fresh(uri)
    pennon.dataset(uri).optimize.compact_files()
    [fragment] = [f for f in pennon.dataset(uri).get_fragments() if f.count_rows() > 500]
    [file] = fragment.metadata.files
    path = Path(uri, "data", file.path)
    cut(path)
    planned = pennon.repair(uri)
    assert set(kinds(planned)) == {"restore_rows"}
    report = pennon.repair(uri, apply=True)
    assert fresh(uri) == good
    # Only the version of the compaction has it still.
    assert {finding.path for finding in report.remaining} == {str(path)}
    assert lance.dataset(uri).to_table().num_rows == good.num_rows


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("stable", [True, False], ids=["stable", "addresses"])
def test_an_index_next_to_lost_rows(tmp_path: Path, stable: bool, damage: str) -> None:
    """The rows that are left are indexed."""
    uri = str(tmp_path / "table")
    rows = pa.table({"a": range(20)})
    table = pennon.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    table.create_scalar_index("a", "BTREE")
    path = Path(uri, "data", table.get_fragment(1).metadata.files[0].path)
    path.unlink() if damage == "missing" else cut(path)
    cut(next(Path(uri, "_indices").rglob("page_lookup.lance")))
    assert kinds(pennon.repair(uri, apply=True)) == ["quarantine_fragment", "rebuild_index"]
    table = pennon.dataset(uri, session=pennon.Session())
    assert table.to_table()["a"].to_pylist() == list(range(10))
    assert "BTree" in table.scanner(filter="a = 7").explain_plan()
    assert table.to_table(filter="a >= 7")["a"].to_pylist() == [7, 8, 9]
    assert lance.dataset(uri).to_table(filter="a >= 7")["a"].to_pylist() == [7, 8, 9]


@pytest.mark.parametrize("damage", ["data file", "index"])
def test_next_to_a_torn_manifest(tmp_path: Path, damage: str) -> None:
    """It is skipped: the version before it is the newest one."""
    uri = str(tmp_path / "table")
    table = pennon.write_dataset(pa.table({"a": range(20)}), uri, max_rows_per_file=10)
    table.create_scalar_index("a", "BTREE")
    table.insert({"a": [100]})
    if damage == "data file":
        Path(uri, "data", table.get_fragment(1).metadata.files[0].path).unlink()
    else:
        cut(next(Path(uri, "_indices").rglob("page_lookup.lance")))
    torn = manifest(uri, 3)
    torn.write_bytes(torn.read_bytes()[:100])
    report = pennon.repair(uri, apply=True)
    assert kinds(report)[-1] == ("quarantine_fragment" if damage == "data file" else "rebuild_index")
    table = pennon.dataset(uri, session=pennon.Session())
    left = list(range(10 if damage == "data file" else 20))
    assert table.to_table()["a"].to_pylist() == left
    assert table.to_table(filter="a < 5")["a"].to_pylist() == left[:5]


def test_rows_that_changed_since(tmp_path: Path) -> None:
    """An older version has other values of a row: it is lost, and named."""
    uri = str(tmp_path / "table")
    table = pennon.write_dataset({"a": list(range(100)), "b": [0] * 100}, uri)
    table.update({"b": "1"}, "a < 10")
    pennon.dataset(uri).optimize.compact_files()
    [fragment] = pennon.dataset(uri).get_fragments()
    # The files of the rows that changed, and of the compaction.
    files = {path.name for path in Path(uri, "data").iterdir()}
    first = {file.path for f in pennon.dataset(uri, 1).get_fragments() for file in f.metadata.files}
    for name in files - first:
        cut(Path(uri, "data", name))
    report = pennon.repair(uri, apply=True)
    assert kinds(report) == ["restore_rows", "quarantine_fragment"]
    lost, restored = report.actions[1].row_ids, report.actions[0].row_ids
    assert (restored, lost) == (((10, 100),), ((0, 10),))
    assert fresh(uri).to_pydict() == {"a": list(range(10, 100)), "b": [0] * 90, "_rowid": list(range(10, 100))}
    assert fragment.fragment_id not in [f.fragment_id for f in pennon.dataset(uri).get_fragments()]


def test_addresses_have_no_older_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    pennon.write_dataset({"a": list(range(300))}, uri, max_rows_per_file=100, enable_stable_row_ids=False)
    file = pennon.dataset(uri).get_fragments()[1].metadata.files[0]
    cut(Path(uri, "data", file.path))
    report = pennon.repair(uri, apply=True)
    assert kinds(report) == ["quarantine_fragment"]
    assert report.actions[0].row_ids == ((1 << 32, (1 << 32) + 100),)
    assert pennon.dataset(uri).to_table()["a"].to_pylist() == [*range(100), *range(200, 300)]
    assert lance.dataset(uri).count_rows() == 200


def test_a_damaged_seal(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"a": range(100)}), uri)
    pennon.seal(uri)
    [seal] = Path(uri, "_seals", "data").iterdir()
    good = seal.read_bytes()
    flip(seal)
    report = pennon.repair(uri, apply=True)
    assert report.ok, str(report)
    assert kinds(report) == ["rebuild_file"]
    assert seal.read_bytes() == good


def test_bad_input(uri: str, tmp_path: Path) -> None:
    with pytest.raises(pennon.NotFoundError):
        pennon.repair(tmp_path / "nothing")
    cut(manifest(uri, 2))
    with pytest.raises(pennon.NotFoundError, match="no table to take files from"):
        pennon.repair(uri, copy=tmp_path / "nothing")
