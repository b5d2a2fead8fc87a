"""Members of structs of which some are null, written here and read by the reference."""

from __future__ import annotations

from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.spread import spread

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


ROWS = range(20)
LEAF = pa.struct([("x", pa.int32())])
MEMBERS: dict[str, tuple[Any, pa.DataType]] = {
    "number": (lambda i: i, pa.int32()),
    "text": (lambda i: f"text {i}", pa.string()),
    "truth": (lambda i: i % 2 == 0, pa.bool_()),
    "vector": (lambda i: [i, i], pa.list_(pa.float32(), 2)),
    "struct": (lambda i: {"x": i}, LEAF),
    "struct with nulls": (lambda i: {"x": i} if i % 3 else None, LEAF),
    "struct of a struct": (lambda i: {"b": {"x": i}}, pa.struct([("b", LEAF)])),
    "list": (lambda i: [i, i + 1], pa.list_(pa.int32())),
    "empty lists": (lambda i: [i] * (i % 3), pa.list_(pa.int32())),
    "list of nulls": (lambda i: [i, None], pa.list_(pa.int32())),
    "list of structs": (lambda i: [{"x": i}, None, {"x": None}], pa.list_(LEAF)),
    "list of lists": (lambda i: [[i], []], pa.list_(pa.list_(pa.int32()))),
}


@spread()
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("kind", MEMBERS)
def test_members_of_null_structs_are_null(tmp_path: Any, kind: str, every: int, version: str) -> None:
    """Also where the member has no null of its own."""
    value, data_type = MEMBERS[kind]
    values = [None if i % every == 0 else {"m": value(i), "other": i} for i in ROWS]
    struct = pa.struct([("m", data_type), ("other", pa.int64())])
    written = pa.table({"id": ROWS, "s": pa.array(values, struct)})
    # Several fragments, of which the last has no null struct.
    valid = pa.table({"id": [99], "s": pa.array([{"m": value(1), "other": 1}], struct)})
    table = pennon.write_dataset(written, str(tmp_path), data_storage_version=version, max_rows_per_file=15)
    table.insert(valid)
    expected = [row["s"] and row["s"]["m"] for row in [*written.to_pylist(), *valid.to_pylist()]]
    paths = ["s.m", "s.other"] + ["s.m.x"] * (data_type == LEAF) + ["s.m.b.x"] * (kind == "struct of a struct")
    for library in (pennon, lance):
        found = library.dataset(str(tmp_path))
        assert found.to_table().to_pylist() == [*written.to_pylist(), *valid.to_pylist()]
        assert found.to_table(columns=["s.m"]).column(0).to_pylist() == expected
        for path in paths:
            nulls = sum(value is None for value in expected) if path == "s.m" else None
            count = found.count_rows(f"{path} IS NULL")
            assert count == pennon.dataset(str(tmp_path)).count_rows(f"{path} IS NULL")
            assert nulls is None or count == nulls
            assert count + found.count_rows(f"{path} IS NOT NULL") == len(expected)
