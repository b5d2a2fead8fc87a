"""Reads, next to DuckDB and Polars over a Parquet file: each in the way that was the fastest of those that were
tried.

The file has row groups of 122,880 rows, which are DuckDB's, and no more compression than pyarrow's default. DuckDB
and Pennon return Arrow tables, Polars its data frames. Parquet has no row ids: rows are read by key, DuckDB by a
semi join with the keys (by `IN` and by row numbers it took longer), Polars by `is_in` (by a semi join, a row index
or `gather` it took longer), and both open the file at each call. Pennon has a case that does the same work, and one
that takes by row id through an open handle, which Parquet cannot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pennon
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import Case

from cases.data import COLUMNS, UNSYNCED, Size, contents, picks, table, takes

TITLE = "Parquet"
PEERS = ("duckdb", "polars")
ROW_GROUP = 122_880


def cases(root: Path, size: Size) -> Iterator[Case]:
    rows = size.rows
    data = table(rows)
    file, uri = str(root / "table.parquet"), str(root / "table")
    pq.write_table(data, file, row_group_size=ROW_GROUP)
    handle = pennon.write_dataset(data, uri, max_rows_per_file=-(-rows // 4), **UNSYNCED)
    connection = duckdb.connect()
    what = f"{rows:,} rows"

    def case(name: str, claim: str, sides: dict[str, Callable[[], Any]], repeat: int = 1) -> Case:
        return Case("parquet", claim, sides, repeat, value=lambda found: contents(arrow(found)), name=name)

    yield case(
        "scan",
        f"scan {what} of {COLUMNS}",
        {
            "pennon": handle.to_table,
            "duckdb": lambda: scanned(connection, file),
            "polars": lambda: polars.scan_parquet(file).collect(),
        },
    )
    yield case(
        "scan_filter",
        f"scan {what} with a filter that keeps 1 %",
        {
            "pennon": lambda: handle.to_table(filter="value < 0.01"),
            "duckdb": lambda: scanned(connection, file, "WHERE value < 0.01"),
            "polars": lambda: polars.scan_parquet(file).filter(polars.col("value") < 0.01).collect(),
        },
    )
    for name, count, repeat in takes(size):
        some = f"{count:,} random row{'s' if count > 1 else ''} of {rows:,}"
        ways: dict[str, tuple[str, Callable[[list[int]], pa.Table]]] = {
            f"{name}_by_key": (
                f"open and read {some} by key",
                lambda keys: keyed(pennon.dataset(uri, metadata_cache_size_bytes=0), keys),
            ),
            name: (f"take {some}: Pennon by row id, open before; peers open and read by key", handle.take_rows),
        }
        for key, (claim, ours) in ways.items():
            cycles = {side: itertools.cycle(picks(rows, count)) for side in ("pennon", *PEERS)}
            sides: dict[str, Callable[[], Any]] = {
                "pennon": lambda c=cycles, take=ours: take(next(c["pennon"])),
                "duckdb": lambda c=cycles: taken_by_duckdb(connection, file, next(c["duckdb"])),
                "polars": lambda c=cycles: taken_by_polars(file, next(c["polars"])),
            }
            yield case(key, claim, sides, repeat)


def keyed(handle: Any, keys: list[int]) -> pa.Table:
    """The rows with these keys, of Pennon or `pylance`."""
    return handle.to_table(filter=f"id IN ({', '.join(map(str, keys))})")


def scanned(connection: duckdb.DuckDBPyConnection, file: str, where: str = "") -> pa.Table:
    return connection.sql(f"SELECT * FROM read_parquet('{file}') {where}").to_arrow_table()


def taken_by_duckdb(connection: duckdb.DuckDBPyConnection, file: str, keys: list[int]) -> pa.Table:
    connection.register("wanted", pa.table({"id": keys}))
    return connection.sql(f"SELECT * FROM read_parquet('{file}') SEMI JOIN wanted USING (id)").to_arrow_table()


def taken_by_polars(file: str, keys: list[int]) -> polars.DataFrame:
    return polars.scan_parquet(file).filter(polars.col("id").is_in(keys)).collect()


def arrow(found: Any) -> pa.Table:
    """A result of any of them, with texts as Pennon has them."""
    result = found.to_arrow() if isinstance(found, polars.DataFrame) else found
    return result.set_column(result.schema.get_field_index("text"), "text", result["text"].cast(pa.string()))
