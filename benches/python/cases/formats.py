"""Changes and time travel, next to delta-rs (`deltalake`) and pyiceberg with a catalog in SQLite, both without a
JVM.

Each run that changes a table gets a new one. None of the sides syncs, nor does the catalog. Neither peer writes
deletion vectors: they write the files again that have a row to delete. Time travel includes the read to Arrow.
"""

from __future__ import annotations

import itertools
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from side_by_side import Case
from sqlalchemy import event

from cases.data import UNSYNCED, Size, contents, source, table

TITLE = "Delta and Iceberg"
PEERS = ("deltalake", "pyiceberg")
NO_FEED = {"pyiceberg": "it has no change feed"}
NUMBERS = itertools.count()
KEYS = "new.id = old.id"


def unsync(catalog: SqlCatalog) -> None:
    """SQLite syncs each commit by default, and no other side does."""

    def connected(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(catalog.engine, "connect", connected)
    catalog.engine.dispose()  # the connections from before


class Tables:
    """New tables of a side, which replace the last ones."""

    def __init__(self, root: Path, data: pa.Table) -> None:
        self.root, self.data = root, data
        (root / "warehouse").mkdir()
        self.catalog = SqlCatalog(
            "figures", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/warehouse"
        )
        unsync(self.catalog)
        self.catalog.create_namespace("figures")
        self.last = ""

    def make(self, side: str, feed: bool = False) -> Any:
        """A handle of a new table with all rows."""
        name = f"t{next(NUMBERS)}"
        if side == "pyiceberg":
            if self.last:
                self.catalog.drop_table(self.last)
                shutil.rmtree(self.root / "warehouse" / "figures", ignore_errors=True)
            self.last = f"figures.{name}"
            made = self.catalog.create_table(self.last, schema=self.data.schema)
            made.append(self.data)
            return made
        folder = self.root / side
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        uri = str(folder / name)
        if side == "deltalake":
            # Delta has a feed of tables that were written for one.
            write_deltalake(uri, self.data, configuration={"delta.enableChangeDataFeed": "true"} if feed else None)
            return DeltaTable(uri)
        return pennon.write_dataset(self.data, uri, **UNSYNCED)


def read(side: str, handle: Any) -> pa.Table:
    """All rows of the newest version."""
    if side == "deltalake":
        return pa.table(QueryBuilder().register("t", handle).execute("SELECT * FROM t"))
    return handle.scan().to_arrow() if side == "pyiceberg" else handle.to_table()


def plain(found: pa.Table) -> pa.Table:
    """With texts as Pennon has them."""
    return found.set_column(found.schema.get_field_index("text"), "text", found["text"].cast(pa.string()))


def left(side: str, handle: Any) -> object:
    return contents(plain(read(side, handle)))


def cases(root: Path, size: Size) -> Iterator[Case]:
    # Pyiceberg says that files have names for which it maps no columns, and that it copies on write.
    warnings.simplefilter("ignore")
    rows = size.small_rows
    tables = Tables(root, table(rows))
    changed = source(max(2, rows // 100), rows)

    def case(name: str, claim: str, sides: dict[str, Callable[[Any], object]]) -> Case:
        return Case("formats", claim, sides, prepare=tables.make, answer=left, name=name)

    yield case(
        "upsert",
        f"upsert {changed.num_rows:,} rows into {rows:,}, half of them new",
        {
            "pennon": lambda t: (
                t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(changed)
            ),
            "deltalake": lambda t: (
                t.merge(changed, KEYS, source_alias="new", target_alias="old")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            ),
            "pyiceberg": lambda t: t.upsert(changed, join_cols=["id"]),
        },
    )
    where = "value < 0.001"
    yield case(
        "delete",
        f"delete 0.1 % of the rows, scattered over {rows:,}",
        dict.fromkeys(("pennon", *PEERS), lambda t: t.delete(where)),
    )
    yield from travelling(tables, rows)


def travelling(tables: Tables, rows: int) -> Iterator[Case]:
    """The version before a delete of a tenth of the rows."""
    handles = {side: tables.make(side) for side in ("pennon", *PEERS)}
    for handle in handles.values():
        handle.delete("value < 0.1")
    name = tables.last
    first = handles["pyiceberg"].history()[0].snapshot_id
    uris = {"pennon": handles["pennon"].uri, "deltalake": handles["deltalake"].table_uri}
    sides: dict[str, Callable[[], pa.Table]] = {
        "pennon": lambda: pennon.dataset(uris["pennon"], version=1).to_table(),
        "deltalake": lambda: read("deltalake", DeltaTable(uris["deltalake"], version=0)),
        "pyiceberg": lambda: tables.catalog.load_table(name).scan(snapshot_id=first).to_arrow(),
    }
    claim = f"open and read the version before the newest, {rows:,} rows"
    yield Case("formats", claim, sides, value=lambda found: contents(plain(found)), name="travel")
    with_feed = {side: tables.make(side, feed=True) for side in ("pennon", "deltalake")}
    for handle in with_feed.values():
        handle.delete("value < 0.1")
    feeds: dict[str, Callable[[], pa.Table]] = {
        "pennon": lambda: with_feed["pennon"].changes(1, images="both").read_all(),
        "deltalake": lambda: pa.table(with_feed["deltalake"].load_cdf(starting_version=1)),
    }
    claim = f"change feed of a delete of 10 % of {rows:,} rows, with their last values"
    yield Case("formats", claim, feeds, value=lambda found: contents(plain(found)), absent=NO_FEED, name="changes")
