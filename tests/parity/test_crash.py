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


def test_kill_at_any_moment(tmp_path: Path) -> None:
    rng = random.Random(11)
    uris = [str(tmp_path / f"t{n}") for n in range(PROCESSES)]
    expected: dict[str, set[int]] = {}
    for uri in uris:
        pennon.write_dataset(pa.table({"id": pa.array([-1], pa.int64())}), uri)
        expected[uri] = {-1}
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
            check(uri, acknowledged, expected[uri])
    for uri in uris:
        assert pennon.dataset(uri).version > KILLS // PROCESSES, "the writer never got to write"
        lance.dataset(uri).validate()


def check(uri: str, acknowledged: str, rows: set[int]) -> None:
    """Applies what was acknowledged to `rows`; at most one further commit may have become visible."""
    version = 0
    for line in acknowledged.splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        kind, version, at = (word if word.isalpha() else int(word) for word in line.split())
        if kind == "insert":
            rows |= set(range(at, at + 10))
        else:
            rows.discard(at)
    dataset = pennon.dataset(uri)
    assert dataset.version >= version
    found = set(dataset.to_table()["id"].to_pylist())
    missing, extra = rows - found, found - rows
    assert len(missing) <= 1
    assert len(extra) in (0, 10)
    assert not (missing and extra)
    rows.difference_update(missing)
    rows.update(extra)
    theirs = lance.dataset(uri)
    assert theirs.version == dataset.version
    assert theirs.count_rows() == len(found)
