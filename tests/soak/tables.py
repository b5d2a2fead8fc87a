"""Writers by both libraries, and by Spark, change one table by all verbs and are killed while it is compared.

    PYTHONPATH=tests python -m soak.tables [--seconds 3600] [--kill-every 10] [--seed 0] [--spark]
        [--writers pennon,lance,pennon,lance] [--store local|s3] [--faults 0.1]

Every version must be what the commits up to it make of the table: `soak.fold`. In a run of two minutes or more,
memory and descriptors of processes that read all the time must not grow. In the end `verify` finds no fault and
counts the files that no version refers to, and a cleanup names and removes exactly these. The first failure ends
the run with status 1 and a report; the table is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pennon
from soak.effects import SHARED, table_of
from soak.fold import Fold, first_state
from soak.orphans import check_files
from soak.processes import WriterError, ended, ends_of, history, memory

WRITERS = "pennon,lance,pennon,lance"
READERS = 2
# A reader is warm after this part of a run, if the run takes so many seconds: it keeps up to 256 files open. From
# then on it may grow by so many MiB and descriptors.
WARM, LONG_ENOUGH = 0.4, 120
MORE_MEMORY, MORE_DESCRIPTORS = 64, 16
# Seconds that a cleanup leaves versions: longer than whoever has read one works with it. A job of Spark may be the
# first one of its driver, on a machine that has more to do.
RETENTION, RETENTION_WITH_SPARK = 10, 120
# Seconds to the end of all processes: the driver of Spark may be starting, on a machine that has more to do.
PATIENCE = 600
SALT = 7


@dataclass
class Watched:
    """A process that reads for the whole run, and what it took of memory and descriptors."""

    process: subprocess.Popen[str]
    samples: list[tuple[float, int]] = field(default_factory=list)

    def sample(self) -> None:
        if self.process.poll() is not None:
            raise WriterError(f"a reader ended with status {self.process.returncode}")
        self.samples.append(memory(self.process.pid))

    def growth(self) -> tuple[float, int]:
        """How much more the most of the last third is than that of the third before, from where it is warm."""
        warm = self.samples[int(len(self.samples) * WARM) :]
        half = len(warm) // 2
        if half == 0:
            return 0, 0
        (memory_before, files_before), (memory_after, files_after) = (
            (max(m for m, _ in part), max(d for _, d in part)) for part in (warm[:half], warm[half:])
        )
        return memory_after - memory_before, files_after - files_before


class Writers:
    """The writing processes, of which each is started again when it was killed."""

    def __init__(self, home: Path, uri: str, options: dict[str, str], seed: int, libraries: list[str]) -> None:
        self.home, self.uri, self.options, self.seed, self.libraries = home, uri, options, seed, libraries
        self.logs = [home / f"writer-{number}.log" for number in range(1, len(libraries) + 1)]
        self.journals = [home / f"writer-{number}.journal" for number in range(1, len(libraries) + 1)]
        self.incarnations = [0] * len(libraries)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        self.processes = [self.started(at) for at in range(len(self.libraries))]

    def started(self, at: int) -> subprocess.Popen[str]:
        self.incarnations[at] += 1
        given = {
            "uri": self.uri,
            "number": at + 1,
            "library": self.libraries[at],
            "options": self.options,
            "home": str(self.home),
            "seed": self.seed,
            "incarnation": self.incarnations[at],
            "retention": RETENTION_WITH_SPARK if "spark" in self.libraries else RETENTION,
        }
        # A group of its own: Spark is several processes.
        return subprocess.Popen(
            [sys.executable, "-m", "soak.table_writers", json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=self.logs[at].open("a"),
            text=True,
            start_new_session=True,
        )

    def kill(self, at: int) -> None:
        os.killpg(self.processes[at].pid, signal.SIGKILL)
        self.processes[at].communicate()
        self.processes[at] = self.started(at)

    def check(self) -> None:
        for number, process in enumerate(self.processes, 1):
            if process.poll() is not None:
                raise WriterError(f"writer {number} ended with status {process.returncode}")

    def stop(self) -> Counter[str]:
        done: Counter[str] = Counter()
        for number, process in enumerate(self.processes, 1):
            output = ended(process)
            if process.returncode != 0:
                raise WriterError(f"writer {number} ended with status {process.returncode}")
            done.update(json.loads(output))
        return done


class Soak:
    """A table with its writers, readers and model."""

    def __init__(
        self, home: Path, uri: str, options: list[dict[str, str]], seed: int, libraries: list[str]
    ) -> None:
        self.home, self.uri, self.seed = home, uri, seed
        # Without and with faults.
        self.direct, self.faulty = options
        self.known = {"storage_options": self.direct} if self.direct else {"durability": "os"}
        self.dice = random.Random(f"{seed} kills")
        table = pennon.write_dataset(
            table_of(range(SHARED), SALT), uri, enable_stable_row_ids=True, max_rows_per_file=1_000, **self.known
        )
        self.writers = Writers(home, uri, self.faulty, seed, libraries)
        self.fold = Fold(uri, self.direct, self.writers.journals, str(seed))
        self.fold.begin(first_state(SALT, table), table.version)
        self.kills = 0
        self.readers: list[Watched] = []

    def read(self, number: int) -> Watched:
        given = {"uri": self.uri, "options": self.faulty, "home": str(self.home), "seed": f"{self.seed} {number}"}
        command = [sys.executable, "-m", "soak.readers", json.dumps(given)]
        return Watched(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))

    def checked(self, at: float) -> None:
        """Tells the writers up to where versions were compared; later ones were committed after this time."""
        new = self.home / "checked.new"
        new.write_text(json.dumps({"version": self.fold.version, "time": at}))
        new.replace(self.home / "checked")

    def run(self, seconds: float, kill_every: float) -> Counter[str]:
        started = begun = time.time()
        first = self.fold.version
        self.seen = begun
        self.checked(begun)
        self.writers.start()
        self.readers = [self.read(number) for number in range(READERS)]
        next_kill, next_sample, next_word = begun + kill_every, begun, begun + 60
        try:
            while (now := time.time()) < begun + seconds:
                seen = now
                if not self.fold.check(lambda: self.checked(self.seen)):
                    time.sleep(0.02)
                self.seen = seen
                self.checked(seen)
                self.writers.check()
                if self.fold.version == first and now < started + PATIENCE:
                    # The processes are starting.
                    begun = time.time()
                    next_kill = begun + kill_every
                if now >= next_kill:
                    self.writers.kill(self.dice.randrange(len(self.writers.processes)))
                    self.kills, next_kill = self.kills + 1, now + kill_every
                if now >= next_sample:
                    for reader in self.readers:
                        reader.sample()
                    next_sample = now + max(0.5, seconds / 400)
                if now >= next_word:
                    next_word = now + 60
                    print(f"  {now - begun:.0f} s: {self.words()}", flush=True)
        finally:
            (self.home / "stop").touch()
            self.stopped()
        done = self.writers.stop()
        done["rounds of readers"] = sum(json.loads(ended(reader.process))["rounds"] for reader in self.readers)
        self.fold.check()
        self.fold.end()
        if seconds >= LONG_ENOUGH:
            self.flat()
        done.update(check_files(self.uri, self.direct, self.home))
        done.update(self.fold.counts)
        done["kills"] = self.kills
        return done

    def stopped(self) -> None:
        """Waits for all processes, so that nothing changes the table that is reported."""
        deadline = time.time() + PATIENCE
        processes = [*self.writers.processes, *(reader.process for reader in self.readers)]
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.time()))
            except subprocess.TimeoutExpired:  # noqa: PERF203
                process.kill()

    def flat(self) -> None:
        for reader in self.readers:
            more, files = reader.growth()
            if more > MORE_MEMORY or files > MORE_DESCRIPTORS:
                raise WriterError(f"a reader grew by {more:.0f} MiB and {files} descriptors: {reader.samples}")

    def words(self) -> str:
        most = [max(reader.samples, default=(0, 0)) for reader in self.readers]
        now = [reader.samples[-1] if reader.samples else (0, 0) for reader in self.readers]
        readers = ", ".join(
            f"{mib:.0f} MiB (most {top:.0f}), {descriptors} descriptors"
            for (mib, descriptors), (top, _) in zip(now, most, strict=True)
        )
        own, files = memory(os.getpid())
        return (
            f"version {self.fold.version}, {self.kills} kills, {self.fold.counts['feeds']} feeds, "
            f"readers {readers}; checker {own:.0f} MiB, {files} descriptors; load {os.getloadavg()[0]:.1f}"
        )

    def report(self) -> str:
        table = pennon.dataset(self.uri, **self.known)
        what = f"table {self.uri}, version {table.version} now, compared up to {self.fold.version}"
        return "\n".join([what, *history(table), *ends_of(self.writers.logs)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--kill-every", type=float, default=10, help="seconds from one kill to the next")
    parser.add_argument("--writers", default=WRITERS, help="the library of each writer")
    parser.add_argument("--spark", action="store_true", help="one more writer, which drives Spark")
    parser.add_argument("--store", choices=["local", "s3"], default="local")
    parser.add_argument("--faults", type=float, default=0.0, help="the part of requests that fail on s3")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", help="where tables are made; a temporary one otherwise")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="pennon-soak-", dir=asked.directory))
    libraries = [*asked.writers.split(","), *(["spark"] if asked.spark else [])]
    options: list[dict[str, str]] = [{}, {}]
    uri, server = str(home / "table"), None
    if asked.store == "s3":
        command = [sys.executable, "-m", "soak.store_server", str(asked.faults), str(asked.seed)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        options = [json.loads(server.stdout.readline()) for _ in range(2)]
        uri = "s3://pennon-tests/soak"
    try:
        soak = Soak(home, uri, options, asked.seed, libraries)
        try:
            done = soak.run(asked.seconds, asked.kill_every)
        except Exception:
            print(f"soak: seed {asked.seed}: {traceback.format_exc()}\n{soak.report()}", flush=True)
            return 1
        print(f"soak: {soak.words()}")
    finally:
        if server is not None:
            print(server.communicate("")[0])
    print(dict(sorted(done.items())))
    versions = sum(count for name, count in done.items() if name.startswith("version "))
    grown = ", ".join(
        f"{more:.0f} MiB and {files} descriptors" for more, files in (r.growth() for r in soak.readers)
    )
    print(
        f"soak: {versions:,} versions compared, {done['kills']} kills, {done['feeds']:,} feeds, "
        f"{done['read by pylance']:,} versions read by pylance too, {done['retried']:,} conflicts retried "
        f"by those not killed, readers grew by {grown}"
    )
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
