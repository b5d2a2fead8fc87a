"""One writing process of `test_four_processes_at_once`: appends its own rows, deletes its share of the first ones.

A commit that gives up is tried again, as a user would: under eight commits a second the reference runs out of
its own retries now and then.
"""

from __future__ import annotations

import importlib
import json
import sys

import pyarrow as pa


def main(module_name: str, uri: str, number: int, rounds: int, rows: int) -> None:
    module = importlib.import_module(module_name)
    done = {"appends": 0, "deletes": 0, "gave_up": 0}

    def until_done(kind: str, attempt) -> None:
        for _ in range(100):
            try:
                attempt()
            except OSError as error:  # noqa: PERF203 - a retry loop
                if "oncurrent" not in str(error) and "onflict" not in str(error):
                    raise
                done["gave_up"] += 1
            else:
                done[kind] += 1
                return

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
    print(json.dumps(done))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
