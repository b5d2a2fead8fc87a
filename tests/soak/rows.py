"""The table of the soak: its columns, the indices over them, and what is asked of it."""

from __future__ import annotations

import random
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
from support.vectors import column

LIBRARIES: dict[str, Any] = {"pennon": pennon, "lance": lance}
DIMENSION, PARTITIONS = 8, 4
# More than any index has, whoever takes care of it.
ALL_PROBES = 100
K = 10
FEWEST, MOST = 4_000, 9_000

SCALARS = {
    "id": "BTREE",
    "n": "BTREE",
    "k": "BITMAP",
    "tags": "LABEL_LIST",
    "z": "ZONEMAP",
    "b": "BLOOMFILTER",
}
# Small, so that a table of some thousand rows has many.
ZONES = {"ZONEMAP": {"rows_per_zone": 100}, "BLOOMFILTER": {"number_of_items": 100}}
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int64(),
        "k": pa.string(),
        "tags": pa.list_(pa.int64()),
        "z": pa.int64(),
        "b": pa.int64(),
        "vec": pa.list_(pa.float32(), DIMENSION),
        "other": pa.int64(),
    }
)


def rows_of(ids: list[int], dice: random.Random, names: list[str]) -> pa.Table:
    """Rows with these ids and random values; columns that are not in `SCHEMA` are null."""

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.05 else value

    count = len(ids)
    values = {
        "id": ids,
        "n": [maybe(dice.randrange(2_000)) for _ in ids],
        "k": [maybe(f"v{dice.randrange(40)}") for _ in ids],
        "tags": [maybe([dice.randrange(30) for _ in range(dice.randrange(4))]) for _ in ids],
        "z": [maybe(id % 1_000_000 // 3 + dice.randrange(9)) for id in ids],
        "b": [maybe(dice.randrange(3_000)) for _ in ids],
        "other": [dice.randrange(100) for _ in ids],
    }
    vectors = np.random.default_rng(dice.randrange(2**32)).integers(-40, 40, (count, DIMENSION)).astype("f4")
    arrays = {name: pa.array(column, SCHEMA.field(name).type) for name, column in values.items()}
    arrays["vec"] = column(vectors)
    return pa.table({name: arrays[name] if name in arrays else pa.nulls(count, pa.int64()) for name in names})


def create(uri: str, stable: bool, dice: random.Random, libraries: list[Any]) -> None:
    """The table, with an index of each kind, by any library."""
    first = rows_of(list(range(6_000)), dice, SCHEMA.names)
    pennon.write_dataset(first, uri, max_rows_per_file=1_500, enable_stable_row_ids=stable, durability="os")
    for name in [*SCALARS, "vec"]:
        index(dice.choice(libraries), uri, name)


def index(library: Any, uri: str, name: str) -> None:
    """Makes the index of a column, again if there is one."""
    table = library.dataset(uri)
    if name == "vec":
        table.create_index("vec", "IVF_FLAT", metric="l2", num_partitions=PARTITIONS, replace=True)
        return
    kind = SCALARS[name]
    config = library.indices.IndexConfig(kind, ZONES[kind]) if kind in ZONES else kind
    table.create_scalar_index(name, config, replace=True)


def predicates(dice: random.Random) -> list[str]:
    """Filters that each kind of index answers, and some that several do."""
    n, z, b, tag = dice.randrange(2_000), dice.randrange(2_500), dice.randrange(3_000), dice.randrange(30)
    k = f"'v{dice.randrange(40)}'"
    return [
        f"id = {dice.randrange(6_000)}",
        f"n = {n}",
        f"n between {n} and {n + 20}",
        "n is null",
        f"k = {k}",
        f"k in ({k}, 'v7')",
        "k is null",
        f"array_has(tags, {tag})",
        f"array_has_all(tags, [{tag}, {dice.randrange(30)}])",
        f"z = {z}",
        f"z between {z} and {z + 30}",
        "z is null",
        f"b = {b}",
        f"b in ({b}, {dice.randrange(3_000)})",
        f"n < {n // 10} and k = {k}",
        f"n = {n} or k = {k}",
        f"k = {k} and not (n > {n})",
        f"array_has(tags, {tag}) and z < {z}",
        f"other = {dice.randrange(100)} and k = {k}",
    ]
