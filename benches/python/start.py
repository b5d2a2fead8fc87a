"""How long processes take that hardly do anything: the import of Pennon, and commands on a table of one row.

A line shows the median of seconds, and of seconds of a processor, which other work on the machine changes less.

    python benches/python/start.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = {
    "python": ["-c", ""],
    "import pyarrow": ["-c", "import pyarrow"],
    "import pyarrow.dataset": ["-c", "import pyarrow.dataset"],
    "import pennon": ["-c", "import pennon"],
    "import pennon; pennon.dataset": ["-c", "import pennon; pennon.dataset"],
    "import lance": ["-c", "import lance"],
    "pennon --help": ["-m", "pennon", "--help"],
    "pennon --version": ["-m", "pennon", "--version"],
    "pennon count TABLE": ["-m", "pennon", "count", "TABLE"],
    "pennon log TABLE": ["-m", "pennon", "log", "TABLE"],
}


def measured(arguments: list[str]) -> tuple[float, float]:
    """Seconds of a process, and those of a processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    taken, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        write = f"import pennon; pennon.write_dataset({{'a': [1]}}, {table!r})"
        subprocess.run([sys.executable, "-c", write], check=True)
        calls = {what: [table if word == "TABLE" else word for word in words] for what, words in PROGRAMS.items()}
        # In turns, so that a busy moment is nobody's alone.
        found = [{what: measured(call) for what, call in calls.items()} for _ in range(rounds)]
    for what in PROGRAMS:
        times = zip(*(each[what] for each in found), strict=True)
        elapsed, computed = map(statistics.median, times)
        print(f"{what:32} {elapsed:6.2f} s {computed:6.2f} s of a processor")


if __name__ == "__main__":
    main()
