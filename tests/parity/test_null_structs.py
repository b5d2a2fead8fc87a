"""Lists in structs of which some are null, written here and read by the reference."""

from __future__ import annotations

from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

LIST = pa.struct({"l": pa.list_(pa.int64())})


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    "values",
    [
        [{"l": [1, 2]}, None],
        [{"l": [None]}, {"l": [1]}],
        [{"l": [None]}, {"l": []}, None],
        [{"l": [None]}, {"l": None}, None],
        [{"l": [None]}, None],
        [{"l": [3]}, None, {"l": [1, None]}],
    ],
    ids=str,
)
def test_null_structs(tmp_path: Any, values: list[Any], version: str) -> None:
    written = pa.table({"s": pa.array(values, LIST)})
    pennon.write_dataset(written, str(tmp_path), data_storage_version=version)
    assert pennon.dataset(str(tmp_path)).to_table().to_pylist() == written.to_pylist()
    assert lance.dataset(str(tmp_path)).to_table().to_pylist() == written.to_pylist()
