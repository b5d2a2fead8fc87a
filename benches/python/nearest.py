r"""The nearest vectors by looking at all of them, against the reference, in one run, in turns.

    python benches/python/nearest.py [--rounds 5] [--rows 200000] [--only float32] [--results FOLDER]

Vectors of 128 numbers in no order, in one fragment, which are in the cache of the system; five times as many of
float32 as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rows import opened
from side_by_side import MODULES, Case, compare, parsed, parser

DIMENSION = 128
TYPES = {"float16": "f2", "float32": "f4", "float64": "f8"}


def vectors(rows: int, type: str, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, DIMENSION)).astype(type)


def found(table: Any, nearest: dict[str, Any], scan: dict[str, Any]) -> list[int]:
    """The rows; of those that are almost as near either order is right."""
    return sorted(table.to_table(columns=["id", "_distance"], nearest=nearest, **scan)["id"].to_pylist())


def cases(root: Path, rows: int, name: str) -> Iterator[Case]:
    for count in (rows, 5 * rows) if name == "float32" else (rows,):
        type = TYPES[name]
        data = vectors(count, type, 1)
        column = pa.FixedSizeListArray.from_arrays(pa.array(data.reshape(-1)), DIMENSION)
        uri = str(root / f"{count}")
        MODULES["pylance"].write_dataset(pa.table({"id": range(count), "vec": column}), uri)
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
            what = f"{count:,} of {name}, {data.nbytes / 1e6:,.0f} MB"
            yield Case(name, f"{what}: {claim}", sides)


def main() -> None:
    args = parsed(parser(__doc__, TYPES, rows=200_000))
    parts = [({name}, lambda root, name=name: cases(root, args.rows, name)) for name in TYPES]
    compare(args, "nearest", "Nearest vectors without an index", parts)


if __name__ == "__main__":
    main()
