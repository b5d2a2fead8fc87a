"""The change feed of a table with a column of maps."""

from __future__ import annotations

import pennon
import pyarrow as pa

MAP = pa.map_(pa.string(), pa.int64())


def test_inserted_maps() -> None:
    rows = pa.table({"m": pa.array([[("a", 1)], None, []], MAP)})
    table = pennon.write_dataset(rows, "memory://map-feeds", mode="overwrite", data_storage_version="2.2")
    table.insert(rows)
    assert table.changes(1, 2).read_all()["m"].to_pylist() == rows["m"].to_pylist()
