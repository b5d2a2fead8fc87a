"""A writing process is killed at random moments: the table always opens, no acknowledged commit is missing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.seeds import SEED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WRITER = """
import sys
import pyarrow as pa
import pennon

uri = sys.argv[1]
dataset = pennon.dataset(uri)
print("ready", flush=True)
for _ in range(10_000):
    start = dataset.latest_version * 10
    rows = pa.table({"id": pa.array(range(start, start + 10), pa.int64())})
    dataset.insert(rows)
    print("insert", dataset.version, start, flush=True)
    dataset.delete(f"id = {start + 3}")
    print("delete", dataset.version, start + 3, flush=True)
"""

KILLS = 200
PROCESSES = 4
State = tuple[int, set[int]]


def test_kill_at_any_moment(tmp_path: Path) -> None:
    rng = random.Random(SEED + 11)
    uris = [str(tmp_path / f"t{n}") for n in range(PROCESSES)]
    expected: dict[str, State] = {}
    for uri in uris:
        pennon.write_dataset(pa.table({"id": pa.array([-1], pa.int64())}), uri)
        expected[uri] = 1, {-1}
    for _ in range(KILLS // PROCESSES):
        # Started together, killed one by one: starting Python costs more than what is tested.
        running = [
            subprocess.Popen([sys.executable, "-c", WRITER, uri], stdout=subprocess.PIPE, text=True) for uri in uris
        ]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process, uri in zip(running, uris, strict=True):
            time.sleep(rng.uniform(0.0, 0.03))
            process.send_signal(signal.SIGKILL)
            acknowledged, _ = process.communicate()
            expected[uri] = check(uri, acknowledged, *expected[uri])
    for uri in uris:
        assert pennon.dataset(uri).version > KILLS // PROCESSES, "the writer never got to write"
        lance.dataset(uri).validate()


def check(uri: str, acknowledged: str, version: int, rows: set[int]) -> State:
    """The version and the rows that must be there: what was acknowledged, and nothing or all of the next commit."""
    inserted = None
    for line in acknowledged.splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        kind, version, at = (word if word.isalpha() else int(word) for word in line.split())
        inserted = at if kind == "insert" else None
        rows = rows | set(range(at, at + 10)) if kind == "insert" else rows - {at}
    dataset = pennon.dataset(uri)
    assert dataset.version in (version, version + 1)
    if dataset.version == version + 1:
        start = version * 10
        rows = rows | set(range(start, start + 10)) if inserted is None else rows - {inserted + 3}
    assert sorted(dataset.to_table()["id"].to_pylist()) == sorted(rows)
    theirs = lance.dataset(uri)
    assert theirs.version == dataset.version
    assert theirs.count_rows() == len(rows)
    return dataset.version, rows
