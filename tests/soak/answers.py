"""What both libraries answer of one version, with indices and without: the same, or it is a `WrongAnswerError`.

The reference's answers are compared like Pennon's, except for one that it is known to get wrong: with stable row
ids it counts rows that are gone among the nearest, after deletes and a compaction. There its answer by an index may
be shorter, and must be the beginning of the right one. Other known mistakes are kept out by what the writers do: no
deferred compactions, no segments next to others, no zones of values that were replaced in place, no keys of merges
that are null.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import lance
import numpy as np
import pennon
from soak.rows import ALL_PROBES, DIMENSION, K, predicates


class WrongAnswerError(Exception):
    """Two answers of one version differ."""


class Checker:
    """Compares the answers of a table."""

    def __init__(self, uri: str, stable: bool, seed: str) -> None:
        self.uri, self.stable, self.dice = uri, stable, random.Random(f"{seed} checker")
        # Opened once and moved on, as a service does.
        self.service = pennon.dataset(uri)
        self.counts: Counter[str] = Counter()

    def check(self) -> None:
        """All answers of the newest version."""
        self.service.checkout_latest()
        ours = self.service if self.dice.random() < 0.7 else pennon.dataset(self.uri, version=self.service.version)
        self.tables = {"pennon": ours, "lance": lance.dataset(self.uri, version=ours.version)}
        self.counts["versions"] += 1
        self.rows()
        for predicate in predicates(self.dice):
            self.filtered(predicate)
        key = self.dice.randrange(40)
        for predicate in (None, f"k in ('v{key}', 'v{key + 1}')", f"n < {self.dice.randrange(2_000)}"):
            self.nearest(predicate)

    def rows(self) -> None:
        found = {name: table.to_table().sort_by("id") for name, table in self.tables.items()}
        self.same("all rows", found["pennon"].to_pydict(), found["lance"].to_pydict(), "lance")
        ids = found["pennon"]["id"].to_pylist()
        self.same("every id once", sorted(set(ids)), ids, "pennon")

    def filtered(self, predicate: str) -> None:
        expected = self.ids("pennon", predicate, use_scalar_index=False)
        for name, table in self.tables.items():
            for use_index in (True, False):
                found = self.ids(name, predicate, use_scalar_index=use_index)
                self.same(f"{predicate}, use_scalar_index={use_index}", expected, found, name)
            self.same(f"count of {predicate}", len(expected), table.count_rows(predicate), name)
        plan = self.tables["pennon"].scanner(filter=predicate).explain_plan()
        self.counts["by index"] += "rows found by indices" in plan

    def ids(self, name: str, predicate: str, **options: Any) -> list[int]:
        found = self.tables[name].scanner(columns=["id"], filter=predicate, **options).to_table()
        return sorted(found["id"].to_pylist())

    def nearest(self, predicate: str | None) -> None:
        query = np.array([self.dice.randrange(-40, 40) for _ in range(DIMENSION)], "f4")
        expected = self.found("pennon", query, predicate, False)
        for name in self.tables:
            for use_index in (True, False):
                found = self.found(name, query, predicate, use_index)
                # Whole numbers, whose distances are exact. Of rows at equal distances the last ones may be others.
                distances = [distance for distance, _ in expected]
                if name == "lance" and self.stable and use_index:
                    distances = distances[: len(found)]
                what = f"nearest of {query.tolist()} where {predicate}, use_index={use_index}"
                self.same(f"{what}: distances", distances, [distance for distance, _ in found], name)
                last = distances[-1] if distances else 0
                inside = sorted(pair for pair in expected if pair[0] < last)
                self.same(what, inside, sorted(pair for pair in found if pair[0] < last), name)

    def found(self, name: str, query: Any, predicate: str | None, use_index: bool) -> list[tuple[float, int]]:
        nearest = {
            "column": "vec",
            "q": query,
            "k": K,
            "nprobes": ALL_PROBES,
            "metric": "l2",
            "use_index": use_index,
        }
        scan = self.tables[name].scanner(
            columns=["id", "_distance"], nearest=nearest, filter=predicate, prefilter=True
        )
        if name == "pennon" and use_index:
            self.counts["by index"] += "vec_idx" in scan.explain_plan()
        table = scan.to_table()
        return list(zip(table["_distance"].to_pylist(), table["id"].to_pylist(), strict=True))

    def same(self, what: str, expected: Any, found: Any, name: str) -> None:
        self.counts["answers"] += 1
        if expected != found:
            version = self.tables["pennon"].version
            differences = [f"version {version}, by {name}: {what}", *difference(expected, found)]
            raise WrongAnswerError("\n  ".join(differences))


def difference(expected: Any, found: Any) -> list[str]:
    """What one of two answers has that the other has not."""
    if isinstance(expected, dict):
        names = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
        return [f"columns {names}"]
    if not isinstance(expected, list):
        return [f"expected {expected}", f"found {found}"]
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return [
        f"expected {len(expected)}, found {len(found)}",
        f"missing: {list(missing.elements())[:20]}",
        f"not expected: {list(extra.elements())[:20]}",
    ]
