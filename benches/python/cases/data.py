"""Tables that the cases share, and their contents as values that can be compared."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from side_by_side import sampled, texts

UNSYNCED = {"durability": "os"}


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the tables are."""

    rows: int = 1_000_000
    # Of a table that is upserted to other formats, of which each run gets a new one.
    small_rows: int = 200_000
    fragments: int = 1_000
    compacted: int = 100
    taken: int = 1_000
    updates: int = 200
    # Whether a cold case fails if pages of its files cannot be dropped.
    is_cold: bool = True
    # Of the table on S3.
    remote_rows: int = 200_000


TINY = Size(
    rows=4_000, small_rows=4_000, fragments=8, compacted=5, taken=20, updates=4, is_cold=False, remote_rows=400
)


def table(rows: int, start: int = 0, seed: int = 5) -> pa.Table:
    """An ascending key, random numbers, 20 random letters, and a key in no order."""
    rng = np.random.default_rng(seed)
    ids = np.arange(start, start + rows, dtype=np.int64)
    return pa.table({"id": ids, "value": rng.random(rows), "text": texts(rng, rows), "key": rng.permutation(ids)})


COLUMNS = "int64, float64, utf8(20), int64"


def source(rows: int, table_rows: int) -> pa.Table:
    """Rows for an upsert, half of which the table has."""
    rng = np.random.default_rng(2)
    found = table(rows, table_rows, seed=3)
    old = rng.choice(table_rows, rows // 2, replace=False)
    ids = np.concatenate([old, found["id"].to_numpy()[rows // 2 :]])
    return found.set_column(0, "id", pa.array(rng.permutation(ids)))


def contents(found: pa.Table) -> object:
    """All values of our columns as a digest, and some rows to show, whatever the order of the rows."""
    names = [name for name in ("id", "value", "text", "key") if name in found.column_names]
    ordered = found.select(names).sort_by("id").combine_chunks()
    digest = hashlib.sha256()
    for name in names:
        column = ordered[name]
        is_text = pa.types.is_string(column.type)
        digest.update("\n".join(column.to_pylist()).encode() if is_text else column.to_numpy().tobytes())
    return names, sampled(ordered.to_batches()), digest.hexdigest()


def takes(size: Size) -> tuple[tuple[str, int, int], ...]:
    """The takes of all groups: names, numbers of rows, and repeats within a round."""
    return ("take_row", 1, 20), ("take", size.taken, 1)


def picks(rows: int, count: int, times: int | None = None) -> list[list[int]]:
    """Lists of keys that no list shares with another one; as many as ten rounds and more have calls."""
    count = min(count, rows)
    times = times or max(40, 1_000 // count)
    chosen = np.random.default_rng(11).choice(rows, size=min(rows, count * times), replace=False).tolist()
    return [chosen[at : at + count] for at in range(0, len(chosen) - count + 1, count)]


def files(uri: str) -> list[Path]:
    return [path for path in Path(uri).rglob("*") if path.is_file()] if Path(uri).is_dir() else [Path(uri)]
