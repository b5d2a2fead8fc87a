"""Memory of a handle that goes from version to version: commits in a loop, a take by row id after each.

Each side runs in a process of its own; printed are the growth of its resident memory after the first commits,
and its peak.

    python benches/python/memory.py [--commits 200] [--rows 1000000]
"""

from __future__ import annotations

import argparse
import importlib
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MEGABYTE = 1 << 20
WARM = 20


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print((resident() - before) / MEGABYTE, peak / MEGABYTE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--uri", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        loop(args.side, args.uri, args.rows, args.commits)
        return 0
    print(f"{args.commits} commits on one handle, a take by id after each; {args.rows:,} rows, of which 1 % moved")
    print(f"{'side':<12}{'growth':>12}{'peak':>12}")
    for side in ("pennon", "lance"):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--side", side, "--uri", f"{folder}/table"]
            command += ["--commits", str(args.commits), "--rows", str(args.rows)]
            growth, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        print(f"{side:<12}{float(growth):>9.1f} MB{float(peak):>9.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
