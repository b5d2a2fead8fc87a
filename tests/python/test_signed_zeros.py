"""Zero and minus zero are equal in all comparisons of a filter together."""

from __future__ import annotations

import pennon
import pyarrow as pa
import pytest

VALUES = [0.0, -0.0, 1.0, None]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("index", [None, "BTREE", "BITMAP"])
@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("g = 0.0 AND g <> -0.0", []),
        ("g = -0.0 AND g <> 0", []),
        ("NOT (g = 0.0 AND g <> -0.0)", [0, 1, 2]),
        ("g = -0.0 OR g = 0.0", [0, 1]),
        ("g IN (0.0, 1.0) AND g NOT IN (-0.0)", [2]),
        ("g <> 0.0 AND g <> -0.0", [2]),
        ("g BETWEEN -0.0 AND 0.0 AND g <> -0.0", []),
        ("g < 0.0 OR g > -0.0", [2]),
    ],
)
def test_filters(uri: str, kind: str, index: str | None, filter: str, expected: list[int]) -> None:
    values = pa.array(VALUES, pa.float64()).cast(kind)
    table = pennon.write_dataset(pa.table({"id": range(len(VALUES)), "g": values}), uri)
    if index is not None:
        table.create_scalar_index("g", index)
    assert table.to_table(columns=["id"], filter=filter)["id"].to_pylist() == expected
    assert table.count_rows(filter) == len(expected)
