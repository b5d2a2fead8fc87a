"""Reads from the S3 server of `late_store.py`, which adds 30 ms to each request; tables and processes of
`object_store.py`.

Each run is in a process of its own, which has imported what it needs before the time begins; opening is in the
time. Answers are compared in full: all values of the rows that were read, as digests, and the count of those that
were counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import object_store
import pennon
from late_store import BUCKET, LateServer, running
from object_store import Starter, starters
from side_by_side import Case, Measured

from cases.data import Size

TITLE = "S3"
PEERS = ("pylance",)
DELAY = 30
# A side here, and in `object_store.py`.
SIDES = {"pennon": ("pennon", pennon), "pylance": ("pylance", lance)}
CLAIMS = {
    "open": "open and count",
    "take_ids": "open and take 3 rows by id",
    "scan_all": "open and scan",
}


def cases(root: Path, size: Size) -> Iterator[Case]:
    del root
    what = f"{size.remote_rows:,} rows, {object_store.FRAGMENTS} fragments, 20 versions"
    with starters() as starting, running() as server:
        for side, library in SIDES.values():
            object_store.build(library, f"s3://{BUCKET}/{side}/table", server.storage_options, size.remote_rows)
        for operation in CLAIMS:
            yield case(server, starting, operation, f"{CLAIMS[operation]}: {what}")


def case(server: LateServer, starting: dict[str, Starter], operation: str, claim: str) -> Case:
    counts: dict[str, dict[str, int]] = {}

    def run(side: str) -> Measured:
        seconds, answer, traffic = object_store.run(server, starting[SIDES[side][0]], operation, DELAY, 0)
        counts[side] = {"requests": traffic.requests, "rounds": traffic.rounds}
        return Measured(seconds, answer)

    sides: dict[str, Callable[[], object]] = {side: lambda s=side: run(s) for side in SIDES}
    return Case("s3", claim, sides, name=operation, store=f"S3, {DELAY} ms a request", counts=counts)
