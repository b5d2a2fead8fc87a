r"""Scalar indices, against the reference, in one run, in turns.

    python benches/python/indices.py [--rounds 5] [--rows 5000000] [--only addresses] [--results FOLDER]

A table of five fragments with a key in no order, texts of it, and 100 values. Each side builds its indices on a
copy of its own and answers from them. `warm` searches with a handle that searched before, `opened` with a new one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rows import linked, opened
from side_by_side import MODULES, Case, compare, parsed, parser

GROUPS = ("stable row ids", "addresses")
KINDS = {"k": "BTREE", "s": "BTREE", "c": "BITMAP"}


def base(root: Path, rows: int, stable: bool) -> str:
    """The table, written by the reference for both sides."""
    uri = str(root / f"base-{stable}")
    order = np.random.default_rng(1).permutation(rows).astype(np.int64)
    data = pa.table({"k": order, "s": [f"user_{key:08d}" for key in order], "c": order % 100, "v": order * 0.5})
    MODULES["pylance"].write_dataset(data, uri, max_rows_per_file=-(-rows // 5), enable_stable_row_ids=stable)
    return uri


def searches(rows: int) -> dict[str, str]:
    """Predicates by what they ask."""
    chosen = np.random.default_rng(2).choice(rows, 1000, replace=False)
    return {
        "one key": f"k = {rows // 3}",
        "one text": f"s = 'user_{rows // 3:08d}'",
        "1,000 keys": f"k in ({', '.join(map(str, chosen))})",
        "1 % by range": f"k >= {rows // 2} and k < {rows // 2 + rows // 100}",
        "1 % by bitmap": "c = 42",
        "key and bitmap": f"k < {rows // 100} and c = 7",
    }


def upserted(rows: int, count: int) -> pa.Table:
    """A source of which nine keys in ten are in the table."""
    keys = np.random.default_rng(3).choice(rows, count, replace=False).astype(np.int64)
    keys[: count // 10] += rows
    return pa.table({"k": keys, "s": [f"user_{key:08d}" for key in keys], "c": keys % 100, "v": keys * 1.0})


def found(table: Any, predicate: str) -> pa.Table:
    return table.to_table(columns=["k"], filter=predicate)


def key_list(found: pa.Table) -> list[int]:
    return sorted(found["k"].to_pylist())


def cases(root: Path, rows: int, group: str) -> Iterator[Case]:
    """With the way in which the indices name rows."""
    for case in of_table(root, rows, group):
        yield replace(case, claim=f"{case.claim}; {group}")


def of_table(root: Path, rows: int, group: str) -> Iterator[Case]:
    stable = group == "stable row ids"
    uri = base(root, rows, stable)
    copies = {side: linked(uri, root / f"{side}-{stable}") for side in MODULES}
    for column, kind in KINDS.items():

        def build(side: str, column: str = column, kind: str = kind) -> int:
            table = opened(side, copies[side])
            table.create_scalar_index(column, kind)
            return table.stats.index_stats(f"{column}_idx")["num_indexed_rows"]

        yield Case(group, f"build {kind} of {column}", {side: lambda s=side, b=build: b(s) for side in MODULES})
    handles = {side: opened(side, copy) for side, copy in copies.items()}
    for name, predicate in searches(rows).items():
        warm = {side: lambda t=table, p=predicate: found(t, p) for side, table in handles.items()}
        yield Case(group, f"{name}, warm", warm, repeat=5, value=key_list)
        fresh = {side: lambda s=side, p=predicate: found(opened(s, copies[s]), p) for side in MODULES}
        yield Case(group, f"{name}, opened", fresh, value=key_list)
    counts = {side: lambda t=table: t.count_rows("c = 42") for side, table in handles.items()}
    yield Case(group, "count by bitmap, warm", counts, repeat=5)

    for column, count in (("k", 1000), ("s", 1000), ("k", 10)):
        source = upserted(rows, count)
        for name, use_index in (("with the index", True), ("without it", False)):

            def merged(
                side: str, column: str = column, source: pa.Table = source, use_index: bool = use_index
            ) -> dict[str, int]:
                merge = handles[side].merge_insert(column).when_matched_update_all().when_not_matched_insert_all()
                return merge.use_index(use_index).execute_uncommitted(source)[1]

            sides = {side: lambda s=side, m=merged: m(s) for side in MODULES}
            yield Case(group, f"merge of {count:,} keys by {column}, {name}, uncommitted", sides)
    for column in ("k", "s"):
        tops = {
            side: lambda t=table, c=column: t.to_table(columns=[c], order_by=[c], limit=10)[c].to_pylist()
            for side, table in handles.items()
        }
        yield Case(group, f"the first 10 rows by {column}", tops, repeat=3)

    what = "build BITMAP of v, of which each row has its own"
    unique = {side: lambda copy, s=side: opened(s, copy).create_scalar_index("v", "BITMAP") for side in MODULES}

    def indexed_rows(side: str, copy: str) -> tuple[int, int]:
        table = opened(side, copy)
        return table.stats.index_stats("v_idx")["num_indexed_rows"], table.count_rows(f"v < {rows // 1000}")

    prepare = copy_of(root, dict.fromkeys(MODULES, uri))
    yield Case(group, what, unique, prepare=prepare, answer=indexed_rows)
    yield from changes(root, rows, {"three indices": copies, "no index": dict.fromkeys(MODULES, uri)}, group)


def copy_of(root: Path, uris: dict[str, str]) -> Callable[[str], str]:
    """Makes a copy of the table of a side, and removes the one before."""
    last: dict[str, Path] = {}

    def copy(side: str) -> str:
        if side in last:
            shutil.rmtree(last[side])
        last[side] = Path(tempfile.mkdtemp(dir=root))
        return linked(uris[side], last[side])

    return copy


def changes(root: Path, rows: int, tables: dict[str, dict[str, str]], group: str) -> Iterator[Case]:
    """Of tables with and without indices: these bear what indices cost."""

    def compact(side: str, uri: str) -> None:
        opened(side, uri).optimize.compact_files(target_rows_per_fragment=2 * rows)

    def update(side: str, uri: str) -> None:
        """In an indexed column; which rows these are no index knows."""
        opened(side, uri).update({"c": "(c + 7) % 100"}, where=f"v < {rows / 200}")

    def answer(side: str, uri: str) -> tuple[int, int, list[int]]:
        table = opened(side, uri)
        moved = key_list(found(table, f"c = 42 and k < {rows // 100}"))
        return len(moved), table.count_rows("c = 42"), moved

    actions = {"compaction to one fragment": compact, "update of 1 % of the rows": update}
    for what, action in actions.items():
        for name, uris in tables.items():
            sides = {side: lambda uri, s=side, a=action: a(s, uri) for side in MODULES}
            yield Case(group, f"{what}, {name}", sides, prepare=copy_of(root, uris), answer=answer)


def main() -> None:
    args = parsed(parser(__doc__, GROUPS, rows=5_000_000))
    parts = [({group}, lambda root, group=group: cases(root, args.rows, group)) for group in GROUPS]
    compare(args, "indices", "Scalar indices", parts)


if __name__ == "__main__":
    main()
