r"""Indices over vectors, against the reference and against faiss on one thread, in one run, in turns.

    python benches/python/vectors.py [--rows 200000] [--queries 500] [--only IVF_PQ,IVF_HNSW_SQ] [--results FOLDER]

Vectors of 128 float32 around 1,000 points. All sides build with the same parameters, from the same rows. Pennon and
the reference have a copy of the table each, and a `Session` that lives as long as the run; `opened` searches with a
new handle and a new `Session`. faiss has all in memory and answers with numbers of rows.

`recall` is the share of the ten nearest rows that an answer has, found before queries are timed. The run ends if an
IVF_FLAT with all partitions does not find all of them, or if the recall of an index of Pennon's is more than a
hundredth below the reference's. The sides answer queries one by one, in turns; a sample is the median of a tenth of
the queries.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import lance
import numpy as np
import pennon
import pyarrow as pa
from records import Record, check_whole, line, result, save

DIMENSION, K = 128, 10
SUB_VECTORS, M, EF_CONSTRUCTION, EF = 16, 20, 150, 64
MODULES = {"pennon": pennon, "pylance": lance}
SAMPLES = 10
KINDS = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_HNSW_SQ", "IVF_HNSW_FLAT")
HNSW = {"m": M, "ef_construction": EF_CONSTRUCTION}
TOLERANCE = 0.01


def vectors(count: int, seed: int) -> Any:
    centers = np.random.default_rng(7).normal(size=(1000, DIMENSION))
    rng = np.random.default_rng(seed)
    return (centers[rng.integers(0, 1000, count)] + 0.7 * rng.normal(size=(count, DIMENSION))).astype("f4")


def exact(data: Any, queries: Any) -> Any:
    """The rows of the ten nearest vectors of each query."""
    flat = faiss.IndexFlatL2(DIMENSION)
    flat.add(data)
    return flat.search(queries, K)[1]


def recall(found: list[list[int]], nearest: Any) -> float:
    return float(np.mean([len(set(some) & set(all)) / K for some, all in zip(found, nearest, strict=True)]))


def partitions(kind: str, rows: int) -> int:
    """A graph for all, or about as many partitions as the root of the number of rows."""
    return 1 if "HNSW" in kind else int(rows**0.5)


def asked(kind: str, rows: int, all_partitions: bool) -> dict[str, Any]:
    count = partitions(kind, rows)
    search = {"column": "vec", "k": K, "nprobes": count if all_partitions else min(20, count)}
    return {**search, "ef": EF} if "HNSW" in kind else search


class Table:
    """A table of one side, with an index."""

    def __init__(self, name: str, uri: str) -> None:
        self.name, self.uri, self.session = name, uri, MODULES[name].Session()

    def open(self, session: Any) -> Any:
        return MODULES[self.name].dataset(self.uri, session=session)

    def build(self, kind: str, rows: int) -> float:
        parameters: dict[str, Any] = {"num_partitions": partitions(kind, rows), "metric": "l2"}
        if "PQ" in kind:
            parameters["num_sub_vectors"] = SUB_VECTORS
        if "HNSW" in kind:
            parameters |= HNSW
        table = self.open(None)
        started = time.perf_counter()
        table.create_index("vec", kind, replace=True, **parameters)
        seconds = time.perf_counter() - started
        self.warm = self.open(self.session)
        return seconds

    def search(self, query: Any, nearest: dict[str, Any], fresh: bool = False) -> list[int]:
        table = self.open(MODULES[self.name].Session()) if fresh else self.warm
        found = table.to_table(columns=["id", "_distance"], nearest={**nearest, "q": query})
        return found["id"].to_pylist()


class Faiss:
    """The same index in memory, on one thread."""

    name = "faiss"

    def __init__(self, data: Any) -> None:
        self.data = data

    def build(self, kind: str, rows: int) -> float:
        coarse = faiss.IndexFlatL2(DIMENSION)
        count = partitions(kind, rows)
        quantizer = faiss.ScalarQuantizer.QT_8bit
        index = {
            "IVF_FLAT": lambda: faiss.IndexIVFFlat(coarse, DIMENSION, count),
            "IVF_SQ": lambda: faiss.IndexIVFScalarQuantizer(
                coarse, DIMENSION, count, faiss.ScalarQuantizer.QT_8bit
            ),
            "IVF_PQ": lambda: faiss.IndexIVFPQ(coarse, DIMENSION, count, SUB_VECTORS, 8),
            "IVF_HNSW_SQ": lambda: faiss.IndexHNSWSQ(DIMENSION, quantizer, M),
            "IVF_HNSW_FLAT": lambda: faiss.IndexHNSWFlat(DIMENSION, M),
        }[kind]()
        if "HNSW" in kind:
            index.hnsw.efConstruction, index.hnsw.efSearch = EF_CONSTRUCTION, EF
        started = time.perf_counter()
        index.train(self.data)
        index.add(self.data)
        self.index = index
        return time.perf_counter() - started

    def search(self, query: Any, nearest: dict[str, Any]) -> list[int]:
        if hasattr(self.index, "nprobe"):
            self.index.nprobe = nearest["nprobes"]
        return self.index.search(query[None, :], K)[1][0].tolist()


Side = Table | Faiss


def in_turns(sides: Sequence[Any], queries: Any, ask: Callable[[Any, Any], object]) -> dict[str, list[float]]:
    """The median seconds of a query of each side, for each tenth of the queries."""
    times: dict[str, list[list[float]]] = {side.name: [[] for _ in range(SAMPLES)] for side in sides}
    for number, query in enumerate(queries):
        for side in sides if number % 2 else reversed(sides):
            started = time.perf_counter()
            ask(side, query)
            times[side.name][number * SAMPLES // len(queries)].append(time.perf_counter() - started)
    return {name: [statistics.median(part) for part in parts if part] for name, parts in times.items()}


def case(claim: str, seconds: dict[str, list[float]], recalls: dict[str, float] | None = None) -> dict[str, Any]:
    """A case for the results."""
    counts = {name: {"recall": round(found, 3)} for name, found in (recalls or {}).items()}
    return result(claim, "local disk, warm; faiss in memory", seconds, counts)


def measured(kind: str, sides: list[Side], data: Any, queries: Any, nearest: Any) -> Iterator[dict[str, Any]]:
    yield case(f"{kind}, build, one run", {side.name: [side.build(kind, len(data))] for side in sides})

    def recalls(of: Sequence[Any], search: dict[str, Any]) -> dict[str, float]:
        return {side.name: recall([side.search(q, search) for q in queries], nearest) for side in of}

    def check(found: dict[str, float], least: float) -> None:
        if found["pennon"] < least:
            raise SystemExit(f"{kind}: the recall of Pennon's index is {found['pennon']}, expected {least}")

    search = asked(kind, len(data), False)
    tables = [side for side in sides if isinstance(side, Table)]
    if kind == "IVF_FLAT":
        everywhere = asked(kind, len(data), True)
        found = recalls(sides, everywhere)
        check(found, 1.0)
        few = queries[: len(queries) // 4]
        yield case(f"{kind}, all partitions", in_turns(sides, few, lambda s, q: s.search(q, everywhere)), found)
    found = recalls(sides, search)
    check(found, found["pylance"] - TOLERANCE)
    yield case(f"{kind}, warm", in_turns(sides, queries, lambda side, q: side.search(q, search)), found)
    few = queries[: len(queries) // 4]
    yield case(f"{kind}, opened", in_turns(tables, few, lambda side, q: side.search(q, search, fresh=True)))
    if "PQ" in kind:
        refined = {**search, "refine_factor": 4}
        found = recalls(tables, refined)
        yield case(f"{kind}, 4 x refined", in_turns(tables, queries, lambda s, q: s.search(q, refined)), found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of indices, with commas between")
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    given = parser.parse_args()
    check_whole(parser, given)
    faiss.omp_set_num_threads(1)
    data, queries = vectors(given.rows, 1), vectors(given.queries, 2)
    nearest = exact(data, queries)
    column = pa.FixedSizeListArray.from_arrays(pa.array(data.reshape(-1)), DIMENSION)
    rows = pa.table({"id": range(given.rows), "vec": column})
    record, results = Record(), []
    with tempfile.TemporaryDirectory(prefix="pennon-vectors-") as directory:
        sides: list[Side] = []
        for name in MODULES:
            uri = str(Path(directory, name))
            lance.write_dataset(rows, uri, enable_stable_row_ids=True)
            sides.append(Table(name, uri))
        sides.append(Faiss(data))
        for kind in given.only.split(","):
            for found in measured(kind, sides, data, queries, nearest):
                results.append(found)
                print(line(found), flush=True)
    size = {"rows": given.rows, "queries": given.queries}
    found = record.of("vectors", "Indices over vectors", ("pylance", "faiss"), size, SAMPLES)
    save(given.results, found | {"cases": results})


if __name__ == "__main__":
    main()
