"""Columns of all types that indices can have, what is asked of them, and what both libraries must answer."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import lance
import pennon
import pyarrow as pa

from support.long import LONG

ROWS = 120
NULL_SHARE = 0.15


def values() -> dict[str, pa.Array]:
    """A column of each type that has an order, with nulls and equal values."""
    rng = random.Random(11)

    def some(make: Callable[[int], Any], type: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < NULL_SHARE else make(rng.randrange(9)) for _ in range(ROWS)], type)

    floats = [-0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 7.0, 0.25]
    day = datetime.date(2024, 2, 28)
    moment = datetime.datetime(2024, 2, 28, 12, 30, 1, 500_000)
    return {
        "int8": some(lambda n: n - 4, pa.int8()),
        "int64": some(lambda n: n * 10**12, pa.int64()),
        "uint64": some(lambda n: 2**63 + n, pa.uint64()),
        "float": some(lambda n: floats[n], pa.float32()),
        "double": some(lambda n: floats[n], pa.float64()),
        "bool": some(lambda n: n % 2 == 0, pa.bool_()),
        "string": some(lambda n: ["", "a", "ab", "abc", "b", "ä", "zz", "Z", "a%"][n], pa.string()),
        "large_string": some(lambda n: f"x{n}", pa.large_string()),
        "binary": some(lambda n: bytes([n, 255 - n]), pa.binary()),
        "date": some(lambda n: day + datetime.timedelta(days=n), pa.date32()),
        "timestamp": some(lambda n: moment + datetime.timedelta(milliseconds=n), pa.timestamp("us")),
        "decimal": some(lambda n: Decimal(n) / 4, pa.decimal128(10, 2)),
    }


VALUES = values()
PREDICATES = {
    "int8": [
        "c = -4",
        "c < 0",
        "c between -1 and 2",
        "c in (1, 3, 100)",
        "c not in (1, 3)",
        "not (c >= 2)",
        "c != 0",
    ],
    "int64": ["c = 3000000000000", "c > 5000000000000", "c = 1", "c <= 0"],
    "uint64": ["c = 9223372036854775809", "c >= 9223372036854775812"],
    "float": ["c = 0.0", "c < 0.0", "c > 1.5", "c = 0.25", "c >= 0.0", "c != 0.0"],
    "double": ["c = 0.0", "c <= -1.5", "c between -2.0 and 0.0", "c in (0.0, 7.0)"],
    "bool": ["c = true", "c = false", "c", "not c", "c is true", "c is not true"],
    "string": [
        "c = ''",
        "c = 'ab'",
        "c > 'a'",
        "c like 'a%'",
        "c in ('ä', 'zz')",
        "c < 'b' and c > ''",
        "c != 'b'",
    ],
    "large_string": ["c = 'x3'", "c >= 'x7'"],
    "binary": ["c = X'02FD'", "c < X'04'"],
    "date": ["c = date '2024-03-01'", "c < date '2024-03-01'"],
    "timestamp": [
        "c = timestamp '2024-02-28 12:30:01.503'",
        "c > timestamp '2024-02-28 12:30:01.504'",
    ],
    "decimal": ["c = 1", "c >= 1", "c < 2", "c in (0, 2)"],
}


def table_of(column: pa.Array) -> pa.Table:
    return pa.table({"n": range(len(column)), "c": column})


def rows_of(table: Any, predicate: str, **options: Any) -> list[int]:
    return sorted(table.scanner(columns=["n"], filter=predicate, **options).to_table()["n"].to_pylist())


def uses_an_index(table: Any, predicate: str) -> bool:
    plan = table.scanner(filter=predicate).explain_plan()
    return "ScalarIndexQuery" in plan or "rows found by indices" in plan


def compare_some(uri: str, predicates: list[str]) -> None:
    """Every second one, of the next version the others, for tests that compare after each of many changes."""
    compare(uri, predicates if LONG else predicates[pennon.dataset(uri).version % 2 :: 2])


def compare(uri: str, predicates: list[str]) -> None:
    """Both libraries find, with indices, what both find without."""
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    for predicate in predicates:
        expected = rows_of(theirs, predicate, use_scalar_index=False)
        assert rows_of(ours, predicate, use_scalar_index=False) == expected, predicate
        assert rows_of(ours, predicate) == expected, predicate
        assert rows_of(theirs, predicate) == expected, predicate
        assert ours.count_rows(predicate) == len(expected), predicate
