"""A process that changes the table of the soak of whole tables by one library, until it is killed or asked to stop.

What it does is in its journal. What fails otherwise than by a conflict ends it with status 1.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
from collections import Counter
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pennon
from soak import steps
from soak.effects import BASE, RANGE, SHARED, Intent, selection
from soak.journal import Journal
from soak.processes import is_conflict

ATTEMPTS = 200
# Versions that the checker may be behind.
LAG = 30
FEWEST, MOST = 600, 1_500
# How often each verb is chosen. Those of `KEPT` change no row.
VERBS = {
    "append": 8,
    "delete": 6,
    "update": 14,
    "merge": 12,
    "partial": 4,
    "by_id": 4,
    "overwrite": 0.15,
    "restore": 0.8,
    "add_column": 0.6,
    "drop_column": 0.4,
    "rename_column": 0.4,
    "compact": 5,
    "index": 0.7,
    "optimize": 1.5,
    "config": 1,
    "tag": 2,
    "branch": 0.6,
    "clone": 1.5,
    "cleanup": 1.5,
}
KEPT = ("compact", "index", "optimize", "config")
# The reference's cleanup does not know the notes of clones.
PENNON_ONLY = ("by_id", "branch", "clone", "cleanup")
MODES = ["auto", "rewrite_rows", "rewrite_columns"]


class Writer:
    """Changes a table by one library, one verb after another."""

    library: Any
    verbs = VERBS
    # Rows, and the verbs that are not logged.
    fewest, most, unlogged = FEWEST, MOST, KEPT

    def __init__(self, given: dict[str, Any]) -> None:
        self.uri, self.number, self.options = given["uri"], given["number"], given["options"]
        self.home, self.is_remote = Path(given["home"]), "://" in given["uri"]
        self.dice = random.Random(f"{given['seed']} {self.number} {given['incarnation']}")
        self.journal = self.opened_journal()
        self.first = RANGE * self.number
        used = [self.first, *(e["start"] + e["count"] for e in self.journal.entries if e.get("count"))]
        self.next = max(used)
        self.extra = (f"e{self.number}", f"x{self.number}")
        self.retention: int = given["retention"]
        self.clone: tuple[str, list[Any], int] | None = None
        self.done: Counter[str] = Counter()

    def opened_journal(self) -> Journal:
        return Journal(self.home / f"writer-{self.number}.journal")

    def open(self) -> Any:
        return self.library.dataset(self.uri, **self.opening())

    def opening(self) -> dict[str, Any]:
        known = {"storage_options": self.options} if self.options else {}
        return known if self.library is not pennon or self.is_remote else {**known, "durability": "os"}

    # The pace of the checker.

    def checked(self) -> tuple[int, float]:
        """The newest version that was compared, and how many seconds ago it was committed."""
        found = json.loads((self.home / "checked").read_text())
        return found["version"], time.time() - found["time"]

    def wait(self) -> int:
        while self.checked()[0] < pennon.dataset(self.uri, **self.of_pennon()).version - LAG:
            time.sleep(0.05)
            if (self.home / "stop").exists():
                break
        return self.checked()[0]

    def of_pennon(self) -> dict[str, Any]:
        return {"storage_options": self.options} if self.options else {}

    # Intents.

    def fresh(self, count: int) -> Intent:
        self.next += count
        return {"start": self.next - count, "count": count}

    def own(self, most: int = 120) -> Intent:
        """Keys of this writer, more of the new ones than of the old."""
        low = self.first if self.dice.random() < 0.3 else max(self.first, self.next - 600)
        return selection(self.dice, low, self.next, most)

    def intent(self, verb: str, table: Any, checked: int) -> Intent | None:
        """The arguments of a verb, or None if there is nothing to do."""
        salt = self.dice.randrange(1_000_000)
        given: Intent = {"kind": verb, "salt": salt, "mode": self.dice.choice(MODES)}
        if verb in ("append", "overwrite"):
            return given | self.fresh(self.dice.randrange(20, 150))
        if verb == "delete":
            return given | self.own()
        if verb == "update":
            change = self.dice.choice(["count", "count", "halve", "clear", "join"])
            if self.dice.random() < 0.35:
                return given | {"change": "count"} | selection(self.dice, 0, SHARED, 20)
            return given | {"change": change} | self.own()
        if verb == "merge":
            matched = self.dice.choice(["update", "update", "nothing", "larger", "delete"])
            keys = self.own(60)
            more = self.fresh(self.dice.randrange(30))
            given |= {name: keys[name] for name in ("low", "high")} | more
            return given | {"matched": matched, "insert": matched == "nothing" or self.dice.random() < 0.7}
        if verb == "partial":
            keys = self.own(40)
            return given | {name: keys[name] for name in ("low", "high")}
        if verb == "by_id":
            found = table.to_table(columns=["id"], filter=f"id >= {self.first} and id < {self.next}")["id"]
            keys = sorted(self.dice.sample(found.to_pylist(), min(len(found), self.dice.randrange(1, 9))))
            return given | {"keys": keys} if keys else None
        if verb == "restore":
            return given | {"version": max(1, checked - self.dice.randrange(12))}
        return self.of_column(given, table)

    def of_column(self, given: Intent, table: Any) -> Intent | None:
        mine = [name for name in self.extra if name in table.schema.names]
        if given["kind"] == "add_column":
            return None if mine else given | {"name": self.extra[0], "computed": self.dice.random() < 0.6}
        if len(mine) != 1:
            return None
        (other,) = {*self.extra} - {*mine}
        return given | {"name": mine[0], "to": other}

    # Steps.

    def step(self) -> None:
        checked = self.wait()
        table = self.reopened()
        count = table.count_rows()
        weights = dict(self.verbs)
        if count > self.most:
            weights["append"], weights["delete"] = 0, 3 * weights["delete"]
        if count < self.fewest:
            weights["delete"] = 0
        if self.library is not pennon:
            weights = {verb: weight for verb, weight in weights.items() if verb not in PENNON_ONLY}
        verb = self.dice.choices(list(weights), list(weights.values()))[0]
        print(f"{time.time():.3f} {verb}", file=sys.stderr, flush=True)
        if verb in self.unlogged:
            self.keep(verb)
        elif verb in VERBS and hasattr(self, f"side_{verb}"):
            with self.patience():
                getattr(self, f"side_{verb}")(table)
        else:
            self.change(verb, table, checked)
        self.done[verb] += 1

    def reopened(self) -> Any:
        """The newest version; again, where requests fail."""
        for attempt in range(ATTEMPTS):
            try:
                return self.open()
            except (OSError, ValueError):  # noqa: PERF203
                if not self.is_remote or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError

    def change(self, verb: str, table: Any, checked: int) -> None:
        for _ in range(ATTEMPTS):
            intent = self.intent(verb, table, checked)
            if intent is None:
                return
            seq = self.journal.propose(intent)
            try:
                self.commit(table, intent, seq)
            except Exception as error:
                self.failed(error, table, intent, seq)
                table = self.reopened()
                checked = self.checked()[0]
                self.done["retried"] += 1
            else:
                return
        raise RuntimeError(f"{ATTEMPTS} attempts to {verb} were not enough")

    def commit(self, table: Any, intent: Intent, seq: int) -> None:
        options = self.opening() if self.library is pennon or self.options else {}
        committed = steps.carry_out(self.library, table, intent, options)
        self.journal.ended(seq, committed.version)

    def failed(self, error: Exception, table: Any, intent: Intent, seq: int) -> None:
        """Says so if it is certain that nothing was committed; raises what is no conflict."""
        if isinstance(error, pennon.CommitUnknownError):
            status = self.reopened().commit_status(str(error.uuid))
            if status.version is not None:
                self.journal.ended(seq, status.version)
            return
        expected = is_conflict(error) or self.is_explained(table, intent)
        if self.is_remote and isinstance(error, (OSError, RuntimeError, ValueError)):
            # The reference does not know whether a request arrived whose answer it did not get.
            if self.library is pennon:
                self.journal.ended(seq, None)
            print(f"  {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
            return
        if not expected:
            raise error
        self.journal.ended(seq, None)

    def is_explained(self, table: Any, intent: Intent) -> bool:
        """Whether others took away what the change needs: columns, rows by id or the version to restore."""
        newest = pennon.dataset(self.uri, **self.of_pennon())
        if newest.schema.names != table.schema.names:
            return True
        if intent["kind"] == "restore":
            return intent["version"] not in [found["version"] for found in newest.version_refs()]
        if intent["kind"] == "by_id":
            return newest.count_rows(f"id in ({', '.join(map(str, intent['keys']))})") < len(intent["keys"])
        return False

    def patience(self) -> Any:
        return suppress(OSError, ValueError) if self.is_remote else nullcontext()

    def keep(self, verb: str) -> None:
        for _ in range(ATTEMPTS):
            try:
                getattr(steps, f"keep_{verb}")(self.library, self.reopened(), self.dice)
            except Exception as error:  # noqa: PERF203
                if not is_conflict(error) and not (self.is_remote and isinstance(error, (OSError, ValueError))):
                    raise
                self.done["retried"] += 1
            else:
                return

    # Next to the rows.

    def side_tag(self, table: Any) -> None:
        name = f"w{self.number}-{self.dice.randrange(2)}"
        try:
            names = table.tags.list()
        except ValueError as error:
            # The reference lists the names and then reads each: another writer has removed one meanwhile.
            if isinstance(error, pennon.PennonError) or "Not found" not in str(error):
                raise
            return
        if name in names:
            table.tags.delete(name)
        else:
            table.tags.create(name, table.version)

    def side_branch(self, table: Any) -> None:
        """A branch that is changed, read and removed."""
        name = f"b{self.number}"
        # A deletion that was cut short by a kill leaves files of a branch that is not listed.
        with suppress(pennon.NotFoundError):
            table.branches.delete(name)
        branch = table.create_branch(name)
        before = branch.count_rows()
        branch.insert(steps.table_of(self.extra_keys(), 1, [n for n in branch.schema.names if n not in BASE]))
        branch.delete(f"id >= {min(self.extra_keys())} and id % 2 = 0")
        if branch.count_rows() != before + len(self.extra_keys()) // 2:
            raise AssertionError(f"branch {name} of version {table.version} has wrong rows")
        table.branches.delete(name)

    def extra_keys(self) -> range:
        """Keys that no row of the table has."""
        return range(900 * RANGE, 900 * RANGE + 10)

    def side_clone(self, table: Any) -> None:
        """A clone that is read while others clean up, and removed in the end."""
        if self.clone is None:
            where = (
                f"{self.home if not self.is_remote else self.uri + '-clones'}/clone-{self.number}-{time.time_ns()}"
            )
            clone = table.shallow_clone(where, table.version)
            self.clone = where, sorted_rows(table), 5
            del clone
            return
        where, expected, left = self.clone
        clone = pennon.dataset(where, **self.of_pennon())
        if sorted_rows(clone) != expected:
            raise AssertionError(f"clone {where} has not the rows it was made of")
        self.clone = (where, expected, left - 1) if left else None
        if not left:
            pennon.LanceDataset.drop(where, self.options or None)

    def side_cleanup(self, table: Any) -> None:
        """Of versions that are older than what was compared last."""
        _, age = self.checked()
        seconds = max(self.retention, age + 6)
        table.cleanup_old_versions(timedelta(seconds=seconds), error_if_tagged_old_versions=False)


def sorted_rows(table: Any) -> list[Any]:
    found = table.to_table(columns=["id", "n", "text", "_rowid"])
    return sorted(zip(*found.to_pydict().values(), strict=True))


class LanceWriter(Writer):
    @property
    def library(self) -> Any:  # type: ignore[override]
        import lance

        return lance


class PennonWriter(Writer):
    library = pennon


def writer_of(given: dict[str, Any]) -> Writer:
    if given["library"] == "spark":
        from soak.spark_writer import SparkWriter

        return SparkWriter(given)
    return {"pennon": PennonWriter, "lance": LanceWriter}[given["library"]](given)


def main(arguments: str) -> None:
    given = json.loads(arguments)
    stop = Path(given["home"]) / "stop"
    try:
        writer = writer_of(given)
        started = datetime.now(timezone.utc)
        print(f"started {started:%H:%M:%S}", file=sys.stderr, flush=True)
        while not stop.exists():
            writer.step()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    print(json.dumps(writer.done))


if __name__ == "__main__":
    main(sys.argv[1])
