"""A process that changes the table of the soak until a file says stop; prints what it did as JSON.

Each step is one of `STEPS`, by either library. A step that lost to another process is done again, as a user would.
Ids of new rows are those of the writer alone, and a merge takes only such: so that every id is there once.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pennon
from soak.processes import is_conflict
from soak.rows import FEWEST, LIBRARIES, MOST, SCALARS, index, rows_of

ATTEMPTS = 100
# Whoever reads a version has time to finish.
KEPT = timedelta(minutes=3)


class Writer:
    """Changes a table by both libraries, one step after another."""

    def __init__(self, uri: str, number: int, seed: str, libraries: list[str]) -> None:
        self.uri, self.dice, self.libraries = uri, random.Random(f"{seed} {number}"), libraries
        # Far from those of others, and of the first rows.
        self.first = self.next = 1_000_000 * number
        self.extra, self.number = f"e{number}", number
        self.done: Counter[str] = Counter()

    def open(self, library: Any) -> Any:
        return library.dataset(self.uri, **({"durability": "os"} if library is pennon else {}))

    def fresh(self, count: int) -> list[int]:
        self.next += count
        return list(range(self.next - count, self.next))

    def append(self, library: Any) -> None:
        table = self.open(library)
        rows = rows_of(self.fresh(self.dice.randrange(50, 400)), self.dice, table.schema.names)
        options = {"durability": "os"} if library is pennon else {}
        library.write_dataset(rows, self.uri, mode="append", **options)

    def delete(self, library: Any) -> None:
        table = self.open(library)
        where = self.dice.choice(
            [
                f"id % 31 = {self.dice.randrange(31)}",
                f"k = 'v{self.dice.randrange(40)}'",
                f"n between {(n := self.dice.randrange(2_000))} and {n + 50}",
                f"array_has(tags, {self.dice.randrange(30)}) and n < 1000",
                f"b in ({self.dice.randrange(3_000)}, {self.dice.randrange(3_000)})",
            ]
        )
        table.delete(where)

    def update(self, library: Any) -> None:
        """Moves rows to a new fragment: of which index the value changes, and of which not."""
        where = self.dice.choice(
            [
                f"n between {(n := self.dice.randrange(2_000))} and {n + 15}",
                f"k = 'v{self.dice.randrange(40)}' and other < 50",
                f"z between {(z := self.dice.randrange(2_500))} and {z + 12}",
            ]
        )
        values = self.dice.choice(
            [
                {"n": "n + 7"},
                {"k": f"'v{self.dice.randrange(40)}'"},
                {"tags": f"make_array({self.dice.randrange(30)}, {self.dice.randrange(30)})"},
                {"z": "z + 40", "b": "b + 1"},
                {"other": "other + 1"},
            ]
        )
        self.open(library).update(values, where=where)

    def update_in_place(self, _library: Any) -> None:
        """By Pennon only, and not of `z` and `b`: the reference keeps the zones of the old values."""
        values = self.dice.choice([{"n": "n + 3"}, {"k": f"'v{self.dice.randrange(40)}'"}, {"other": "other + 2"}])
        where = f"n between {(n := self.dice.randrange(2_000))} and {n + 15}"
        self.open(pennon).update(values, where=where, mode="rewrite_columns")

    def merge(self, library: Any) -> None:
        """New vectors and values for rows of this writer, and some new rows."""
        table = self.open(library)
        some = self.dice.randrange(self.first, self.next + 1)
        ids = sorted({*range(some, min(some + 40, self.next)), *self.fresh(10)})
        rows = rows_of(ids, self.dice, table.schema.names)
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        # Done again with the same rows, a merge that lost to a new column would change the others in place, which
        # the zones of the reference do not stand (see `update_in_place`).
        merge.conflict_retries(0).execute(rows)

    def compact(self, library: Any) -> None:
        target = self.dice.choice([1_000, 2_000, 20_000])
        self.open(library).optimize.compact_files(target_rows_per_fragment=target)

    def optimize(self, library: Any) -> None:
        self.open(library).optimize.optimize_indices()

    def reindex(self, library: Any) -> None:
        index(library, self.uri, self.dice.choice([*SCALARS, "vec"]))

    def columns(self, library: Any) -> None:
        """A column of this writer comes or goes."""
        table = self.open(library)
        if self.extra in table.schema.names:
            table.drop_columns([self.extra])
        else:
            table.add_columns({self.extra: "n + 1"})

    def cleanup(self, library: Any) -> None:
        self.open(library).cleanup_old_versions(KEPT)

    def step(self) -> None:
        count = self.open(pennon).count_rows()
        steps = dict(STEPS)
        if count > MOST:
            del steps["append"]
        if count < FEWEST:
            del steps["delete"]
        if "pennon" not in self.libraries:
            del steps["update_in_place"]
        name = self.dice.choices(list(steps), list(steps.values()))[0]
        library = LIBRARIES[self.dice.choice(self.libraries)]
        if name == "update_in_place":
            library = pennon
        print(f"{self.number}: {library.__name__} {name}", file=sys.stderr, flush=True)
        act: Callable[[Any], None] = getattr(self, name)
        for _ in range(ATTEMPTS):
            before = self.open(pennon).schema
            try:
                act(library)
            except Exception as error:
                # Rows without a column that another writer added meanwhile, or with one that it dropped.
                changed = before != self.open(pennon).schema
                if not changed and not is_conflict(error):
                    raise
                self.done["retried"] += 1
            else:
                self.done[f"{library.__name__} {name}"] += 1
                return
        raise RuntimeError(f"{ATTEMPTS} attempts to {name} by {library.__name__} were not enough")


# Steps, and how often they are taken.
STEPS = {
    "append": 6,
    "delete": 5,
    "update": 6,
    "update_in_place": 2,
    "merge": 5,
    "compact": 3,
    "optimize": 4,
    "reindex": 1,
    "columns": 1,
    "cleanup": 1,
}


def main(uri: str, number: str, seed: str, stop: str, *libraries: str) -> None:
    writer = Writer(uri, int(number), seed, list(libraries))
    try:
        while not Path(stop).exists():
            writer.step()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"done": writer.done, "peak": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
