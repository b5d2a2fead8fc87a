"""Random programs over a table with indices of all kinds, by both libraries in turns.

After each step all rows, the answers of filters and the nearest rows are those of a plain model: a dictionary of
rows. `PENNON_PROGRAMS` says how many programs run for each kind of row ids, `PENNON_SEED` from which seed. With
`PENNON_LONG_TESTS=1` there are 300, of 40 steps: about half an hour.

What the reference finds by a vector index after a delete and a compaction may be fewer rows than there are. So
every row of its answers by such an index must be right, and how many there are counts only without one.

Graphs are searched with an `ef` of all rows. They may miss rows even so: of the nearest rows most must be found.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.long import LONG
from support.scalar_indices import compare_some
from support.seeds import SEED
from support.spread import spread

PROGRAMS = int(os.environ.get("PENNON_PROGRAMS", "300" if LONG else "2"))
STEPS = 40 if LONG else 16
DIMENSION, PARTITIONS, K = 4, 3, 12
GRAPH = {"m": 8, "ef_construction": 60}
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 2, "num_bits": 4},
    "IVF_HNSW_FLAT": GRAPH,
    "IVF_HNSW_SQ": GRAPH,
    "IVF_HNSW_PQ": {"num_sub_vectors": 2, "num_bits": 4} | GRAPH,
}
# Kinds with the distances of vectors, and kinds that find nearly all of the nearest.
EXACT = {"IVF_FLAT", "IVF_HNSW_FLAT"}
CLOSE = EXACT | {"IVF_HNSW_SQ"}
RECALL = 0.75

LABELS = [f"x{n}" for n in range(5)]
FILTERS = [
    "k = 5",
    "k < 7 and c = 'v2'",
    "c in ('v1', 'v3') or k between 10 and 14",
    "not (k > 3)",
    "k is null",
    "c is null and k is not null",
    "c != 'v1'",
    "c like 'v1%'",
    "not (k = 5 or c = 'v2')",
    "array_has(labels, 'x1') and k < 20",
    "not array_has_any(labels, ['x1', 'x2'])",
    "z between 3 and 9",
    "z is null or z > 95",
    "z is not null and k = 5",
    "s = 'w2'",
    "s in ('w1', 'w3') and z < 50",
    "s is null",
    "contains(t, 'abc')",
    "t like '%bca%c%'",
]
# Of fragments that the reference compacted with a remap after a deferred one its B-trees find nothing.
DEFERS = ("we defer", "they defer")


class Row(NamedTuple):
    """The values of a row; each column has an index."""

    k: int | None
    c: str | None
    v: tuple[float, ...]
    labels: list[str] | None
    z: int | None
    s: str | None
    t: str | None


SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("k", pa.int64()),
        ("c", pa.string()),
        ("v", pa.list_(pa.float32(), DIMENSION)),
        ("labels", pa.list_(pa.string())),
        ("z", pa.int64()),
        ("s", pa.string()),
        ("t", pa.string()),
    ]
)


class Program:
    """A table, its model, and what was done to both."""

    def __init__(self, uri: str, stable: bool, seed: str) -> None:
        self.uri, self.stable, self.rng, self.next = uri, stable, random.Random(seed), 0
        self.rows: dict[int, Row] = {}
        self.done: list[str] = []
        self.has_index = True
        self.extra = 0
        self.zone = self.rng.choice([1, 7, 50])
        pennon.write_dataset(self.fresh(300), uri, enable_stable_row_ids=stable, max_rows_per_file=80)
        self.indexed(self.rng.choice([pennon, lance]))
        self.models: dict[int, dict[int, Row]] = {}
        self.remember()

    def remember(self) -> None:
        self.models[pennon.dataset(self.uri).version] = dict(self.rows)

    def indexed(self, library: Any) -> None:
        config = library.indices.IndexConfig
        kinds = {
            "k": "BTREE",
            "c": "BITMAP",
            "labels": "LABEL_LIST",
            "z": config("ZONEMAP", {"rows_per_zone": self.zone}),
            "s": config("BLOOMFILTER", {"number_of_items": self.zone}),
        }
        for column, kind in kinds.items():
            library.dataset(self.uri).create_scalar_index(column, kind, replace=True)
        lance.dataset(self.uri).create_scalar_index("t", "NGRAM", replace=True)
        self.vector_index(library)

    def vector_index(self, library: Any) -> None:
        kind = self.rng.choice(sorted(KINDS))
        table = library.dataset(self.uri)
        table.create_index("v", kind, num_partitions=PARTITIONS, metric="l2", replace=True, **KINDS[kind])
        self.has_index = True

    def vector(self) -> tuple[float, ...]:
        return tuple(float(self.rng.randrange(-60, 60)) for _ in range(DIMENSION))

    def row(self, number: int) -> Row:
        def maybe(value: Any) -> Any:
            return None if self.rng.random() < 0.1 else value

        return Row(
            k=maybe(self.rng.randrange(30)),
            c=maybe(f"v{self.rng.randrange(12)}"),
            v=self.vector(),
            labels=maybe(self.rng.choices(LABELS, k=2)),
            z=maybe(number // 3 + self.rng.randrange(5)),
            s=maybe(f"w{self.rng.randrange(12)}"),
            t=maybe("".join(self.rng.choices("abcAB ", k=7))),
        )

    def table_of(self, rows: dict[int, Row]) -> pa.Table:
        return pa.Table.from_pylist([{"n": number, **row._asdict()} for number, row in rows.items()], SCHEMA)

    def fresh(self, count: int) -> pa.Table:
        new = {number: self.row(number) for number in range(self.next, self.next + count)}
        self.next += count
        self.rows |= new
        return self.table_of(new)

    def append(self, library: Any) -> None:
        library.write_dataset(self.fresh(self.rng.randrange(1, 60)), self.uri, mode="append")

    def overwrite(self, library: Any) -> None:
        self.rows = {}
        library.write_dataset(self.fresh(self.rng.randrange(270, 320)), self.uri, mode="overwrite")
        # The indices went with the rows.
        self.indexed(library)

    def delete(self, library: Any) -> None:
        some, key = self.rng.randrange(7), self.rng.randrange(30)
        library.dataset(self.uri).delete(f"n % 7 = {some} and k < {key}")
        self.rows = {
            number: row
            for number, row in self.rows.items()
            if not (number % 7 == some and row.k is not None and row.k < key)
        }

    def update(self, library: Any) -> None:
        text, word = f"v{self.rng.randrange(12)}", f"w{self.rng.randrange(12)}"
        key, bound = self.rng.randrange(30), self.rng.randrange(30, 60)
        changes: list[tuple[dict[str, str], str, Callable[[Row], bool], Callable[[Row], dict[str, Any]]]] = [
            ({"k": "k + 1"}, f"c = '{text}'", lambda row: row.c == text, lambda row: {"k": plus(row.k, 1)}),
            ({"c": f"'{text}'"}, f"k = {key}", lambda row: row.k == key, lambda row: {"c": text}),
            (
                {"z": "z + 40", "t": "'abca'"},
                f"s = '{word}'",
                lambda row: row.s == word,
                lambda row: {"z": plus(row.z, 40), "t": "abca"},
            ),
            (
                {"s": "'w1'", "t": "'bcab'"},
                f"z > {bound}",
                lambda row: row.z is not None and row.z > bound,
                lambda row: {"s": "w1", "t": "bcab"},
            ),
        ]
        for values, where, holds, changed in self.rng.sample(changes, 2):
            library.dataset(self.uri).update(values, where=where)
            for number, row in self.rows.items():
                if holds(row):
                    self.rows[number] = row._replace(**changed(row))

    def merge(self, library: Any) -> None:
        first = self.rng.randrange(max(1, self.next - 20))
        changed = {number: self.row(number) for number in range(first, first + 30)}
        self.next = max(self.next, first + 30)
        merge = library.dataset(self.uri).merge_insert("n")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(self.table_of(changed))
        self.rows |= changed

    def rewrite(self, library: Any) -> None:
        """Vectors of fragments change in place: the new columns are data files of their own."""
        table = library.dataset(self.uri)
        fragments, fields = [], []
        for fragment in table.get_fragments():
            if self.rng.random() < 0.5:
                continue
            numbers = fragment.to_table(columns=["n"])["n"].to_pylist()
            vectors = {number: self.vector() for number in numbers if number % 3 == 0}
            if not vectors:
                continue
            column = pa.array(vectors.values(), pa.list_(pa.float32(), DIMENSION))
            changed, modified = fragment.update_columns(pa.table({"n": list(vectors), "v": column}), "n", "n")
            fragments.append(changed)
            fields = modified
            for number, vector in vectors.items():
                self.rows[number] = self.rows[number]._replace(v=vector)
        if fragments:
            operation = library.LanceOperation.Update(updated_fragments=fragments, fields_modified=fields)
            library.LanceDataset.commit(self.uri, operation, read_version=table.version)

    def columns(self, library: Any) -> None:
        table = library.dataset(self.uri)
        self.extra += 1
        table.add_columns({f"e{self.extra}": "n + 1"})
        table = library.dataset(self.uri)
        if self.rng.random() < 0.5:
            table.alter_columns({"path": f"e{self.extra}", "name": f"r{self.extra}"})
            table = library.dataset(self.uri)
            table.drop_columns([f"r{self.extra}"])
        else:
            table.drop_columns([f"e{self.extra}"])

    def restore(self, library: Any) -> None:
        version = self.rng.choice(sorted(self.models)[-6:])
        library.dataset(self.uri, version=version).restore()
        self.rows = dict(self.models[version])
        self.has_index = any(entry["name"] == "v_idx" for entry in pennon.dataset(self.uri).list_indices())

    def drop(self, library: Any) -> None:
        if self.has_index:
            library.dataset(self.uri).drop_index("v_idx")
            self.has_index = False

    def clone(self, _library: Any) -> None:
        target = f"{self.uri}-c{len(self.done)}"
        table = pennon.dataset(self.uri)
        table.deep_clone(target, table.version)
        self.uri, self.models = target, {}

    def optimize(self, library: Any) -> None:
        merged = {"num_indices_to_merge": self.rng.choice([None, 0, 2])} if library is pennon else {}
        library.dataset(self.uri).optimize.optimize_indices(**merged)

    def steps(self) -> dict[str, Callable[[], Any]]:
        target = self.rng.choice([100, 200, 1000])

        def compact(library: Any, **options: Any) -> None:
            library.dataset(self.uri).optimize.compact_files(target_rows_per_fragment=target, **options)

        verbs: dict[str, Callable[[Any], Any]] = {
            "append": self.append,
            "delete": self.delete,
            "update": self.update,
            "merge": self.merge,
            "compact": compact,
            "defer": lambda library: compact(library, defer_index_remap=True),
            "optimize": self.optimize,
            "rebuild": lambda library: library.dataset(self.uri).optimize.optimize_indices(retrain=True),
            "index": self.vector_index,
            "drop": self.drop,
            "columns": self.columns,
            "rewrite": self.rewrite,
            "restore": self.restore,
            "overwrite": self.overwrite,
            "clone": self.clone,
        }
        left_out = {"they clone", "they rebuild"}
        # The reference does not search a graph that has nodes of rows which such a compaction has dropped.
        has_graph = any("HNSW" in entry["type"] for entry in pennon.dataset(self.uri).list_indices())
        if self.stable or has_graph:
            left_out |= set(DEFERS)
        if any(name in self.done for name in DEFERS):
            left_out.add("they compact")
        sides = {"we": pennon, "they": lance}
        return {
            f"{who} {verb}": lambda act=act, library=library: act(library)
            for who, library in sides.items()
            for verb, act in verbs.items()
            if f"{who} {verb}" not in left_out
        }

    def run(self, count: int) -> None:
        for _ in range(count):
            steps = self.steps()
            name = self.rng.choice(sorted(steps))
            self.done.append(name)
            try:
                steps[name]()
                self.compare()
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error} after {self.done}") from error
            self.remember()

    def compare(self) -> None:
        kinds: dict[str, Callable[[Row], bool]] = {
            "k = 5": lambda row: row.k == 5,
            "k < 7 and c = 'v2'": lambda row: row.k is not None and row.k < 7 and row.c == "v2",
            "c is null or k between 10 and 14": lambda row: row.c is None or row.k in range(10, 15),
            "not (k > 3)": lambda row: row.k is not None and row.k <= 3,
        }
        query = np.array(self.vector(), "f4")
        compare_some(self.uri, FILTERS)
        for library in (pennon, lance):
            table, name = library.dataset(self.uri), library.__name__
            assert table.count_rows() == len(self.rows), name
            for predicate, holds in kinds.items():
                found = table.to_table(columns=["n"], filter=predicate)["n"].to_pylist()
                assert sorted(found) == sorted(n for n, row in self.rows.items() if holds(row)), (name, predicate)
            for predicate in (None, "k < 20"):
                self.compare_nearest(library, query, predicate, None if predicate is None else below_20)

    def compare_nearest(self, library: Any, query: Any, predicate: str | None, holds: Any) -> None:
        name = library.__name__
        expected = {
            number: float(((np.array(row.v, "f4") - query) ** 2).sum())
            for number, row in self.rows.items()
            if holds is None or holds(row)
        }
        entries = [entry for entry in pennon.dataset(self.uri).list_indices() if entry["name"] == "v_idx"]
        kinds = {entry["type"] for entry in entries}
        nearest = {"column": "v", "q": query, "k": K, "nprobes": PARTITIONS}
        if not kinds <= EXACT:
            nearest["refine_factor"] = 4
        if any("HNSW" in kind for kind in kinds):
            nearest["ef"] = 1000
        scan = library.dataset(self.uri).scanner(
            columns=["n", "_distance"], nearest=nearest, filter=predicate, prefilter=True
        )
        if library is pennon and predicate is None:
            live = {fragment.fragment_id for fragment in library.dataset(self.uri).get_fragments()}
            covered = any(live & set(entry["fragment_ids"]) for entry in entries)
            assert ("v_idx" in scan.explain_plan()) == covered, scan.explain_plan()
        answer = scan.to_table()
        numbers, distances = answer["n"].to_pylist(), answer["_distance"].to_pylist()
        assert len(set(numbers)) == len(numbers), (name, predicate)
        assert [expected[number] for number in numbers] == pytest.approx(distances, rel=1e-5), (name, predicate)
        if library is pennon or not entries:
            best = sorted(expected.values())[:K]
            assert len(distances) == len(best), (name, predicate)
            if kinds <= {"IVF_FLAT"}:
                assert sorted(distances) == pytest.approx(best, rel=1e-5), (name, predicate)
            elif kinds <= CLOSE:
                near = sum(distance <= best[-1] * (1 + 1e-5) for distance in distances)
                assert near >= RECALL * len(best), (name, predicate, near, kinds)


def plus(number: int | None, more: int) -> int | None:
    return None if number is None else number + more


def below_20(row: Row) -> bool:
    return row.k is not None and row.k < 20


@spread(of=1)
@pytest.mark.parametrize("program", range(PROGRAMS))
def test_random_programs(tmp_path: Path, stable: bool, program: int) -> None:
    Program(str(tmp_path / "table"), stable, f"{SEED} {program} {stable}").run(STEPS)
