"""Small tables and texts that claim to be huge: an error with a type, or work that grows with the bytes there are.

Each case runs in a process of its own, whose memory and time are limited: far above what is needed, far below what
a quadratic walk or an allocation of the claimed size takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pennon
import pytest
from support import forge
from support.tables import numbers

SECONDS = 60
"""Of processors, not of the clock."""
ADDRESS_SPACE = 8 << 30
GROWTH = 2 << 30
"""Bytes that the resident memory may grow by."""

PROGRAM = f"""
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE}, {ADDRESS_SPACE}))
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
import pennon
call, argument = sys.argv[1], sys.stdin.read()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
try:
    found = eval(call)
    outcome = dict(found=found if isinstance(found, int) else str(found))
except Exception as error:
    outcome = dict(error=type(error).__name__, text=str(error)[-300:])
print(json.dumps(dict(outcome, growth=peak() - before)))
"""


def run(call: str, argument: str | Path) -> dict[str, object]:
    """What came of an expression over `argument`."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, call], input=str(argument), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome: dict[str, object] = json.loads(done.stdout)
    growth = outcome.pop("growth")
    assert isinstance(growth, int)
    assert growth < GROWTH
    return outcome


COUNT = "pennon.dataset(argument).count_rows()"
READ = "pennon.dataset(argument).to_table(with_row_id=True).num_rows"


@pytest.mark.parametrize("rows", [2**33, 2**60, 2**64 - 1])
def test_fragments_of_more_rows_than_have_addresses(uri: str, rows: int) -> None:
    pennon.write_dataset(numbers(6), uri)
    forge.forge_fragments(uri, lambda fragment: [*forge.without(fragment, 4), forge.number(4, rows)])
    outcome = run(COUNT, uri)
    assert outcome["error"] == "CorruptError"
    assert f"fragment 0: {rows} physical rows" in str(outcome["text"])


@pytest.mark.parametrize("rows", [7, 2**31, 2**32])
def test_fragments_of_more_rows_than_their_files(uri: str, rows: int) -> None:
    """The number is possible, so it is believed until a file is opened."""
    pennon.write_dataset(numbers(6), uri)
    forge.forge_fragments(uri, lambda fragment: [*forge.without(fragment, 4, 5, 7, 8), forge.number(4, rows)])
    assert run(COUNT, uri) == {"found": rows}
    for call in (
        "pennon.dataset(argument).to_table().num_rows",
        "pennon.dataset(argument).delete('id = 1')",
        "pennon.dataset(argument).take([0, 5]).num_rows",
    ):
        outcome = run(call, uri)
        assert outcome == {"found": 2} or outcome.get("error") == "CorruptError", (call, outcome)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 2**63), (0, 2**64 - 1), (1, 2**64 - 1), (5, 1), (2**64 - 1, 0), (0, 7)]
)
def test_ranges_of_row_ids(uri: str, start: int, end: int) -> None:
    pennon.write_dataset(numbers(6), uri, enable_stable_row_ids=True)
    span = forge.encode([forge.number(1, start), forge.number(2, end)])
    segment = forge.encode([forge.text(1, forge.encode([forge.text(1, span)]))])
    forge.forge_fragments(uri, lambda fragment: [*forge.without(fragment, 5), forge.text(5, segment)])
    for call in (READ, "pennon.dataset(argument)._take_rows([1])"):
        outcome = run(call, uri)
        assert outcome.get("error") == "CorruptError", (call, outcome)
        assert "fragment 0" in str(outcome["text"])


def columns(count: int, *, nested: bool) -> Callable[[forge.Message], forge.Message]:
    def column(at: int) -> forge.Field:
        parent = at - 1 if nested else -1
        kind = "struct" if nested and at < count - 1 else "int64"
        fields = [forge.text(2, f"c{at}"), forge.number(3, at), forge.number(4, parent % 2**64)]
        return forge.text(1, forge.encode([*fields, forge.text(5, kind), forge.number(6, 1)]))

    return lambda manifest: [*map(column, range(count)), *forge.without(manifest, 1)]


def test_deep_schemas(uri: str) -> None:
    pennon.write_dataset(numbers(6), uri)
    forge.forge(uri, columns(100_000, nested=True))
    outcome = run(COUNT, uri)
    assert outcome["error"] == "CorruptError"
    assert "nested deeper than 100 levels" in str(outcome["text"])


