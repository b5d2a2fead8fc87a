"""Several lists of values in one condition, where some of the values compared are null: as in SQLite."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pennon
import pyarrow as pa
import pytest

WORDS = ["a", "b", "c", "d", None]
NUMBERS = [1, 2, 3, 2**62, None]
COLUMNS = {
    "word": pa.array(WORDS),
    "code": pa.array(WORDS).dictionary_encode(),
    "small": pa.array([1, 2, 3, 4, None], pa.int8()),
    "number": pa.array(NUMBERS, pa.int64()),
    "unsigned": pa.array(NUMBERS, pa.uint64()),
}
LITERALS = {
    "word": ["'a'", "'b'", "'c'", "'z'", "NULL"],
    "code": ["'a'", "'b'", "'c'", "'z'", "NULL"],
    "small": ["1", "2", "3", "300", "NULL"],
    "number": ["1", "2", "3", str(2**62), "NULL"],
    "unsigned": ["1", "2", "3", str(2**63 - 1), "NULL"],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pennon.LanceDataset:
    rows = pa.table({"id": range(5), **COLUMNS})
    return pennon.write_dataset(rows, tmp_path_factory.mktemp("lists") / "t")


@pytest.fixture(scope="module")
def model(table: pennon.LanceDataset) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (id, word, code, small, number, unsigned)")
    rows = [tuple(row.values()) for row in table.to_table().to_pylist()]
    connection.executemany("insert into t values (?, ?, ?, ?, ?, ?)", rows)
    return connection


def condition(rng: random.Random, column: str, depth: int) -> str:
    if depth == 0:
        values = ", ".join(rng.choices(LITERALS[column], k=rng.randint(1, 3)))
        return f"{column} {rng.choice(['', 'NOT '])}IN ({values})"
    left, right = (condition(rng, column, rng.randrange(depth)) for _ in range(2))
    joined = f"({left} {rng.choice(['AND', 'OR'])} {right})"
    return rng.choice([joined, joined, f"NOT {joined}", f"{joined} IS NULL", f"coalesce({joined}, 1 = 0)"])


@pytest.mark.parametrize("column", COLUMNS)
def test_as_in_sqlite(table: pennon.LanceDataset, model: sqlite3.Connection, column: str) -> None:
    rng = random.Random(column)
    for _ in range(150):
        asked = condition(rng, column, rng.randint(1, 3))
        expected = [row for (row,) in model.execute(f"select id from t where {asked} order by id")]
        assert table.to_table(columns=["id"], filter=asked)["id"].to_pylist() == expected, asked


def test_a_delete_keeps_nulls(tmp_path: Path) -> None:
    table = pennon.write_dataset({"u": pa.array([1, 2, None], pa.uint64())}, tmp_path / "t")
    table.delete(f"u NOT IN (1) OR u NOT IN ({2**64 - 1})")
    assert table.to_table()["u"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("coalesce(i IN (1, 2) OR i IN (3, 4), false)", [1, 2, 3]),
        ("ifnull((i = 1 OR i = 2) AND (i = 2 OR i = 3), false)", [2]),
        ("nvl2(i IN (1) OR i IN (2), true, false)", [1, 2, 3]),
        ("arrow_cast(i IN (1) OR i IN (2), 'Int8') = 1", [1, 2]),
    ],
)
def test_functions_of_lists(tmp_path: Path, expression: str, expected: list[int]) -> None:
    table = pennon.write_dataset({"i": [1, 2, 3, None], "b": [False] * 4}, tmp_path / "t")
    assert table.to_table(filter=expression)["i"].to_pylist() == expected
    table.update({"b": expression})
    assert sorted(table.to_table(filter="b")["i"].to_pylist()) == expected
