"""Sound tables of both implementations, at every step of their lives: `verify` finds nothing wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.files import manifest
from support.forge import varint


def rows(count: int, start: int = 0) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {i}" for i in ids]})


def sound(uri: str | Path) -> None:
    for data in (False, True):
        report = pennon.verify(uri, data=data)
        assert report.ok, str(report)
    assert [left for left in report.leftovers if left.reason != "unverified"] == []
    pennon.dataset(str(uri)).validate()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [True, False], ids=["stable", "addresses"])
def test_a_life_with_the_reference(tmp_path: Path, stable: bool, version: str) -> None:
    uri = tmp_path / "table"
    table = lance.write_dataset(
        rows(100), uri, max_rows_per_file=40, enable_stable_row_ids=stable, data_storage_version=version
    )
    sound(uri)
    table.create_scalar_index("id", "BTREE")
    table.create_scalar_index("text", "BITMAP")
    sound(uri)
    table.delete("id % 7 = 0")
    table.update({"text": "'new'"}, "id % 5 = 1")
    sound(uri)
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(50, 80))
    sound(uri)
    table.optimize.compact_files()
    table.optimize.optimize_indices()
    sound(uri)
    table.tags.create("here", table.version)
    table.update_config({"a": "b"})
    table.add_columns({"double": "id * 2"})
    table.drop_columns(["text"])
    sound(uri)
    branch = table.create_branch("dev")
    branch.delete("id = 1")
    lance.write_dataset(rows(3, 500).drop(["text"]), branch.uri, mode="append")
    sound(uri)
    sound(uri / "tree" / "dev")
    clone = tmp_path / "clone"
    table.shallow_clone(str(clone), "here").delete("id < 20")
    sound(clone)
    table.restore()
    table.cleanup_old_versions(older_than=None, retain_versions=2, error_if_tagged_old_versions=False)
    sound(uri)
    sound(clone)


def test_a_life_with_pennon(tmp_path: Path) -> None:
    uri = tmp_path / "table"
    table = pennon.write_dataset(rows(100), uri, max_rows_per_file=40)
    table.delete("id % 7 = 0")
    sound(uri)
    lance.dataset(str(uri)).create_scalar_index("id", "BTREE")
    table = pennon.dataset(uri)
    table.insert(rows(10, 200))
    table.update_config({"a": "b"})
    table.tags.create("here", table.version)
    sound(uri)
    branch = table.create_branch("dev")
    branch.delete("id = 1")
    branch.insert(rows(3, 500))
    sound(uri)
    sound(branch.uri)
    for kind in ("shallow", "deep"):
        clone = tmp_path / kind
        getattr(table, f"{kind}_clone")(clone, "here").delete("id < 20")
        sound(clone)
    detached = pennon.LanceDataset.commit(
        uri, pennon.LanceOperation.Append([]), read_version=table.version, detached=True
    )
    assert detached.verify().ok
    table.truncate_table()
    table.restore()
    sound(uri)
    sound(tmp_path / "shallow")


def with_other_value(path: Path, before: bytes, after: bytes) -> None:
    """Another value of as many bytes at the last position of a file that has the first."""
    content = bytearray(path.read_bytes())
    at = content.rindex(before)
    content[at : at + len(before)] = after
    path.write_bytes(content)


def data_file(root: Path, version: int, fragment: int) -> Path:
    fragments = pennon.dataset(root, version=version).get_fragments()
    return root / "data" / fragments[fragment].metadata.files[0].path


@pytest.fixture
def old_versions(tmp_path: Path) -> Path:
    """Of the reference, without checksums; each version but the last has files that later ones do not have."""
    root = tmp_path / "table"
    table = lance.write_dataset(rows(1000), root, enable_stable_row_ids=True)
    table.delete("id = 777")
    table.delete("id = 778")
    table.insert(rows(100, 2000))
    table.optimize.compact_files()
    assert pennon.verify(root, data=True).ok
    return root


def test_deletions_that_an_older_version_does_not_fit(old_versions: Path) -> None:
    (deletions,) = (old_versions / "_deletions").glob("0-1-*")
    with_other_value(deletions, (777).to_bytes(4, "little"), (7777).to_bytes(4, "little"))
    with pytest.raises(pennon.CorruptError):
        pennon.dataset(old_versions, version=2).to_table()
    assert pennon.verify(old_versions).ok
    (found,) = pennon.verify(old_versions, data=True).findings
    assert (found.kind, found.version, found.fragment) == ("wrong_deletions", 2, 0)
    assert found.path == str(deletions)


def test_an_older_manifest_that_states_another_size(old_versions: Path) -> None:
    data = data_file(old_versions, version=1, fragment=0)
    size = data.stat().st_size
    stated, wrong = varint(size), varint(size ^ 1)
    with_other_value(manifest(old_versions, 2), stated, wrong)
    (found,) = pennon.verify(old_versions).findings
    assert (found.kind, found.version, found.path) == ("wrong_size", 2, str(data))


def test_pages_of_files_that_only_older_versions_have(old_versions: Path) -> None:
    data = data_file(old_versions, version=4, fragment=1)
    content = bytearray(data.read_bytes())
    content[: len(content) // 3] = bytes(len(content) // 3)
    data.write_bytes(content)
    assert pennon.verify(old_versions).ok
    findings = pennon.verify(old_versions, data=True).findings
    assert {(found.kind, found.version, found.path) for found in findings} == {("damaged_file", 5, str(data))}


@pytest.mark.parametrize("library", [lance, pennon], ids=["pylance-tags", "pennon-tags"])
def test_a_tag_of_a_detached_version(tmp_path: Path, library: Any) -> None:
    uri = str(tmp_path / "table")
    library.write_dataset(rows(8), uri, max_rows_per_file=4, enable_stable_row_ids=True)
    delete = library.LanceOperation.Delete([], [0], "x")
    apart = library.LanceDataset.commit(uri, delete, read_version=1, detached=True)
    library.dataset(uri).tags.create("apart", apart.version)
    assert pennon.dataset(uri, version="apart").count_rows() == 4
    sound(uri)
    assert pennon.repair(uri, apply=True).ok
    (tmp_path / "table" / "_versions" / f"d{apart.version}.manifest").unlink()
    for data in (False, True):
        (found,) = pennon.verify(uri, data=data).findings
        assert found.message == f'tag "apart" names version {apart.version}, which is not there'
