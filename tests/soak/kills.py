"""Kills writers at random moments, thousands of times: no commit that was acknowledged may be lost.

    PYTHONPATH=tests python -m soak.kills [--kills 10000] [--seed 0] [--writers pennon,lance,pennon,lance]

Writers of both libraries change one table by all verbs. Each logs what it is about to do, and that it was done
once the call has returned, until it gets a SIGKILL and another one follows: `soak.zygote` forks them. After some
kills all are dead, and every version must be what the commits up to it make of the table: `soak.fold`. What was
acknowledged is in the version that its writer got, exactly once; what was not is in one version or in none. Then
the table is opened afresh, by the reference too, and `verify` may find nothing but leftovers. After some rounds,
files that no version needs must be those that a cleanup names and removes, and a new table is made. The first
failure ends the run with status 1; the table is left.

The programs of writers follow from the seed; the moments of kills, and who is first, do not.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pennon
from soak.effects import SHARED, table_of
from soak.fold import Content, Fold, LostError, first_state
from soak.orphans import check_files
from soak.processes import WriterError, ends_of, history
from soak.tags import Tags
from soak.zygote import Zygote

WRITERS = "pennon,lance,pennon,lance"
# Kills after which all versions are compared, and rounds after which another table is made.
KILLS_OF_ROUND, ROUNDS = 25, 10
# Seconds that a writer lives at most: several changes, so that a kill meets any part of one.
LIFE = 0.25
# Seconds that a cleanup leaves versions.
RETENTION = 10
SALT = 7
ACKNOWLEDGED, UNACKNOWLEDGED = "acknowledged", "found without acknowledgement"


class KillFold(Fold):
    """Compares every version, and some of them in other ways."""

    # A compaction makes one version or more. States are those of a round, and older ones to restore.
    unlogged, most_states = ("ReserveFragments", "Rewrite"), 2_000
    libraries: Sequence[str] = ()

    def also(self, table: Any, version: int) -> None:
        if self.dice.random() < 0.1:
            self.feed(version - 1, version)
        if self.dice.random() < 0.02:
            theirs = lance.dataset(self.uri, version=version)
            Content(theirs).same(self.states[version], f"version {version}, as the reference reads it")

    def acknowledged(self, tail: Any, proposal: Any) -> None:
        super().acknowledged(tail, proposal)
        self.counts[ACKNOWLEDGED] += 1
        self.counts[f"{ACKNOWLEDGED} by {self.libraries[tail.writer - 1]}"] += 1


class Table:
    """A table, its writers and its models."""

    def __init__(self, home: Path, seed: str, libraries: list[str], zygote: Zygote) -> None:
        self.home, self.uri, self.seed = home, str(home / "table"), seed
        self.libraries, self.zygote = libraries, zygote
        self.dice = random.Random(f"{seed} kills")
        table = pennon.write_dataset(
            table_of(range(SHARED), SALT),
            self.uri,
            enable_stable_row_ids=True,
            max_rows_per_file=200,
            durability="os",
        )
        numbers = range(1, len(libraries) + 1)
        self.fold = KillFold(self.uri, {}, [home / f"writer-{number}.journal" for number in numbers], seed)
        self.fold.libraries = libraries
        self.fold.begin(first_state(SALT, table), table.version)
        self.tags = Tags([home / f"writer-{number}.tags" for number in numbers])
        self.logs = [home / f"writer-{number}.log" for number in numbers]
        self.incarnations = [0] * len(libraries)
        self.counts: Counter[str] = Counter()
        self.checked()

    def checked(self) -> None:
        """Tells the writers up to where versions were compared, and when the last of them was committed."""
        committed = max(path.stat().st_mtime for path in Path(self.uri, "_versions").glob("*.manifest"))
        entry = {"version": self.fold.version, "time": committed}
        (self.home / "checked").write_text(json.dumps(entry))

    def start(self, at: int) -> int:
        self.incarnations[at] += 1
        return self.zygote.start(
            {
                "uri": self.uri,
                "number": at + 1,
                "library": self.libraries[at],
                "options": {},
                "home": str(self.home),
                "log": str(self.logs[at]),
                "seed": self.seed,
                "incarnation": self.incarnations[at],
                "retention": RETENTION,
            }
        )

    def kill(self, kills: int) -> None:
        """Writers are killed and started again until so many were killed; then none is alive."""
        alive: list[tuple[float, int, int]] = []

        def begin(at: int) -> None:
            pid = self.start(at)
            heapq.heappush(alive, (time.monotonic() + self.dice.uniform(0, LIFE), at, pid))

        writers = range(min(kills, len(self.libraries)))
        for at in writers:
            begin(at)
        left = kills - len(writers)
        while alive:
            moment, at, pid = heapq.heappop(alive)
            time.sleep(max(0.0, moment - time.monotonic()))
            self.zygote.kill(pid)
            self.counts["kills"] += 1
            if left > 0:
                left -= 1
                begin(at)

    def check(self) -> None:
        """All versions since the last time, and the newest one afresh."""
        for log in self.logs:
            if log.exists() and "Traceback" in log.read_text():
                raise WriterError(f"a writer failed before it was killed: {log}")
        self.fold.check()
        self.counts["killed during a change"] += self.fold.all_killed()
        table = pennon.dataset(self.uri)
        if table.version != self.fold.version:
            raise LostError(f"the newest version is {table.version}, and was {self.fold.version}")
        state = self.fold.states[table.version]
        Content(table).same(state, f"version {table.version}, opened afresh")
        low = self.dice.randrange(1_000)
        expected = sorted(key for key, row in state.rows.items() if low <= (row.values[0] or -1) < low + 50)
        found = table.to_table(columns=["id"], filter=f"n >= {low} AND n < {low + 50}")["id"].to_pylist()
        if sorted(found) != expected:
            raise LostError(f"version {table.version}, n from {low}: expected {expected}, found {sorted(found)}")
        self.tags.check(table)
        theirs = lance.dataset(self.uri)
        if theirs.version != table.version:
            raise LostError(f"the reference opens version {theirs.version}, the newest is {table.version}")
        Content(theirs).same(state, f"version {table.version}, as the reference opens it")
        theirs.validate()
        report = pennon.verify(self.uri, data=True)
        if not report.ok:
            raise LostError(f"verify finds more than leftovers: {report}")
        self.checked()

    def end(self) -> Counter[str]:
        """Checks the files. What was counted."""
        self.counts.update(check_files(self.uri, {}, self.home))
        self.counts["acknowledged changes of tags"] += self.tags.acknowledged
        return self.counts + self.fold.counts

    def report(self) -> str:
        try:
            table = pennon.dataset(self.uri)
            what = f"table {self.uri}, version {table.version} now, compared up to {self.fold.version}"
            return "\n".join([what, *history(table), *ends_of(log for log in self.logs if log.exists())])
        except Exception as error:
            return f"table {self.uri} cannot be opened: {error}"


def run(kills: int, seed: int, libraries: list[str], home: Path) -> Counter[str]:
    """Raises what was found, after a report. What was counted otherwise."""
    counts: Counter[str] = Counter()
    zygote = Zygote()
    begun = word = time.monotonic()
    try:
        while counts["kills"] < kills:
            directory = home / f"table-{counts['tables']}"
            directory.mkdir()
            table = Table(directory, f"{seed} {counts['tables']}", libraries, zygote)
            try:
                of_table = min(kills - counts["kills"], ROUNDS * KILLS_OF_ROUND)
                while (left := of_table - table.counts["kills"]) > 0:
                    table.kill(min(KILLS_OF_ROUND, left))
                    table.check()
                counts.update(table.end())
            except Exception:
                print(f"kills: seed {seed}, table {counts['tables']}\n{table.report()}", flush=True)
                raise
            counts["tables"] += 1
            shutil.rmtree(directory)
            if time.monotonic() > word + 30:
                word = time.monotonic()
                print(f"  {word - begun:.0f} s: {words(counts)}; load {os.getloadavg()[0]:.1f}", flush=True)
    finally:
        zygote.close()
    return counts


def words(counts: Counter[str]) -> str:
    acknowledged = counts[ACKNOWLEDGED] + counts["acknowledged changes of tags"]
    return (
        f"{counts['kills']:,} kills, {acknowledged:,} acknowledged changes, "
        f"{counts[UNACKNOWLEDGED]:,} commits of writers that were killed before they acknowledged them"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=int(os.environ.get("PENNON_KILLS", "10000")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PENNON_SEED", "0")))
    parser.add_argument("--writers", default=WRITERS, help="the library of each writer")
    parser.add_argument("--directory", help="where tables are made; a temporary one otherwise")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="pennon-kills-", dir=asked.directory))
    begun = time.monotonic()
    try:
        counts = run(asked.kills, asked.seed, asked.writers.split(","), home)
    except Exception:
        print(f"kills: {traceback.format_exc()}", flush=True)
        return 1
    shutil.rmtree(home)
    print(dict(sorted(counts.items())))
    print(f"kills: {words(counts)}, 0 lost, {counts['tables']} tables, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
