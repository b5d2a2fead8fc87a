"""Rows by their id: in order, more than once, and ids that no row has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest


@pytest.fixture(params=[True, False], ids=["stable", "addresses"])
def table(request: Any, tmp_path: Path) -> pennon.LanceDataset:
    """Ids 0 to 29 in three fragments, of which 3, 4 and the whole second fragment are deleted."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("s", pa.string())])
    rows = pa.table({"a": range(30), "s": [f"row {row}" for row in range(30)]}, schema=schema)
    uri = str(tmp_path / "table")
    table = pennon.write_dataset(rows, uri, max_rows_per_file=10, enable_stable_row_ids=request.param)
    table.delete("a in (3, 4) or a between 10 and 19")
    return table


def id_of(table: pennon.LanceDataset, row: int) -> int:
    return row if table.has_stable_row_ids else (row // 10 << 32) + row % 10


ASKED = [25, 3, 0, 25, 12, 9]


@pytest.mark.parametrize("form", [list, tuple, pa.array, lambda ids: pa.chunked_array([ids[:2], [], ids[2:]])])
def test_missing_ids(table: pennon.LanceDataset, form: Any) -> None:
    ids = [id_of(table, row) for row in ASKED]
    if form is not pa.array or table.has_stable_row_ids:
        ids = form(ids)
    else:
        ids = pa.array([7, *ids, 7], pa.int64())[1:-1]
    if not table.has_stable_row_ids:
        with pytest.raises(pennon.InvalidInputError, match="belongs to non-existent fragment: 1"):
            table.take_rows(ids)
        check_others(table, ids)
        return
    whole = table.take_rows(ids)
    assert whole["a"].to_pylist() == [25, 0, 25, 9]
    assert whole.schema == table.schema
    assert table.take_rows(ids, columns=["s"])["s"].to_pylist() == ["row 25", "row 0", "row 25", "row 9"]
    assert whole == table._take_rows(ids)
    check_others(table, ids)


def check_others(table: pennon.LanceDataset, ids: Any) -> None:
    nulls = table.take_rows(ids, missing="null")
    assert nulls["a"].to_pylist() == [25, None, 0, 25, None, 9]
    assert nulls["s"].to_pylist() == ["row 25", None, "row 0", "row 25", None, "row 9"]
    assert all(field.nullable for field in nulls.schema)
    double = table.take_rows(ids, columns={"double": "a * 2", "id": "_rowid"}, missing="null")
    assert double["double"].to_pylist() == [50, None, 0, 50, None, 18]
    assert double["id"].to_pylist() == [id_of(table, row) if row in (25, 0, 9) else None for row in ASKED]

    missing = f"2 of 6 row ids are not in version 2; the first is {id_of(table, 3)}"
    with pytest.raises(pennon.NotFoundError, match=missing):
        table.take_rows(ids, missing="error")
    found = [id_of(table, row) for row in (25, 0, 25)]
    assert table.take_rows(found, missing="error") == table.take_rows(found)


def test_nothing_and_nobody(table: pennon.LanceDataset) -> None:
    for missing in ("skip", "error", "null"):
        assert table.take_rows([], missing=missing).num_rows == 0  # type: ignore[arg-type]
    gone = [id_of(table, 3), id_of(table, 4)]
    assert table.take_rows(gone, columns=["s"], missing="null")["s"].to_pylist() == [None, None]
    assert table.take_rows(gone).num_rows == 0


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([-1], "found -1"),
        ([1 << 64], "found 18446744073709551616"),
        (pa.array([-5]), "negative"),
        (pa.array([1, None]), "int64, 1 nulls"),
        (pa.array(["a"]), "string, 0 nulls"),
    ],
)
def test_wrong_ids(table: pennon.LanceDataset, ids: Any, message: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=message):
        table.take_rows(ids)


def test_wrong_options(table: pennon.LanceDataset) -> None:
    with pytest.raises(pennon.InvalidInputError, match='missing is "raise"; expected "skip", "error" or "null"'):
        table.take_rows([0], missing="raise")  # type: ignore[arg-type]
    with pytest.raises(pennon.InvalidInputError, match="zz"):
        table.take_rows([0], columns=["zz"])


def test_blobs_of_rows_that_are_gone(tmp_path: Path) -> None:
    data = pa.table({"b": pennon.blob_array([b"0", b"1", b"2", b"3"])})
    table = pennon.write_dataset(data, str(tmp_path / "blobs"))
    table.delete("_rowid in (1, 2)")
    for ids in ([0, 2, 1], pa.array([3, 2], pa.uint64())):
        with pytest.raises(pennon.NotFoundError, match=r"row ids are not in version 2; the first is 2"):
            table.take_blobs("b", ids=ids)
        with pytest.raises(pennon.UnsupportedError, match="the first at address 2"):
            table.read_blobs("b", addresses=ids)


def test_more_text_than_an_array_can_hold(tmp_path: Path) -> None:
    table = pennon.write_dataset({"s": ["x" * (1 << 20)]}, tmp_path / "t")
    with pytest.raises(pennon.InvalidInputError, match="32-bit offsets; read smaller ranges of rows"):
        table.take([0] * 2048)
