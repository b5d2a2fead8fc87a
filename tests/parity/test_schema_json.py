"""`schema_to_json` and back: the values of the reference."""

from __future__ import annotations

import json
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

TYPES = [
    *[pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()],
    *[pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary()],
    *[pa.large_binary(), pa.binary(4), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")],
    *[pa.time64("ns"), pa.duration("s"), pa.duration("ns"), pa.timestamp("s"), pa.timestamp("us", "UTC")],
    *[pa.timestamp("ns", "+02:00"), pa.timestamp("ms", "Europe/Berlin"), pa.decimal128(5, 2)],
    *[pa.decimal256(50, 0), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int32()), pa.large_list(pa.int8())],
    pa.dictionary(pa.uint32(), pa.int64()),
    pa.list_(pa.field("element", pa.int32(), nullable=False)),
    pa.list_(pa.float32(), 3),
    pa.struct([]),
    pa.struct(
        [pa.field("x", pa.list_(pa.int64()), nullable=False), pa.field("y", pa.string(), metadata={"a": "b"})]
    ),
    pa.json_(),
    pa.fixed_shape_tensor(pa.float32(), [2, 3]),
]


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@pytest.mark.parametrize("metadata", [None, {"k": "é", "": ""}])
def test_types(data_type: pa.DataType, metadata: dict[str, str] | None) -> None:
    schema = pa.schema([pa.field("f", data_type, metadata=metadata), pa.field("g", pa.int8(), False)], metadata)
    ours = pennon.schema_to_json(schema)
    assert ours == lance.schema_to_json(schema)
    found = pennon.json_to_schema(json.loads(json.dumps(ours)))
    assert found.equals(schema, check_metadata=True)
    assert found.equals(lance.json_to_schema(ours), check_metadata=True)


def test_ours_is_theirs() -> None:
    assert pennon.schema.schema_to_json is pennon.schema_to_json
    table = pennon.write_dataset({"a": [1], "b": [[{"c": "x"}]]}, "memory://schema-json", mode="overwrite")
    assert pennon.json_to_schema(pennon.schema_to_json(table.schema)).equals(table.schema)


@pytest.mark.parametrize(
    "data_type",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.string_view(),
        pa.month_day_nano_interval(),
        pa.list_(pa.binary_view()),
        pa.struct([("x", pa.map_(pa.string(), pa.int8()))]),
    ],
    ids=str,
)
def test_types_without_a_name(data_type: pa.DataType) -> None:
    schema = pa.schema([("f", data_type)])
    for module in (pennon, lance):
        with pytest.raises(ValueError, match=r"(?i)type"):
            module.schema_to_json(schema)
    with pytest.raises(pennon.InvalidInputError, match="which has no form in JSON"):
        pennon.schema_to_json(schema)


INT8 = {"type": "int8"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "'fields' of the schema"),
        ([], "Expected an object for the schema"),
        ({"fields": {}}, "'fields' of the schema"),
        ({"fields": [3]}, "Expected an object for a field of the schema, found 3"),
        ({"fields": [{"type": INT8, "nullable": True}]}, "'name' of a field of the schema"),
        ({"fields": [{"name": "a", "type": INT8}]}, "'nullable' of a to be of type bool, found None"),
        ({"fields": [{"name": "a", "type": "int8", "nullable": True}]}, "'type' of a"),
    ],
)
def test_bad_values(value: Any, message: str) -> None:
    for module in (pennon, lance):
        with pytest.raises(ValueError):  # noqa: PT011
            module.json_to_schema(value)
    with pytest.raises(pennon.InvalidInputError, match=message):
        pennon.json_to_schema(value)


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ({"type": "zz"}, "'zz', which is unknown"),
        ({"type": "timestamp:years:-"}, "malformed"),
        ({"type": "decimal:128:5"}, "malformed"),
        ({"type": "decimal:64:5:2"}, "malformed"),
        ({"type": "decimal:128:99:2"}, "malformed"),
        ({"type": "dict:string"}, "malformed"),
        ({"type": "dict:string:double:false"}, "malformed"),
        ({"type": "list"}, "'fields' of a"),
        ({"type": "list", "fields": []}, "a list of 0 fields; expected one"),
        ({"type": "fixed_size_binary"}, "'length' of a"),
        ({"type": "fixed_size_binary", "length": -1}, "length -1"),
        ({"type": "fixed_size_binary", "length": True}, "'length' of a"),
    ],
)
def test_bad_types(data_type: Any, message: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=message):
        pennon.json_to_schema({"fields": [{"name": "a", "type": data_type, "nullable": True}]})


def test_bad_metadata() -> None:
    for broken in ({b"k": b"\xff"}, {b"\xff": b"v"}):
        for schema in (pa.schema([], broken), pa.schema([pa.field("a", pa.int8(), metadata=broken)])):
            with pytest.raises(pennon.InvalidInputError, match="not UTF-8"):
                pennon.schema_to_json(schema)
    with pytest.raises(pennon.InvalidInputError, match="The metadata of the schema are not texts"):
        pennon.json_to_schema({"fields": [], "metadata": {"k": 1}})
    with pytest.raises(TypeError, match=r"Expected a pyarrow\.Schema"):
        pennon.schema_to_json({})  # type: ignore[arg-type]
