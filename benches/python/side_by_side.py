"""What the comparisons share: a claim has two sides or more, which take turns; the figure is the ratio of the
medians.

Before any time is taken each side runs once, and the answers of all sides must be equal. Scripts print medians and
write all samples with `--results`, of which pages show how many times faster Pennon is.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
from records import Record, check_whole, line, result, save

MODULES = {"pennon": pennon, "pylance": lance}
ROUNDS = 5
# Large answers are compared by every 997th row, and by the number of rows.
STEP = 997


@dataclasses.dataclass(frozen=True)
class Measured:
    """What an action returns that takes its own time, as one in a process of its own does."""

    seconds: float
    answer: object


@dataclasses.dataclass(frozen=True)
class Case:
    """A claim: the actions of its sides, of which Pennon's is the first, and the number of repeats within a round.

    `prepare` makes what an action of a side is called with, before each of its runs and outside of the time;
    without it actions have no parameter. The answer of a side is what its action returns, or `value` of it; or what
    `answer` finds after the action has run, which gets what the action got; or both of these.
    """

    group: str
    claim: str
    sides: Mapping[str, Callable[..., object]]
    repeat: int = 1
    answer: Callable[..., object] | None = None
    prepare: Callable[[str], object] | None = None
    value: Callable[[Any], object] | None = None
    # For `figures.py`: the key of the case in results, where the data is, why a peer has no side, and what the
    # actions of each side counted.
    name: str = ""
    store: str = "local disk, warm"
    absent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counts: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)


def action_of(case: Case, side: str) -> tuple[object, object, float]:
    """What a run was given and what it returned, and its seconds."""
    given = None if case.prepare is None else case.prepare(side)
    action = case.sides[side]
    start = time.perf_counter()
    returned = action() if case.prepare is None else action(given)
    taken = time.perf_counter() - start
    return given, returned, returned.seconds if isinstance(returned, Measured) else taken


def found_by(case: Case, side: str, given: object) -> object:
    """What `answer` finds."""
    assert case.answer is not None
    return case.answer(side) if case.prepare is None else case.answer(side, given)


def run(case: Case, rounds: int) -> dict[str, list[float]]:
    """Seconds of all rounds of each side, after the answers were compared.

    The answers are of a run that is not counted, unless the action takes its own time: then nothing was warmed up.
    """
    times: dict[str, list[float]] = {side: [] for side in case.sides}
    answers: dict[str, object] = {}
    for side in case.sides:
        given, returned, _ = action_of(case, side)
        if isinstance(returned, Measured):
            times[side].append(returned.seconds)
            answers[side] = returned.answer
        else:
            value = returned if case.value is None else case.value(returned)
            del returned
            answers[side] = value if case.answer is None else found_by(case, side, given)
            if case.answer is not None and case.value is not None:
                answers[side] = None if value is None else (value, answers[side])
    check_equal(case.claim, answers)
    del answers
    counted = min(map(len, times.values()))
    for number in range(counted, rounds):
        order = list(case.sides)
        turn = number // 2 % len(order)
        order = order[turn:] + order[:turn]
        for side in order if number % 2 == 0 else reversed(order):
            times[side].append(statistics.fmean(action_of(case, side)[2] for _ in range(case.repeat)))
    return times


def check_equal(claim: str, answers: Mapping[str, object]) -> None:
    """Fails unless all sides returned the same answer, which is not None."""
    (first, ours), *others = answers.items()
    for side, theirs in others:
        if ours is None or theirs is None:
            raise AssertionError(f"{claim}: there is no answer to compare, found {ours!r} and {theirs!r}")
        if ours != theirs:
            found = f"{str(ours)[:500]} of {first} and {str(theirs)[:500]} of {side}"
            raise AssertionError(f"{claim}: the answers differ, found {found}")


def sampled(batches: Iterable[pa.RecordBatch]) -> tuple[int, list[dict[str, object]]]:
    """The number of rows of a scan, and the values of every 997th of them."""
    rows, values = 0, []
    for batch in batches:
        wanted = list(range(-rows % STEP, batch.num_rows, STEP))
        values += batch.take(pa.array(wanted, pa.int64())).to_pylist()
        rows += batch.num_rows
    return rows, values


def options(side: str) -> dict[str, str]:
    """The reference never syncs, so the comparison is made without syncing."""
    return {"durability": "os"} if side == "pennon" else {}


def drain(dataset: object, **scan: object) -> int:
    """Read a table batch by batch, keeping none."""
    return sum(batch.num_rows for batch in dataset.to_batches(**scan))  # type: ignore[attr-defined]


def texts(rng: np.random.Generator, rows: int, length: int = 20) -> pa.Array:
    """Random letters."""
    letters = rng.integers(97, 123, size=(rows, length), dtype=np.uint8)
    offsets = pa.py_buffer(np.arange(0, length * (rows + 1), length, dtype=np.int32))
    return pa.Array.from_buffers(pa.utf8(), rows, [None, offsets, pa.py_buffer(letters)])


def small(rows: int, start: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(np.arange(start, start + rows, dtype=np.int64)),
            "text": pa.array([f"row {i}" for i in range(start, start + rows)]),
        }
    )


def table_of_fragments(root: Path, side: str, fragments: int) -> str:
    uri = str(root / f"{side}-{fragments}")
    settings = {"max_rows_per_file": 4, "enable_stable_row_ids": True}
    MODULES[side].write_dataset(small(fragments * 4), uri, **settings, **options(side))
    assert len(MODULES[side].dataset(uri).get_fragments()) == fragments
    return uri


def parser(description: str | None, groups: Iterable[str], rows: int) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=ROUNDS)
    made.add_argument("--rows", type=int, default=rows)
    made.add_argument("--only", default=",".join(groups), help="groups of claims, by name")
    made.add_argument("--results", type=Path, help="a folder for a file with all samples")
    return made


def parsed(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of the process."""
    args = made.parse_args()
    check_whole(made, args)
    return args


def compare(
    args: argparse.Namespace,
    name: str,
    title: str,
    parts: Iterable[tuple[set[str], Callable[[Path], Iterator[Case]]]],
    size: Mapping[str, object] | None = None,
) -> None:
    """Run the cases of the wanted groups, each part in a directory of its own, print and write what they took."""
    wanted = set(args.only.split(","))
    record, results = Record(), []
    for groups, cases in parts:
        if not groups & wanted:
            continue
        root = Path(tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR")))
        try:
            for case in cases(root):
                if case.group in wanted:
                    results.append(measured(case, args.rounds))
                    print(line(results[-1]), flush=True)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    found = record.of(name, title, ("pylance",), size or {"rows": args.rows}, args.rounds)
    save(args.results, found | {"cases": results})


def measured(case: Case, rounds: int) -> dict[str, Any]:
    """The case and its samples."""
    seconds = run(case, rounds)
    return result(
        case.claim, case.store, seconds, case.counts, name=case.name, absent=case.absent, repeat=case.repeat
    )
