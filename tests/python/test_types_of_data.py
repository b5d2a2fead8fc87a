"""Data whose columns have the values of the table in another Arrow type: frames of polars, dictionaries, nulls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pandas as pd
import pennon
import polars
import pyarrow as pa
import pytest
from pennon import jobs

TEXTS = ["a", None, "ccc", ""]
BYTES = [b"a", None, b"ccc", b""]
LISTS = [[1.0, 2.0], None, [3.0, 4.0], [5.0, None]]
TAGS = [["a", None], None, [], ["b"]]
POINTS = [{"x": "a", "y": [1]}, None, {"x": None, "y": []}, {"x": "b", "y": None}]
MAPS = [[("a", "b")], None, [], [("c", None)]]


def dictionary(values: pa.DataType, keys: pa.DataType | None = None) -> pa.DataType:
    return pa.dictionary(keys or pa.int32(), values)


def point(text: pa.DataType, numbers: pa.DataType) -> pa.DataType:
    return pa.struct([("x", text), ("y", numbers)])


SMALL, LARGE = point(pa.string(), pa.list_(pa.int64())), point(pa.large_string(), pa.large_list(pa.int64()))

# Types of one kind of values: each can be stored in each, except that a table has no views.
KINDS: list[tuple[list[Any], list[pa.DataType]]] = [
    (TEXTS, [pa.string(), pa.large_string(), dictionary(pa.string()), dictionary(pa.large_string(), pa.int8())]),
    (BYTES, [pa.binary(), pa.large_binary(), dictionary(pa.binary())]),
    (LISTS, [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)]),
    (TAGS, [pa.list_(pa.string()), pa.large_list(pa.large_string())]),
    (POINTS, [SMALL, LARGE]),
    ([[point] for point in POINTS], [pa.list_(SMALL), pa.large_list(LARGE)]),
    ([1, None, 1, 2], [pa.int64(), dictionary(pa.int64())]),
    (MAPS, [pa.map_(pa.string(), pa.string()), pa.map_(pa.large_string(), pa.large_string())]),
]
CASES = [
    pytest.param(values, stored, given, id=f"{given} in {stored}")
    for values, kinds in KINDS
    for stored in kinds
    for given in [
        *kinds,
        *([pa.string_view()] if values is TEXTS else []),
        *([pa.binary_view()] if values is BYTES else []),
    ]
    if stored != given
] + [
    pytest.param([None] * 4, kind, pa.null(), id=f"null in {kind}")
    for kind in (pa.string(), pa.list_(SMALL), pa.date32())
]


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Views and dictionaries of some values have no other constructor."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def write(path: Path, data: pa.Table) -> None:
    pennon.write_dataset(data, path, mode="append")


def insert(path: Path, data: pa.Table) -> None:
    pennon.dataset(path).insert(data.to_reader(max_chunksize=3))


def merge(path: Path, data: pa.Table) -> None:
    pennon.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)


def merge_in_tasks(path: Path, data: pa.Table) -> None:
    builder = pennon.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    jobs.run(jobs.plan_merge(builder, data.schema, tasks=2), source=data)


VERBS: list[Callable[[Path, pa.Table], None]] = [write, insert, merge, merge_in_tasks]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize(("values", "stored", "given"), CASES)
def test_they_become_those_of_the_table(
    tmp_path: Path,
    verb: Callable[[Path, pa.Table], None],
    values: list[Any],
    stored: pa.DataType,
    given: pa.DataType,
) -> None:
    ids = pa.array([1, 2, 3, 4])
    table = pa.table({"id": ids, "c": array(values, stored)})
    pennon.write_dataset(table.slice(0, 1), tmp_path / "t", data_storage_version="2.2")
    # A slice: values before and after are nobody's.
    data = pa.table({"c": array([values[0], *values, values[0]], given).slice(1, 4), "id": ids}).slice(1)
    verb(tmp_path / "t", data)
    found = pennon.dataset(tmp_path / "t").to_table().sort_by("id")
    assert found.schema.equals(table.schema)
    assert found["c"].to_pylist() == table["c"].to_pylist()
    assert lance.dataset(str(tmp_path / "t")).to_table().sort_by("id")["c"].to_pylist() == table["c"].to_pylist()


@pytest.mark.parametrize("verb", VERBS[:3], ids=lambda verb: verb.__name__)
def test_frames(tmp_path: Path, verb: Callable[[Path, pa.Table], None]) -> None:
    columns = {"id": [1, 2], "text": ["a", None], "tags": [["a"], ["b", "c"]], "kind": ["k", "l"]}
    schema = pa.schema(
        [("id", pa.int64()), ("text", pa.string()), ("tags", pa.list_(pa.string())), ("kind", pa.string())]
    )
    table = pa.table(columns, schema=schema)
    pennon.write_dataset(table, tmp_path / "t")
    others = {**columns, "id": [3, 4]}
    verb(tmp_path / "t", polars.DataFrame(others, schema_overrides={"kind": polars.Categorical}).to_arrow())
    others = {**columns, "id": [5, 6]}
    verb(tmp_path / "t", pa.Table.from_pandas(pd.DataFrame(others).astype({"kind": "category"})))
    found = pennon.dataset(tmp_path / "t").to_table().sort_by("id")
    assert found.schema.equals(schema)
    assert found.drop(["id"]).to_pylist() == table.drop(["id"]).to_pylist() * 3


@pytest.mark.parametrize("key", [polars.String, polars.Categorical], ids=str)
@pytest.mark.parametrize("tasks", [0, 3])
@pytest.mark.parametrize("index", [True, False])
def test_keys_of_merges(tmp_path: Path, key: Any, tasks: int, index: bool) -> None:
    rows = {"key": [f"k{number}" for number in range(100)], "n": range(100)}
    table = pennon.write_dataset(rows, tmp_path / "t")
    if index:
        table.create_scalar_index("key", "BTREE")
    changed = {"key": [f"k{number}" for number in range(50, 150)], "n": range(1050, 1150)}
    frame = polars.DataFrame(changed, schema_overrides={"key": key})
    merge = table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    if tasks:
        data = frame.to_arrow()
        counts = jobs.run(jobs.plan_merge(merge, data.schema, tasks=tasks), source=data).counts
    else:
        counts = merge.execute(frame)
    assert counts == {"num_inserted_rows": 50, "num_updated_rows": 50, "num_deleted_rows": 0}
    found = pennon.dataset(tmp_path / "t").to_table().to_pydict()
    wanted = {
        **dict(zip(rows["key"], rows["n"], strict=True)),
        **dict(zip(changed["key"], changed["n"], strict=True)),
    }
    assert dict(zip(found["key"], found["n"], strict=True)) == wanted


def test_a_table_whose_types_change_before_the_merge(tmp_path: Path) -> None:
    pennon.write_dataset(pa.table({"key": [1, 2], "v": ["a", "b"]}), tmp_path / "t")
    before = pennon.dataset(tmp_path / "t")
    pennon.dataset(tmp_path / "t").alter_columns({"path": "v", "data_type": pa.large_string()})
    data = pa.table({"key": [2, 3], "v": pa.array(["x", "y"], pa.large_string())})
    merge = before.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(pennon.SchemaMismatchError, match="`v` should have type large_string but type was string"):
        merge.execute(data)
    assert upserted(tmp_path / "t", data) == {1: "a", 2: "x", 3: "y"}


def upserted(path: Path, data: pa.Table) -> dict[int, str]:
    merge = pennon.dataset(path).merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(data)
    found = pennon.dataset(path).to_table().to_pydict()
    return dict(zip(found["key"], found["v"], strict=True))


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (pa.int64(), pa.int32()),
        (pa.int32(), pa.int64()),
        (pa.timestamp("us"), pa.timestamp("ns")),
        (pa.string(), pa.binary()),
        (pa.string(), dictionary(pa.int64())),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.list_(pa.float32(), 3), pa.list_(pa.float32(), 2)),
        (pa.json_(), pa.string()),
        (pa.large_binary(), pa.json_()),
    ],
    ids=str,
)
def test_other_values_are_refused(tmp_path: Path, stored: pa.DataType, given: pa.DataType) -> None:
    pennon.write_dataset(pa.table({"id": [1], "c": pa.nulls(1).cast(stored)}), tmp_path / "t")
    data = pa.table({"id": [2], "c": pa.nulls(1).cast(given)})
    for verb in VERBS[:3]:
        with pytest.raises(pennon.SchemaMismatchError, match="should have type"):
            verb(tmp_path / "t", data)


@pytest.mark.parametrize("verb", VERBS[:3], ids=lambda verb: verb.__name__)
@pytest.mark.parametrize(
    ("stored", "values", "said"),
    [
        (pa.list_(pa.float64(), 2), [[1.0, 2.0], [1.0]], "column `c`: .*length 1"),
        (
            dictionary(pa.string(), pa.int8()),
            [str(number) for number in range(200)],
            "`c`: .*(key bigger|keys of type Int8)",
        ),
    ],
    ids=["lists of another length", "too many for the keys"],
)
def test_values_that_do_not_fit(
    tmp_path: Path, verb: Callable[[Path, pa.Table], None], stored: pa.DataType, values: list[Any], said: str
) -> None:
    pennon.write_dataset(pa.table({"id": pa.array([], pa.int64()), "c": array([], stored)}), tmp_path / "t")
    with pytest.raises((pennon.InvalidInputError, pennon.UnsupportedError), match=said):
        verb(tmp_path / "t", pa.table({"id": range(len(values)), "c": values}))
    assert pennon.dataset(tmp_path / "t").version == 1
    assert not list((tmp_path / "t" / "data").glob("*"))


def test_nulls_where_none_may_be(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.string(), nullable=False)])
    pennon.write_dataset(pa.table({"id": [1], "c": ["a"]}, schema=schema), tmp_path / "t")
    for verb in VERBS[:3]:
        with pytest.raises(
            (pennon.SchemaMismatchError, pennon.InvalidInputError), match=r"(?i)\bfield `c`|column '?c'?\b"
        ):
            verb(tmp_path / "t", pa.table({"id": [2], "c": pa.nulls(1)}))
    assert pennon.dataset(tmp_path / "t").version == 1
