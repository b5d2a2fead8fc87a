"""The figures of `docs/performance.md`: runs the cases of `cases/` and writes what was measured to
`benches/results`.

    python benches/python/figures.py [--only pylance,parquet] [--rounds N] [--rows 1000000] [--tiny] [--results DIR]

A case has a claim, peers and a store. All of its sides run once and must have the same answer; then they run in
turns. A file of results, one for each group of cases, has all samples, what they were measured with, and the load
of the machine; `tests/pages.py --write` makes the tables and the plot of the page from the files.
Other rounds or rows need `--results`: the results that are checked in are all of one size.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import cases
from cases.data import TINY, Size
from records import RESULTS, Record, line, loaded, save
from side_by_side import ROUNDS, Case, measured


def rounds_of(name: str) -> int:
    """The rounds of a group, unless others are given."""
    return getattr(cases.group(name), "ROUNDS", ROUNDS)


def of_case(case: Any, rounds: int) -> dict[str, Any]:
    """The case and its samples."""
    if isinstance(case, Case):
        return measured(case, rounds)
    return loaded({"name": case.name, "claim": case.claim, "store": case.store} | case.measure(rounds))


def measure(name: str, size: Size, rounds: int) -> dict[str, Any]:
    """The results of a group, in a folder of its own."""
    group = cases.group(name)
    root = Path(tempfile.mkdtemp(prefix="figures-"))
    results = []
    record = Record()
    try:
        for case in group.cases(root, size):
            results.append(of_case(case, rounds))
            print(line(results[-1]), flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return record.of(name, group.TITLE, group.PEERS, dataclasses.asdict(size), rounds) | {"cases": results}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(cases.GROUPS), help="groups, with commas")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} if not given, or those of the group")
    parser.add_argument("--rows", type=int, help="of the large tables; 1,000,000 if not given")
    parser.add_argument("--tiny", action="store_true", help="compares answers; the times say nothing")
    parser.add_argument("--results", type=Path, help="a folder; not written with --tiny if not given")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(cases.GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}, there are {', '.join(cases.GROUPS)}")
    for option, value in (("--rounds", args.rounds), ("--rows", args.rows)):
        if value is not None and value < 1:
            parser.error(f"{option} must be at least 1")
    size = TINY if args.tiny else Size()
    if args.rows:
        size = dataclasses.replace(size, rows=args.rows)
    folder = args.results or (None if args.tiny else RESULTS)
    rounds = {name: args.rounds or rounds_of(name) for name in wanted}
    is_other = size != Size() or any(count != rounds_of(name) for name, count in rounds.items())
    if is_other and folder and folder.resolve() == RESULTS:
        parser.error("other rounds or rows than those of the page: give another folder with --results")
    for name in wanted:
        results = measure(name, size, rounds[name])
        print(f"{name} took {results['took_seconds']:.0f} s", flush=True)
        save(folder, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
