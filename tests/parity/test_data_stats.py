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


def test_base_paths_are_refused(tmp_path: Path) -> None:
    base = pennon.DatasetBasePath(str(tmp_path / "base"), "base")
    table = pennon.write_dataset(rows(), tmp_path / "t", initial_bases=[base], target_bases=["base"])
    with pytest.raises(pennon.UnsupportedError, match="under a base path"):
        table.stats.data_stats()
