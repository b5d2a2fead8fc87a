"""One of several processes that write to a table at the same time; prints what it did as JSON.

A commit that gives up is tried again, as a user would: under eight commits a second the reference runs out of its
own retries now and then. A writer of Pennon must not, except once in twenty commits. Roles:

| role | does |
|---|---|
| `mix` | appends `rows` rows of its own and deletes one of the first ones, in each of `rounds` rounds |
| `delete` | deletes the rows from `start` to `end`, one commit each; `found` counts those that it deleted itself |
| `delete` with `stop` | the same with a pause before each, until that file exists |
| `append` | appends one row of its own, from `start` to `end`, in one commit each |
| `count` | adds 1 to `n` of the row with `id` 0, `end` - `start` times, one commit each |
| `update` | adds 1 to `n` of the rows from `start` to `end` in turn, one commit each, until it is stopped |
| `compact` | rewrites all fragments into one until it is stopped, synced as the deletes next to it; Pennon only |
| `optimize` | the same with `compact_files`, into fragments of 1,000 rows |
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pennon
import pyarrow as pa
from pennon import _native
from pennon._table.writing import native_options

done = dict.fromkeys(("commits", "appends", "deletes", "updates", "found", "gave_up"), 0)


def until_done(kind: str, attempt) -> None:
    for _ in range(200):
        try:
            attempt()
        except OSError as error:  # noqa: PERF203 - a retry loop
            if "oncurrent" not in str(error) and "onflict" not in str(error):
                raise
            done["gave_up"] += 1
        else:
            done[kind] += 1
            return
    raise RuntimeError("200 attempts were not enough")


def mix(module_name: str, uri: str, number: int, rounds: int, rows: int) -> None:
    module = importlib.import_module(module_name)
    for turn in range(rounds):
        start = 1_000_000 * (number + 1) + turn * rows
        batch = pa.table(
            {
                "id": pa.array(range(start, start + rows), pa.int64()),
                "text": pa.array([f"row {i}" for i in range(start, start + rows)]),
            }
        )
        until_done("appends", lambda batch=batch: module.write_dataset(batch, uri, mode="append"))
        row = number * rounds + turn
        until_done("deletes", lambda row=row: module.dataset(uri).delete(f"id = {row}"))


def delete(module_name: str, uri: str, start: int, end: int, stop: Path | None = None) -> None:
    module = importlib.import_module(module_name)

    def one(row: int) -> None:
        dataset = module.dataset(uri)
        deleted = dataset.delete(f"id = {row}")["num_deleted_rows"]
        done["found"] += deleted

    for row in range(start, end):
        if stop is not None:
            if stop.exists():
                break
            time.sleep(0.02)
        until_done("deletes", lambda row=row: one(row))


def append(module_name: str, uri: str, start: int, end: int) -> None:
    module = importlib.import_module(module_name)
    for row in range(start, end):
        batch = pa.table({"id": pa.array([row], pa.int64())})
        until_done(
            "appends", lambda batch=batch: module.write_dataset(batch, uri, mode="append", **os_only(module))
        )


def count(module_name: str, uri: str, start: int, end: int) -> None:
    """What was read must be what is replaced: an update that lost its row to another is done again."""
    module = importlib.import_module(module_name)

    def one() -> None:
        updated = module.dataset(uri, **os_only(module)).update({"n": "n + 1"}, "id = 0")
        assert updated["num_rows_updated"] == 1

    for _ in range(start, end):
        until_done("updates", one)


def update(module_name: str, uri: str, start: int, end: int, stop: Path) -> None:
    module = importlib.import_module(module_name)

    def one(row: int) -> None:
        updated = module.dataset(uri, **os_only(module)).update({"n": "n + 1"}, f"id = {row}")
        assert updated["num_rows_updated"] == 1

    for row in itertools.cycle(range(start, end)):
        if stop.exists():
            break
        until_done("updates", lambda row=row: one(row))


def os_only(module) -> dict[str, str]:
    """The reference does not sync."""
    return {"durability": "os"} if module is pennon else {}


def compact(uri: str, stop: Path) -> None:
    def one() -> None:
        table = pennon.dataset(uri)
        old = [part.metadata for part in table.get_fragments()]
        ids = [part.fragment_id for part in table.get_fragments()]
        _, written = _native.rewrite_fragments(table._native, ids, native_options())
        new = [pennon.FragmentMetadata._of(part.parts) for part in written]
        group = pennon.LanceOperation.RewriteGroup(old, new)
        operation = pennon.LanceOperation.Rewrite([group], [])
        pennon.LanceDataset.commit(uri, operation, read_version=table.version)

    again_and_again(one, stop)


def optimize(uri: str, stop: Path) -> None:
    def one() -> None:
        table = pennon.dataset(uri, durability="os")
        moved = table.optimize.compact_files(target_rows_per_fragment=1_000, materialize_deletions_threshold=0.0)
        done["found"] += moved.fragments_removed

    again_and_again(one, stop)


def again_and_again(one: Callable[[], None], stop: Path) -> None:
    while not stop.exists():
        try:
            one()
            done["commits"] += 1
        except pennon.CommitConflictError as error:
            done["gave_up"] += 1
            print(error, file=sys.stderr)
        time.sleep(0.01)


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role in ("compact", "optimize"):
        {"compact": compact, "optimize": optimize}[role](arguments[0], Path(arguments[1]))
    else:
        roles = {"mix": mix, "delete": delete, "append": append, "count": count, "update": update}
        numbers = [int(text) for text in arguments[2:] if text.isdecimal()]
        stop = [Path(text) for text in arguments[2:] if not text.isdecimal()]
        roles[role](*arguments[:2], *numbers, *stop)
    if "pennon" in arguments:
        commits = done["appends"] + done["deletes"] + done["updates"]
        assert done["gave_up"] * 20 <= commits, f"{done['gave_up']} commits given up, {commits} made"
    print(json.dumps(done))
