"""Nulls in members that may not be null, of arrays that say otherwise: pyarrow takes the word of who makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon import jobs

MEMBER = pa.field("a", pa.int32(), nullable=False)
MISSING = pa.array([None], pa.int32())
TYPES = {
    "struct": pa.struct([MEMBER]),
    "list": pa.list_(pa.field("item", pa.struct([MEMBER]))),
    "items": pa.list_(pa.field("item", pa.int32(), nullable=False)),
    "large_list": pa.large_list(pa.field("item", pa.struct([MEMBER]))),
    "fixed_size_list": pa.list_(pa.field("item", pa.struct([MEMBER])), 1),
    "map": pa.map_(pa.string(), pa.field("value", pa.struct([MEMBER]))),
    "nested": pa.struct([pa.field("b", pa.struct([MEMBER]))]),
}
VALUES: dict[str, Any] = {
    "struct": {"a": 1},
    "list": [{"a": 1}],
    "items": [1],
    "large_list": [{"a": 1}],
    "fixed_size_list": [{"a": 1}],
    "map": [("k", {"a": 1})],
    "nested": {"b": {"a": 1}},
}


def struct(values: pa.Array = MISSING, **options: Any) -> pa.StructArray:
    return pa.StructArray.from_arrays([values], fields=[MEMBER], **options)


def lying(kind: str) -> pa.Array:
    """An array of one row, with a null where its type has none."""
    ends, of = pa.array([0, 1], pa.int32()), TYPES[kind]
    if kind == "struct":
        return struct()
    if kind == "list":
        return pa.ListArray.from_arrays(ends, struct(), type=of)
    if kind == "items":
        return pa.ListArray.from_arrays(ends, MISSING, type=of)
    if kind == "large_list":
        return pa.LargeListArray.from_arrays(ends.cast(pa.int64()), struct(), type=of)
    if kind == "fixed_size_list":
        return pa.FixedSizeListArray.from_arrays(struct(), type=of)
    if kind == "map":
        return pa.MapArray.from_arrays(ends, pa.array(["k"]), struct(), type=of)
    return pa.StructArray.from_arrays([struct()], fields=[of.field(0)])


def rows(kind: str, id: int, values: pa.Array) -> pa.Table:
    return pa.table({"id": [id]}).append_column(pa.field("st", TYPES[kind]), values)


def change(table: pennon.LanceDataset, kind: str, column: str) -> None:
    address = pa.array([0], pa.int64())
    schema = pa.schema([("_rowaddr", pa.int64()), pa.field("st", TYPES[kind])])
    batch = pa.RecordBatch.from_arrays([address, lying(kind)], schema=schema)
    task = jobs.plan_change_rows(table, schema).task(0)
    task.run(pa.RecordBatchReader.from_batches(schema, [batch]))


VERBS: dict[str, Callable[[pennon.LanceDataset, str], object]] = {
    "insert": lambda table, kind: table.insert(rows(kind, 2, lying(kind))),
    "overwrite": lambda table, kind: pennon.write_dataset(rows(kind, 2, lying(kind)), table.uri, mode="overwrite"),
    "merge": lambda table, kind: (
        table.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(rows(kind, 1, lying(kind)))
    ),
    "change": lambda table, kind: change(table, kind, "st"),
    "add": lambda table, kind: table.add_columns(
        pa.RecordBatchReader.from_batches(
            pa.schema([pa.field("other", TYPES[kind])]),
            [pa.record_batch([lying(kind)], schema=pa.schema([pa.field("other", TYPES[kind])]))],
        )
    ),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_null_that_the_type_does_not_allow(uri: str, kind: str, verb: str) -> None:
    table = pennon.write_dataset(rows(kind, 1, pa.array([VALUES[kind]], TYPES[kind])), uri)
    before = table.to_table()
    with pytest.raises(pennon.SchemaMismatchError, match="contained null values even though"):
        VERBS[verb](table, kind)
    assert pennon.dataset(uri).version == 1
    assert pennon.dataset(uri).to_table() == before


def test_nulls_that_no_row_shows(uri: str) -> None:
    ends = pa.array([0, 1, 2, 3], pa.int32())
    values = pa.array([1, None, 3], pa.int32())
    hidden = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(ends, struct(values), type=TYPES["list"], mask=hidden)
    outer = pa.StructArray.from_arrays([struct(values)], fields=[TYPES["nested"].field(0)], mask=hidden)
    for at, (column, shown) in enumerate(
        [
            (struct(values, mask=hidden), [{"a": 1}, None, {"a": 3}]),
            (struct(values).slice(2), [{"a": 3}]),
            (lists, [[{"a": 1}], None, [{"a": 3}]]),
            (pa.ListArray.from_arrays(ends[2:], struct(values), type=TYPES["list"]), [[{"a": 3}]]),
            (outer, [{"b": {"a": 1}}, None, {"b": {"a": 3}}]),
        ]
    ):
        table = pennon.write_dataset(pa.table({"st": column}), f"{uri}{at}")
        assert table.to_table()["st"].to_pylist() == shown, at


def test_nulls_beneath_a_null_next_to_a_member_of_another_name(uri: str) -> None:
    values = pa.array([1, None], pa.int32())
    lists = pa.array([[1], [2]], pa.list_(pa.field("item", pa.int32())))
    hidden = pa.array([False, True])
    batch = pa.record_batch(
        [pa.StructArray.from_arrays([struct(values), lists], names=["a", "l"], mask=hidden)], names=["s"]
    )
    named = pa.list_(pa.field("element", pa.int32()))
    schema = pa.schema([pa.field("s", pa.struct([pa.field("a", pa.struct([MEMBER])), pa.field("l", named)]))])
    table = pennon.write_dataset(pa.RecordBatchReader.from_batches(schema, [batch]), uri)
    assert table.to_table()["s"].to_pylist() == [{"a": {"a": 1}, "l": [1]}, None]
