"""One of several processes that write to a table at the same time; prints what it did as JSON.

A commit that gives up is tried again, as a user would. Roles:

| role | does |
|---|---|
| `delete` | deletes the rows from `start` to `end`, one commit each; `found` counts those that it deleted itself |
| `compact` | rewrites all fragments into one until told to stop; Pennon only |
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

import pennon
from pennon import _native
from pennon.write import native_options

done = {"commits": 0, "found": 0, "gave_up": 0}


def until_done(attempt) -> None:
    for _ in range(200):
        try:
            attempt()
        except OSError as error:  # noqa: PERF203 - a retry loop
            if "oncurrent" not in str(error) and "onflict" not in str(error):
                raise
            done["gave_up"] += 1
        else:
            done["commits"] += 1
            return
    raise RuntimeError("200 attempts were not enough")


def delete(module_name: str, uri: str, start: int, end: int) -> None:
    module = importlib.import_module(module_name)

    def one(row: int) -> None:
        dataset = module.dataset(uri)
        deleted = dataset.delete(f"id = {row}")["num_deleted_rows"]
        done["found"] += deleted

    for row in range(start, end):
        until_done(lambda row=row: one(row))


def compact(uri: str, stop: Path) -> None:
    def one() -> None:
        table = pennon.dataset(uri)
        old = [part.metadata for part in table.get_fragments()]
        ids = [part.fragment_id for part in table.get_fragments()]
        _, written = _native.rewrite_fragments(table._native, ids, native_options(durability="os"))
        new = [pennon.FragmentMetadata._of(part.parts) for part in written]
        group = pennon.LanceOperation.RewriteGroup(old, new)
        operation = pennon.LanceOperation.Rewrite([group], [])
        pennon.LanceDataset.commit(uri, operation, read_version=table.version, durability="os")

    while not stop.exists():
        try:
            one()
            done["commits"] += 1
        except pennon.CommitConflictError as error:
            done["gave_up"] += 1
            print(error, file=sys.stderr)
        time.sleep(0.01)


if __name__ == "__main__":
    if sys.argv[1] == "compact":
        compact(sys.argv[2], Path(sys.argv[3]))
    else:
        delete(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    print(json.dumps(done))
