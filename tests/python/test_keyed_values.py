"""Values of Python and pandas for verbs that find rows by a key, and for tasks: they get the types of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pennon
import pyarrow as pa
import pytest
from pennon import jobs

from tests.python.test_values_for_tables import KEPT

Given = Callable[..., Any]


def rows(key: str, values: list[Any], name: str = "c") -> list[dict[str, Any]]:
    return [{key: at, name: value} for at, value in enumerate(values)]


def columns(key: str, values: list[Any], name: str = "c") -> dict[str, Any]:
    return {key: range(len(values)), name: values}


def frame(key: str, values: list[Any], name: str = "c") -> pd.DataFrame:
    return pd.DataFrame({key: range(len(values)), name: pd.Series(values)})


FORMS: list[Given] = [rows, columns, frame]


def commit_columns(table: pennon.LanceDataset, changed: tuple[pennon.FragmentMetadata, list[int]]) -> None:
    update = pennon.LanceOperation.Update(
        updated_fragments=[changed[0]], fields_modified=changed[1], update_mode="rewrite_columns"
    )
    pennon.LanceDataset.commit(table, update, read_version=table.version)


def update_rows(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    table.update_rows(given("_rowid", values))


def update_rows_of_ids(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    data = given("c", values)
    table.update_rows(range(len(values)), data)


def update_columns(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    commit_columns(table, table.get_fragment(0).update_columns(given("key", values), "id", "key"))


def update_columns_by_row_id(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    commit_columns(table, table.get_fragment(0).update_columns(given("_rowid", values)))


def merge_in_tasks(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    merge = table.merge_insert("id").when_matched_update_all()
    plan = jobs.plan_merge(merge, table.schema, tasks=1)
    plan.commit([plan.task(0).run(given("id", values))])


def merge_shared_by_tasks(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    merge = table.merge_insert("id").when_matched_update_all()
    jobs.run(jobs.plan_merge(merge, table.schema, tasks=2), source=given("id", values))


def change_rows_in_tasks(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    schema = pa.schema([("_rowaddr", pa.uint64()), table.schema.field("c")])
    plan = jobs.plan_change_rows(table, schema, tasks=1)
    plan.commit([plan.task(0).run(given("_rowaddr", values))])


def update_columns_in_tasks(table: pennon.LanceDataset, given: Given, values: list[Any]) -> None:
    schema = pa.schema([("_rowid", pa.uint64()), table.schema.field("c")])
    jobs.run(jobs.plan_update_columns(table, schema), source=given("_rowid", values))


VERBS: list[Callable[[pennon.LanceDataset, Given, list[Any]], None]] = [
    update_rows,
    update_rows_of_ids,
    update_columns,
    update_columns_by_row_id,
    merge_in_tasks,
    merge_shared_by_tasks,
    change_rows_in_tasks,
    update_columns_in_tasks,
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KEPT)
def test_values_get_the_types_of_the_table(uri: str, name: str, form: Given) -> None:
    kind, values = KEPT[name]
    schema = pa.schema([("id", pa.int32()), ("c", kind)])
    old = pa.table([pa.array(range(len(values)), pa.int32()), pa.nulls(len(values), kind)], schema=schema)
    for verb in VERBS:
        # Fragments have other ids after an overwrite.
        table = pennon.write_dataset(old, f"{uri}.{verb.__name__}")
        verb(table, form, values)
        table.checkout_latest()
        found = table.to_table()
        assert found.sort_by("id")["c"].to_pylist() == values, verb.__name__


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_values_that_would_change(uri: str, verb: Callable[..., None], form: Given) -> None:
    table = pennon.write_dataset(pa.table({"id": [0], "c": pa.array([1], pa.int32())}), uri)
    with pytest.raises(pennon.InvalidInputError, match=r"column c: its type int32 would change the value 1\.5"):
        verb(table, form, [1.5])
    assert table.latest_version == 1


KEYS = [
    name for name, (kind, values) in KEPT.items() if not pa.types.is_nested(kind) and values != [None] * len(values)
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_new_columns(uri: str, name: str, form: Given) -> None:
    kind, values = KEPT[name]
    keys = pa.array(values, kind)
    expected = [{"key": key, "n": at} for at, key in enumerate(keys.to_pylist())]
    for right_on in ("key", "c"):
        table = pennon.write_dataset(pa.table({"key": keys}), f"{uri}.{right_on}")
        data = form("n", values, right_on)
        fragment, schema = table.get_fragment(0).merge(data, "key", right_on)
        merge = pennon.LanceOperation.Merge([fragment], schema)
        assert pennon.LanceDataset.commit(table, merge, read_version=1).to_table().to_pylist() == expected
        other = pennon.write_dataset(pa.table({"key": keys}), f"{uri}.{right_on}.2")
        other.merge(data, "key", right_on)
        assert other.to_table().to_pylist() == expected


@pytest.mark.parametrize("key", ["_rowid", "_rowaddr"])
def test_row_ids_and_addresses_as_keys(uri: str, key: str) -> None:
    given: list[Any] = [rows(key, ["x", "y"]), columns(key, ["x", "y"]), frame(key, ["x", "y"])]
    if key == "_rowid":
        given.append(pa.table({"_rowid": pa.array([0, 1], pa.int64()), "c": ["x", "y"]}))
    for number, data in enumerate(given):
        table = pennon.write_dataset({"id": [5, 6]}, f"{uri}.{number}")
        table.merge(data, key)
        assert table.to_table().to_pylist() == [{"id": 5, "c": "x"}, {"id": 6, "c": "y"}]


def test_members_that_no_row_has(uri: str) -> None:
    kind = pa.struct([("x", pa.int32()), ("y", pa.string())])
    old = pa.table([[0], pa.array([{"x": 1, "y": "a"}], kind)], names=["id", "c"])
    for verb in (update_rows, update_columns):
        table = pennon.write_dataset(old, f"{uri}.{verb.__name__}")
        verb(table, rows, [{"y": "b"}])
        table.checkout_latest()
        assert table.to_table()["c"].to_pylist() == [{"x": 1, "y": "b"}]
        with pytest.raises(pennon.InvalidInputError, match="found a member z, expected x, y"):
            verb(table, rows, [{"z": 1}])


def test_new_columns_in_tasks(uri: str) -> None:
    schema = pa.schema([("n", pa.int8()), ("m", pa.map_(pa.string(), pa.int32()))])
    table = pennon.write_dataset({"id": [0, 1]}, uri)
    plan = jobs.plan_add_columns(table, schema, tasks=1)
    new = [{"n": 1, "m": {"a": 1}}, {"n": None, "m": None}]
    added = plan.commit([plan.task(0).run(new)]).dataset
    assert added.to_table(columns=["n", "m"]).to_pylist() == [{"n": 1, "m": [("a", 1)]}, {"n": None, "m": None}]
    join = jobs.plan_join_columns(added, pa.schema([("id", pa.int64()), ("s", pa.int8())]), "id")
    joined = jobs.run(join, source={"id": np.array([1]), "s": [7]}).dataset
    assert joined.to_table()["s"].to_pylist() == [None, 7]
    assert joined.schema.field("s").type == pa.int8()


def test_no_rows(uri: str) -> None:
    # There are types of which pyarrow makes no empty table.
    document = pa.StructArray.from_arrays([pa.array(["1"], pa.json_())], names=["m"])
    table = pennon.write_dataset(pa.table({"id": [0], "c": document}), uri)
    old = table.to_table().to_pylist()
    merge = table.merge_insert("id").when_matched_update_all()
    for data in ([], {}, iter([]), pd.DataFrame()):
        assert table.update_rows([], data) == {"num_rows_updated": 0}
    plan = jobs.plan_merge(merge, table.schema, tasks=1)
    plan.commit([plan.task(0).run(iter([]))])
    table.checkout_latest()
    for data in ([], {}, pd.DataFrame()):
        assert table.update_rows(data) == {"num_rows_updated": 0}
        assert table.merge_insert("_rowid").when_matched_update_all().execute(data)["num_updated_rows"] == 0
        plan = jobs.plan_merge(merge, table.schema, tasks=1)
        plan.commit([plan.task(0).run(data)])
        table.checkout_latest()
        with pytest.raises(pennon.InvalidInputError, match="Column id does not exist in the right side fragment"):
            table.get_fragment(0).update_columns(data, "id")
        with pytest.raises(pennon.InvalidInputError, match="no column besides the key id"):
            table.merge(data, "id")
        table.checkout_latest()
    with pytest.raises(pennon.InvalidInputError, match="no column besides the key id"):
        table.get_fragment(0).update_columns({"id": [0]}, "id")
    assert table.to_table().to_pylist() == old


def test_the_index_of_a_frame(uri: str) -> None:
    whole = pd.DataFrame({"id": [1, 2, 3], "n": ["a", "b", "c"]})
    table = pennon.write_dataset(whole.rename(columns={"n": "s"}), uri)
    shuffled = whole.iloc[[2, 0, 1]]
    said = r"__index_level_0__, which is the index of a frame of pandas.*reset_index\(drop=True\)"
    for call in (
        lambda: table.merge(shuffled, "id"),
        lambda: table.get_fragment(0).merge(shuffled, "id"),
        lambda: table.get_fragment(0).update_columns(shuffled.rename(columns={"n": "s"}), "id"),
        lambda: table.add_columns(shuffled[["n"]]),
        lambda: table.get_fragment(0).merge_columns(shuffled[["n"]]),
    ):
        with pytest.raises(pennon.InvalidInputError, match=said):
            call()
    # A level with a name is a column, of a frame as of a table.
    table.merge(whole.set_index("id").iloc[[2, 0, 1]], "id")
    assert table.to_table()["n"].to_pylist() == ["a", "b", "c"]


def test_rows_without_columns(uri: str) -> None:
    """As new rows they are nulls; values of rows that are there are not set to null."""
    table = pennon.write_dataset({"id": [1, None], "s": ["x", "y"]}, uri)
    for data in ([{}], [{}, {}], iter([])):
        with pytest.raises(pennon.InvalidInputError, match=r"data have no columns|Column id does not exist"):
            table.get_fragment(0).update_columns(data, "id")
    for data in ([{}, {}], [], {}, pd.DataFrame(), pd.DataFrame(index=range(2)), iter([])):
        with pytest.raises(pennon.InvalidInputError, match=r"no columns|the data has 0 rows"):
            table.update_rows([0, 1], data)
    assert table.latest_version == 1
    named = pd.DataFrame(index=pd.Index([7], name="id"))
    assert table.update_rows([0], named)["num_rows_updated"] == 1
    assert sorted(table.to_table()["s"].to_pylist()) == ["x", "y"]


def test_an_index_that_the_table_has(uri: str) -> None:
    old = pd.DataFrame({"a": [1, 2, 3]}, index=[5, 7, 9])
    key = "__index_level_0__"
    new = pd.DataFrame({"b": [10, 20]}, index=[7, 5])
    for data in (new, pa.Table.from_pandas(new)):
        table = pennon.write_dataset(old, uri, mode="overwrite")
        table.merge(data, key)
        assert table.to_table()["b"].to_pylist() == [20, 10, None]
    changed = table.get_fragments()[0].update_columns(pd.DataFrame({"a": [8]}, index=[9]), key)
    commit_columns(table, changed)
    table.checkout_latest()
    assert table.to_table()["a"].to_pylist() == [1, 2, 8]
    # In data of Arrow it is a column like any other.
    other = pennon.write_dataset({"a": [1, 2]}, f"{uri}.2")
    other.merge(pa.Table.from_pandas(pd.DataFrame({"a": [2], "n": [0]}, index=[8])), "a")
    assert other.to_table()[key].to_pylist() == [None, 8]
    third = pennon.write_dataset({"a": [1, 2]}, f"{uri}.3")
    third.add_columns(pa.Table.from_pandas(new).to_reader())
    assert third.to_table().to_pydict() == {"a": [1, 2], "b": [10, 20], key: [7, 5]}
    fourth = pennon.write_dataset({"a": [1, 2]}, f"{uri}.4")
    fourth.add_columns(new, reader_schema=pa.schema([("b", pa.int8())]))
    assert fourth.to_table().to_pydict() == {"a": [1, 2], "b": [10, 20]}


def test_columns_of_tasks_in_another_order(uri: str) -> None:
    new = pd.DataFrame({"c": [9, 8]}, index=pd.Index([1, 5], name="id"))
    schema = pa.Schema.from_pandas(new).remove_metadata()
    assert schema.names == ["c", "id"]
    for data in (new, {"id": [1, 5], "c": [9, 8]}, [{"id": 1, "c": 9}, {"id": 5, "c": 8}]):
        for number, order in enumerate((schema, pa.schema(reversed(list(schema))))):
            table = pennon.write_dataset({"id": [0, 1], "c": [1, 2]}, f"{uri}.{number}", mode="overwrite")
            merge = table.merge_insert("id").when_matched_update_all()
            plan = jobs.plan_merge(merge, order, tasks=1)
            found = plan.commit([plan.task(0).run(data)]).dataset
            assert found.to_table().to_pydict() == {"id": [0, 1], "c": [1, 9]}
            table = pennon.write_dataset({"id": [0, 1]}, f"{uri}.{number}", mode="overwrite")
            joined = jobs.run(jobs.plan_join_columns(table, order, "id"), source=data).dataset
            assert joined.to_table().to_pydict() == {"id": [0, 1], "c": [None, 9]}


def test_negative_ids_in_tasks(uri: str) -> None:
    table = pennon.write_dataset({"c": [1]}, uri)
    for name, planned in (("c", jobs.plan_update_columns), ("n", jobs.plan_join_columns)):
        plan = planned(table, pa.schema([("_rowid", pa.uint64()), (name, pa.int64())]), "_rowid")
        with pytest.raises(pennon.InvalidInputError, match="_rowid must not be negative, found -1"):
            jobs.run(plan, source={"_rowid": [-1], name: [7]})
