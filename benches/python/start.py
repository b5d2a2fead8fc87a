"""How long processes take that hardly do anything: the import of Pennon, and commands on a table of one row.

Times are seconds of a processor, which other work on the machine changes less than the time that passes.

    python benches/python/start.py [--rounds 7] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from records import Record, check_whole, line, result, save

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


def measured(arguments: list[str]) -> float:
    """Seconds of a processor that a process takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    options = parser.parse_args()
    check_whole(parser, options)
    record = Record()
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        write = f"import pennon; pennon.write_dataset({{'a': [1]}}, {table!r})"
        subprocess.run([sys.executable, "-c", write], check=True)
        calls = {what: [table if word == "TABLE" else word for word in words] for what, words in PROGRAMS.items()}
        # In turns, so that a busy moment is nobody's alone.
        found = [{what: measured(call) for what, call in calls.items()} for _ in range(options.rounds)]
    results = []
    for what in PROGRAMS:
        seconds = {"pennon": [each[what] for each in found]}
        results.append(result(f"`{what}`", "processes of their own", seconds, name=what))
        print(line(results[-1]))
    found_of = record.of("start", "Processes that hardly do anything", (), {}, options.rounds)
    save(options.results, found_of | {"sides": {"pennon": "time of a processor"}, "cases": results})


if __name__ == "__main__":
    main()
