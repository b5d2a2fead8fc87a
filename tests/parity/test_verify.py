"""Sound tables of both implementations, at every step of their lives: `verify` finds nothing wrong."""

from __future__ import annotations

from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest


def rows(count: int, start: int = 0) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {i}" for i in ids]})


def sound(uri: str | Path) -> None:
    report = pennon.verify(uri)
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
