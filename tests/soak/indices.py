"""Processes change a table with indices of all kinds by both libraries, while every answer of it is compared.

    PYTHONPATH=tests python -m soak.indices [--seconds 3600] [--round 600] [--writers 2] [--seed 0]
        [--libraries pennon,lance]

A round has a table of its own, with stable row ids and with addresses in turns. The first wrong answer, and the
first error that is not a conflict of writers, end the run with status 1 and a report; the table is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import pennon
from soak.answers import Checker, WrongAnswerError
from soak.processes import WriterError, ended, ends_of, history
from soak.rows import LIBRARIES, create


class Round:
    """A table, its writers and its checker."""

    def __init__(self, directory: Path, number: int, seed: int, writers: int, libraries: list[str]) -> None:
        self.directory, self.stable = directory, number % 2 == 0
        self.uri, self.stop = str(directory / "table"), directory / "stop"
        name = f"{seed} {number}"
        create(self.uri, self.stable, random.Random(name), [LIBRARIES[library] for library in libraries])
        self.checker = Checker(self.uri, self.stable, name)
        self.logs = [directory / f"writer-{writer}.log" for writer in range(1, writers + 1)]
        self.writers = [
            subprocess.Popen(
                [sys.executable, "-m", "soak.writers", self.uri, str(writer), name, str(self.stop), *libraries],
                stdout=subprocess.PIPE,
                stderr=log.open("w"),
                text=True,
            )
            for writer, log in enumerate(self.logs, 1)
        ]

    def run(self, seconds: float) -> Counter[str]:
        """Compares answers for so long; what was done."""
        ends = time.monotonic() + seconds
        try:
            while time.monotonic() < ends:
                self.checker.check()
                for writer in self.writers:
                    if writer.poll() is not None:
                        raise WriterError(f"writer {self.writers.index(writer) + 1} ended")
        finally:
            self.stop.touch()
            outputs = [ended(writer) for writer in self.writers]
        for number, writer in enumerate(self.writers, 1):
            if writer.returncode != 0:
                raise WriterError(f"writer {number} ended with status {writer.returncode}")
        # What the last steps made.
        self.checker.check()
        done = Counter(self.checker.counts)
        for found in map(json.loads, outputs):
            done.update(found["done"])
            done["peak of writers"] = max(done["peak of writers"], found["peak"])
        return done

    def report(self) -> str:
        """What led to a wrong answer."""
        table = pennon.dataset(self.uri)
        what = f"table {self.uri}, stable row ids: {self.stable}, version {table.version} now"
        return "\n".join([what, *history(table), *ends_of(self.logs)])


def summary(done: Counter[str], rounds: int) -> str:
    steps = sum(count for name, count in done.items() if name.startswith(("pennon ", "lance ")))
    peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, done["peak of writers"]]
    return (
        f"soak: {rounds} rounds, {steps:,} steps, {done['versions']:,} versions checked, {done['answers']:,}"
        f" answers compared ({done['by index']:,} of Pennon's by an index), {done['retried']:,} conflicts retried,"
        f" peak RSS {peaks[0] / 1024:.0f} MiB (checker), {peaks[1] / 1024:.0f} MiB (a writer)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--round", type=float, default=600, help="seconds of a round")
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="which of them write")
    parser.add_argument("--directory", help="where tables are made; a temporary one otherwise")
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="pennon-soak-", dir=asked.directory))
    done: Counter[str] = Counter()
    number = 0
    while (left := asked.seconds - number * asked.round) > 0:
        home = directory / f"round-{number}"
        home.mkdir()
        this = Round(home, number, asked.seed, asked.writers, asked.libraries.split(","))
        try:
            found = this.run(min(left, asked.round))
        except Exception as error:
            is_answer = isinstance(error, WrongAnswerError)
            what = f"wrong answer in {error}" if is_answer else traceback.format_exc()
            print(f"soak: seed {asked.seed}, round {number}: {what}\n{this.report()}", flush=True)
            return 1
        peak = max(done["peak of writers"], found["peak of writers"])
        done.update(found)
        done["peak of writers"] = peak
        shutil.rmtree(home)
        number += 1
    shutil.rmtree(directory)
    print(dict(sorted(done.items())))
    print(summary(done, number))
    return 0


if __name__ == "__main__":
    sys.exit(main())
