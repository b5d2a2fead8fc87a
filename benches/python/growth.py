"""What operations cost on tables of many fragments, many versions and many moved rows, against the reference.

    python benches/python/growth.py [--rounds 3] [--only fragments,versions,moved] [--operations open,delete]
        [--fragments 10000] [--versions 1000] [--moved 1000000] [--large] [--timeout 60]
        [--results FOLDER]

`--large` is 10^3 to 10^6 fragments, 10 to 10^5 versions and 20 M rows, of which 9 M moved: that takes an hour. Put
TMPDIR on a disk in memory to measure the engines and not the disk.

Each figure is the median of fresh processes, in which both sides take turns; their answers must be equal. Both read
the same table; one that is written to is copied before. A process first works on another, small table, so that what
a library loads once is not measured. "Again" is the median of up to twenty calls in a process. Memory is the growth
of a process to its peak, after that small table. A side that takes longer than the timeout has no figure.

Each side has its best settings: Pennon does not sync, which the reference never does, and where a table is opened
with a session, it has room for the largest of these tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from growth_tables import (
    LAST_ID,
    ROWS_PER_FRAGMENT,
    UPDATES,
    linked,
    many_fragments,
    many_moved_rows,
    many_versions,
    rows,
)
from memory import MEGABYTE, peak, resident
from records import Record, check_whole, line, result, save

SIDES = {"pennon": "pennon", "pylance": "lance"}
SESSION_BYTES = 8 << 30
REPEATS = 20
TITLES = {"fragments": "fragments", "versions": "versions", "moved": "rows, of which 45 % moved"}
# No further call after this time.
REPEAT_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Side:
    """A library, the table, and the size of the table, in one process."""

    name: str
    uri: str
    size: int

    @property
    def module(self) -> Any:
        return importlib.import_module(SIDES[self.name])

    @property
    def options(self) -> dict[str, str]:
        return {"durability": "os"} if self.name == "pennon" else {}

    def open(self, **settings: Any) -> Any:
        return self.module.dataset(self.uri, **settings)


@dataclasses.dataclass(frozen=True)
class Operation:
    """`prepare` is not timed; it returns what is, which returns the answer."""

    claim: str
    prepare: Callable[[Side], Callable[[], object]]
    repeat: int = 1
    writes: bool = False


def opening(side: Side) -> Callable[[], object]:
    return lambda: side.open().version


def opening_again(side: Side) -> Callable[[], object]:
    first = side.open()
    return lambda: side.open().version == first.version


def opening_with_session(side: Side) -> Callable[[], object]:
    if not hasattr(side.module, "Session"):  # a wheel without one keeps manifests by itself
        return opening_again(side)
    session = side.module.Session(metadata_cache_size_bytes=SESSION_BYTES)
    first = side.open(session=session)
    return lambda: side.open(session=session).version == first.version


def fragment_ids(side: Side) -> list[int]:
    last = side.size * ROWS_PER_FRAGMENT
    return [3, last // 3, last // 2, last]


def moved_ids(side: Side) -> list[int]:
    """Of rows that moved, in four of the updates."""
    step = UPDATES * 100 // 45
    return [number + step * (side.size // step * number // 80) for number in (3, 20, 40, 65)]


def taking(ids: Callable[[Side], list[int]], *, first: bool) -> Callable[[Side], Callable[[], object]]:
    def prepare(side: Side) -> Callable[[], object]:
        table, wanted = side.open(), ids(side)
        if not first:
            table._take_rows(wanted)
        return lambda: table._take_rows(wanted).to_pydict()

    return prepare


def limit(side: Side) -> Callable[[], object]:
    table = side.open()
    return lambda: table.to_table(limit=1).to_pydict()


def deleting(side: Side) -> Callable[[], object]:
    table = side.open()
    where = f"id = {LAST_ID}"
    return lambda: table.delete(where)["num_deleted_rows"]


def deleting_by_row_id(side: Side) -> Callable[[], object]:
    table = side.open()
    table.delete("_rowid = 2")
    return lambda: table.delete("_rowid = 7")["num_deleted_rows"]


def updating_by_row_id(side: Side) -> Callable[[], object]:
    table = side.open()
    table.update({"value": "2.0"}, where="_rowid = 2")
    return lambda: table.update({"value": "3.0"}, where="_rowid = 7")["num_rows_updated"]


def appending(side: Side) -> Callable[[], object]:
    row = single_row()
    return lambda: side.module.write_dataset(row, side.uri, mode="append", **side.options).version


def inserting(side: Side) -> Callable[[], object]:
    table, row = side.open(), single_row()

    def insert() -> object:
        table.insert(row, **side.options)
        return table.version

    return insert


def single_row() -> Any:
    import numpy as np

    return rows(np.array([LAST_ID + 1]))


def changes(side: Side) -> Callable[[], object]:
    """The rows that the newest version inserted or updated."""
    table = side.open()
    if side.name == "pennon":
        return lambda: table.changes(table.version - 1).read_all().num_rows
    return delta(side)


def delta(side: Side) -> Callable[[], object]:
    table = side.open()

    def read() -> object:
        found = table.delta(begin_version=table.version - 1, end_version=table.version)
        return found.get_inserted_rows().read_all().num_rows + found.get_updated_rows().read_all().num_rows

    return read


def planning(side: Side) -> Callable[[], object]:
    table = side.open()
    compaction = importlib.import_module(f"{SIDES[side.name]}.optimize").Compaction
    return lambda: compaction.plan(table, {}).num_tasks()


def listing(side: Side) -> Callable[[], object]:
    table = side.open()
    return lambda: [version["version"] for version in table.versions()] == list(range(1, table.version + 1))


FRAGMENTS = {
    "open": Operation("open", opening),
    "open_again": Operation("open again, by URI", opening_again, repeat=REPEATS),
    "open_session": Operation("open again, shared session", opening_with_session, repeat=REPEATS),
    "take": Operation("take 4 rows by id, first of a handle", taking(fragment_ids, first=True)),
    "take_again": Operation("take 4 rows by id, again", taking(fragment_ids, first=False), repeat=REPEATS),
    "limit": Operation("`limit 1`", limit),
    "append": Operation("open and append 1 row", appending, writes=True),
    "insert": Operation("`insert` 1 row, first of a handle", inserting, writes=True),
    "delete": Operation("delete 1 row by value, first of a handle", deleting, writes=True),
    "delete_id": Operation("delete 1 row by `_rowid`, second of a handle", deleting_by_row_id, writes=True),
    "update_id": Operation("update 1 row by `_rowid`, second of a handle", updating_by_row_id, writes=True),
    "changes": Operation("changes of the newest version", changes),
    "delta": Operation("`delta` of the newest version", delta),
    "plan": Operation("`Compaction.plan`", planning),
    "versions": Operation("`versions()`", listing),
}
VERSIONS = {
    "open": FRAGMENTS["open"],
    "open_again": FRAGMENTS["open_again"],
    "open_session": FRAGMENTS["open_session"],
    "append": FRAGMENTS["append"],
    "insert": FRAGMENTS["insert"],
    "changes": FRAGMENTS["changes"],
    "versions": FRAGMENTS["versions"],
}
MOVED = {
    "open": FRAGMENTS["open"],
    "take": Operation(FRAGMENTS["take"].claim, taking(moved_ids, first=True)),
    "take_again": Operation(FRAGMENTS["take_again"].claim, taking(moved_ids, first=False), repeat=REPEATS),
}
# What there is many of, how a table of it is made, and what is done with it.
GROUPS: dict[str, tuple[Callable[[str, int], None], dict[str, Operation]]] = {
    "fragments": (many_fragments, FRAGMENTS),
    "versions": (many_versions, VERSIONS),
    "moved": (many_moved_rows, MOVED),
}
LARGE = {"fragments": [10**3, 10**4, 10**5, 10**6], "versions": [10, 10**3, 10**5], "moved": [20_000_000]}


def warm(side: Side) -> None:
    """Loads what a library loads once in a process, on a table of its own."""
    row = single_row()
    with tempfile.TemporaryDirectory() as directory:
        other = dataclasses.replace(side, uri=f"{directory}/table")
        side.module.write_dataset(row, other.uri, enable_stable_row_ids=True)
        inserting(other)()
        table = other.open()
        table.update({"value": "1.0"}, where="_rowid = 0")
        table._take_rows([0])
        table.to_table(limit=1)
        changes(other)()
        planning(other)()
        table.delete("_rowid = 0")


def child(group: str, name: str, side_name: str, uri: str, size: str) -> None:
    """One operation; prints the median of its seconds, the growth of memory to its peak in MB, and the answer."""
    side = Side(side_name, uri, int(size))
    operation = GROUPS[group][1][name]
    warm(side)
    before = resident()
    action = operation.prepare(side)
    times: list[float] = []
    while len(times) < operation.repeat and sum(times) < REPEAT_SECONDS:
        begin = time.perf_counter()
        answer = action()
        times.append(time.perf_counter() - begin)
    memory = max(0, peak() - before) / MEGABYTE
    if operation.writes:
        after = side.open()
        answer = answer, after.version, after.count_rows()
    print(json.dumps({"seconds": statistics.median(times), "memory": memory, "answer": answer}))


def run(group: str, name: str, side: str, uri: str, size: int, timeout: float) -> dict[str, Any] | None:
    """What a process for the operation printed; none if that took too long."""
    with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
        if GROUPS[group][1][name].writes:
            uri = linked(uri, Path(directory, "copy"))
        command = [sys.executable, __file__, "--child", group, name, side, uri, str(size)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode:
        raise RuntimeError(f"{name} of {side} with {size:,} {group} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(group: str, name: str, uri: str, size: int, rounds: int, timeout: float) -> dict[str, Any]:
    """The samples of both sides in turns. A side that took too long has none, and no further turns."""
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    slow: set[str] = set()
    for number in range(rounds):
        answers = {}
        for side in list(SIDES) if number % 2 == 0 else list(reversed(SIDES)):
            found = None if side in slow else run(group, name, side, uri, size, timeout)
            if found is None:
                slow.add(side)
            else:
                answers[side] = found["answer"]
                results[side].append(found)
        if any(answer != next(iter(answers.values())) for answer in answers.values()):
            raise AssertionError(f"{name} with {size:,} {group}: the answers differ, found {answers}")
    done = {side: found for side, found in results.items() if side not in slow}
    memory = {side: statistics.median(each["memory"] for each in found) for side, found in done.items()}
    return result(
        f"{GROUPS[group][1][name].claim}; {size:,} {TITLES[group]}",
        "local disk, warm; processes of their own",
        {side: [each["seconds"] for each in found] for side, found in done.items()},
        {side: {"MB": round(median)} for side, median in memory.items()},
        name=f"{group}, {size}, {name}",
        absent=dict.fromkeys(slow, f"takes longer than {timeout:g} s"),
    )


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, with commas")
    parser.add_argument("--operations", help="operations, with commas; all if not given")
    parser.add_argument("--fragments", type=int, nargs="+", default=[10**4])
    parser.add_argument("--versions", type=int, nargs="+", default=[10**3])
    parser.add_argument("--moved", type=int, nargs="+", default=[1_000_000], help="rows, of which 45 %% moved")
    parser.add_argument("--large", action="store_true", help="all sizes")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of a process")
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    args = parser.parse_args()
    check_whole(parser, args)
    sizes = LARGE if args.large else {group: getattr(args, group) for group in GROUPS}
    record, results = Record(), []
    for group in args.only.split(","):
        make, operations = GROUPS[group]
        wanted = args.operations.split(",") if args.operations else operations
        for size in sizes[group]:
            root = Path(tempfile.mkdtemp())
            try:
                begin = time.perf_counter()
                make(str(root / "table"), size)
                print(f"{size:,} {group}: made in {time.perf_counter() - begin:.1f} s", flush=True)
                for name in [name for name in operations if name in wanted]:
                    results.append(compare(group, name, str(root / "table"), size, args.rounds, args.timeout))
                    print(line(results[-1]), flush=True)
            finally:
                shutil.rmtree(root, ignore_errors=True)
    found = record.of("growth", "Growth", ("pylance",), sizes, args.rounds)
    save(args.results, found | {"cases": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
