"""Memory against the reference; each side runs in a process of its own.

- A handle that moves from version to version: commits in a loop, a take by row id after each. Printed are the
  growth of resident memory after the first commits, and the peak.
- A streaming write of rows of 200 bytes, and a scan of them. Printed are the peak, and its difference to the memory
  of the process before.

    python benches/python/memory.py [--only loop,stream] [--commits 200] [--rows 1000000] [--stream-rows 10000000]
"""

from __future__ import annotations

import argparse
import importlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEGABYTE = 1 << 20
WARM = 20


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak() -> int:
    """Most bytes of this process that were in memory. `getrusage` would count the bytes of its parent as well."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def loop(side: str, uri: str, rows: int, commits: int) -> None:
    import numpy as np
    import pyarrow as pa

    module = importlib.import_module(side)
    ids = pa.array(np.arange(rows, dtype=np.int64))
    settings = {"enable_stable_row_ids": True, "max_rows_per_file": max(rows // 10, 1)}
    module.write_dataset(pa.table({"id": ids}), uri, **settings)
    # Rows that moved, so that ids of fragments overlap.
    importlib.import_module("lance").dataset(uri).update({"id": "id + 0"}, where="id % 100 = 0")
    table = module.dataset(uri)
    before = 0
    for commit in range(commits):
        table.delete(f"id = {commit * 7 + 1}")
        table._take_rows([commit * 100, commit * 7 + 2])
        if commit == WARM:
            before = resident()
    print((resident() - before) / MEGABYTE, peak() / MEGABYTE)


def stream(side: str, uri: str, rows: int, scan: bool) -> None:
    import numpy as np
    import pyarrow as pa

    module = importlib.import_module(side)
    schema = pa.schema({"i": pa.int64(), "f": pa.float64(), "s": pa.utf8()})
    part, length = 50_000, 184

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(1)
        for start in range(0, rows, part):
            count = min(part, rows - start)
            offsets = pa.py_buffer(np.arange(0, length * (count + 1), length, dtype=np.int32))
            letters = pa.py_buffer(rng.integers(97, 123, size=count * length, dtype=np.uint8))
            columns = [
                pa.array(rng.integers(-(2**62), 2**62, count)),
                pa.array(rng.random(count)),
                pa.Array.from_buffers(pa.utf8(), count, [None, offsets, letters]),
            ]
            yield pa.record_batch(columns, schema=schema)

    if scan:
        before = resident()
        for batch in module.dataset(uri).to_batches():
            del batch
    else:
        # Warm up: the generator's own memory must not count.
        sum(batch.num_rows for _, batch in zip(range(3), batches(), strict=False))
        before = resident()
        module.write_dataset(batches(), uri, schema=schema)
    print(peak() / MEGABYTE, (peak() - before) / MEGABYTE)


def child(*arguments: object) -> list[float]:
    command = [sys.executable, __file__, "--child", *map(str, arguments)]
    return [float(x) for x in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        what, side, uri, *figures = sys.argv[2:]
        if what == "loop":
            loop(side, uri, *map(int, figures))
        else:
            stream(side, uri, int(figures[0]), scan=what == "scan")
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="loop,stream")
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--stream-rows", type=int, default=10_000_000)
    args = parser.parse_args()
    wanted = args.only.split(",")
    sides = ("pennon", "lance")
    if "loop" in wanted:
        print(
            f"{args.commits} commits on one handle, a take by id after each; {args.rows:,} rows, of which 1 % moved"
        )
        print(f"{'side':<12}{'growth':>12}{'peak':>12}")
        for side in sides:
            with tempfile.TemporaryDirectory() as folder:
                growth, most = child("loop", side, f"{folder}/table", args.rows, args.commits)
            print(f"{side:<12}{growth:>9.1f} MB{most:>9.1f} MB", flush=True)
    if "stream" in wanted:
        print(f"streaming {args.stream_rows:,} rows of 200 bytes")
        print(f"{'side':<12}{'what':<8}{'peak':>12}{'above start':>15}")
        with tempfile.TemporaryDirectory() as folder:
            for what in ("write", "scan"):
                for side in sides:
                    most, growth = child(what, side, f"{folder}/{side}", args.stream_rows)
                    print(f"{side:<12}{what:<8}{most:>9.1f} MB{growth:>12.1f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
