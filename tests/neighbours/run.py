"""Tries releases of pylance on Pennon's tables and Pennon on theirs, and writes what was found.

    PYTHONPATH=tests python -m neighbours.run [release ...]    # all whose environments are in .build/neighbours

Outcomes go to `tests/neighbours/found`, and from there to `docs/readers.md`. The exit status is 1 if a release does
not read what `compatible_with` writes for it. Releases run after each other.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from neighbours import ours, page, results, theirs
from neighbours.neighbour import Neighbour
from neighbours.results import Found

ENVIRONMENTS = Path(__file__).parents[2] / ".build" / "neighbours"


def group_of(file_version: str, case: str) -> tuple[str, str]:
    """The group of a case, and its name there."""
    for kind in ("ids", "addresses"):
        if case.startswith(f"{kind}: "):
            return f"{file_version} {kind}", case.removeprefix(f"{kind}: ")
    if case.startswith("type "):
        return f"{file_version} types", case.removeprefix("type ")
    return f"{file_version} addresses", case


def tried(release: str, tables: list[ours.Made], directory: Path) -> Found:
    """The outcomes of one release."""
    found = Found(release)
    neighbour = Neighbour(ENVIRONMENTS / release / "bin" / "python", directory)
    try:
        if neighbour.ask("release") != release:
            raise SystemExit(f"The environment {release} has pylance {neighbour.ask('release')}")
        readable = set()
        for table in tables:
            kind = "types" if table.name.startswith("type ") else "ids" if table.stable else "addresses"
            if table.name != ours.FIRST and (table.file_version, table.stable) not in readable:
                continue
            outcome = ours.check(neighbour, table)
            found.add("reads", f"{table.file_version} {kind}", table.name.removeprefix("type "), outcome)
            if table.name == ours.FIRST and outcome.startswith("reads"):
                readable.add((table.file_version, table.stable))
        for file_version, case, outcome in theirs.outcomes(neighbour, directory):
            found.add("theirs", *group_of(file_version, case), outcome)
        for file_version, case, outcome in theirs.outcomes_in_ours(neighbour, directory, readable):
            found.add("changes", *group_of(file_version, case), outcome)
    finally:
        neighbour.close()
    return found


def main(releases: list[str]) -> int:
    if not releases:
        releases = sorted((path.parent.name for path in ENVIRONMENTS.glob("*/.installed")), key=results.order)
    with tempfile.TemporaryDirectory(prefix="pennon-neighbours-") as directory:
        tables = list(ours.tables(Path(directory, "ours")))
        for release in releases:
            start = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"{release}-", dir=directory) as own:
                found = tried(release, tables, Path(own))
            path = results.FOLDER / f"{release}.json"
            for line in results.changed(results.load(path), found) if path.exists() else []:
                print(line)
            found.save()
            print(f"pylance {release}: {time.monotonic() - start:.0f} s", flush=True)
    page.write()
    broken = page.broken_promises()
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
