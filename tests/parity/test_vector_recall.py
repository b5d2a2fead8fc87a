"""Recall on vectors of photographs and digits: each library builds an index and searches it, with equal parameters.

With `PENNON_LONG_TESTS=1` there are 100,000 rows of photographs, gray and in color: minutes.

How far Pennon's recall may be below. Both sides begin to train at random, and answer the same queries; so what
tells them apart is the mean of the differences of single queries. If both are equally good it is 0 up to its
standard error, which is the standard deviation of the differences by the root of their number. Several builds by
the reference bear that out: on 20,000 patches, by IVF_PQ, the standard deviation of their recalls is 0.0085, so
that of the difference of two is 0.012, where the standard error says 0.010. Four standard errors are exceeded by
chance in one of 30,000 comparisons. `LEAST` is for comparisons in which hardly any query has an answer of its own,
so that there is no deviation to speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.long import LONG
from support.recall import Collection, K, clustered, digits, patches
from support.spread import spread
from support.vectors import column

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIBRARIES = {"ours": pennon, "theirs": lance}
STANDARD_ERRORS, LEAST = 4, 0.005
EF = 50
HNSW = {"m": 16, "ef_construction": 100}
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {},
    "IVF_HNSW_FLAT": HNSW,
    "IVF_HNSW_SQ": HNSW,
}
# Queries that are refined, one by one.
REFINED = 200 if LONG else 100
PATCHES = 100_000 if LONG else 12_000
COLLECTIONS: dict[str, Callable[[], Collection]] = {
    "gray patches": lambda: patches(PATCHES, 400),
    "digits": lambda: digits(300),
    "clustered": lambda: clustered(4_000, 400),
}
if LONG:
    COLLECTIONS["color patches"] = lambda: patches(PATCHES, 400, side=6, gray=False)


class Tables:
    """The same rows in a table of each library, and what is nearest to the queries."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self.collection = name, COLLECTIONS[name]()
        self.nearest, collection = self.collection.nearest(), self.collection
        self.uris = {side: str(directory / side) for side in LIBRARIES}
        rows = pa.table({"id": range(len(collection.rows)), "vec": column(collection.rows)})
        for uri in self.uris.values():
            lance.write_dataset(rows, uri, max_rows_per_file=-(-rows.num_rows // 3))

    def partitions(self, kind: str) -> int:
        """A few graphs, or half the root of the rows; of few rows the reference makes no more for IVF_PQ."""
        rows = len(self.collection.rows)
        return 3 if "HNSW" in kind else min(int(rows**0.5 / 2), rows // 256)

    def build(self, kind: str) -> None:
        partitions = self.partitions(kind)
        # Each has an equal share of the dimensions: color patches have 108.
        sub_vectors = {"num_sub_vectors": 12 if self.name == "color patches" else 8} if "PQ" in kind else {}
        parameters = {"metric": "l2", "num_partitions": partitions, **KINDS[kind], **sub_vectors}
        for side, library in LIBRARIES.items():
            table = library.dataset(self.uris[side])
            table.create_index("vec", kind, replace=True, **parameters)
            (index,) = table.stats.index_stats("vec_idx")["indices"]
            assert index["num_partitions"] == partitions

    def search(self, side: str, queries: Any, **asked: Any) -> list[pa.Table]:
        """The answer of each query by one side's index."""
        table = LIBRARIES[side].dataset(self.uris[side])
        nearest = {"column": "vec", "k": K, "metric": "l2", **asked}
        columns = ["id", "_distance"]
        if asked.get("refine_factor") is None:
            every = table.to_table(columns=columns, nearest={**nearest, "q": queries})
            return [every.slice(K * number, K) for number in range(len(queries))]
        # Of many queries at once Pennon refines what any of them finds, which is more than the reference does.
        return [table.to_table(columns=columns, nearest={**nearest, "q": query}) for query in queries]

    def recall(self, side: str, **asked: Any) -> Any:
        queries = self.collection.queries[: REFINED if asked.get("refine_factor") else None]
        found = self.search(side, queries, **asked)
        return self.collection.recall([answer["id"].to_pylist() for answer in found], self.nearest)


@pytest.fixture(scope="module", params=COLLECTIONS)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(tmp_path_factory.mktemp("recall"), request.param)


@spread(of=1)
@pytest.mark.parametrize("kind", KINDS)
def test_recall_is_that_of_the_reference(tables: Tables, kind: str) -> None:
    tables.build(kind)
    partitions = tables.partitions(kind)
    ef = {"ef": EF} if "HNSW" in kind else {}
    # Of few partitions, where their borders happen to be decides what is found in some.
    few, more = (partitions // 20, partitions // 6) if partitions >= 20 else (partitions, partitions)
    asked: list[tuple[int, int | None]] = [(probes, None) for probes in sorted({few, more, partitions})]
    # Exact distances cannot be refined.
    for probes, refine in asked if "FLAT" in kind else [*asked, (more, 4)]:
        ours, theirs = (tables.recall(side, nprobes=probes, refine_factor=refine, **ef) for side in LIBRARIES)
        differences = ours - theirs
        error = differences.std(ddof=1) / len(differences) ** 0.5
        allowance = max(LEAST, STANDARD_ERRORS * error)
        print(
            f"{kind}, {probes} of {partitions} partitions, refine {refine}: recall {ours.mean():.4f},"
            f" of the reference {theirs.mean():.4f}, allowance {allowance:.4f}"
        )
        assert differences.mean() >= -allowance, (probes, refine, ours.mean(), theirs.mean())
    # The last search is the best of its kind; a recall that is right by chance is not worth a comparison.
    assert theirs.mean() >= 0.8


def test_all_partitions_of_vectors_are_all_vectors(tables: Tables) -> None:
    tables.build("IVF_FLAT")
    partitions = tables.partitions("IVF_FLAT")
    found = tables.search("ours", tables.collection.queries, nprobes=partitions)
    distances = np.array([answer["_distance"].to_numpy() for answer in found])
    np.testing.assert_allclose(distances, tables.nearest, rtol=1e-5)
    assert tables.recall("ours", nprobes=partitions).mean() == 1
