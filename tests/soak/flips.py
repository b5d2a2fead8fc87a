"""Flips one bit of a table, thousands of times: it is found, or it is without effect.

    PYTHONPATH=tests python -m soak.flips [--tables 10000] [--reference 1000] [--flips 2] [--seed 0]
        [--seconds 1800] [--results FILE]

A random program makes a small table (`soak.flip_tables`). One bit of one of its files is flipped, and flipped back
after a look; half of the files are chosen by their size, half alike. `verify(data=True)` must name the file, or
every version, tag and branch must read as before; a read with `verify_reads="pages"` gives the right rows or a
typed error. Tables that the reference made have no checksums: it is counted what verification finds and how often
rows are wrong. The same bits are flipped after `seal`, when everything must be found. A flip that is not found
leaves the damaged table, and the run ends with status 1.

The programs follow from the seed. The names of files do not, nor which bit is flipped.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import pennon
from soak.flip_tables import Made, files_of, read

TABLES, REFERENCE, FLIPS = 10_000, 1_000, 2
PAGES, METADATA = {"verify_reads": "pages"}, {"verify_reads": "metadata"}
# What may become of a flip.
FOUND, HARMLESS = "found", "without effect"
WRONG, ERROR, ELSEWHERE, UNTYPED = "wrong rows", "error of reading only", "found in another file", "untyped error"
# Of these a table with checksums has none.
FAULTS = (WRONG, ERROR, ELSEWHERE, UNTYPED)


class UnsoundError(Exception):
    """A table that nobody damaged is not as it should be."""


class Flipped:
    """A table, what is in its versions, and what becomes of flips."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.references, self.roots = made.references(), made.roots()
        self.good = [read(made, at, PAGES) for at in self.references]

    def is_sound(self) -> bool:
        return all(pennon.verify(root, data=True).ok for root in self.roots)

    def choose(self, dice: random.Random) -> tuple[Path, int]:
        """A file and a bit of it."""
        files = files_of(self.made.uri)
        sizes = [path.stat().st_size for path in files]
        (path,) = dice.choices(files, sizes if dice.random() < 0.5 else None)
        return path, dice.randrange(8 * path.stat().st_size)

    def outcome(self, path: Path, bit: int, options: dict[str, str], keep: Path | None = None) -> str:
        """What becomes of a flip; a table with a fault is copied to `keep`."""
        good = path.read_bytes()
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = self._outcome(path, options)
            if keep is not None and found in FAULTS:
                shutil.copytree(self.made.uri, keep / "table")
            return found
        finally:
            path.write_bytes(good)

    def _outcome(self, path: Path, options: dict[str, str]) -> str:
        try:
            verified = self._verified(path)
            reads = {self._read(at, good, options) for at, good in zip(self.references, self.good, strict=True)}
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            return UNTYPED
        if WRONG in reads:
            # A table without checksums may have wrong rows that its verification finds.
            return f"{WRONG}, found" if verified == FOUND else WRONG
        if verified == HARMLESS and ERROR in reads:
            return ERROR
        return verified

    def _read(self, at: Any, good: list[Any], options: dict[str, str]) -> str:
        try:
            return HARMLESS if read(self.made, at, options) == good else WRONG
        except pennon.PennonError:
            return ERROR

    def _verified(self, path: Path) -> str:
        """Whether verification names the file."""
        found = HARMLESS
        for root in self.roots:
            try:
                findings = pennon.verify(root, data=True).findings
            except pennon.PennonError as error:
                findings, text = [], str(error)
                found = FOUND if path.name in text or str(path) == error.path else ELSEWHERE
            for finding in findings:
                # A tag and a branch have no path of their own in a finding.
                if str(path) in (finding.path, finding.message.partition(": ")[0]):
                    return FOUND
                found = ELSEWHERE
            if found == FOUND:
                return found
        return found


