"""Rows for tables, and what tests do with many tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def numbers(count: int, start: int = 0) -> pa.Table:
    """Rows with an id and a text."""
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array([f"row {i}" for i in ids], pa.utf8())})


def ids(table: Any) -> list[int]:
    return table.to_table(columns=["id"])["id"].to_pylist()


def upsert(table: Any) -> Any:
    """A merge by the id that updates and inserts whole rows."""
    return table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
