"""The bandwidth of a scan: 64 files of 8 MB, next to sixteen plain ranged GETs at a time from the same server.

Part of `object_store.py`. The server answers these GETs from memory, without moto, and in two ways: as quickly as
it can, and with a limit for each answer, as object stores have one for each connection. Without a limit the
server's process and the client share the cores of the machine, and the line measures both; with it the client has
little to do but to keep requests in flight.

Each scan is timed in a fresh process, after a scan of a local table, which imports and starts what scans need, and
after opening the table; the GETs are timed in a process as well, with
connections of their own. Each side reads the files it wrote; the GETs read those of Pennon.
"""

from __future__ import annotations

import http.client
import importlib
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from late_store import BUCKET, QUICK, LateServer
from records import result

FILES = 64
ROWS = 1_000_000  # of 8 bytes
AT_ONCE = 16
# MB/s of an answer; zero is none.
LIMITS = (0, 20)
SIDES = {"pennon": "pennon", "pylance": "lance"}
MEGABYTE = 1_000_000


def build(server: LateServer) -> None:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    for side, module in SIDES.items():
        uri = f"s3://{BUCKET}/{QUICK}/{side}"
        for _ in range(FILES // 8):
            values = rng.integers(-(2**62), 2**62, 8 * ROWS)
            table = pa.table({"value": pa.array(values)})
            settings = {"mode": "append", "max_rows_per_file": ROWS, "storage_options": server.storage_options}
            importlib.import_module(module).write_dataset(table, uri, **settings)
        for key, _ in server.objects(f"{QUICK}/{side}/data/"):  # moves the files to the server's memory
            server.client().get_object(Bucket=BUCKET, Key=key, Range="bytes=0-0")["Body"].read()


def scan(module: Any, uri: str, options: dict[str, str]) -> tuple[float, int]:
    """Seconds, and rows."""
    import pyarrow as pa

    with tempfile.TemporaryDirectory() as directory:  # imports what a scan needs, before its time
        module.write_dataset(pa.table({"value": [1]}), directory + "/t")
        assert sum(batch.num_rows for batch in module.dataset(directory + "/t").to_batches()) == 1
    table = module.dataset(uri, storage_options=options)
    begin = time.perf_counter()
    rows = sum(batch.num_rows for batch in table.to_batches())
    return time.perf_counter() - begin, rows


def gets(endpoint: str, sizes: dict[str, int]) -> tuple[float, int]:
    """Seconds, and bytes, of one GET for each file, sixteen at a time."""
    host = urlsplit(endpoint).netloc

    def get(files: list[tuple[str, int]]) -> int:
        connection = http.client.HTTPConnection(host)
        buffer = memoryview(bytearray(1 << 20))
        read = 0
        for path, size in files:
            connection.request("GET", path, headers={"Range": f"bytes=0-{size - 1}"})
            answer = connection.getresponse()
            assert answer.status == http.client.PARTIAL_CONTENT, answer.status
            while count := answer.readinto(buffer):
                read += count
        connection.close()
        return read

    files = list(sizes.items())
    begin = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        read = sum(pool.map(get, [files[number::AT_ONCE] for number in range(AT_ONCE)]))
    return time.perf_counter() - begin, read


def child(side: str, argument: str) -> None:
    given = json.loads(argument)
    if side == "gets":
        seconds, answer = gets(given["endpoint"], given["sizes"])
    else:
        uri = f"s3://{BUCKET}/{QUICK}/{side}"
        seconds, answer = scan(importlib.import_module(SIDES[side]), uri, given["options"])
    print(json.dumps([seconds, answer]))


def measure(server: LateServer, delay: float, limit: float, rounds: int) -> dict[str, Any]:
    """Seconds of a scan, and of plain GETs. The limit is that of each answer in MB/s; zero is none."""
    sizes = {
        side: {f"/{BUCKET}/{key}": size for key, size in server.objects(f"{QUICK}/{side}/data/")} for side in SIDES
    }
    argument = json.dumps(
        {"endpoint": server.endpoint, "sizes": sizes["pennon"], "options": server.storage_options}
    )
    expected = {"gets": sum(sizes["pennon"].values()), **dict.fromkeys(SIDES, FILES * ROWS)}
    times: dict[str, list[float]] = {side: [] for side in (*SIDES, "gets")}
    requests = {}
    for number in range(rounds):
        for side in list(expected) if number % 2 == 0 else list(reversed(expected)):
            server.delay(delay, limit)
            command = [sys.executable, __file__, side, argument]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"the scan of {side} failed:\n{done.stderr}")
            seconds, answer = json.loads(done.stdout.splitlines()[-1])
            if answer != expected[side]:
                raise AssertionError(f"{side}: found {answer:,} rows or bytes, expected {expected[side]:,}")
            times[side].append(seconds)
            requests[side] = server.traffic().methods
    size = sum(sizes["pennon"].values()) / FILES / MEGABYTE
    how = f"at most {limit:g} MB/s an answer" if limit else "as quickly as the server can"
    claim = f"scan of {FILES} files of {size:.0f} MB, {delay:g} ms, {how}"
    counts = {side: {"requests": requests[side].get("GET", 0)} for side in SIDES}
    return result(claim, f"S3 with {delay:g} ms", times, counts, name=f"bandwidth, {delay:g}, {limit:g}")


if __name__ == "__main__":
    child(*sys.argv[1:])
