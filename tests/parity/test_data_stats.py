"""`stats.data_stats`: the bytes of each field, as the reference counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

ROWS = 1000


def rows() -> pa.Table:
    return pa.table(
        {
            "a": range(ROWS),
            "text": [f"row {i}" for i in range(ROWS)],
            "list": [[i] * (i % 3) for i in range(ROWS)],
            "struct": [{"x": i, "y": {"z": "q" * (i % 7)}} for i in range(ROWS)],
            "dictionary": pa.array([f"k{i % 5}" for i in range(ROWS)]).dictionary_encode(),
            "vector": pa.array([[1.0 * i] * 4 for i in range(ROWS)], pa.list_(pa.float32(), 4)),
        }
    )


def found(table: Any) -> list[tuple[int, int]]:
    statistics = table.stats.data_stats()
    assert type(statistics).__name__ == "DataStatistics"
    return [(field.id, field.bytes_on_disk) for field in statistics.fields]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", [pennon, lance])
def test_bytes_of_fields(writer: Any, version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = writer.write_dataset(rows(), uri, data_storage_version=version, max_rows_per_file=400)

    def check() -> list[tuple[int, int]]:
        ours, theirs = found(pennon.dataset(uri)), found(lance.dataset(uri))
        assert ours == theirs
        return ours

    sizes = dict(check())
    assert sizes[0] >= ROWS
    table.drop_columns(["text"])
    table.add_columns({"twice": "a * 2"})
    table.delete("a < 10")
    changed = dict(check())
    assert 1 not in changed
    assert changed[max(changed)] > 0


def test_tables_without_data(tmp_path: Path) -> None:
    table = pennon.write_dataset(rows().slice(0, 0), tmp_path / "t")
    assert {size for _, size in found(table)} == {0}
    assert found(table) == found(lance.dataset(tmp_path / "t"))


@pytest.mark.parametrize("is_dataset_root", [False, True])
def test_files_under_base_paths(tmp_path: Path, is_dataset_root: bool) -> None:
    base = pennon.DatasetBasePath(str(tmp_path / "base"), "base", is_dataset_root)
    uri = str(tmp_path / "t")
    table = pennon.write_dataset(rows(), uri, initial_bases=[base], target_bases=["base"])
    table.insert(rows())
    assert found(table) == found(lance.dataset(uri))


def test_branches_and_clones(tmp_path: Path) -> None:
    uri, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    table = pennon.write_dataset(rows(), uri)
    branch = table.create_branch("b")
    branch.insert(rows().slice(0, 10))
    assert found(branch) == found(lance.dataset(uri).checkout_version(("b", None)))
    assert found(table.shallow_clone(clone, 1)) == found(lance.dataset(clone)) == found(table)
