"""Cleanup next to the reference: the same versions and files go, and each opens what the other cleaned."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree
from support.files import all_files

NOW = timedelta(0)
FIELDS = (
    "bytes_removed",
    "old_versions",
    "data_files_removed",
    "transaction_files_removed",
    "index_files_removed",
    "deletion_files_removed",
    "failed_deletes",
)


def history(uri: str, writer: Any) -> None:
    rows = pa.table({"id": pa.array(range(20)), "text": [f"row {i}" for i in range(20)]})
    writer.write_dataset(rows, uri, max_rows_per_file=8, enable_stable_row_ids=True)
    writer.dataset(uri).delete("id % 3 = 0")
    writer.write_dataset(rows.slice(0, 5), uri, mode="append")
    writer.dataset(uri).delete("id = 1")
    writer.write_dataset(rows.slice(5, 5), uri, mode="overwrite")
    writer.write_dataset(rows.slice(10, 5), uri, mode="append")


CONDITIONS: list[dict[str, Any]] = [
    {"older_than": NOW},
    {"retain_versions": 3},
    {"older_than": timedelta(days=1), "retain_versions": 1},
    {"older_than": NOW, "retain_versions": 2},
    {"versions": [2, 4, 6, 99]},
    {"retain_versions": 3, "versions": [1, 5]},
    {"older_than": NOW, "delete_unverified": True},
    {},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
@pytest.mark.parametrize("writer", [lance, pennon], ids=["theirs", "ours"])
def test_the_same_goes(tmp_path: Path, writer: Any, conditions: dict[str, Any]) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    history(str(left), writer)
    orphan = "data/10001101100111100011110100000000000000000000000000.lance"
    (left / orphan).write_bytes(b"left over")
    lance.dataset(str(left)).tags.create("gold", 6)
    lance.dataset(str(left)).create_branch("dev", 3)
    shutil.copytree(left, right)
    # The reference takes away the transaction of the version that a branch was made from; we keep it.
    [transaction] = (left / "_transactions").glob("2-*.txn")
    theirs = lance.dataset(str(left)).cleanup_old_versions(**conditions)
    ours = pennon.dataset(str(right)).cleanup_old_versions(**conditions)
    kept = {str(transaction.relative_to(left))} - all_files(left)
    size = (right / kept.copy().pop()).stat().st_size if kept else 0
    expected = {name: getattr(theirs, name) for name in FIELDS}
    expected["transaction_files_removed"] -= len(kept)
    expected["bytes_removed"] -= size
    assert {name: getattr(ours, name) for name in FIELDS} == expected
    assert all_files(right) - kept == all_files(left)
    for version in lance.dataset(str(right)).versions():
        assert_both_agree(right, version["version"])
    lance.write_dataset(pa.table({"id": [1], "text": ["x"]}), str(right), mode="append")
    pennon.dataset(str(right)).insert(pa.table({"id": [2], "text": ["y"]}))
    assert_both_agree(right)


def test_explained_the_same(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    history(uri, lance)
    theirs = lance.dataset(uri).explain_cleanup_old_versions(NOW, include_files=True)
    ours = pennon.dataset(uri).explain_cleanup_old_versions(NOW, include_files=True)
    root = uri.strip("/") + "/"
    assert sorted((f.path, f.kind, f.size_bytes, f.unverified) for f in ours.candidate_files) == sorted(
        (f.path.removeprefix(root), f.kind, f.size_bytes, f.unverified) for f in theirs.candidate_files
    )
    assert ours.read_version == theirs.read_version
    assert {name: getattr(ours.stats, name) for name in FIELDS} == {
        name: getattr(theirs.stats, name) for name in FIELDS
    }


def test_indices(tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    history(str(left), lance)
    table = lance.dataset(str(left))
    table.create_scalar_index("id", "BTREE")
    table.create_scalar_index("id", "BTREE", replace=True)
    shutil.copytree(left, right)
    theirs, ours = table.cleanup_old_versions(NOW), pennon.dataset(str(right)).cleanup_old_versions(NOW)
    assert ours.index_files_removed == theirs.index_files_removed == 2
    assert all_files(right) == all_files(left)
    assert lance.dataset(str(right)).to_table(filter="id = 7").num_rows == 1


def test_after_commits(tmp_path: Path) -> None:
    """A table that one implementation set up to clean itself is cleaned by the other."""
    for writer, other in ((lance, pennon), (pennon, lance)):
        uri = str(tmp_path / writer.__name__)
        options = {"interval": 2, "older_than_seconds": 0}
        writer.write_dataset(pa.table({"a": [1]}), uri, auto_cleanup_options=options)
        for _ in range(3):
            other.write_dataset(pa.table({"a": [1]}), uri, mode="append")
        assert [v["version"] for v in lance.dataset(uri).versions()] == [3, 4]
        assert_both_agree(uri)
