"""A process that reads the newest version of a table again and again, as a service does, until a file says stop."""

from __future__ import annotations

import json
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

import pennon

# What a reader may keep of a table, so that memory is flat soon.
CACHE = 16 << 20
PAUSE = 0.02


def main(arguments: str) -> None:
    given = json.loads(arguments)
    known = {"storage_options": given["options"]} if given["options"] else {}
    dice, stop = random.Random(given["seed"]), Path(given["home"]) / "stop"
    table = pennon.dataset(given["uri"], session=pennon.Session(metadata_cache_size_bytes=CACHE), **known)
    rounds = 0
    while not stop.exists():
        # Requests fail on a store with faults, and versions are cleaned up while they are read. Nothing is damaged.
        with suppress(pennon.NotFoundError, pennon.StoreError):
            table.checkout_latest()
            found = table.to_table(with_row_id=True)
            if found.num_rows != table.count_rows():
                sys.exit(f"version {table.version}: {found.num_rows} rows, {table.count_rows()} counted")
            table.count_rows(f"n < {dice.randrange(1_000)}")
            ids = dice.sample(found["_rowid"].to_pylist(), min(20, found.num_rows))
            if table._take_rows(ids, columns=["id"]).num_rows != len(ids):
                sys.exit(f"version {table.version}: rows {ids} are not found by their ids")
            # Others make versions after the one that is read.
            listed = (entry["version"] for entry in table.version_refs())
            versions = [version for version in listed if version <= table.version]
            table.changes(dice.choice(versions or [table.version]), table.version, images="both").read_all()
            rounds += 1
        time.sleep(PAUSE)
    print(json.dumps({"rounds": rounds}))


if __name__ == "__main__":
    main(sys.argv[1])
