"""Lists of dicts, dicts of lists, frames and models with a schema: values that its types would cut."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import lance
import numpy as np
import pandas as pd
import pennon
import pyarrow as pa
import pytest

SECONDS, SMALL = pa.timestamp("s"), pa.struct([("a", pa.int32())])
AWARE = timezone(timedelta(hours=5))

CUT: dict[str, tuple[pa.DataType, Any]] = {
    "a fraction": (pa.int64(), 1.7),
    "a negative fraction": (pa.uint8(), -0.5),
    "a fraction of numpy": (pa.int64(), np.float64(1.7)),
    "a decimal fraction": (pa.int64(), Decimal("1.5")),
    "a large double": (pa.float32(), 1e300),
    "a large double as a half float": (pa.float16(), 70000.0),
    "half seconds": (SECONDS, datetime(2020, 1, 1, 0, 0, 0, 500_000)),
    "an integer as a half float": (pa.float16(), 2049),
    "items as half floats": (pa.list_(pa.float16()), [1, 2049]),
    "nanoseconds of pandas": (pa.timestamp("us"), pd.Timestamp(1)),
    "a fraction as a time": (SECONDS, 1.5),
    "half seconds of a duration": (pa.duration("s"), timedelta(milliseconds=1500)),
    "microseconds of a time": (pa.time32("ms"), time(1, 2, 3, 4)),
    "the time of a day": (pa.date32(), datetime(2020, 1, 1, 5)),
    "a value of a dictionary": (pa.dictionary(pa.int8(), pa.int64()), 1.5),
    "an item of a list": (pa.list_(pa.int32()), [1, 1.5]),
    "an item of a vector": (pa.list_(pa.float32(), 2), [0.5, 1e300]),
    "an item of a tensor": (pa.fixed_shape_tensor(pa.float32(), [2]), [0.5, 1e300]),
    "a member": (SMALL, {"a": 1.5}),
    "a member of an item": (pa.list_(SMALL), [{"a": 1}, {"a": 1.5}]),
    "a value of a map": (pa.map_(pa.string(), pa.int32()), [("a", 1.5)]),
    "a value of a map in a struct": (pa.struct([("m", pa.map_(pa.string(), pa.int32()))]), {"m": {"a": 1.5}}),
}


@pytest.mark.parametrize("name", CUT)
def test_values_that_would_be_cut(uri: str, name: str) -> None:
    kind, value = CUT[name]
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    for data in ([{"id": 1}, {"id": 2, "c": value}], {"id": [1, 2], "c": [None, value]}):
        with pytest.raises(pennon.InvalidInputError, match=r"column c.*: its type .* would change the value"):
            pennon.write_dataset(data, uri, schema=schema)
    table = pennon.write_dataset(schema.empty_table(), uri)
    with pytest.raises(pennon.InvalidInputError, match=r"column c.*: its type .* would change the value"):
        table.merge_insert("id").when_not_matched_insert_all().execute([{"id": 1, "c": value}], schema=schema)
    assert table.latest_version == 1


SAME: dict[str, tuple[pa.DataType, Any]] = {
    "a whole float": (pa.int64(), 1.0),
    "a large unsigned number": (pa.uint64(), 2**64 - 1),
    "a rounded float": (pa.float32(), 0.1),
    "infinity": (pa.float32(), float("inf")),
    "an integer as a decimal": (pa.decimal128(5, 1), 12),
    "a time in another zone": (pa.timestamp("us"), datetime(2020, 1, 1, tzinfo=AWARE)),
    "a time without a zone": (pa.timestamp("us", "Europe/Berlin"), datetime(2020, 1, 1)),
    "a rounded half float": (pa.float16(), 0.1),
    "nanoseconds of pandas": (pa.timestamp("ns"), pd.Timestamp(1)),
    "a day": (pa.date32(), datetime(2020, 1, 1)),
    "a date": (pa.date64(), date(2020, 1, 1)),
    "a number as a date": (pa.date32(), 5),
    "a text of a dictionary": (pa.dictionary(pa.int8(), pa.string()), "x"),
    "pairs as a struct": (SMALL, [("a", 1)]),
    "a map": (pa.map_(pa.string(), pa.int32()), {"a": 1}),
    "JSON": (pa.json_(), '{"a": 1.5}'),
}


@pytest.mark.parametrize("name", SAME)
def test_values_that_are_as_in_pylance(uri: str, name: str) -> None:
    kind, value = SAME[name]
    schema, rows = pa.schema([("c", kind)]), [{"c": value}, {"c": None}]
    expected = lance.write_dataset(rows, f"{uri}.pylance", schema=schema).to_table()
    assert pennon.write_dataset(rows, uri, schema=schema).to_table().equals(expected)
    given = {"c": iter([value, None])}
    assert pennon.write_dataset(given, uri, schema=schema, mode="overwrite").to_table().equals(expected)


@pytest.mark.parametrize("nested", [False, True])
def test_names_that_the_schema_lacks(uri: str, *, nested: bool) -> None:
    """pylance leaves out their values."""
    schema, row = pa.schema([("key", pa.int64()), ("text", pa.string())]), {"key": 1, "Text": "x"}
    data: list[Any] = [[{"key": 0}, row], {"key": [1], "Text": ["x"]}, pd.DataFrame([row])]
    said = "a column Text, and the schema has key, text. Did you mean text"
    if nested:
        schema = pa.schema([("c", pa.struct(schema)), ("l", pa.list_(pa.struct(schema)))])
        data, said = (
            [[{"l": [row]}], [{"c": row}], {"c": [None], "l": [[row]]}],
            "found a member Text, expected key",
        )
    for wrong in data:
        with pytest.raises(pennon.InvalidInputError, match=said):
            pennon.write_dataset(wrong, uri, schema=schema)
    if not nested:
        assert pennon.write_dataset([{"key": 1}], uri, schema=schema).to_table().to_pylist() == [
            {"key": 1, "text": None}
        ]
        for incomplete in ({"key": [1]}, pd.DataFrame({"key": [1]})):
            with pytest.raises(pennon.InvalidInputError, match="text"):
                pennon.write_dataset(incomplete, uri, schema=schema, mode="overwrite")


def test_mixed_values(uri: str) -> None:
    """Values of several types have no common one that they could be compared in."""
    schema = pa.schema([("n", pa.uint64()), ("d", pa.date32())])
    rows = [{"n": 2**64 - 1, "d": date(2020, 1, 1)}, {"n": 1.0, "d": datetime(2020, 1, 2)}]
    found = pennon.write_dataset(rows, uri, schema=schema).to_table().to_pylist()
    assert found == [rows[0], {"n": 1, "d": date(2020, 1, 2)}]
    for wrong in ({"n": 1.5}, {"d": datetime(2020, 1, 2, 3)}):
        with pytest.raises(pennon.InvalidInputError, match="would change the value"):
            pennon.write_dataset([*rows, wrong], uri, schema=schema, mode="overwrite")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float32(), [1e300]),
        (pa.float32(), np.array([1e300])),
        (pa.float32(), pa.array([1e300])),
        (pa.int64(), pd.Series([1.5, None], dtype=object)),
        (pa.bool_(), np.array([2, 0.5])),
        (pa.bool_(), pa.array([2, 0.5])),
        (pa.decimal128(3, 1), pa.array([0.15])),
        (pa.date32(), pa.array([datetime(2020, 1, 1, 23)])),
        (pa.time64("us"), pa.array([datetime(2020, 1, 1, 23)])),
        (pa.list_(pa.float32()), pa.array([[1e300]])),
        (pa.list_(pa.int32()), pd.Series([[1.5]])),
        (pa.list_(pa.float32()), pd.Series([np.array([1e300])])),
    ],
)
def test_frames_and_arrays(uri: str, kind: pa.DataType, values: Any) -> None:
    schema = pa.schema([("c", kind)])
    frame = pd.DataFrame({"c": values if isinstance(values, pd.Series) else list(np.asarray(values))})
    batches = iter([pa.record_batch({"c": values if isinstance(values, pa.Array) else pa.array(values)})])
    for data in ({"c": values}, frame, batches):
        with pytest.raises(pennon.InvalidInputError, match=r"column c.*: its type .* would change the value"):
            pennon.write_dataset(data, uri, schema=schema)
    assert pennon.write_dataset(frame[:0], uri, schema=schema).count_rows() == 0


def test_arrays_of_other_kinds(uri: str) -> None:
    """A schema that is given asks for a cast: times without a zone are in UTC, texts are parsed, as in pylance."""
    naive = np.array(["2020-01-01T12:00"], "datetime64[us]")
    for unit, values, wanted in (
        (pa.timestamp("us", "Europe/Berlin"), naive, datetime(2020, 1, 1, 12, tzinfo=timezone.utc)),
        (pa.timestamp("s"), np.array([60]), datetime(1970, 1, 1, 0, 1)),
        (pa.float64(), pa.array(["1.5"]), 1.5),
        (pa.date32(), pa.array(["2020-01-02"]), date(2020, 1, 2)),
    ):
        schema, batch = pa.schema([("c", unit)]), pa.record_batch({"c": pa.array(values)})
        for data in ({"c": values}, {"c": batch["c"]}, iter([batch])):
            table = pennon.write_dataset(data, uri, schema=schema, mode="overwrite")
            assert table.to_table()["c"].to_pylist() == [wanted]
    members = pa.record_batch({"c": pa.array([{"x": 1, "z": 2}])})
    with pytest.raises(pennon.InvalidInputError, match="column c: found a member z, expected x"):
        pennon.write_dataset(iter([members]), f"{uri}-2", schema=pa.schema([("c", pa.struct([("x", pa.int64())]))]))


def test_models(uri: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Row", c=(float, ...))
    with pytest.raises(pennon.InvalidInputError, match=r"column c: its type int64 would change the value 1\.5"):
        pennon.write_dataset([model(c=1.5)], uri, schema=pa.schema([("c", pa.int64())]))
