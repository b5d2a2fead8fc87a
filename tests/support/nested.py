"""Columns of structs, lists and maps for random tests, with nulls in all positions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

FIELDS = [
    pa.field(
        "p",
        pa.struct({"a": pa.int64(), "q": pa.struct({"t": pa.string(), "l": pa.list_(pa.int64())})}),
    ),
    pa.field("v", pa.list_(pa.float32())),
    pa.field("m", pa.map_(pa.string(), pa.int64())),
]

Values = tuple[Any, Any, Any]


def values(rng: random.Random) -> Values:
    """A value of each column."""

    def maybe(make: Callable[[], Any]) -> Any:
        return None if rng.random() < 0.25 else make()

    def number() -> int:
        return rng.randrange(-9, 9)

    def inner() -> dict[str, Any]:
        return {
            "t": maybe(lambda: f"t{number()}"),
            "l": maybe(lambda: [maybe(number) for _ in range(number() % 4)]),
        }

    return (
        maybe(lambda: {"a": maybe(number), "q": maybe(inner)}),
        maybe(lambda: [maybe(lambda: number() / 4) for _ in range(number() % 4)]),
        maybe(lambda: {f"k{n}": maybe(number) for n in range(number() % 4)}),
    )


def values_of(row: Mapping[str, Any]) -> Values:
    """Those of a row of Arrow, whose maps are lists of pairs, or of Spark as a dictionary."""
    return row["p"], row["v"], None if row["m"] is None else dict(row["m"])