@pytest.mark.slow
def test_a_million_columns(uri: str) -> None:
    pennon.write_dataset(numbers(6), uri)
    forge.forge(uri, columns(1_000_000, nested=False))
    assert run(COUNT, uri) == {"found": 6}
    assert run("len(pennon.dataset(argument).schema)", uri) == {"found": 1_000_000}


@pytest.mark.slow
def test_a_million_fragments(uri: str) -> None:
    pennon.write_dataset(numbers(6), uri)

    def many(manifest: forge.Message) -> forge.Message:
        fragment = forge.without(forge.parse(forge.get(manifest, 2)), 1, 5, 7, 8)
        fragments = (forge.text(2, forge.encode([forge.number(1, id), *fragment])) for id in range(1_000_000))
        return [*forge.without(manifest, 2, 11), *fragments, forge.number(11, 999_999)]

    forge.forge(uri, many)
    assert run(COUNT, uri) == {"found": 6_000_000}
    assert run("pennon.dataset(argument).to_table(limit=3).num_rows", uri) == {"found": 3}


def test_many_files_of_a_fragment(uri: str) -> None:
    pennon.write_dataset(numbers(6), uri)
    forge.forge_fragments(uri, lambda fragment: fragment + [field for field in fragment if field[0] == 2] * 200_000)
    assert run(COUNT, uri) == {"found": 6}


@pytest.mark.slow
def test_many_base_paths(uri: str) -> None:
    """Whether an id is taken, and whether a file names one, is looked up."""
    pennon.write_dataset(numbers(6), uri)
    bases = [forge.base_path(id, f"/base/{id}", is_dataset_root=True) for id in range(300_000)]
    forge.forge(uri, lambda manifest: manifest + bases)
    assert run(READ, uri) == {"found": 6}
    outside = forge.number(7, 299_999)

    def many(fragment: forge.Message) -> forge.Message:
        file = forge.parse(forge.get(fragment, 2))
        return [*fragment, *[forge.text(2, forge.encode([*file, outside]))] * 100_000]

    forge.forge_fragments(uri, many)
    assert run(COUNT, uri) == {"found": 6}


COUNT_WHERE = """pennon.write_dataset({"a": range(9), "s": ["x" * 50] * 9}, "memory://t").count_rows(argument)"""
SQL: dict[str, tuple[str, object]] = {
    "parentheses": ("(" * 500_000 + "a > 1" + ")" * 500_000, "InvalidInputError"),
    "few parentheses": ("(" * 20_000 + "a > 1" + ")" * 20_000, "InvalidInputError"),
    "only open": ("(" * 1_000_000, "InvalidInputError"),
    "not": ("NOT " * 40_000 + "a > 1", "InvalidInputError"),
    "minus": ("a > " + "- " * 40_000 + "1", "InvalidInputError"),
    "functions": ("abs(" * 100_000 + "a" + ")" * 100_000 + " > 1", "InvalidInputError"),
    "or": (" OR ".join(f"a = {i}" for i in range(12_000)), 9),
    "more or": (" OR ".join(f"a = {i}" for i in range(100_000)), "InvalidInputError"),
    "in": (f"a IN ({','.join(map(str, range(150_000)))})", 9),
    "texts": ("s NOT IN (" + ",".join(f"'{i}'" for i in range(100_000)) + ")", 9),
    "plus": ("a > 0" + " + 1" * 40_000, "InvalidInputError"),
    "texts put together": ("s " + "|| 'x' " * 40_000 + "= 'y'", "InvalidInputError"),
    "casts": ("a" + "::bigint" * 20_000 + " = 1", "InvalidInputError"),
    "tests": ("a" + " IS NULL" * 20_000, "InvalidInputError"),
    "path": ("a" + ".b" * 500_000 + " = 1", "InvalidInputError"),
    "letters": (f"s = '{'x' * 1_000_000}'", 0),
    "digits": ("a > " + "1" * 1_000_000, 0),
    "comments": ("a > 1 " + "/*" * 500_000, "InvalidInputError"),
    "pattern": (f"s LIKE '{'%x' * 10_000}%'", 0),
    "long pattern": (f"s LIKE '{'%_' * 500_000}'", "InvalidInputError"),
    "regular expression": ("regexp_like(s, '^(x+)+y$')", 0),
    "repeated repetitions": ("regexp_like(s, '(((x{1000}){1000}){1000})')", "InvalidInputError"),
}


@pytest.mark.parametrize("name", SQL)
def test_texts(name: str) -> None:
    text, expected = SQL[name]
    outcome = run(COUNT_WHERE, text)
    assert outcome.get("found", outcome.get("error")) == expected
