"""Processes of both implementations that write to one table at the same time and get in each other's way.

With `PENNON_LONG_TESTS=1` eight writers make 100 commits each, a counter is incremented 1,000 times, and a table is
compacted for a minute while rows of it are updated: minutes.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree
from support.long import LONG

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WRITER = str(Path(__file__).parents[1] / "support" / "writer.py")
ROWS = 4_000


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, WRITER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, int]:
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    done: dict[str, int] = json.loads(out)
    return done


@pytest.fixture
def uri(disk_path: Path) -> str:
    """Eight fragments."""
    uri = str(disk_path / "t")
    pennon.write_dataset(pa.table({"id": range(ROWS)}), uri, max_rows_per_file=ROWS // 8, durability="os")
    return uri


def test_rows_of_one_fragment(uri: str) -> None:
    """Four writers, each with rows of its own, all in the first fragment."""
    share = ROWS // 8 // 4
    modules = ["pennon", "lance", "pennon", "lance"]
    parts = [(number * share, number * share + 40) for number in range(4)]
    writers = [start("delete", module, uri, *part) for module, part in zip(modules, parts, strict=True)]
    assert [finish(writer)["found"] for writer in writers] == [40] * 4
    left = assert_both_agree(uri)["id"].to_pylist()
    assert left == [i for i in range(ROWS) if not any(first <= i < last for first, last in parts)]
    assert pennon.dataset(uri).version == 1 + 4 * 40


def test_the_same_rows(uri: str) -> None:
    """Every row is deleted by exactly one of four writers that all try."""
    writers = [start("delete", module, uri, 100, 130) for module in ("pennon", "lance", "pennon", "lance")]
    done = [finish(writer) for writer in writers]
    assert sum(writer["found"] for writer in done) == 30
    assert assert_both_agree(uri)["id"].to_pylist() == [i for i in range(ROWS) if not 100 <= i < 130]


@contextmanager
def stopped_at_the_end(stop: Path, processes: list[subprocess.Popen[str]]) -> Iterator[None]:
    """Tells the processes to stop, and ends them after an error: they would go on for ever."""
    try:
        yield
    except BaseException:
        for process in processes:
            process.kill()
        raise
    finally:
        stop.touch()


def wait_until(is_enough: Callable[[], bool], processes: list[subprocess.Popen[str]]) -> None:
    """None of the processes may end before."""
    while not is_enough():
        ended = [process.args for process in processes if process.poll() is not None]
        assert not ended, f"ended before all had done enough: {ended}"
        time.sleep(0.2)


def test_a_compactor_loses_nothing(uri: str, disk_path: Path) -> None:
    """All fragments become one, again and again, while rows are deleted: no rewrite is thrown away.

    On a busy machine one side may wait long for the other; all go on until each has done enough.
    """
    stop = disk_path / "stop"
    parts = {"pennon": (0, 1_000), "lance": (2_000, 3_000)}
    enough = {"pennon": 60, "lance": 30}
    compactor = start("compact", uri, stop)
    deleters = {module: start("delete", module, uri, *part, stop) for module, part in parts.items()}
    processes = [compactor, *deleters.values()]

    def is_enough() -> bool:
        return rewrites_of_deletions(uri) > 3 and all(
            deleted(uri, *part) >= enough[module] for module, part in parts.items()
        )

    with stopped_at_the_end(stop, processes):
        wait_until(is_enough, processes)
    found = {module: finish(deleter)["found"] for module, deleter in deleters.items()}
    done = finish(compactor)
    assert done["gave_up"] == 0, f"{done['gave_up']} of {done['commits']} rewrites were thrown away"
    assert done["commits"] == operations(uri).count("Rewrite")
    assert sum(found.values()) == operations(uri).count("Delete")
    table = assert_both_agree(uri)
    gone = {row for module, (first, _) in parts.items() for row in range(first, first + found[module])}
    assert sorted(table["id"].to_pylist()) == [i for i in range(ROWS) if i not in gone]
    assert table["_rowid"].to_pylist() == table["id"].to_pylist(), "rows keep their ids"
    lance.dataset(uri).validate()


def operations(uri: str) -> list[str]:
    """What made the versions, the oldest first."""
    table = pennon.dataset(uri)
    newest_first = table.get_transactions(table.version)
    return [type(each.operation).__name__ for each in reversed(newest_first) if each is not None]


def rewrites_of_deletions(uri: str) -> int:
    """How many compactions came right after a deletion."""
    return list(itertools.pairwise(operations(uri))).count(("Delete", "Rewrite"))


def deleted(uri: str, first: int, end: int) -> int:
    """How many rows with these ids are gone."""
    return end - first - pennon.dataset(uri).count_rows(f"id >= {first} AND id < {end}")


def test_a_compactor_against_updaters(disk_path: Path) -> None:
    """Rows are updated by both, one at a time, while fragments are compacted: no compaction is thrown away."""
    uri, stop = str(disk_path / "t"), disk_path / "stop"
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "n": pa.array([0] * ROWS, pa.int64())})
    pennon.write_dataset(rows, uri, max_rows_per_file=ROWS // 8, durability="os")
    parts = {"pennon": range(1_000), "lance": range(2_000, 2_500)}
    compactor = start("optimize", uri, stop)
    updaters = {module: start("update", module, uri, ids.start, ids.stop, stop) for module, ids in parts.items()}
    processes = [compactor, *updaters.values()]

    def is_enough() -> bool:
        updated = pennon.dataset(uri).to_table(columns=["id"], filter="n > 0")["id"].to_pylist()
        return "Rewrite" in operations(uri) and all(any(id in ids for id in updated) for ids in parts.values())

    with stopped_at_the_end(stop, processes):
        if LONG:
            time.sleep(60)
        wait_until(is_enough, processes)
    updates = {module: finish(updater)["updates"] for module, updater in updaters.items()}
    done = finish(compactor)
    print(
        f"{done['commits']} compactions of {done['found']} fragments, {done['gave_up']} given up, {updates} updates"
    )
    assert done["gave_up"] == 0, f"{done['gave_up']} of {done['commits']} compactions were thrown away"
    assert done["found"] > 0
    assert min(updates.values()) > 0
    table = assert_both_agree(uri).sort_by("id")
    assert table["id"].to_pylist() == table["_rowid"].to_pylist() == list(range(ROWS)), "rows keep their ids"
    n = table["n"].to_pylist()
    assert {module: sum(n[id] for id in ids) for module, ids in parts.items()} == updates, "each counts once"
    assert sum(n) == sum(updates.values())
    lance.dataset(uri).validate()
    assert pennon.verify(uri).ok


def test_many_appenders(uri: str) -> None:
    """Every row of every writer is there once, in a commit of its own, and has an id of its own."""
    writers, commits = (8, 100) if LONG else (8, 10)
    parts = [(ROWS + number * commits, ROWS + (number + 1) * commits) for number in range(writers)]
    modules = ["pennon", "lance"] * (writers // 2)
    started = [start("append", module, uri, *part) for module, part in zip(modules, parts, strict=True)]
    assert [finish(writer)["appends"] for writer in started] == [commits] * writers
    table = assert_both_agree(uri)
    assert sorted(table["id"].to_pylist()) == list(range(ROWS + writers * commits))
    assert len(set(table["_rowid"].to_pylist())) == table.num_rows
    assert pennon.dataset(uri).version == 1 + writers * commits
    assert pennon.verify(uri).ok


def test_a_counter(disk_path: Path) -> None:
    """All increments count: an update that lost the row to another one reads it again."""
    writers, increments = (4, 250) if LONG else (4, 10)
    uri = str(disk_path / "counter")
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "n": pa.array([0] * 100, pa.int64())})
    pennon.write_dataset(rows, uri, durability="os")
    modules = ["pennon", "lance"] * (writers // 2)
    started = [start("count", module, uri, 0, increments) for module in modules]
    assert [finish(writer)["updates"] for writer in started] == [increments] * writers
    table = assert_both_agree(uri).sort_by("id")
    assert table["n"].to_pylist() == [writers * increments] + [0] * 99
    assert table["_rowid"].to_pylist() == list(range(100)), "rows keep their ids"
    assert pennon.verify(uri).ok
