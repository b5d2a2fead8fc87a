"""Vectors for tests of searches: points around others, so that partitions of them mean something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pennon
import pyarrow as pa

ROWS, DIMENSION, PARTITIONS = 2_000, 16, 8
FLOATS = {"float16": "f2", "float32": "f4", "float64": "f8"}
METRICS = ("l2", "cosine", "dot")
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_HNSW_FLAT": {"m": 8, "ef_construction": 40},
    "IVF_HNSW_SQ": {"m": 8, "ef_construction": 40},
    "IVF_HNSW_PQ": {"m": 8, "ef_construction": 40, "num_sub_vectors": 8},
}


def column(values: Any) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def vectors(rows: int = ROWS, type: str = "f4", seed: int = 0) -> Any:
    rng = np.random.default_rng(7)
    centers = rng.normal(size=(40, DIMENSION)) * 4
    rng = np.random.default_rng(seed)
    return (centers[rng.integers(0, 40, rows)] + rng.normal(size=(rows, DIMENSION))).astype(type)


def table_of(values: Any, first: int = 0) -> pa.Table:
    """Rows with these vectors, and ids from `first` on."""
    ids = range(first, first + len(values))
    return pa.table({"id": ids, "vec": column(values), "s": [str(n % 7) for n in ids]})


def written(uri: str, values: Any, *, stable: bool) -> None:
    """A table of several fragments."""
    pennon.write_dataset(table_of(values), uri, max_rows_per_file=700, enable_stable_row_ids=stable)


def distances(values: Any, query: Any, metric: str) -> Any:
    """Their definition."""
    values, query = values.astype("f8"), query.astype("f8")
    if metric == "l2":
        return ((values - query) ** 2).sum(axis=1)
    if metric == "dot":
        return 1 - values @ query
    return 1 - values @ query / np.linalg.norm(values, axis=1) / np.linalg.norm(query)


def ask(query: Any, k: int = 10, **more: Any) -> dict[str, Any]:
    """A search of all partitions."""
    return {"column": "vec", "q": query, "k": k, "nprobes": PARTITIONS, **more}


def exact(table: pennon.LanceDataset, asked: dict[str, Any], **options: Any) -> pa.Table:
    """What a look at every vector finds."""
    return table.to_table(columns=["id"], nearest={**asked, "use_index": False, "refine_factor": None}, **options)
