"""Columns of a feed in older versions: by identity through renames, by name through overwrites.

Random programs next to a plain model of the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.long import LONG
from support.seeds import seeds

NAMES, MEMBERS = "abcdst", "xyz"
STEPS = ["append", "update", "delete", "rename", "rename", "member", "drop", "add", "compact", "compact"]
STEPS += ["overwrite", "restore"]
Row = dict[int, Any]


@dataclass(frozen=True)
class Column:
    """A column: a number of its own, a name, and a type, or members. Values are kept by number."""

    number: int
    name: str
    type: pa.DataType | None
    members: tuple[Column, ...] = ()
    id: int = -1

    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.type or pa.struct([member.arrow() for member in self.members]))

    def with_ids(self, stored: Any) -> Column:
        """With the ids of the table."""
        members = tuple(own.with_ids(other) for own, other in zip(self.members, stored.children(), strict=True))
        return replace(self, id=stored.id, members=members)

    def named(self, value: Any) -> Any:
        if self.type is not None or value is None:
            return value
        return {member.name: member.named(value[member.number]) for member in self.members}


@dataclass(frozen=True)
class State:
    """A version: its columns and rows, and the version that it was made from; None if it was overwritten."""

    columns: tuple[Column, ...]
    rows: dict[int, Row]
    origin: int | None

    def named(self) -> dict[int, dict[str, Any]]:
        return {id: {own.name: own.named(row[own.number]) for own in self.columns} for id, row in self.rows.items()}


def same(wanted: Column, others: tuple[Column, ...], overwritten: bool) -> Column | None:
    for other in others:
        if other.name == wanted.name and (overwritten or other.id == wanted.id):
            return other
    return next((other for other in others if not overwritten and other.number == wanted.number), None)


class OtherTypeError(Exception):
    pass


def reading(wanted: Column, others: tuple[Column, ...], overwritten: bool) -> Callable[[Any], Any] | None:
    """How values of another version become those of a column; None if that does not have it."""
    other = same(wanted, others, overwritten)
    if other is None:
        return None
    if other.type != wanted.type:
        raise OtherTypeError
    if wanted.type is not None:
        return lambda row: row[other.number]
    members = {member.name: reading(member, other.members, overwritten) for member in wanted.members}

    def struct(row: Any) -> Any:
        value = row[other.number]
        if value is None or not any(members.values()):
            return None
        return {name: None if read is None else read(value) for name, read in members.items()}

    return struct


def top(wanted: Column, others: tuple[Column, ...], overwritten: bool) -> Callable[[Any], Any] | None:
    try:
        return reading(wanted, others, overwritten)
    except OtherTypeError:
        return None


@dataclass
class Model:
    uri: str
    dice: random.Random
    versions: dict[int, State] = field(default_factory=dict)
    next_row: int = 0
    numbers: Iterator[int] = field(default_factory=count)
    values: Iterator[int] = field(default_factory=count)

    def column(self, name: str) -> Column:
        if name in "st":
            chosen = self.dice.sample(MEMBERS, self.dice.randint(1, 3))
            members = tuple(Column(next(self.numbers), member, self.type()) for member in chosen)
            return Column(next(self.numbers), name, None, members)
        return Column(next(self.numbers), name, self.type())

    def type(self) -> pa.DataType:
        return self.dice.choice([pa.int64(), pa.int64(), pa.int64(), pa.string()])

    def value(self, column: Column) -> Any:
        if self.dice.random() < 0.1:
            return None
        if column.type is None:
            return {member.number: self.value(member) for member in column.members}
        value = next(self.values)
        return value if column.type == pa.int64() else str(value)

    def new_rows(self, columns: tuple[Column, ...], rows: int) -> tuple[pa.Table, dict[int, Row]]:
        made = [{column.number: self.value(column) for column in columns} for _ in range(rows)]
        arrays = [
            pa.array([column.named(row[column.number]) for row in made], column.arrow().type) for column in columns
        ]
        ids = range(self.next_row, self.next_row + rows)
        self.next_row += rows
        return pa.table(arrays, pa.schema([column.arrow() for column in columns])), dict(
            zip(ids, made, strict=True)
        )

    @property
    def newest(self) -> int:
        return max(self.versions, default=0)

    def add(self, columns: tuple[Column, ...], rows: dict[int, Row], origin: int | None) -> None:
        """The versions that the last step made."""
        table = pennon.dataset(self.uri)
        for version in range(self.newest + 1, table.version + 1):
            stored = table.checkout_version(version).lance_schema.fields()
            numbered = tuple(own.with_ids(other) for own, other in zip(columns, stored, strict=True))
            self.versions[version] = State(numbered, rows, origin)
            origin = version

    def overwrite(self) -> None:
        names = self.dice.sample(NAMES, self.dice.randint(2, 4))
        columns = tuple(self.column(name) for name in names)
        if self.versions and self.dice.random() < 0.6:
            old = self.versions[self.newest].columns
            # The same columns in another order, perhaps without some or with others.
            keep = self.dice.sample(old, self.dice.randint(1, len(old)))
            kept = [column.name for column in keep]
            columns = tuple(keep) + tuple(column for column in columns[:1] if column.name not in kept)
        data, rows = self.new_rows(columns, 6)
        pennon.write_dataset(data, self.uri, mode="overwrite", max_rows_per_file=3)
        self.add(columns, rows, None)

    def step(self) -> None:
        dice, table, now = self.dice, pennon.dataset(self.uri), self.versions[self.newest]
        columns, rows = now.columns, dict(now.rows)
        free = [name for name in NAMES if name not in [column.name for column in columns]]
        kind = dice.choice(STEPS)
        if kind == "overwrite":
            return self.overwrite()
        if kind == "restore":
            version = dice.choice(list(self.versions))
            table.checkout_version(version).restore()
            return self.add(self.versions[version].columns, self.versions[version].rows, version)
        plain = [column for column in columns if column.type == pa.int64()]
        if kind == "append":
            data, made = self.new_rows(columns, 3)
            table.insert(data)
            rows |= made
        elif kind == "update" and plain and rows:
            column, id = dice.choice(plain), dice.choice(list(rows))
            value = next(self.values)
            table.update({column.name: str(value)}, where=f"_rowid = {id}")
            rows[id] = rows[id] | {column.number: value}
        elif kind == "delete" and rows:
            id = dice.choice(list(rows))
            table.delete(f"_rowid = {id}")
            del rows[id]
        elif kind == "rename":
            column = dice.choice(columns)
            to = dice.choice([name for name in free if (name in "st") == (column.type is None)] or ["u"])
            if to == "u" and "u" in [column.name for column in columns]:
                return None
            table.alter_columns({"path": column.name, "name": to})
            columns = tuple(replace(own, name=to) if own == column else own for own in columns)
        elif kind == "member" and (structs := [column for column in columns if column.type is None]):
            column = dice.choice(structs)
            member = dice.choice(column.members)
            to = dice.choice([name for name in "xyzw" if name not in [own.name for own in column.members]])
            table.alter_columns({"path": f"{column.name}.{member.name}", "name": to})
            members = tuple(replace(own, name=to) if own == member else own for own in column.members)
            columns = tuple(replace(own, members=members) if own == column else own for own in columns)
        elif kind == "drop" and len(columns) > 1:
            column = dice.choice(columns)
            table.drop_columns([column.name])
            columns = tuple(own for own in columns if own != column)
        elif kind == "add" and (names := [name for name in free if name not in "st"]):
            column = Column(next(self.numbers), dice.choice(names), pa.int64())
            value = next(self.values) if dice.random() < 0.5 else None
            table.add_columns(column.arrow() if value is None else {column.name: str(value)})
            table.alter_columns({"path": column.name, "nullable": True})
            columns = (*columns, column)
            rows = {id: row | {column.number: value} for id, row in rows.items()}
        elif kind == "compact":
            table.optimize.compact_files()
        return self.add(columns, rows, self.newest)

    def is_overwritten(self, one: int, other: int) -> bool:
        while one != other:
            one, other = min(one, other), max(one, other)
            origin = self.versions[other].origin
            if origin is None:
                return True
            other = origin
        return False

    def seen(self, version: int, shown: int) -> dict[int, dict[str, Any]]:
        """The rows of a version in the columns of another."""
        state, overwritten = self.versions[version], self.is_overwritten(version, shown)
        read = {column.name: top(column, state.columns, overwritten) for column in self.versions[shown].columns}
        return {
            id: {name: None if value is None else value(row) for name, value in read.items()}
            for id, row in state.rows.items()
        }

    def changes(self, begin: int, end: int, shown: int) -> dict[int, tuple[Any, Any]]:
        """The rows that differ, before and after."""
        old = self.seen(begin, shown) if begin else {}
        new = self.seen(end, shown)
        pairs = {id: (old.get(id), new.get(id)) for id in old.keys() | new.keys()}
        return {id: (before, after) for id, (before, after) in pairs.items() if before != after}


def images(feed: pa.RecordBatchReader) -> dict[int, dict[int, tuple[Any, Any]]]:
    """Rows before and after, by version."""
    found: dict[int, dict[int, tuple[Any, Any]]] = {}
    for change in feed.read_all().to_pylist():
        kind, id, version = (change.pop(f"_{name}") for name in ("change_type", "rowid", "commit_version"))
        del change["_commit_timestamp"]
        before, after = found.setdefault(version, {}).get(id, (None, None))
        is_old = kind in ("delete", "update_preimage")
        found[version][id] = (change, after) if is_old else (before, change)
    return found


def values(feed: pa.RecordBatchReader, kind: str, *names: str) -> list[tuple[Any, ...]]:
    rows = feed.read_all().to_pylist()
    return [tuple(row[name] for name in names) for row in rows if row["_change_type"] == kind]


def test_an_overwrite_with_columns_in_another_order(uri: str) -> None:
    table = pennon.write_dataset({"a": [1], "b": [2], "c": [3]}, uri)
    table.insert(pa.table({"b": [20], "d": [30], "a": [10]}), mode="overwrite")
    for mode in ("net", "each"):
        feed = table.changes(1, images="both", mode=mode)
        assert values(feed, "delete", "a", "b", "d") == [(1, 2, None)]
    history = table.history(0)
    assert history.select(["_change_type", "a", "b", "d"]).to_pylist() == [
        {"_change_type": "insert", "a": 1, "b": 2, "d": None},
        {"_change_type": "delete", "a": None, "b": None, "d": None},
    ]
    # Back in the old order, and seen from there.
    table.checkout_version(1).restore()
    table.checkout_latest()
    assert values(table.changes(2, images="both"), "delete", "a", "b", "c") == [(10, 20, None)]
    assert values(table.changes(1, images="both"), "delete", "a") == []


def test_a_rename_before_or_after_an_overwrite(uri: str) -> None:
    table = pennon.write_dataset({"a": [1], "b": [2]}, uri)
    table.alter_columns({"path": "a", "name": "c"})
    table.insert(pa.table({"b": [20], "c": [10]}), mode="overwrite")
    assert values(table.changes(2, images="both"), "delete", "c", "b") == [(1, 2)]
    # Which column a was before the overwrite nothing tells.
    assert values(table.changes(1, images="both"), "delete", "c", "b") == [(None, 2)]
    table.alter_columns({"path": "c", "name": "e"})
    assert values(table.changes(3, 4, images="both", columns_of="table"), "delete", "e") == []
    table.delete("true")
    assert values(table.changes(3, images="both"), "delete", "e", "b") == [(10, 20)]


def test_a_field_id_of_another_column(uri: str) -> None:
    """Once nothing lists the id of a dropped column, the next one gets it."""
    table = pennon.write_dataset({"id": list(range(6)), "old": [1] * 6}, uri, max_rows_per_file=2)
    dropped = table.lance_schema.field("old").id
    table.drop_columns(["old"])
    table.delete("id = 5")
    table.optimize.compact_files()
    table.add_columns(pa.field("new", pa.int64()))
    assert table.lance_schema.field("new").id == dropped
    table.update({"new": "2"}, where="id = 0")
    table.delete("id = 1")
    found = table.changes(1, images="both").read_all().to_pylist()
    kinds = ("update_preimage", "update_postimage", "delete")
    assert {kind: [row["new"] for row in found if row["_change_type"] == kind] for kind in kinds} == {
        "update_preimage": [None],
        "update_postimage": [2],
        "delete": [None, None],
    }
    assert table.history(0)["new"].to_pylist() == [None, 2]


def test_a_member_with_the_id_of_another_column(uri: str) -> None:
    def pair(**members: int) -> pa.Table:
        return pa.table({"s": [members]})

    table = pennon.write_dataset(pair(x=1, y=2).append_column("z", [[3]]), uri)
    table.insert(pair(y=20, w=40, x=10), mode="overwrite")
    assert values(table.changes(1, images="both"), "delete", "s") == [({"y": 2, "w": None, "x": 1},)]


def test_versions_between_are_read_only_where_columns_differ(uri: str) -> None:
    table = pennon.write_dataset({"a": [1, 2], "b": [3, 4]}, uri, max_rows_per_file=1)
    table.update({"b": "5"}, where="a = 1")
    table.add_columns({"c": "a"})

    def requests() -> int:
        newest = pennon.dataset(uri, session=pennon.Session(metadata_cache_size_bytes=0))
        newest.io_stats_incremental()
        assert newest.changes(1, images="both").read_all().num_rows == 4
        return newest.io_stats_incremental().read_iops

    few = requests()
    for number in range(20):
        table.update_config({"number": str(number)})
    assert requests() == few
    # Both versions have a file with the column.
    table.alter_columns({"path": "a", "name": "d"})
    assert requests() == few


@pytest.mark.parametrize("seed", seeds(16 if LONG else 8))
def test_feeds_and_histories_of_random_programs(uri: str, seed: int) -> None:
    model = Model(uri, random.Random(seed))
    model.overwrite()
    for _ in range(14):
        model.step()
    table = pennon.dataset(uri)
    newest = model.newest
    for version, state in model.versions.items():
        rows = table.checkout_version(version).to_table(with_row_id=True).to_pylist()
        assert {row.pop("_rowid"): row for row in rows} == state.named(), version
    for _ in range(8):
        begin, end = sorted(model.dice.randrange(newest + 1) for _ in range(2))
        if begin == end:
            continue
        for shown, columns_of in [(end, "end"), (newest, "table")]:
            options: Any = {"images": "both", "columns_of": columns_of}
            found = images(table.changes(begin, end, drop_unchanged=True, **options))
            expected = model.changes(begin, end, shown)
            assert found.get(end, {}) == expected, (begin, end, columns_of)
            old, new = (model.seen(version, shown) if version else {} for version in (begin, end))
            for id, found_images in images(table.changes(begin, end, **options)).get(end, {}).items():
                assert found_images == (old.get(id), new.get(id)), (begin, end, columns_of, id)
            each = images(table.changes(begin, end, mode="each", drop_unchanged=True, **options))
            steps = {at: model.changes(at - 1, at, shown) for at in range(begin + 1, end + 1)}
            assert each == {at: changed for at, changed in steps.items() if changed}, (begin, end, columns_of)
    for id in model.dice.sample(range(model.next_row), 4):
        for change in table.history(id).to_pylist():
            version = change["_commit_version"]
            values = {name: value for name, value in change.items() if not name.startswith("_")}
            null = dict.fromkeys(values)
            assert values == model.seen(version, newest).get(id, null), (id, version)
