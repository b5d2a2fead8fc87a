"""Values of Python and pandas for a table that is there: they get its types, or are refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pennon
import polars
import pyarrow as pa
import pytest
from pennon import jobs

BERLIN, NOON = pa.timestamp("us", "Europe/Berlin"), datetime(2020, 1, 1, 12)
PAIR = pa.struct([("x", pa.int32()), ("y", pa.string())])
MAP = pa.map_(pa.string(), pa.int32())


def rows(values: Any) -> list[dict[str, Any]]:
    return [{"id": at, "c": value} for at, value in enumerate(values)]


def columns(values: Any) -> dict[str, Any]:
    return {"id": range(len(values)), "c": values}


def frame(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": range(len(values)), "c": pd.Series(values)})


def insert(table: pennon.LanceDataset, data: Any) -> None:
    table.insert(data)


def append_at_the_uri(table: pennon.LanceDataset, data: Any) -> None:
    pennon.write_dataset(data, table.uri, mode="append")


def merge(table: pennon.LanceDataset, data: Any) -> None:
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)


def append_by_a_job(table: pennon.LanceDataset, data: Any) -> None:
    plan = jobs.plan_append(table)
    plan.commit([plan.task(0).run(data)])


def commit_fragments(table: pennon.LanceDataset, data: Any) -> None:
    made = pennon.fragment.write_fragments(data, table.uri, return_transaction=True)
    pennon.LanceDataset.commit(table, made)


VERBS: list[Callable[[pennon.LanceDataset, Any], None]] = [
    insert,
    append_at_the_uri,
    merge,
    append_by_a_job,
    commit_fragments,
]

KEPT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small integers": (pa.int32(), [1, None]),
    "unsigned integers": (pa.uint64(), [2**64 - 1, 1]),
    "floats": (pa.float32(), [0.5, None]),
    "decimals": (pa.decimal128(20, 2), [Decimal("1.50"), Decimal("2.00")]),
    "large texts": (pa.large_string(), ["a", None]),
    "a dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "no value": (pa.string(), [None, None]),
    "no vector": (pa.fixed_shape_tensor(pa.float32(), [2]), [None]),
    "seconds": (pa.timestamp("s"), [NOON, None]),
    "a time of another zone": (BERLIN, [NOON.replace(tzinfo=timezone.utc)]),
    "dates": (pa.date32(), [date(2020, 1, 1), None]),
    "durations": (pa.duration("s"), [timedelta(seconds=1)]),
    "lists": (pa.list_(pa.int32()), [[1, None], None, []]),
    "vectors": (pa.list_(pa.float32(), 2), [[0.5, 1.5]]),
    "structs": (PAIR, [{"x": 1, "y": None}, None]),
    "lists of structs": (pa.list_(PAIR), [[{"x": 1, "y": "a"}], None]),
    "maps": (MAP, [[("a", 1)], [], None]),
    "JSON": (pa.json_(), ['{"a":1}', None]),
    "UUIDs": (pa.uuid(), [uuid.UUID(int=5), None]),
}


@pytest.mark.parametrize("form", [rows, columns, frame])
@pytest.mark.parametrize("name", KEPT)
def test_values_get_the_types_of_the_table(uri: str, name: str, form: Callable[[Any], Any]) -> None:
    kind, values = KEPT[name]
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    for verb in VERBS:
        table = pennon.write_dataset(schema.empty_table(), uri, mode="overwrite")
        verb(table, form(values))
        table.checkout_latest()
        found = table.to_table()
        assert found.schema.equals(schema)
        assert found.sort_by("id")["c"].to_pylist() == values


REFUSED: dict[str, tuple[pa.DataType, Any, str]] = {
    "a fraction": (pa.int32(), 1.5, "would change the value 1.5"),
    "a large integer": (pa.uint8(), 300, "would change the value 300"),
    "a large double": (pa.float32(), 1e300, "would change the value"),
    "digits": (pa.decimal128(20, 2), Decimal("1.555"), "would change the value 1.555"),
    "the time of a day": (pa.date32(), NOON, "would change the value 2020-01-01 12:00"),
    "a time without a zone": (BERLIN, NOON, "found timestamp"),
    "a time with a zone": (pa.timestamp("us"), NOON.replace(tzinfo=timezone.utc), "found timestamp"),
    "a number as a date": (pa.date32(), 5, "cast them first"),
    "a text for a list": (pa.list_(pa.string()), "ab", "found 'ab'"),
    "bytes for a vector": (pa.list_(pa.float32(), 2), b"ab", "found b'ab'"),
    "a text in a list of lists": (pa.list_(pa.list_(pa.string())), ["ab"], "found texts"),
    "a large integer in a list": (
        pa.list_(pa.int8()),
        [1, 300],
        "column c.item: its type int8 would change the value 300",
    ),
    "a large integer in an array": (pa.list_(pa.int8(), 1), np.array([300]), "would change the value 300"),
    "a large integer in a struct": (PAIR, {"x": 2**40}, "column c.x: its type int32 would change the value"),
    "another member": (PAIR, {"x": 1, "Y": "a"}, "found a member Y, expected x, y. Did you mean y?"),
    "a member in a list": (pa.list_(PAIR), [{"z": 1}], "found a member z"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_would_change(uri: str, name: str) -> None:
    kind, value, said = REFUSED[name]
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    table = pennon.write_dataset(schema.empty_table(), uri)
    for form in (rows, columns, frame):
        for verb in VERBS:
            with pytest.raises(pennon.InvalidInputError, match="column c") as caught:
                verb(table, form([None, value]))
            assert said in str(caught.value)
    assert table.latest_version == 1


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_other_kinds_and_columns_are_refused_by_the_core(uri: str, verb: Callable[..., None]) -> None:
    table = pennon.write_dataset(pa.table({"id": [1], "c": ["a"]}), uri)
    for data in (rows([5]), columns([5]), frame([5]), [{"id": 1, "c": "a", "C": 1}]):
        with pytest.raises(pennon.SchemaMismatchError):
            verb(table, data)
    assert table.latest_version == 1


def test_arrays_of_numpy(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"c": pa.array([], pa.int8())}), uri)
    table.insert({"c": np.array([1.0, 2.0])})
    with pytest.raises(pennon.InvalidInputError, match=r"would change the value 2\.5"):
        table.insert({"c": np.array([1.0, 2.5])})
    # Arrays of Arrow have the type that they have.
    with pytest.raises(pennon.SchemaMismatchError, match="should have type int8 but type was double"):
        table.insert({"c": pa.array([1.0])})
    assert table.to_table()["c"].to_pylist() == [1, 2]


def test_nulls_of_pandas(uri: str) -> None:
    """Columns of nulls are of float64, unless they are of objects."""
    schema = pa.schema([("l", pa.list_(pa.int64())), ("s", pa.string()), ("d", pa.date32())])
    data = pd.DataFrame({name: [float("nan")] for name in schema.names})
    table = pennon.write_dataset(data, uri, schema=schema)
    table.insert(data)
    table.insert(pd.DataFrame({"s": ["a", float("nan")]}))
    assert table.to_table().to_pydict() == {"l": [None] * 4, "s": [None, None, "a", None], "d": [None] * 4}


def test_models(uri: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Row", id=(int, ...), c=(float | None, None))
    schema = pa.schema([("id", pa.int32()), ("c", pa.float32())])
    table = pennon.write_dataset(schema.empty_table(), uri)
    table.insert([model(id=1, c=0.5), model(id=2)])
    assert table.to_table().to_pylist() == [{"id": 1, "c": 0.5}, {"id": 2, "c": None}]
    assert table.schema.equals(schema)
    with pytest.raises(pennon.InvalidInputError, match="column c: its type float would change the value"):
        table.insert([model(id=3, c=1e300)])


@pytest.mark.parametrize("key", ["id", "_rowid"])
def test_no_rows(uri: str, key: str) -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("u", pa.uuid()), pa.field("s", pa.string())])
    table = pennon.write_dataset(pa.table([[1], [uuid.UUID(int=5)], ["a"]], schema=schema), uri)
    for data in ([], {}, pd.DataFrame(), iter([]), {"id": [], "u": []}, pd.DataFrame(columns=["id", "s"])):
        if key == "id":
            table.insert(data)
        if not (key == "_rowid" and len(list(data))):
            merge = table.merge_insert(key).when_matched_update_all()
            assert merge.execute(data)["num_updated_rows"] == 0
    for data in ([], {}):
        pennon.write_dataset(data, uri, mode="append")
    table.checkout_latest()
    assert table.to_table().to_pylist() == [{"id": 1, "u": uuid.UUID(int=5), "s": "a"}]
    assert table.schema.equals(schema)
    for wrong in (pd.DataFrame(index=range(3)),):
        with pytest.raises(pennon.InvalidInputError, match="no columns"):
            table.insert(wrong)


def test_rows_go_back(uri: str) -> None:
    """What `to_pylist` and `to_pandas` give can be added to the table that it is from."""
    table = pa.table({name.replace(" ", "_"): pa.array(values[:1], kind) for name, (kind, values) in KEPT.items()})
    table = table.drop_columns(["a_time_of_another_zone"])  # pandas has no nulls of other units
    written = pennon.write_dataset(table, uri)
    written.insert(written.to_table().to_pylist())
    written.insert(written.to_table().slice(0, 1).to_pydict())
    assert written.to_table().to_pylist() == table.to_pylist() * 3
    assert written.schema.equals(table.schema)


def test_members_that_no_row_has(uri: str) -> None:
    """A merge keeps them, and an append fills them with nulls."""
    schema = pa.schema([("id", pa.int64()), ("c", pa.struct([("x", pa.int32()), ("n", PAIR)]))])
    old = {"id": 0, "c": {"x": 1, "n": {"x": 1, "y": "a"}}}
    for form in (rows, columns, frame):
        table = pennon.write_dataset(pa.Table.from_pylist([old], schema), uri, mode="overwrite")
        merge(table, form([{"n": {"x": 5}}]))
        assert table.to_table()["c"].to_pylist() == [{"x": 1, "n": {"x": 5, "y": "a"}}]
        table.insert(form([{"n": {"y": "b"}}, None]))
        assert table.to_table()["c"].to_pylist()[1:] == [{"x": None, "n": {"x": None, "y": "b"}}, None]


@pytest.mark.parametrize("verb", ["write", "insert", "merge", "update_rows", "add_columns"])
def test_keys_that_the_first_row_lacks(uri: str, verb: str) -> None:
    data = [{"id": 0}, {"id": 1, "s": "kept", "n": {"a": 1}}, {"n": {"b": 2}, "id": 2}]
    expected = [
        {"id": 0, "s": None, "n": None},
        {"id": 1, "s": "kept", "n": {"a": 1, "b": None}},
        {"id": 2, "s": None, "n": {"a": None, "b": 2}},
    ]
    if verb == "write":
        found = pennon.write_dataset(data, uri)
    elif verb == "add_columns":
        found = pennon.write_dataset({"id": [0, 1, 2]}, uri)
        found.add_columns([{name: row[name] for name in row if name != "id"} for row in data])
    else:
        old = pa.Table.from_pylist([{**row, "s": "old", "n": {"a": 0, "b": 0}} for row in expected])
        found = pennon.write_dataset(old if verb != "insert" else old.slice(0, 0), uri)
        if verb == "insert":
            found.insert(data)
        elif verb == "merge":
            merge(found, data)
        else:
            found.update_rows([0, 1, 2], data)
    assert found.schema.names == ["id", "s", "n"]
    assert found.to_table().sort_by("id").to_pylist() == expected


def test_the_index_of_a_frame(uri: str) -> None:
    whole = pd.DataFrame({"id": [1, 2, 3], "s": ["a", "b", "c"]})
    filtered, table = whole[whole.id > 1], pennon.write_dataset(whole, uri)
    said = r"__index_level_0__, which is the index of a frame of pandas.*reset_index\(drop=True\)"
    for call in (
        lambda: table.insert(filtered),
        lambda: merge(table, filtered),
        lambda: table.update_rows([0, 1], filtered),
    ):
        with pytest.raises(pennon.InvalidInputError, match=said):
            call()
    table.insert(filtered.reset_index(drop=True))
    assert table.count_rows() == 5
    # A table that was made of one has the column.
    indexed = pennon.write_dataset(filtered, uri, mode="overwrite")
    indexed.insert(filtered)
    assert indexed.to_table()["__index_level_0__"].to_pylist() == [1, 2, 1, 2]


WRONG: dict[str, tuple[Any, str]] = {
    "one value": ({"id": 5}, "column id: expected a list or an array, found 5"),
    "one text": ({"id": "abc"}, "column id: expected a list or an array, found 'abc'"),
    "not a dict": ([{"id": 1}, None], "Row 1 of the data must be a dict, found None"),
    "a number as a name": ([{1: 1}], "Names of columns must be texts, found 1"),
    "lists of other lengths": ({"id": [1], "s": ["a", "b"]}, "equally many values, found id 1, s 2"),
    "values of several types": ({"id": [1, "x"]}, "column id: Could not convert 'x'"),
    "text that is no UTF-8": ({"s": ["\ud800"]}, "column s: .*surrogates"),
    "several dimensions": ({"id": np.zeros((2, 2))}, "column id: .*1-dimensional"),
    "values of several types in a frame": (pd.DataFrame({"x": [1, "x"]}), "The frame cannot be stored.*column x"),
    "complex numbers": (pd.DataFrame({"x": [1j]}), "The frame cannot be stored.*column x"),
    "several columns of a name": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns of the name a"),
    "a frame that is not collected": (polars.LazyFrame({"id": [1]}), "LazyFrame of polars: call its collect"),
    "objects in a frame of polars": (
        polars.DataFrame({"u": [uuid.UUID(int=5)]}),
        "column u: objects of Python in a frame of polars .*convert them first",
    ),
    "a large integer of polars": (
        polars.DataFrame({"i": polars.Series([1], dtype=polars.Int128)}),
        "a type that Arrow does not have.*found i Int128",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data(uri: str, name: str) -> None:
    data, said = WRONG[name]
    table = pennon.write_dataset(pa.table({"id": [1], "s": ["a"]}), f"{uri}.other")
    for call in (
        lambda: pennon.write_dataset(data, uri),
        lambda: table.insert(data),
        lambda: merge(table, data),
        lambda: table.update_rows([0], data),
    ):
        with pytest.raises(pennon.InvalidInputError, match=said):
            call()


def test_values_as_expressions(uri: str) -> None:
    table = pennon.write_dataset({"id": [1, 2]}, uri)
    with pytest.raises(pennon.InvalidTypeError, match=r"must be a string. Got <class 'list'> for n: give values"):
        table.add_columns({"n": [1, 2]})


def test_requests_of_appends(uri: str) -> None:
    """Only values without types need the table before they are written, and it is opened once."""

    def requests(data: Any) -> int:
        before = pennon.iops_counter()
        pennon.write_dataset(data, uri, mode="append")
        return pennon.iops_counter() - before

    requests({"id": [1]})
    assert requests([{"id": 2}]) == requests(pa.table({"id": [3]}))


def test_an_index_of_the_name_of_a_column(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"a": [0]}), uri)
    for frame in (
        pd.DataFrame({"a": [1, 2]}, index=pd.Index([10, 20], name="a")),
        pd.DataFrame({"a": [1, 2]}).set_index("a", drop=False).assign(a=[3, 4]),
    ):
        for verb in (table.insert, table.merge_insert("a").when_matched_update_all().execute):
            with pytest.raises(pennon.InvalidInputError, match="a column and an index of the name a"):
                verb(frame)
        # A schema says which columns there are.
        found = pennon.write_dataset(frame, f"{uri}.2", schema=table.schema, mode="overwrite")
        assert found.to_table()["a"].to_pylist() == frame["a"].to_list()
    assert table.latest_version == 1


def test_an_index_with_a_name(uri: str) -> None:
    """Its levels are columns, also where a schema names the columns."""
    kept = pd.DataFrame({"s": ["a", "b"]}, index=pd.MultiIndex.from_arrays([[1, 2], [3, 4]], names=["id", "n"]))
    schema = pa.schema([("id", pa.int32()), ("s", pa.string()), ("n", pa.int8())])
    table = pennon.write_dataset(kept, uri, schema=schema)
    table.insert(kept)
    assert table.schema.equals(schema)
    assert table.to_table().to_pylist() == [{"id": 1, "s": "a", "n": 3}, {"id": 2, "s": "b", "n": 4}] * 2
    said = r"a column n, and the schema has id, s \(leave an index out with reset_index\(drop=True\)\)"
    with pytest.raises(pennon.InvalidInputError, match=said):
        pennon.write_dataset(kept, f"{uri}.2", schema=schema.remove(2))
    # An index without a name, or a range, is left out.
    for index in (pd.Index([7, 8]), pd.RangeIndex(2, name="n")):
        frame = kept.reset_index().drop(columns="n").set_index(index)
        found = pennon.write_dataset(frame, uri, schema=schema.remove(2), mode="overwrite")
        assert found.to_table().to_pydict() == {"id": [1, 2], "s": ["a", "b"]}


def test_names_of_columns_that_are_numbers(uri: str) -> None:
    frame, schema = pd.DataFrame([[1, "a"]]), pa.schema([("0", pa.int8()), ("1", pa.string())])
    table = pennon.write_dataset(frame, uri, schema=schema)
    table.insert(frame)
    assert table.schema.equals(schema)
    assert table.to_table().to_pylist() == [{"0": 1, "1": "a"}] * 2


class Name(str, Enum):
    A = "a"


@pytest.mark.parametrize("name", [b"a", Name.A, np.str_("a")], ids=repr)
def test_other_names_of_columns(uri: str, name: Any) -> None:
    frame = pd.DataFrame({name: [1]})
    table = pennon.write_dataset({"a": [0]}, uri)
    table.insert(frame)
    assert table.to_table().to_pydict() == {"a": [0, 1]}
    found = pennon.write_dataset(frame, f"{uri}.2", schema=table.schema)
    assert found.to_table().to_pydict() == {"a": [1]}


class Geo(pd.DataFrame):  # type: ignore[misc]
    """As frames of geopandas are."""

    @property
    def _constructor(self) -> type[Geo]:
        return Geo


class Lazy(polars.DataFrame):
    """As some packages extend those of polars."""


def test_classes_below_frames(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"id": pa.array([1], pa.int8())}), uri)
    for verb in VERBS:
        verb(table, Geo({"id": [2]}))
        table.checkout_latest()
    with pytest.raises(pennon.InvalidInputError, match="would change the value 300"):
        table.insert(Geo({"id": [300]}))
    with pytest.raises(pennon.InvalidTypeError, match="found a Series of pandas: call its to_frame"):
        table.insert(Geo({"id": [2]})["id"])
    assert set(table.to_table()["id"].to_pylist()) == {1, 2}
    found = pennon.write_dataset(Lazy({"s": ["a"]}), f"{uri}.2")
    assert found.schema.field("s").type == pa.large_string()


def test_nan_in_lists_and_structs_of_pandas(uri: str) -> None:
    kinds = {"l": pa.list_(pa.int64()), "s": pa.struct([("x", pa.int64()), ("t", pa.timestamp("us"))])}
    table = pennon.write_dataset(pa.table({name: pa.nulls(0, kind) for name, kind in kinds.items()}), uri)
    nan = float("nan")
    frame = pd.DataFrame(
        {"l": [[1, nan], [2], None], "s": [{"x": nan, "t": pd.NaT}, {"x": 1, "t": pd.Timestamp(0)}, None]}
    )
    table.insert(frame)
    assert table.to_table().to_pydict() == {
        "l": [[1, None], [2], None],
        "s": [{"x": None, "t": None}, {"x": 1, "t": datetime(1970, 1, 1)}, None],
    }


def test_values_that_only_have_a_form_as_integers(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"a": [1]}), uri)
    for data in ([{"a": Fraction(3, 2)}], {"a": [Fraction(3, 2)]}):
        with pytest.raises(pennon.PennonError, match=r"column a|`a`"):
            table.insert(data)
    assert table.count_rows() == 1


def test_structs_by_position_and_as_pairs(uri: str) -> None:
    kind = pa.struct([("x", pa.int32()), ("y", pa.string())])
    table = pennon.write_dataset(pa.table({"s": pa.nulls(0, kind)}), uri)
    for value in ((1, "ab"), [("x", 2), ("y", "cd")], {"y": "e"}, None):
        table.insert([{"s": value}])
    assert [row and dict(row) for row in table.to_table()["s"].to_pylist()] == [
        {"x": 1, "y": "ab"},
        {"x": 2, "y": "cd"},
        {"x": None, "y": "e"},
        None,
    ]
