"""Parts of lists and maps that get another type."""

from __future__ import annotations

from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

ITEM = pa.struct([("a", pa.int32()), ("b", pa.string())])
ROWS: list[dict[str, Any]] = [
    {"id": 1, "l": [1, 2], "ls": [{"a": 1, "b": "x"}], "s": {"b": [1]}, "m": [("k", 1)], "ll": [[1], None]},
    {"id": 2, "l": None, "ls": [], "s": None, "m": None, "ll": []},
    {"id": 3, "l": [None], "ls": [None, {"a": None, "b": "y"}], "s": {"b": None}, "m": [], "ll": None},
]
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "l": pa.list_(pa.int32()),
        "ls": pa.list_(ITEM),
        "s": pa.struct([("b", pa.list_(pa.int32()))]),
        "m": pa.map_(pa.string(), pa.int32()),
        "ll": pa.list_(pa.list_(pa.int32())),
    }
)
LONG_ITEM = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())]))
PARTS: dict[str, tuple[str, pa.DataType]] = {
    "l.item": ("l", pa.list_(pa.int64())),
    "ls.item.a": ("ls", LONG_ITEM),
    "s.b.item": ("s", pa.struct([("b", pa.list_(pa.int64()))])),
    "m.entries.value": ("m", pa.map_(pa.string(), pa.int64())),
    "ll.item.item": ("ll", pa.list_(pa.list_(pa.int64()))),
}


@pytest.mark.parametrize("file_version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("path", PARTS)
def test_a_part_gets_another_type(uri: str, path: str, file_version: Any) -> None:
    rows = pa.Table.from_pylist(ROWS, SCHEMA)
    if file_version == "2.0":  # which does not tell null structs from those of nulls
        rows = rows.slice(0, 1)
    if file_version != "2.2":  # where maps are
        rows = rows.drop(["m"])
    column, kind = PARTS[path]
    if column not in rows.column_names:
        pytest.skip("There are no maps in files of this version")
    table = pennon.write_dataset(rows, uri, data_storage_version=file_version)
    table.alter_columns({"path": path, "data_type": pa.int64()})
    at = rows.schema.get_field_index(column)
    expected = rows.to_pylist()
    for found in (table.to_table(), pennon.dataset(uri).to_table(), lance.dataset(uri).to_table()):
        assert found.schema.field(at).type == kind
        assert found.to_pylist() == expected
    assert table.verify(data=True).ok
    appended = rows.set_column(at, pa.field(column, kind), pa.array(rows[column].to_pylist(), kind))
    table.insert(appended)
    assert table.to_table().to_pylist() == expected * 2


def test_a_part_is_renamed_and_cast(uri: str) -> None:
    table = pennon.write_dataset(pa.Table.from_pylist(ROWS, SCHEMA), uri)
    table.alter_columns(
        {"path": "ls.item.a", "data_type": pa.int64(), "name": "z"},
        {"path": "ls.item.b", "data_type": pa.large_string()},
        {"path": "l.item", "data_type": pa.int64()},
        {"path": "l.item", "data_type": pa.int32()},
    )
    assert table.schema.field("l").type == pa.list_(pa.int32())
    assert table.schema.field("ls").type == pa.list_(pa.struct([("z", pa.int64()), ("b", pa.large_string())]))
    assert table.to_table()["ls"].to_pylist()[2] == [None, {"z": None, "b": "y"}]


def test_what_a_part_cannot_be(uri: str) -> None:
    table = pennon.write_dataset(pa.Table.from_pylist(ROWS, SCHEMA), uri)
    for path, kind, message in (
        ("l.item", pa.string(), 'Cannot cast column "l.item" from Int32 to Utf8'),
        ("ls.item.b", pa.json_(), 'Cannot cast column "ls.item.b": it is a part of a list or map'),
        ("l.nope", pa.int64(), 'Column "l.nope" does not exist'),
    ):
        with pytest.raises(pennon.InvalidInputError, match=message):
            table.alter_columns({"path": path, "data_type": kind})
    large = pennon.write_dataset({"l": [[2**40]]}, f"{uri}.large")
    with pytest.raises(pennon.InvalidInputError, match="Casting column"):
        large.alter_columns({"path": "l.item", "data_type": pa.int32()})
    table.create_scalar_index("l", "LABEL_LIST")
    with pytest.raises(pennon.InvalidInputError, match="Drop the index"):
        table.alter_columns({"path": "l.item", "data_type": pa.int64()})
