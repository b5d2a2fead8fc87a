"""Structs, lists and maps with JSON that get new values: text is parsed, as it is for columns of JSON."""

from __future__ import annotations

import json
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

JSON = pa.json_()
PAIR = pa.struct([pa.field("a", pa.int32()), pa.field("j", JSON)])


def documents(*texts: str | None) -> pa.ExtensionArray:
    return pa.ExtensionArray.from_storage(JSON, pa.array(texts, pa.string()))


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    pair = pa.StructArray.from_arrays([pa.array([1, 2], pa.int32()), documents('{"x":1}', None)], fields=list(PAIR))
    items = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), documents("[1]", "[2]"))
    columns = {"id": pa.array([1, 2]), "s": pair, "other": pair, "top": documents('"t"', None), "l": items}
    return pennon.write_dataset(pa.table(columns), uri)


@pytest.mark.parametrize(
    ("column", "expression", "values"),
    [
        ("s", "named_struct('a', cast(7 as int), 'j', '{\"y\": 3}')", [(7, {"y": 3}), (7, {"y": 3})]),
        ("s", "named_struct('j', '[3]', 'a', 7)", [(7, [3]), (7, [3])]),
        ("s", "named_struct('a', 7, 'j', top)", [(7, "t"), (7, None)]),
        ("s", "named_struct('a', id, 'j', other.j)", [(1, {"x": 1}), (2, None)]),
        ("s", "named_struct('a', 7, 'j', null)", [(7, None), (7, None)]),
        ("s", "case when id = 1 then other else null end", [(1, {"x": 1}), None]),
        ("s", "other", [(1, {"x": 1}), (2, None)]),
        ("l", "['[7]', null]", [[[7], None], [[7], None]]),
        ("l", "[top]", [["t"], [None]]),
        ("top", "other.j", [{"x": 1}, None]),
    ],
)
def test_updates(table: pennon.LanceDataset, column: str, expression: str, values: list[Any]) -> None:
    table.update({column: expression})
    assert [parsed(value) for value in table.to_table(order_by=["id"])[column].to_pylist()] == values
    # pylance parses what is stored.
    found = lance.dataset(table.uri).to_table().sort_by("id")[column]
    assert [parsed(value) for value in found.to_pylist()] == values
    assert table.verify(data=True).ok


def parsed(value: Any) -> Any:
    if isinstance(value, dict):
        return value["a"], parsed(value["j"])
    if isinstance(value, list):
        return [parsed(item) for item in value]
    return None if value is None else json.loads(value)


def test_rows(table: pennon.LanceDataset) -> None:
    table.update_rows([0], {"s": [{"a": 5, "j": '{"z": 1}'}]})
    assert table.to_table(order_by=["id"])["s"].to_pylist()[0] == {"a": 5, "j": '{"z":1}'}
    typed = pa.StructArray.from_arrays([pa.array([6], pa.int32()), documents("[6]")], fields=list(PAIR))
    table.update_rows([1], pa.table({"s": typed}))
    assert table.to_table(order_by=["id"])["s"].to_pylist()[1] == {"a": 6, "j": "[6]"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("named_struct('a', 7, 'j', 'no json')", "column `s`, row 0: invalid JSON"),
        ("named_struct('a', 7, 'j', arrow_cast('x', 'LargeBinary'))", "column `s`, row 0"),
        ("named_struct('a', 7, 'j', 1.5)", "cannot be made of values of type Struct.*give its text"),
        ("'{}'", "cannot be made of values of type Utf8"),
    ],
)
def test_what_is_no_json(table: pennon.LanceDataset, expression: str, message: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=message):
        table.update({"s": expression})
    assert table.latest_version == 1
