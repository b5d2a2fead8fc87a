r"""The nearest vectors by looking at all of them, against the reference, in one run, in turns.

    python benches/python/nearest.py [--rounds 7] [--rows 200000]

Vectors of 128 numbers in no order, in one fragment. `GB/s`: bytes of vectors by the time of Pennon; they are in the
cache of the system.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rows import opened
from side_by_side import MODULES, Case, medians

DIMENSION = 128
TYPES = {"float16": "f2", "float32": "f4", "float64": "f8"}


def vectors(rows: int, type: str, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, DIMENSION)).astype(type)


def found(table: Any, nearest: dict[str, Any], scan: dict[str, Any]) -> list[int]:
    return table.to_table(columns=["id", "_distance"], nearest=nearest, **scan)["id"].to_pylist()


def cases(root: Path, rows: int) -> Iterator[tuple[Case, int]]:
    for name, type in TYPES.items():
        data = vectors(rows, type, 1)
        column = pa.FixedSizeListArray.from_arrays(pa.array(data.reshape(-1)), DIMENSION)
        uri = str(root / name)
        MODULES["reference"].write_dataset(pa.table({"id": range(rows), "vec": column}), uri)
        tables = {side: opened(side, uri) for side in MODULES}
        queries = vectors(8, type, 2)
        asked: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            metric: ({"q": queries[0], "metric": metric}, {}) for metric in ("l2", "cosine", "dot")
        }
        if name == "float32":
            asked["l2, 1 % of the rows"] = ({"q": queries[0]}, {"filter": "id % 100 = 7", "prefilter": True})
            asked["l2, 8 queries"] = ({"q": queries}, {})
            asked["l2, 1,000 rows"] = ({"q": queries[0], "k": 1000}, {})
        for claim, (query, scan) in asked.items():
            nearest = {"column": "vec", "k": 10, **query}
            sides = {side: lambda t=table, n=nearest, s=scan: found(t, n, s) for side, table in tables.items()}
            yield Case(name, claim, sides), data.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=200_000)
    asked = parser.parse_args()
    print(f"{'':44} {'Pennon':>13} {'reference':>13}   ratio    GB/s")
    with tempfile.TemporaryDirectory(prefix="pennon-nearest-") as directory:
        for case, size in cases(Path(directory), asked.rows):
            times = medians(case, asked.rounds)
            ours, theirs = times["pennon"] * 1000, times["reference"] * 1000
            speed = size / times["pennon"] / 1e9
            name = f"{case.group}: {case.claim}"
            print(f"{name:44} {ours:10.2f} ms {theirs:10.2f} ms   {ours / theirs:6.2f}  {speed:6.1f}", flush=True)


if __name__ == "__main__":
    main()