class Run:
    """What is counted, by kind of table, outcome and kind of file."""

    def __init__(self, seed: int, flips: int, home: Path) -> None:
        self.seed, self.flips, self.home = seed, flips, home
        self.tables: Counter[str] = Counter()
        self.outcomes: dict[str, Counter[str]] = {}
        self.of_files: dict[str, Counter[str]] = {}
        self.verbs: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []

    def table(self, library: Any, name: str) -> Flipped | None:
        """A new table, which must be sound; None if it is not, which is a fault."""
        uri = str(self.home / name / "table")
        try:
            table = Flipped(Made(library, uri, f"{self.seed} {name}"))
            if not table.is_sound():
                raise UnsoundError("verification finds something before anything was flipped")
        except (pennon.PennonError, UnsoundError) as error:
            self.fault({"table": uri, "outcome": f"{type(error).__name__}: {error}"})
            return None
        return table

    def ours(self, number: int) -> None:
        name = f"ours-{number}"
        table = self.table(pennon, name)
        if table is None:
            return
        dice = random.Random(f"{self.seed} {name} flips")
        for flip in range(self.flips):
            path, bit = table.choose(dice)
            keep = self.home / f"fault-{name}-{flip}"
            self.count("pennon", table.made, path, bit, table.outcome(path, bit, PAGES, keep), keep)
        self.end("pennon", table.made)

    def reference(self, number: int) -> None:
        name = f"reference-{number}"
        table = self.table(lance, name)
        if table is None:
            return
        dice = random.Random(f"{self.seed} {name} flips")
        chosen = [table.choose(dice) for _ in range(self.flips)]
        for path, bit in chosen:
            self.count("pylance", table.made, path, bit, table.outcome(path, bit, METADATA), None)
        for root in table.roots:
            pennon.seal(root)
        for flip, (path, bit) in enumerate(chosen):
            keep = self.home / f"fault-{name}-{flip}"
            self.count("pylance, sealed", table.made, path, bit, table.outcome(path, bit, PAGES, keep), keep)
        self.end("pylance", table.made)

    def count(self, kind: str, made: Made, path: Path, bit: int, outcome: str, keep: Path | None) -> None:
        relative = str(path.relative_to(made.uri))
        self.outcomes.setdefault(kind, Counter())[outcome] += 1
        self.of_files.setdefault(kind, Counter())[f"{folder_of(relative)}: {outcome}"] += 1
        if keep is not None and outcome in FAULTS:
            self.fault(
                {"table": f"{keep}/table", "file": relative, "bit": bit, "outcome": outcome, "steps": made.done}
            )

    def fault(self, fault: dict[str, Any]) -> None:
        self.faults.append(fault)
        print(f"flips: {json.dumps(fault)}", flush=True)

    def end(self, kind: str, made: Made) -> None:
        self.tables[kind] += 1
        self.verbs.update(made.done)
        shutil.rmtree(Path(made.uri).parent)

    def counts(self) -> dict[str, Any]:
        """For the file of results."""
        return {
            "seed": self.seed,
            "tables": self.tables,
            "outcomes": {kind: dict(sorted(found.items())) for kind, found in self.outcomes.items()},
            "files": {kind: dict(sorted(found.items())) for kind, found in self.of_files.items()},
            "verbs": dict(sorted(self.verbs.items())),
            "faults": self.faults,
        }

    def words(self) -> str:
        parts = []
        for kind, found in self.outcomes.items():
            tables = self.tables[kind.partition(",")[0]]
            shares = ", ".join(f"{count:,} {outcome}" for outcome, count in found.most_common())
            parts.append(f"{tables:,} tables ({kind}): {found.total():,} flips, {shares}")
        return "; ".join(parts)


def folder_of(relative: str) -> str:
    """The kind of a file by its folder, that of a branch without its name."""
    parts = Path(relative).parts
    if parts[0] == "tree":
        parts = parts[2:]
    if parts[0] == "_seals":
        return "_seals"
    if relative.endswith(".json") and parts[0] == "_versions":
        return "hint"
    return "blobs" if relative.endswith(".blob") else parts[0]


def run(tables: int, reference: int, flips: int, seed: int, home: Path, seconds: float = float("inf")) -> Run:
    """Tables of both kinds in turns, as many as asked for or as there is time for."""
    logging.getLogger("pennon").setLevel(logging.CRITICAL)
    found = Run(seed, flips, home)
    begun = word = time.monotonic()
    share, references = reference / tables if tables else 1.0, 0
    for number in range(max(tables, reference)):
        if time.monotonic() > begun + seconds:
            break
        if number < tables:
            found.ours(number)
        for more in range(references, min(reference, math.ceil(share * (number + 1)))):
            found.reference(more)
            references = more + 1
        if time.monotonic() > word + 60:
            word = time.monotonic()
            print(f"  {word - begun:.0f} s: {found.words()}; load {os.getloadavg()[0]:.1f}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=TABLES, help="tables that Pennon makes")
    parser.add_argument("--reference", type=int, default=REFERENCE, help="tables that the reference makes")
    parser.add_argument("--flips", type=int, default=FLIPS, help="flips in each table")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PENNON_SEED", "0")))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no table is made")
    parser.add_argument("--directory", help="where tables are made; a temporary one otherwise")
    parser.add_argument("--results", type=Path, help="a file for the counts, as JSON")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="pennon-flips-", dir=asked.directory))
    begun = time.monotonic()
    found = run(asked.tables, asked.reference, asked.flips, asked.seed, home, asked.seconds)
    if asked.results is not None:
        asked.results.write_text(json.dumps(found.counts(), indent=2) + "\n")
    print(f"flips: {found.words()}; {len(found.faults)} faults, {time.monotonic() - begun:.0f} s")
    if found.faults:
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
