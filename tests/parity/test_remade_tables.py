"""Handles on a table, or a branch, that was dropped and made again: what they read does not change the new one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree
from support.object_stores import BUCKET
from support.spread import spread

CHANGES: dict[str, Callable[[Any], object]] = {
    "insert": lambda table: table.insert(rows(20, 21)),
    "overwrite": lambda table: pennon.write_dataset(rows(20, 21), table, mode="overwrite"),
    "delete": lambda table: table.delete("id = 1"),
    "delete all": lambda table: table.delete("true"),
    "update": lambda table: table.update({"v": "7"}, "id = 1"),
    "merge": lambda table: table.merge_insert("id").when_matched_update_all().execute(rows(1, 3)),
    "config": lambda table: table.update_config({"a": "b"}),
    "add a column": lambda table: table.add_columns(pa.field("w", pa.int32())),
    "index": lambda table: table.create_scalar_index("id", "BTREE"),
    "raw operation": lambda table: pennon.LanceDataset.commit(
        table, pennon.LanceOperation.Append([]), read_version=table.version
    ),
}


def rows(begin: int, end: int) -> pa.Table:
    return pa.table({"id": range(begin, end), "v": range(begin, end)})


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> tuple[str, dict[str, Any]]:
    if request.param == "local":
        return f"{tmp_path}/table", {}
    cloud = request.getfixturevalue("cloud")
    return f"s3://{BUCKET}/{uuid.uuid4().hex}", {"storage_options": cloud.storage_options}


@spread(of=1)
@pytest.mark.parametrize("new_versions", [1, 2, 3])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_refused(store: tuple[str, dict[str, Any]], name: str, new_versions: int) -> None:
    uri, options = store
    pennon.write_dataset(rows(0, 4), uri, max_rows_per_file=2, **options).delete("id = 3")
    table = pennon.dataset(uri, **options)
    table.to_table()
    pennon.LanceDataset.drop(uri, **options)
    new = pennon.write_dataset(rows(100, 104), uri, **options)
    for version in range(1, new_versions):
        new.insert(rows(200 + version, 201 + version))
    expected = new.to_table()
    with pytest.raises((pennon.CommitConflictError, pennon.NotFoundError), match=r"made again|not found") as caught:
        CHANGES[name](table)
    assert caught.type is pennon.NotFoundError or new_versions > 1
    found = pennon.dataset(uri, **options)
    assert found.version == new_versions
    assert found.to_table().equals(expected)
    assert pennon.verify(uri, data=True, **options).ok


@pytest.mark.parametrize("version", [1, 2], ids=["data", "deletions"])
def test_reads_say_so(store: tuple[str, dict[str, Any]], version: int) -> None:
    """The new table is whole: what is missing are files of the old one."""
    uri, options = store

    def make() -> None:
        pennon.write_dataset(rows(0, 4), uri, **options).delete("id = 3")

    make()
    table = pennon.dataset(uri, version, **options)
    pennon.LanceDataset.drop(uri, **options)
    make()
    for read in (table.to_table, table.to_batches, lambda: table.take([0])):
        with pytest.raises(pennon.NotFoundError, match=r"was dropped and made again: .* Open it again"):
            list(read())
    assert pennon.dataset(uri, version, **options).count_rows() == 5 - version


def test_a_compaction_is_that_of_the_new_table(store: tuple[str, dict[str, Any]]) -> None:
    """It plans for the newest version there is."""
    uri, options = store
    table = pennon.write_dataset(rows(0, 4), uri, max_rows_per_file=2, **options)
    pennon.LanceDataset.drop(uri, **options)
    expected = pennon.write_dataset(rows(100, 104), uri, max_rows_per_file=1, **options).to_table()
    table.optimize.compact_files()
    found = pennon.dataset(uri, **options)
    assert found.to_table().equals(expected)
    assert len(found.get_fragments()) == 1
    assert pennon.verify(uri, data=True, **options).ok


def test_the_newest_version_is_that_of_the_new_table(store: tuple[str, dict[str, Any]]) -> None:
    uri, options = store
    table = pennon.write_dataset(rows(0, 3), uri, **options)
    pennon.LanceDataset.drop(uri, **options)
    pennon.write_dataset(rows(100, 102), uri, **options)
    table.checkout_latest()
    assert table.to_table().equals(rows(100, 102))
    table.insert(rows(20, 21))
    found = pennon.dataset(uri, **options).to_table()
    assert found.equals(pa.concat_tables([rows(100, 102), rows(20, 21)]))


def test_branches(tmp_path: Any) -> None:
    table = pennon.write_dataset(rows(0, 3), tmp_path / "table")
    table.insert(rows(3, 4))
    branch = table.create_branch("b", 1)
    branch.insert(rows(10, 11))
    table.branches.delete("b")
    new = table.create_branch("b", 2)
    new.insert(rows(20, 21))
    with pytest.raises(pennon.CommitConflictError, match="made again"):
        branch.insert(rows(30, 31))
    assert new.checkout_version(("b", None)).count_rows() == 5


def test_copies_and_touched_files_are_the_same_table(tmp_path: Any) -> None:
    """What a restored backup changes are the times of files."""
    uri = tmp_path / "table"
    pennon.write_dataset(rows(0, 3), uri)
    table = pennon.dataset(uri)
    table.to_table()
    for file in uri.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(content)
    table.insert(rows(3, 4))
    table.checkout_latest()
    table.delete("id = 0")
    assert assert_both_agree(uri)["id"].to_pylist() == [1, 2, 3]
    table.cleanup_old_versions(timedelta(0))
    table.insert(rows(4, 5))
    assert table.count_rows() == 4
