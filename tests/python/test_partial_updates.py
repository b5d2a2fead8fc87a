"""Structs that lack members of the table's: rows that are updated keep these, by every verb that is given rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon import LanceDataset, jobs

INNER = pa.struct([("u", pa.int64()), ("v", pa.string())])
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string()), ("inner", INNER)])
ROWS: list[Any] = [
    {"x": 1, "y": "a", "inner": {"u": 10, "v": "b"}},
    {"x": 2, "y": "c", "inner": None},
    None,
    {"x": None, "y": None, "inner": {"u": None, "v": "d"}},
]


def update_rows(table: LanceDataset, ids: list[int], values: pa.Array) -> None:
    table.update_rows(ids, pa.table({"s": values}))


def merge(table: LanceDataset, ids: list[int], values: pa.Array) -> None:
    data = pa.table({"_rowid": pa.array(ids, pa.uint64()), "s": values})
    table.merge_insert("_rowid").when_matched_update_all().execute(data)


def update_columns(table: LanceDataset, ids: list[int], values: pa.Array) -> None:
    fragment = table.get_fragments()[0]
    keys = pa.array([table.take_rows([row], columns=["id"])["id"][0].as_py() for row in ids])
    changed, fields = fragment.update_columns(pa.table({"id": keys, "s": values}), left_on="id", right_on="id")
    operation = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    pennon.LanceDataset.commit(table, operation, read_version=table.version)
    table.checkout_latest()


def change_rows(table: LanceDataset, ids: list[int], values: pa.Array) -> None:
    found = table.to_table(columns=[], with_row_id=True, with_row_address=True)
    by_id = dict(zip(found["_rowid"].to_pylist(), found["_rowaddr"].to_pylist(), strict=True))
    changes = pa.table({"_rowaddr": pa.array([by_id[row] for row in ids], pa.uint64()), "s": values})
    plan = jobs.plan_change_rows(table, changes.schema, tasks=1)
    plan.commit([plan.task(0).run(changes)])
    table.checkout_latest()


VERBS = [update_rows, merge, update_columns, change_rows]


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_members_that_are_lacking_stay(
    tmp_path: Path, verb: Callable[[LanceDataset, list[int], pa.Array], None], stable: bool
) -> None:
    table = pennon.write_dataset(
        pa.table({"id": range(4), "s": pa.array(ROWS, STRUCT)}), tmp_path / "t", enable_stable_row_ids=stable
    )
    ids = table.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    # Of other types, nested, and in another order.
    given = pa.struct([("inner", pa.struct([("u", pa.int64())])), ("x", pa.int64())])
    values = [{"inner": {"u": 100}, "x": 7}, {"inner": {"u": 200}, "x": 8}, {"inner": None, "x": 9}]
    verb(table, ids[:3], pa.array(values, given))
    found = table.to_table().sort_by("id")["s"]
    assert found.type == STRUCT
    assert found.to_pylist() == [
        {"x": 7, "y": "a", "inner": {"u": 100, "v": "b"}},
        {"x": 8, "y": "c", "inner": {"u": 200, "v": None}},
        {"x": 9, "y": None, "inner": None},
        ROWS[3],
    ]
    assert lance.dataset(str(tmp_path / "t")).to_table().sort_by("id")["s"].to_pylist() == found.to_pylist()


def test_values_are_cast_and_columns_not_rewritten_stay(tmp_path: Path) -> None:
    table = pennon.write_dataset(pa.table({"id": range(4), "s": pa.array(ROWS, STRUCT)}), tmp_path / "t")
    given = pa.struct([("x", pa.int8()), ("inner", pa.struct([("v", pa.large_string())]))])
    for mode in ("rewrite_rows", "rewrite_columns"):
        table.update_rows([3], pa.table({"s": pa.array([{"x": 5, "inner": {"v": mode}}], given)}), mode=mode)
        assert table.to_table(filter="id = 3")["s"].to_pylist() == [
            {"x": 5, "y": None, "inner": {"u": None, "v": mode}}
        ]


def test_items_of_lists_have_nulls(tmp_path: Path) -> None:
    items = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))
    table = pennon.write_dataset(pa.table({"l": pa.array([[{"x": 1, "y": "a"}], []], items)}), tmp_path / "t")
    table.update_rows([0], {"l": [[{"x": 5}, None]]})
    assert table.take_rows([0, 1])["l"].to_pylist() == [[{"x": 5, "y": None}, None], []]


def test_json_in_structs(tmp_path: Path) -> None:
    documents = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', "[2]"]))
    structs = pa.StructArray.from_arrays([documents, pa.array([1, 2])], names=["doc", "n"])
    table = pennon.write_dataset(pa.table({"s": structs}), tmp_path / "t")
    table.update_rows([0], {"s": [{"n": 5}]})
    table.update_rows([1], {"s": [{"doc": '"new"'}]})
    assert table.to_table()["s"].to_pylist() == [{"doc": '{"a":1}', "n": 5}, {"doc": '"new"', "n": 2}]
