"""Reads of files that are not in the page cache: their pages are dropped before each run.

All sides read what they have written, with nothing cached; opening is in the time. DuckDB and Polars read a Parquet
file, as in `parquet.py`.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import pennon
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import Case

from cases.data import COLUMNS, UNSYNCED, Size, contents, files, picks, table
from cases.parquet import ROW_GROUP, arrow, keyed, scanned, taken_by_duckdb, taken_by_polars

TITLE = "cold cache"
PEERS = ("pylance", "duckdb", "polars")
# Of the pages of a file that may be in memory after they were dropped.
REMAINING = 0.01


def drop(path: Path) -> None:
    """Drops the pages of a file, which are written first."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def resident(path: Path) -> float:
    """The share of a file's pages that are in memory."""
    size = path.stat().st_size
    if not size:
        return 0.0
    pages = -(-size // mmap.PAGESIZE)
    found = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file:
        view = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        first = ctypes.c_char.from_buffer(view)
        try:
            failed = ctypes.CDLL(None, use_errno=True).mincore(
                ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), found
            )
            if failed:
                raise OSError(ctypes.get_errno(), "mincore failed")
        finally:
            del first
            view.close()
    return sum(page & 1 for page in found) / pages


def cases(root: Path, size: Size) -> Iterator[Case]:
    rows = size.rows
    data = table(rows)
    shape = {"max_rows_per_file": -(-rows // 4), "enable_stable_row_ids": True}
    parquet = str(root / "table.parquet")
    uris = {side: str(root / side) for side in ("pennon", "pylance")} | {"duckdb": parquet, "polars": parquet}
    pennon.write_dataset(data, uris["pennon"], **shape, **UNSYNCED)
    lance.write_dataset(data, uris["pylance"], **shape)
    pq.write_table(data, parquet, row_group_size=ROW_GROUP)
    connection = duckdb.connect()
    # DuckDB would cache what it read of the file.
    connection.sql("SET enable_external_file_cache = false")

    def cooled(side: str) -> None:
        for file in files(uris[side]):
            drop(file)
            if size.is_cold and resident(file) > REMAINING:
                raise RuntimeError("pages of files cannot be dropped: set TMPDIR to a folder on a local disk")

    def opened(side: str) -> Any:
        if side == "pennon":
            return pennon.dataset(uris[side], metadata_cache_size_bytes=0)
        return lance.dataset(uris[side])

    def case(name: str, claim: str, sides: dict[str, Callable[[], Any]]) -> Case:
        return Case(
            "cold",
            claim,
            {side: lambda _, a=action: a() for side, action in sides.items()},
            prepare=cooled,
            value=lambda found: contents(arrow(found)),
            name=name,
            store="local disk, pages dropped",
        )

    yield case(
        "scan",
        f"open and scan {rows:,} rows of {COLUMNS}",
        {
            "pennon": lambda: opened("pennon").to_table(),
            "pylance": lambda: opened("pylance").to_table(),
            "duckdb": lambda: scanned(connection, parquet),
            "polars": lambda: polars.scan_parquet(parquet).collect(),
        },
    )
    some = f"{size.taken:,} random rows of {rows:,}"
    ways: dict[str, tuple[str, Callable[[str, list[int]], pa.Table]]] = {
        "take_by_key": (f"open and read {some} by key", lambda side, keys: keyed(opened(side), keys)),
        "take": (
            f"open and take {some}: Pennon and `pylance` by row id, DuckDB and Polars by key",
            lambda side, keys: opened(side)._take_rows(keys),
        ),
    }
    for name, (claim, take) in ways.items():
        cycles = {side: itertools.cycle(picks(rows, size.taken)) for side in ("pennon", *PEERS)}
        sides: dict[str, Callable[[], Any]] = {
            "pennon": lambda c=cycles, t=take: t("pennon", next(c["pennon"])),
            "pylance": lambda c=cycles, t=take: t("pylance", next(c["pylance"])),
            "duckdb": lambda c=cycles: taken_by_duckdb(connection, parquet, next(c["duckdb"])),
            "polars": lambda c=cycles: taken_by_polars(parquet, next(c["polars"])),
        }
        yield case(name, claim, sides)
