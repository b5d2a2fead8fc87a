"""The order of columns where system columns are asked for by name and by option."""

from __future__ import annotations

from itertools import product
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

COLUMNS: list[Any] = [
    None,
    ["_rowid", "id"],
    ["id", "_rowaddr", "v"],
    ["_rowaddr", "_rowid"],
    ["v", "_rowid", "id", "_rowaddr"],
    ["_rowoffset", "_rowid", "id"],
    {"_rowid": "_rowid", "id": "id"},
    {"x": "id", "r": "_rowid"},
]


@pytest.fixture
def uri_of_both(uri: str) -> str:
    vectors = pa.array([[0.0, 1.0], [1.0, 0.0]], pa.list_(pa.float32(), 2))
    lance.write_dataset(pa.table({"id": [1, 2], "v": [3, 4], "vec": vectors}), uri, enable_stable_row_ids=True)
    return uri


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
@pytest.mark.parametrize(("row_id", "row_address"), list(product([False, True], repeat=2)))
def test_the_order_of_columns(uri_of_both: str, columns: Any, *, row_id: bool, row_address: bool) -> None:
    options = {"columns": columns, "with_row_id": row_id, "with_row_address": row_address}

    def names(table: Any) -> list[list[str]]:
        near = {**options, "nearest": {"column": "vec", "q": [0.0, 1.0], "k": 1}}
        return [
            table.to_table(**options).column_names,
            table.scanner(**options).projected_schema.names,
            table.to_table(filter="v > 3", **options).column_names,
            table.to_table(order_by=["v"], **options).column_names,
            next(iter(table.to_batches(**options))).schema.names,
            table.get_fragments()[0].to_table(**options).column_names,
            table.to_table(**near).column_names,
            table.take([0], columns=columns).column_names,
            table.sql(f"select {'_rowid, ' if row_id else ''}id from dataset")
            .with_row_id(row_id)
            .with_row_addr(row_address)
            .build()
            .to_batch_records()[0]
            .schema.names,
        ]

    assert names(pennon.dataset(uri_of_both)) == names(lance.dataset(uri_of_both))
