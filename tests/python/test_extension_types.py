"""Columns of extension types: filters on them and next to them, from pyarrow, Polars, DuckDB and DataFusion."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import ml_dtypes
import numpy as np
import pennon
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon.arrow import BFloat16Array

ROWS = 20_000
IDS = [uuid.UUID(int=i) for i in range(ROWS)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pennon.LanceDataset:
    vectors = pa.array([[i, 2.0] for i in range(ROWS)], pa.list_(pa.float32(), 2))
    flags = pa.array([None if i % 3 == 0 else i % 2 for i in range(ROWS)], pa.int8())
    halves = np.arange(ROWS, dtype=np.float32).astype(ml_dtypes.bfloat16)
    data = pa.table(
        {
            "i": range(ROWS),
            "id": pa.array([one.bytes for one in IDS], pa.uuid()),
            "vector": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2]), vectors),
            "flag": pa.ExtensionArray.from_storage(pa.bool8(), flags),
            "half": BFloat16Array.from_numpy(halves),
        }
    )
    return pennon.write_dataset(data, tmp_path_factory.mktemp("extensions") / "t")


def test_types_are_kept(table: pennon.LanceDataset) -> None:
    names = [getattr(field.type, "extension_name", None) for field in table.to_table(limit=1).schema]
    assert names == [None, "arrow.uuid", "arrow.fixed_shape_tensor", "arrow.bool8", "lance.bfloat16"]


def numbers(found: pa.Table) -> list[int]:
    return found["i"].to_pylist()


def test_filters_on_storage(table: pennon.LanceDataset) -> None:
    field = pc.field
    for literal in (pa.scalar(IDS[5].bytes, pa.uuid()), pa.scalar(IDS[5].bytes, pa.binary(16))):
        before = table.counters().rows_decoded
        assert numbers(table.to_table(["i"], filter=field("id") == literal)) == [5]
        assert 0 < table.counters().rows_decoded - before <= 2 * 8192, "statistics are used"
    assert table.count_rows(field("flag").is_null()) == len(range(0, ROWS, 3))
    assert table.count_rows(field("half").is_valid()) == ROWS
    assert table.count_rows(field("vector").is_null()) == 0
    # What order the stored values have says nothing about others.
    for wrong in (field("id") == 5, field("vector") == [1.0, 2.0], field("flag") == 1, field("half") > b"\x00\x01"):
        with pytest.raises(pennon.InvalidInputError, match="does not fit the columns"):
            table.scanner(filter=wrong)


@pytest.mark.parametrize("columns", [["i"], ["i", "id", "vector", "flag", "half"]])
def test_polars(table: pennon.LanceDataset, columns: list[str]) -> None:
    lazy = polars.scan_pyarrow_dataset(table)
    found: Any = lazy.filter(polars.col("i") > ROWS - 3).select(columns).collect()
    assert found["i"].to_list() == [ROWS - 2, ROWS - 1]
    assert lazy.filter(polars.col("id") == IDS[7].bytes).select("i").collect()["i"].to_list() == [7]


def test_duckdb(table: pennon.LanceDataset) -> None:
    connection = duckdb.connect()
    connection.register("t", table)
    (row,) = connection.sql(f"select * from t where i = {ROWS - 1}").fetchall()
    assert row[:4] == (ROWS - 1, IDS[-1], (ROWS - 1, 2.0), True)
    assert connection.sql(f"select i from t where id = '{IDS[9]}'").fetchall() == [(9,)]
    expected = sum(i % 3 != 0 and i % 2 == 1 for i in range(ROWS))
    assert connection.sql("select count(*) from t where flag").fetchall() == [(expected,)]


def test_sql(table: pennon.LanceDataset, tmp_path: Path) -> None:
    query = f"SELECT i FROM dataset WHERE id = X'{IDS[11].hex}' AND i < 100"
    (batch,) = table.sql(query).build().to_batch_records()
    assert batch.to_pylist() == [{"i": 11}]
    everything = table.sql("SELECT * FROM dataset WHERE i = 3").build().to_stream_reader().read_all()
    assert everything["id"].to_pylist() == [IDS[3]]
