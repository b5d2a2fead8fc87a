"""Commits and opens against the reference, in one run, in turns, on tables of many fragments and versions.

    python benches/python/commits.py [--rounds 5] [--only commit,open,versions,race] [--fragments 10 1000 10000]
        [--results FOLDER]

Pennon keeps recent manifests for all handles of a process. The reference keeps them in a `Session`, if the caller
makes one and passes it to every call. Calls that a cache can answer are therefore measured in two ways: "by URI"
passes none, "shared session" passes one to the reference. The first open is measured with neither cache.

`durability="os"` on Pennon's side, since the reference does not sync; the group `synced` of `figures.py` has what
syncing costs.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import lance
import pennon
from side_by_side import MODULES, Case, compare, options, parsed, parser, sampled, small, table_of_fragments

DELETERS = 8


def large_manifest(root: Path, fragments: int) -> str:
    """A table whose fragments share one data file: it costs as much to open as any other table."""
    uri = str(root / f"shared-{fragments}")
    (first,) = pennon.fragment.write_fragments(small(4), uri)
    parts = [copy.copy(first) for _ in range(fragments)]
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Overwrite(small(1).schema, parts))
    return uri


def opening(root: Path, sizes: list[int]) -> Iterator[Case]:
    for size in sizes:
        uri = large_manifest(root, size)
        session = lance.Session()
        cold = {"pennon": {"metadata_cache_size_bytes": 0}, "pylance": {}}
        shared = {"pennon": {}, "pylance": {"session": session}}
        for how, settings, repeat in (
            ("no cache", cold, 3),
            ("again, by URI", {side: {} for side in MODULES}, 3),
            ("again, shared session", shared, 20),
        ):
            actions = {
                side: lambda s=side, u=uri, g=settings: MODULES[s].dataset(u, **g[s]).version for side in MODULES
            }
            yield Case("open", f"open a table of {size:,} fragments, {how}", actions, repeat=repeat)


def versions(root: Path) -> Iterator[Case]:
    uris = {}
    for count in (10, 5_000):
        uris[count] = str(root / f"versions-{count}")
        table = pennon.write_dataset(small(4), uris[count], durability="os")
        for _ in range(count - 1):
            table.update_config({"a": "b"})
        actions = {side: lambda s=side, u=uris[count]: MODULES[s].dataset(u).version for side in MODULES}
        yield Case("versions", f"open a table of {count:,} versions", actions, repeat=20)


def committing(root: Path, sizes: list[int]) -> Iterator[Case]:
    batch = small(10)
    for size in sizes:
        uris = {side: table_of_fragments(root, side, size) for side in MODULES}
        datasets = {side: MODULES[side].dataset(uris[side], **options(side)) for side in MODULES}
        next_row = dict.fromkeys(MODULES, 0)
        session = lance.Session()

        def append(side: str, uris: dict[str, str] = uris) -> None:
            MODULES[side].write_dataset(batch, uris[side], mode="append", **options(side))

        def append_shared(side: str, uris: dict[str, str] = uris, session: lance.Session = session) -> None:
            given = options(side) if side == "pennon" else {"session": session}
            MODULES[side].write_dataset(batch, uris[side], mode="append", **given)

        def insert(side: str, datasets: dict = datasets) -> None:
            datasets[side].insert(batch, **options(side))

        def delete(side: str, datasets: dict = datasets, next_row: dict = next_row) -> None:
            next_row[side] += 1
            datasets[side].delete(f"id = {next_row[side]}")

        def configure(side: str, datasets: dict = datasets) -> None:
            datasets[side].update_config({"a": "b"})

        def committed(side: str, uris: dict[str, str] = uris) -> object:
            """The rows of the table, as the reference reads them."""
            table = lance.dataset(uris[side])
            return table.version, table.config().get("a"), sampled(table.to_batches())

        for claim, action in (
            ("write_dataset(10 rows, append), by URI", append),
            ("write_dataset(10 rows, append), shared session", append_shared),
            ("insert(10 rows) on an open table", insert),
            ("update_config on an open table", configure),
            ("delete of one row on an open table", delete),
        ):
            actions = {side: lambda s=side, a=action: a(s) for side in MODULES}
            yield Case("commit", f"{claim}, {size:,} fragments", actions, repeat=3, answer=committed)


def racing(root: Path) -> Iterator[Case]:
    """Rows of one fragment, deleted through eight handles concurrently; every commit conflicts with others."""
    rows = 100_000
    uris = {side: str(root / side) for side in MODULES}
    for side, uri in uris.items():
        MODULES[side].write_dataset(small(rows), uri, enable_stable_row_ids=True, **options(side))
    next_row = dict.fromkeys(MODULES, 0)

    def race(side: str) -> None:
        start = next_row[side]
        next_row[side] += DELETERS * 4

        def work(number: int) -> None:
            for round_ in range(4):
                row = start + number * 4 + round_
                dataset = MODULES[side].dataset(uris[side], **options(side))
                dataset.delete(f"id = {row}", conflict_retries=100, retry_timeout=timedelta(seconds=60))

        with ThreadPoolExecutor(DELETERS) as pool:
            list(pool.map(work, range(DELETERS)))

    actions: dict[str, Callable[[], object]] = {side: lambda s=side: race(s) for side in MODULES}

    def left(side: str) -> object:
        return sampled(lance.dataset(uris[side]).to_batches())

    yield Case("race", f"{DELETERS} concurrent deleters of one fragment, 32 commits", actions, answer=left)
    for side, uri in uris.items():
        assert MODULES[side].dataset(uri).count_rows() == rows - next_row[side]


def main() -> int:
    arguments = parser(__doc__, ("commit", "open", "versions", "race"), 0)
    arguments.add_argument("--fragments", type=int, nargs="+", default=[10, 1_000, 10_000])
    args = parsed(arguments)
    parts = [
        ({"commit"}, lambda root: committing(root, args.fragments)),
        ({"open"}, lambda root: opening(root, [*args.fragments, 100_000])),
        ({"versions"}, versions),
        ({"race"}, racing),
    ]
    compare(args, "commits", "Commits and opens", parts, {"fragments": args.fragments})
    return 0


if __name__ == "__main__":
    sys.exit(main())
