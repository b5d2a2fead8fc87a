"""Structs whose members are in several files, or missing in some: read as the reference reads them, and changed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

ROWS = 12
LEAVES = ("p", "q", "r")
OUTER = pa.struct(
    [
        ("a", pa.int64()),
        ("b", pa.struct([(name, pa.int64()) for name in LEAVES])),
        ("c", pa.struct([("d", pa.struct([(name, pa.int64()) for name in LEAVES])), ("s", pa.string())])),
    ]
)


def value(dice: random.Random, kind: pa.DataType, *, nulls: bool) -> Any:
    if nulls and dice.random() < 0.25:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(dice, field.type, nulls=nulls) for field in kind}
    return dice.randrange(100) if pa.types.is_integer(kind) else f"text {dice.randrange(9)}"


def rows(dice: random.Random, kind: pa.StructType, start: int, *, nulls: bool = True) -> pa.Table:
    found = [value(dice, kind, nulls=nulls) for _ in range(ROWS)]
    return pa.table({"id": range(start, start + ROWS), "x": pa.array(found, kind)})


def part_of(dice: random.Random, kind: pa.StructType) -> pa.StructType:
    """Some members of each struct, at least one."""
    kept = sorted(dice.sample(range(kind.num_fields), dice.randint(1, kind.num_fields)))
    members = [kind.field(at) for at in kept]
    return pa.struct([(m.name, part_of(dice, m.type) if pa.types.is_struct(m.type) else m.type) for m in members])


def same(uri: str) -> pa.Table:
    """What both libraries read, in a scan, of single rows and by a filter."""
    ours, theirs = pennon.dataset(uri, session=pennon.Session()), lance.dataset(uri)
    found = ours.to_table()
    expected = theirs.to_table()
    assert found.to_pylist() == expected.to_pylist()
    rows = [3, found.num_rows - 1]
    assert ours.take(rows).to_pylist() == theirs.take(rows).to_pylist()
    for filter in [f"{column} {test}" for column in ("x.a", "x.b.q", "x.c.d.r") for test in ("> 40", "IS NULL")]:
        wanted = theirs.to_table(columns=["id"], filter=filter)["id"].to_pylist()
        assert ours.to_table(columns=["id"], filter=filter)["id"].to_pylist() == wanted, filter
    return found


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("seed", range(6))
def test_members_that_are_missing(tmp_path: Path, version: str, seed: int) -> None:
    dice, uri = random.Random(seed), str(tmp_path / "t")
    table = pennon.write_dataset(rows(dice, OUTER, 0), uri, data_storage_version=version)
    parts = [rows(dice, part_of(dice, OUTER), ROWS * number) for number in (1, 2)]
    for part in parts:
        table.insert(part)
    found = same(uri)
    assert found["id"].to_pylist() == list(range(3 * ROWS))
    table.alter_columns({"path": "x.b.q", "data_type": pa.int32()})
    table.alter_columns({"path": "x.c.d.r", "data_type": pa.int16()})
    changed = same(uri)
    assert changed.to_pylist() == found.to_pylist()
    table.update({"id": "id + 1000"}, "x.b.q > 50")
    table.delete("x.c.d.r < 20")
    expected = same(uri)
    table.optimize.compact_files()
    assert sorted(same(uri).to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
    table.validate()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_members_that_are_dropped_and_added(tmp_path: Path, version: str) -> None:
    dice, uri = random.Random(9), str(tmp_path / "t")
    table = pennon.write_dataset(rows(dice, OUTER, 0, nulls=False), uri, data_storage_version=version)
    table.drop_columns(["x.c.d.q", "x.b.p"])
    inner = pa.struct([("d", pa.struct([("q", pa.int64()), ("new", pa.int64())]))])
    table.add_columns(pa.field("x", pa.struct([("c", inner)])))
    found = same(uri)
    assert {row["c"]["d"]["q"] for row in found["x"].to_pylist()} == {None}
    assert {row["c"]["d"]["p"] is None for row in found["x"].to_pylist()} == {False}
    table.insert(rows(dice, found.schema.field("x").type, ROWS, nulls=version != "2.0"))
    same(uri)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_struct_is_null_where_all_its_parts_are(tmp_path: Path, version: str) -> None:
    """Members that are added to rows whose struct was null."""
    uri, states = str(tmp_path / "t"), (None, {"t": None}, {"t": {"a": 1}})
    first = pa.struct([("t", pa.struct([("a", pa.int64())]))])
    added = [None if state is None else {"t": state["t"] and {"b": 2}} for state in states for _ in states]
    table = pa.table({"id": range(9), "s": pa.array([*states, *states, *states], first)})
    pennon.write_dataset(table, uri, data_storage_version=version)
    second = pa.struct([("t", pa.struct([("b", pa.int64())]))])
    pennon.dataset(uri).add_columns(pa.table({"s": pa.array(added, second)}).to_reader())
    expected = lance.dataset(uri).to_table()
    ours = pennon.dataset(uri)
    assert ours.to_table().to_pylist() == expected.to_pylist()
    assert sum(row is None for row in expected["s"].to_pylist()) == 1
    for condition in ("s IS NULL", "s.t IS NULL", "s.t.a IS NULL", "s.t.b = 2", "s.t.a = 1 AND s.t.b = 2"):
        assert ours.count_rows(condition) == lance.dataset(uri).count_rows(condition), condition
    assert ours.update({"id": "id + 10"}, "s.t.b = 2")["num_rows_updated"] == 3
    ours.optimize.compact_files()
    found = lance.dataset(uri).to_table().sort_by("id")
    assert [row["s"] for row in found.to_pylist()] == [
        row["s"] for row in sorted(expected.to_pylist(), key=lambda row: row["id"] + 10 * (row["id"] > 5))
    ]
