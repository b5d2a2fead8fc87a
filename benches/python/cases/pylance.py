"""The verbs of tables, next to `pylance`: each side on tables that it wrote, with stable row ids and without
syncing. Exceptions: both open one table of Pennon, and both read a table of `pylance` in one of the scans and in
takes of moved rows.

Pennon finds a manifest again that a handle of the process has; `pylance` does so in a `Session`, which all of its
calls here share. A case that changes a table does so on a copy whose data files are links.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
from commits import large_manifest
from rows import linked
from side_by_side import Case, drain

from cases.data import COLUMNS, UNSYNCED, Size, contents, picks, source, table, takes

TITLE = "pylance"
# Settings of a handle that finds nothing in a cache.
COLD: dict[str, dict[str, Any]] = {"pennon": {"metadata_cache_size_bytes": 0}, "pylance": {}}
LIBRARIES: dict[str, Any] = {"pennon": pennon, "pylance": lance}
PEERS = ("pylance",)


class Tables:
    """A table of each side, and handles of it."""

    def __init__(self, root: Path, name: str, data: pa.Table, rows_per_file: int) -> None:
        self.root = root
        self.session = lance.Session()
        self.settings: dict[str, dict[str, Any]] = {"pennon": UNSYNCED, "pylance": {"session": self.session}}
        self.uris = {side: str(root / f"{name}-{side}") for side in LIBRARIES}
        for side, library in LIBRARIES.items():
            unsynced = UNSYNCED if side == "pennon" else {}
            shape = {"max_rows_per_file": rows_per_file, "enable_stable_row_ids": True}
            library.write_dataset(data, self.uris[side], **shape, **unsynced)

    def open(self, side: str, uri: str | None = None) -> Any:
        return LIBRARIES[side].dataset(uri or self.uris[side], **self.settings[side])

    def copy(self, side: str) -> Any:
        """A handle of a copy."""
        return self.open(side, linked(self.uris[side], Path(tempfile.mkdtemp(dir=self.root))))

    def sides(self, action: Callable[[str], object]) -> dict[str, Callable[[], object]]:
        return {side: lambda s=side: action(s) for side in LIBRARIES}

    def changing(self, name: str, claim: str, change: Callable[[Any], object]) -> Case:
        """A case that changes copies, whose contents are compared, as `pylance` reads them."""
        sides = dict.fromkeys(LIBRARIES, change)
        return Case("pylance", claim, sides, prepare=self.copy, answer=left, name=name)


def left(side: str, handle: Any) -> object:
    """The contents of a copy after the change, and whether they are in one fragment, as after a compaction."""
    del side
    changed = lance.dataset(handle.uri)
    return contents(changed.to_table()), len(changed.get_fragments()) == 1


def cases(root: Path, size: Size) -> Iterator[Case]:
    rows = size.rows
    data = table(rows)
    tables = Tables(root, "table", data, -(-rows // 4))
    yield from opening(root, size)
    yield from reading(tables, size)
    yield from taking(root, tables, size)
    yield from writing(root, tables, data)
    yield from changing(root, tables, data, size)
    yield from searching(tables, size)


def opening(root: Path, size: Size) -> Iterator[Case]:
    uri = large_manifest(root, size.fragments)
    shared = {side: {"session": library.Session()} for side, library in LIBRARIES.items()}
    for name, how, settings, repeat in (
        ("open", "nothing cached; Pennon decodes fragments when it needs them", COLD, 3),
        ("open_again", "again, with a shared `Session`", shared, 50),
    ):
        sides = {side: lambda s=side, g=settings: LIBRARIES[s].dataset(uri, **g[s]).version for side in LIBRARIES}
        yield Case("pylance", f"open a table of {size.fragments:,} fragments, {how}", sides, repeat, name=name)

    def listed(side: str) -> list[tuple[int, int]]:
        found = LIBRARIES[side].dataset(uri, **COLD[side]).get_fragments()
        return [(fragment.fragment_id, fragment.physical_rows) for fragment in found]

    claim = f"open a table of {size.fragments:,} fragments, nothing cached, and list them and their rows"
    yield Case("pylance", claim, {side: lambda s=side: listed(s) for side in LIBRARIES}, name="open_list")


def reading(tables: Tables, size: Size) -> Iterator[Case]:
    handles = {side: tables.open(side) for side in LIBRARIES}
    theirs = {"pennon": pennon.dataset(tables.uris["pylance"]), "pylance": handles["pylance"]}
    what = f"{size.rows:,} rows of {COLUMNS}"

    def scan(name: str, claim: str, of: dict[str, Any] = handles, **options: Any) -> Case:
        sides = tables.sides(lambda side: drain(of[side], **options))
        return Case(
            "pylance",
            claim,
            sides,
            answer=lambda side: contents(of[side].to_table(**options)),
            value=int,
            name=name,
        )

    yield scan("scan", f"scan {what}")
    yield scan("scan_theirs", f"scan {what}, both from the files of `pylance`", theirs)
    yield scan("scan_column", f"scan one int64 column of {size.rows:,} rows", columns=["id"])
    yield scan("scan_filter", f"scan {size.rows:,} rows with a filter that keeps 1 %", filter="value < 0.01")
    count = f"count {size.rows:,} rows"
    yield Case("pylance", count, tables.sides(lambda side: handles[side].count_rows()), 50, name="count")
    filtered = tables.sides(lambda side: handles[side].count_rows("value < 0.01"))
    yield Case("pylance", f"{count} with a filter that keeps 1 %", filtered, name="count_filter")


def taking(root: Path, tables: Tables, size: Size) -> Iterator[Case]:
    """Other rows at every call, the same for both sides."""
    handles = {side: tables.open(side) for side in LIBRARIES}
    for name, count, repeat in takes(size):
        some = f"take {count:,} random row{'s' if count > 1 else ''} of {size.rows:,}"
        cycles = {side: itertools.cycle(picks(size.rows, count)) for side in LIBRARIES}
        sides = tables.sides(lambda side, c=cycles: handles[side]._take_rows(next(c[side])))
        yield Case("pylance", f"{some} by id", sides, repeat, value=contents, name=name)
        cycles = {side: itertools.cycle(picks(size.rows, count)) for side in LIBRARIES}
        sides = tables.sides(
            lambda side, c=cycles: LIBRARIES[side].dataset(tables.uris[side], **COLD[side]).take(next(c[side]))
        )
        claim = f"open, nothing cached, and {some} by position"
        yield Case("pylance", claim, sides, repeat, value=contents, name=f"{name}_fresh")
    for moved in (0, 1, size.rows // 1_000, size.rows // 100):
        yield taking_moved(root / f"moved-{moved}", size.rows, moved)


def taking_moved(path: Path, rows: int, moved: int) -> Case:
    """Ten rows, as many of which were moved as can be."""
    uri = str(path)
    lance.write_dataset(table(rows), uri, enable_stable_row_ids=True, max_rows_per_file=-(-rows // 10))
    if moved:
        lance.dataset(uri).update({"text": "'moved'"}, where=f"key < {moved}")
    wanted = lance.dataset(uri).to_table(columns=["id"], filter=f"key < {max(10, moved)}")
    ids = wanted["id"].to_pylist()[:10]
    sides = {side: lambda s=side: LIBRARIES[s].dataset(uri, **COLD[s])._take_rows(ids) for side in LIBRARIES}
    claim = f"open, nothing cached, and take 10 rows by id of {rows:,}, of which an update moved {moved:,}"
    return Case("pylance", claim, sides, 3, value=contents, name=f"take_moved_{moved}")


def writing(root: Path, tables: Tables, data: pa.Table) -> Iterator[Case]:
    def emptied(side: str) -> str:
        shutil.rmtree(root / f"written-{side}", ignore_errors=True)
        return str(root / f"written-{side}")

    def write(side: str, uri: str) -> None:
        settings = UNSYNCED if side == "pennon" else {}
        LIBRARIES[side].write_dataset(data, uri, enable_stable_row_ids=True, **settings)

    def written(side: str, uri: str) -> object:
        del side
        return contents(lance.dataset(uri).to_table())

    sides = {side: lambda uri, s=side: write(s, uri) for side in LIBRARIES}
    claim = f"write {data.num_rows:,} rows of {COLUMNS}"
    yield Case("pylance", claim, sides, prepare=emptied, answer=written, name="write")

    small = table(10, data.num_rows)

    def append(side: str, handle: Any) -> None:
        LIBRARIES[side].write_dataset(small, handle.uri, mode="append", **tables.settings[side])

    appends = {side: lambda handle, s=side: append(s, handle) for side in LIBRARIES}
    yield Case("pylance", "append 10 rows", appends, repeat=3, prepare=tables.copy, answer=left, name="append")


def changing(root: Path, tables: Tables, data: pa.Table, size: Size) -> Iterator[Case]:
    rows = size.rows
    scattered = f"scattered over {rows:,}"
    update = tables.changing(
        "update", f"update 1 % of the rows, {scattered}", lambda t: t.update({"value": "value + 1"}, "value < 0.01")
    )
    yield update
    yield tables.changing("delete", f"delete 0.1 % of the rows, {scattered}", lambda t: t.delete("value < 0.001"))
    changed = source(max(2, rows // 100), rows)

    def upsert(handle: Any) -> object:
        return handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(changed)

    yield tables.changing("merge", f"upsert {changed.num_rows:,} rows into {rows:,}, half of them new", upsert)

    handles = {side: tables.copy(side) for side in LIBRARIES}
    begins = {side: handle.version for side, handle in handles.items()}
    for handle in handles.values():
        handle.update({"value": "value + 1"}, "value < 0.01")
    feeds: dict[str, Callable[[], pa.Table]] = {
        "pennon": lambda: handles["pennon"].changes(begins["pennon"]).read_all(),
        "pylance": lambda: (
            handles["pylance"]
            .delta(begin_version=begins["pylance"], end_version=begins["pylance"] + 1)
            .get_updated_rows()
            .read_all()
        ),
    }
    claim = f"change feed of an update of 1 % of {rows:,} rows: `changes`, `delta`"
    yield Case("pylance", claim, feeds, value=contents, name="changes")

    fragments = Tables(root, "fragments", data, -(-rows // size.compacted))
    yield fragments.changing(
        "compact",
        f"compact {size.compacted} fragments of {rows:,} rows",
        lambda t: t.optimize.compact_files(target_rows_per_fragment=2 * rows),
    )


def searching(tables: Tables, size: Size) -> Iterator[Case]:
    """By a B-tree over keys in no order, on handles that searched before."""
    handles = {side: tables.copy(side) for side in LIBRARIES}
    for side, handle in handles.items():
        handle.create_scalar_index("key", "BTREE")
        handles[side] = tables.open(side, handle.uri)
    wanted = ", ".join(map(str, picks(size.rows, size.taken, 1)[0]))
    for name, claim, where, repeat in (
        ("btree", f"one key of {size.rows:,} by a B-tree", f"key = {size.rows // 3}", 20),
        ("btree_in", f"`IN` of {size.taken:,} keys of {size.rows:,} by a B-tree", f"key IN ({wanted})", 1),
    ):
        sides = tables.sides(lambda side, w=where: handles[side].to_table(filter=w))
        yield Case("pylance", claim, sides, repeat, value=contents, name=name)
