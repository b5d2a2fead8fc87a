"""Runs what the README tells a newcomer to run, in a new clone, and says how long each command took.

    python requirements/try_checkout.py [--results FOLDER]

It needs all of a machine with two cores for half an hour. The last commit is cloned; packages that pip
and cargo fetched before come from their caches.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "benches" / "python"))

from records import ROOT, Record, line, result, save

STEPS = {
    "`make demo` in a new clone": ["make", "demo"],
    "`make demo` again, with nothing to compile": ["make", "demo"],
    "then `make test`": ["make", "test"],
}
STORE = "local disk, packages in the caches of pip and cargo"
SIDES = {"pennon": "time", "processor": "time of a processor"}


def timed(command: list[str], folder: Path) -> dict[str, list[float]]:
    """Seconds that pass, and those of a processor; what the command prints is printed."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = time.perf_counter() - begin
    return {"pennon": [took], "processor": [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="a folder for a file with the times")
    options = parser.parse_args()
    record = Record()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "pennon")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for claim, command in STEPS.items():
            cases.append(result(claim, STORE, timed(command, clone)))
            print(line(cases[-1]), flush=True)
    save(options.results, record.of("checkout", "From a clone", (), {}, 1) | {"sides": SIDES, "cases": cases})
    return 0


if __name__ == "__main__":
    sys.exit(main())
