"""Merges that find keys by index: equal to those without, and to the reference's, whatever happens in between."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.long import LONG
from support.seeds import seeds
from support.spread import spread

# So many rows of a table are worth a row of a source that is looked up: small sources are.
ROWS = 12_000
NAN = float("nan")
KINDS = ("BTREE", "BITMAP")


def keys(type: str, n: int) -> Any:
    """The n-th key of a type."""
    return {
        "int64": n * 10**12,
        "int32": n,
        "uint64": 2**63 + n,
        "double": [-0.0, 0.0, NAN, float("inf"), float("-inf")][n] if n < 5 else n * 0.5,
        "float": [-0.0, 0.0, NAN, float("inf"), float("-inf")][n] if n < 5 else n * 0.5,
        "string": "" if n == 0 else f"key-{n:05}",
        "large_string": f"key-{n:05}",
        "binary": n.to_bytes(3, "big"),
        "timestamp[us]": n * 1_000_000,
        "date32[day]": n,
        "decimal128(10, 2)": n,
    }[type]


TYPES: dict[str, pa.DataType] = {
    str(type): type
    for type in (
        pa.int64(),
        pa.int32(),
        pa.uint64(),
        pa.float64(),
        pa.float32(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.timestamp("us"),
        pa.date32(),
        pa.decimal128(10, 2),
    )
}


def rows(type: str, ns: list[int | None], value: int) -> pa.Table:
    found = pa.array([None if n is None else keys(type, n) for n in ns], TYPES[type])
    return pa.table(
        {"k": found, "g": pa.array([f"g{(n or 0) % 3}" for n in ns]), "v": [value + at for at in range(len(ns))]}
    )


def state(uri: str) -> list[str]:
    return sorted(str(row) for row in lance.dataset(uri).to_table(columns=["k", "g", "v"]).to_pylist())


def uses_an_index(merge: Any, source: pa.Table) -> bool:
    return "rows found by indices" in merge.analyze_plan(source)


CLAUSES: dict[str, Callable[[Any], Any]] = {
    "upsert": lambda m: m.when_matched_update_all().when_not_matched_insert_all(),
    "insert": lambda m: m.when_not_matched_insert_all(),
    "update": lambda m: m.when_matched_update_all(),
    "if": lambda m: m.when_matched_update_all("target.v % 2 = 0 AND source.v > 0").when_not_matched_insert_all(),
    "delete": lambda m: m.when_matched_delete(),
    "fail": lambda m: m.when_matched_fail().when_not_matched_insert_all(),
    "replace": lambda m: (
        m.when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete("v < 5000")
    ),
    "columns": lambda m: m.when_matched_update_all().write_mode("rewrite_columns"),
}


def run(table: Any, on: Any, clauses: str, source: pa.Table, use_index: bool = True) -> Any:
    merge = CLAUSES[clauses](table.merge_insert(on))
    try:
        return (merge if use_index else merge.use_index(False)).execute(source)
    except Exception as error:
        # Which of the matches it names depends on the order in which they are found.
        return type(error).__name__


class Twins:
    """Equal tables: with an index, without one, and with one for the reference."""

    def __init__(self, root: Path, data: pa.Table, stable: bool, indices: dict[str, str], by: Any = pennon) -> None:
        self.uris = {name: str(root / name) for name in ("indexed", "plain", "theirs")}
        for name, uri in self.uris.items():
            lance.write_dataset(data, uri, max_rows_per_file=ROWS // 3, enable_stable_row_ids=stable)
            for column, kind in indices.items() if name != "plain" else ():
                by.dataset(uri).create_scalar_index(column, kind)

    def each(self, change: Callable[[str], Any]) -> None:
        for uri in self.uris.values():
            change(uri)

    def run(self, on: Any, clauses: str, source: pa.Table, *, indexed: bool = True, reference: bool = True) -> None:
        """The same three times; of a row with a null key the reference, with an index, inserts none."""
        merge = CLAUSES[clauses](pennon.dataset(self.uris["indexed"]).merge_insert(on))
        if clauses != "fail":
            try:
                used = uses_an_index(merge, source)
            except pennon.PennonError:
                used = indexed
            assert used == indexed, clauses
        expected = run(pennon.dataset(self.uris["plain"]), on, clauses, source)
        assert run(pennon.dataset(self.uris["indexed"]), on, clauses, source) == expected
        assert state(self.uris["indexed"]) == state(self.uris["plain"])
        if not reference or any(source[key].null_count for key in ([on] if isinstance(on, str) else on)):
            shutil.rmtree(self.uris["theirs"])
            shutil.copytree(self.uris["indexed"], self.uris["theirs"])
            return
        theirs = run(lance.dataset(self.uris["theirs"]), on, clauses, source)
        if isinstance(expected, dict):
            assert theirs == expected
        else:
            assert not isinstance(theirs, dict), theirs
        assert state(self.uris["theirs"]) == state(self.uris["plain"])


@spread(of=1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type", TYPES)
def test_types_of_keys(tmp_path: Path, stable: bool, kind: str, type: str) -> None:
    dice = random.Random(f"{kind} {type}")
    data = rows(type, [None if n % 50 == 7 else n for n in range(ROWS)], 0)
    twins = Twins(tmp_path, data, stable, {"k": kind}, by=dice.choice([pennon, lance]))
    # Zeros of both signs, NaN, null, keys that are there and that are not.
    twins.run("k", "upsert", rows(type, [0, 1, 2, None, 5000, 11_000, ROWS + 5], 10**6), reference=False)
    # What the reference makes of NaN and minus zero as keys with an index is another matter.
    twins.run("k", "upsert", rows(type, [6, 5001, 11_001, ROWS + 9], 2 * 10**6))


@spread(of=1)
@pytest.mark.parametrize("clauses", CLAUSES)
def test_clauses(tmp_path: Path, stable: bool, clauses: str) -> None:
    """With rows deleted, changed and added since the index was made, keys that occur more than once, and null."""
    twins = Twins(tmp_path, rows("int64", [n // 2 for n in range(ROWS)], 0), stable, {"k": "BTREE"})
    twins.each(lambda uri: lance.dataset(uri).delete("v % 5 = 3"))
    twins.each(lambda uri: lance.dataset(uri).update({"k": "k + 1000000000000"}, where="v >= 4000 and v < 4100"))
    twins.each(lambda uri: lance.write_dataset(rows("int64", list(range(5990, 6100)), 50_000), uri, mode="append"))
    for source in (
        rows("int64", [3, 2001, 2050, 2051, 6050, 7000], 10**6),
        rows("int64", [4, None, 2002, 6051, 7001], 10**6),
        # Twice the same: an error if it is there, two rows if not.
        rows("int64", [6990, 6990], 2 * 10**6),
        rows("int64", [10, 10, 11], 3 * 10**6),
    ):
        twins.run("k", clauses, source.drop_columns(["g"]) if clauses == "columns" else source)


@pytest.mark.parametrize("indices", [{"k": "BTREE"}, {"g": "BITMAP"}, {"k": "BTREE", "g": "BITMAP"}], ids=str)
def test_several_keys(tmp_path: Path, stable: bool, indices: dict[str, str]) -> None:
    twins = Twins(tmp_path, rows("string", [None if n % 9 == 0 else n for n in range(ROWS)], 0), stable, indices)
    source = pa.table(
        {"k": [keys("string", n) for n in (4, 5, 7, 99_999)], "g": ["g1", "g1", None, "g0"], "v": [-1, -2, -3, -4]}
    )
    # A third of the rows have a value of g: they are read one after another.
    for clauses in ("upsert", "update", "delete"):
        twins.run(["g", "k"], clauses, source, indexed="k" in indices)


def test_when_it_pays(tmp_path: Path) -> None:
    twins = Twins(tmp_path, rows("int64", list(range(ROWS)), 0), True, {"k": "BTREE"})
    twins.run("k", "upsert", rows("int64", list(range(0, 2 * ROWS, 20)), 0), indexed=False)
    table = pennon.dataset(twins.uris["indexed"])
    merge = CLAUSES["upsert"](table.merge_insert("k"))
    assert (
        "rows found by indices: k_idx (BTree), for 3 of 4 fragments, if the source has at most"
        in merge.explain_plan()
    )
    few = rows("int64", [1, 2], 0)
    assert uses_an_index(merge, few)
    assert "rows found by indices" not in merge.use_index(False).explain_plan()
    assert not uses_an_index(merge.use_index(False), few)
    # Ids have an index of their own.
    by_id = table.merge_insert("_rowid").when_matched_update_all()
    assert "rows found by indices" not in by_id.explain_plan()
    before = table.counters().rows_decoded
    merge.use_index(True).execute_uncommitted(few)
    assert table.counters().rows_decoded - before < ROWS
    with pytest.raises(TypeError):
        merge.use_index("no")


def test_an_index_that_cannot_be_read(uri: str) -> None:
    pennon.write_dataset(rows("int64", list(range(ROWS)), 0), uri)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    for path in Path(uri, "_indices").rglob("*.lance"):
        path.unlink()
    found = run(pennon.dataset(uri), "k", "upsert", rows("int64", [5, ROWS], 10**6))
    assert (found["num_updated_rows"], found["num_inserted_rows"]) == (1, 1)


def test_a_merge_that_is_done_again(uri: str, stable: bool) -> None:
    """What others did meanwhile, after the index was made or to its rows, is seen by the second try."""
    pennon.write_dataset(rows("int64", list(range(ROWS)), 0), uri, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    stale = pennon.dataset(uri)
    source = rows("int64", [5, 6, ROWS, ROWS + 1], 10**6)
    run(pennon.dataset(uri), "k", "upsert", source.slice(1, 2))
    pennon.dataset(uri).delete("k = 6000000000000")
    found = run(stale, "k", "upsert", source)
    assert (found["num_updated_rows"], found["num_inserted_rows"]) == (2, 2)
    assert pennon.dataset(uri).count_rows() == ROWS + 2


@pytest.mark.parametrize("verb", ["update", "delete"])
def test_updates_and_deletes_look_at_few_rows(uri: str, stable: bool, verb: str) -> None:
    pennon.write_dataset(rows("int64", list(range(ROWS)), 0), uri, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    table = pennon.dataset(uri)
    where = f"k IN ({5 * 10**12}, {7000 * 10**12}) OR k = {9 * 10**12}"
    before = table.counters().rows_decoded
    if verb == "update":
        assert table.update({"v": "-1"}, where=where)["num_rows_updated"] == 3
    else:
        table.delete(where)
    # Those that go on, and those of pages of the index; not all keys.
    assert table.counters().rows_decoded - before < 100
    assert pennon.dataset(uri).count_rows() == ROWS - (3 if verb == "delete" else 0)


@spread(of=1)
@pytest.mark.parametrize("seed", seeds(60 if LONG else 3))
def test_random_programs(tmp_path: Path, stable: bool, seed: int) -> None:
    """Merges between all that moves rows, by both libraries in turns: as without an index."""
    dice = random.Random(f"{seed} {stable}")
    kind = dice.choice(KINDS)
    uris = [str(tmp_path / name) for name in ("indexed", "plain")]
    numbers = np.random.default_rng(seed)
    unique = numbers.permutation(ROWS).tolist()
    for uri in uris:
        pennon.write_dataset(
            rows("int64", unique, 0), uri, max_rows_per_file=ROWS // 4, enable_stable_row_ids=stable
        )
    dice.choice([pennon, lance]).dataset(uris[0]).create_scalar_index("k", kind)
    done: list[str] = []
    for step in range(30 if LONG else 12):
        library = dice.choice([pennon, lance])
        some = [
            None if library is pennon and dice.random() < 0.1 else dice.randrange(ROWS + 500)
            for _ in range(dice.randrange(1, 12))
        ]
        source = rows("int64", list(dict.fromkeys(some)), 10**6 * (step + 1))
        low = dice.randrange(ROWS)
        where = f"v >= {low} and v < {low + 300}"
        names = ["merge", "merge", "merge", "delete", "update", "update v", "append", "compact", "optimize"]
        name = dice.choice(names)
        clauses = dice.choice(["upsert", "insert", "update", "if", "delete", "replace"])
        done.append(f"{library.__name__} {name} {clauses if name == 'merge' else ''}")
        results = []
        for uri in uris:
            table = library.dataset(uri)
            if name == "merge":
                results.append(run(table, "k", clauses, source))
            elif name == "delete":
                table.delete(where)
            elif name == "update":
                table.update({"k": f"k + {ROWS * 10**12}"}, where=where)
            elif name == "update v":
                table.update({"v": "v + 1"}, where=where)
            elif name == "append":
                fresh = rows("int64", list(range(10**5 * (step + 1), 10**5 * (step + 1) + 40)), 0)
                library.write_dataset(fresh, uri, mode="append")
            elif name == "compact":
                table.optimize.compact_files(target_rows_per_fragment=ROWS)
            elif uri == uris[0]:
                table.optimize.optimize_indices()
        assert results[:1] == results[1:], done
        assert state(uris[0]) == state(uris[1]), done
