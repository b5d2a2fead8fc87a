"""What the tests of the public API share. The reference is not needed here."""

from __future__ import annotations

from pathlib import Path

import pennon
import pyarrow as pa
import pytest


def numbers(count: int, start: int = 0) -> pa.Table:
    """Rows with an id and a text."""
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([f"row {i}" for i in ids], pa.utf8())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table.lance")


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Ten rows in fragments of four."""
    return pennon.write_dataset(numbers(10), uri, max_rows_per_file=4)
