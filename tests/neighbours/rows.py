"""Rows for tables, and what they are after changes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from support import shapes

ROWS, ROWS_PER_FILE = 1000, 400
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.utf8()),
        ("x", pa.float64()),
        ("day", pa.date32()),
        ("items", pa.list_(pa.int32())),
        ("at", pa.struct([("a", pa.int64()), ("b", pa.utf8())])),
        ("vec", pa.list_(pa.float32(), 8)),
    ]
)

Row = dict[str, Any]


def row(id: int) -> Row:
    return {
        "id": id,
        "text": None if id % 11 == 3 else f"row {id}",
        "x": id / 2,
        "day": None if id % 7 == 2 else id,
        "items": None if id % 13 == 5 else list(range(id % 4)),
        # File version 2.0 has no null structs.
        "at": {"a": id, "b": None if id % 5 == 1 else f"b{id % 9}"},
        "vec": [float(id * 7919 % 1009 * (n + 1) % 251) for n in range(8)],
    }


def kept_by_legacy(row: Row) -> Row:
    """What data files of version 0.1 keep of a row: they have no nulls but those of texts, see `docs/limits.md`."""
    return {**row, "day": row["day"] or 0, "items": row["items"] or []}


def table_of(rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """A table with these columns of the rows; days are numbers in rows."""
    rows = list(rows)
    days = pa.array([row["day"] for row in rows], pa.int32()).view(pa.date32())
    columns = [days if f.name == "day" else pa.array([row[f.name] for row in rows], f.type) for f in schema]
    return pa.table(columns, schema=schema)


class Model:
    """The rows of a table by id, and what the changes of these tests do to them."""

    def __init__(self, rows: int = ROWS, is_legacy: bool = False) -> None:
        self.is_legacy = is_legacy
        self.rows = {id: self.row(id) for id in range(rows)}
        self.schema = SCHEMA

    def row(self, id: int) -> Row:
        return kept_by_legacy(row(id)) if self.is_legacy else row(id)

    def table(self) -> pa.Table:
        return table_of(self.rows.values(), self.schema)

    def append(self, start: int = 5000, count: int = 300) -> pa.Table:
        new = [self.row(id) for id in range(start, start + count)]
        self.rows |= {row["id"]: row for row in new}
        return table_of(new)

    def delete(self, divisor: int, rest: int) -> str:
        """The condition of a delete."""
        self.rows = {id: row for id, row in self.rows.items() if id % divisor != rest}
        return f"id % {divisor} = {rest}"

    def update(self, divisor: int, rest: int) -> dict[str, Any]:
        """Arguments of an update."""
        for id, row in self.rows.items():
            if id % divisor == rest:
                self.rows[id] = {**row, "text": "new", "x": row["x"] + 1000}
        return {"updates": {"text": "'new'", "x": "x + 1000"}, "where": f"id % {divisor} = {rest}"}

    def merge(self, start: int = 900, count: int = 200) -> pa.Table:
        """The source of an upsert by id."""
        source = [{**self.row(id), "text": "merged", "x": -1.0} for id in range(start, start + count)]
        self.rows |= {row["id"]: row for row in source}
        return table_of(source)

    def add_column(self) -> dict[str, str]:
        self.rows = {id: {**row, "sum": row["x"] + id} for id, row in self.rows.items()}
        self.schema = self.schema.append(pa.field("sum", pa.float64()))
        return {"sum": "x + cast(id as double)"}

    def drop_column(self) -> list[str]:
        self.schema = self.schema.remove(self.schema.get_field_index("items"))
        return ["items"]


def types() -> dict[str, pa.Table]:
    """A table with an id for each type and shape of values."""
    arrays = {**shapes.columns(7, 2500), **{name: make() for name, make in shapes.LARGE.items()}}
    rng = random.Random(8)
    few = [f"n{rng.randrange(700)}" for _ in range(5000)]
    # Dictionaries of more than 4 KiB.
    arrays["utf8-700-distinct"] = pa.array(few)
    arrays["utf8-700-distinct-nulls"] = pa.array(shapes.with_nulls(rng, few))
    arrays["struct-700-distinct"] = pa.array([{"n": n, "s": text} for n, text in enumerate(few)])
    return {
        name: pa.table({"id": pa.array(range(len(array)), pa.int64()), "value": array})
        for name, array in sorted(arrays.items())
    }


def family(name: str) -> str:
    """The line of the page that a shape is on."""
    starts = {
        "int": "integers",
        "uint": "integers",
        "150000": "integers",
        "one-null": "integers",
        "float": "floats",
        "bool": "booleans",
        "decimal": "decimals",
        "date": "dates, times, timestamps, durations",
        "time": "dates, times, timestamps, durations",
        "duration": "dates, times, timestamps, durations",
        "utf8": "strings",
        "large-utf8": "strings",
        "texts": "strings",
        "binary": "binary",
        "large-binary": "binary",
        "bytes": "binary",
        "fixed-size-binary": "fixed-size binary",
        "null": "nulls only",
        "fsl-of-structs": "fixed-size lists of structs",
        "fsl": "fixed-size lists",
        "struct": "structs",
        "list": "lists",
        "large-list": "lists",
        "70000": "lists",
        "deep": "structs and lists, nested",
        "map": "maps",
        "dictionary": "dictionaries",
    }
    dictionaries = {"list-of-dictionary": "dictionaries"}
    if name in dictionaries:
        return dictionaries[name]
    return starts[max((start for start in starts if name.startswith(start)), key=len)]
