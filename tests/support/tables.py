"""Rows for tables."""

from __future__ import annotations

import pyarrow as pa


def numbers(count: int, start: int = 0) -> pa.Table:
    """Rows with an id and a text."""
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([f"row {i}" for i in ids], pa.utf8())})
