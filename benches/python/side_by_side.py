"""What the comparisons share: a claim has two sides, which take turns; the figure is the ratio of the medians.

The ratio is always Pennon's time divided by that of the other side: below 1 is faster. Before any time is taken
each side runs once, and the answers of both sides must be equal. Absolute times of a shared machine vary a lot and
are only printed next to the ratio.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa

MODULES = {"pennon": pennon, "reference": lance}
# Large answers are compared by every 997th row, and by the number of rows.
STEP = 997


@dataclasses.dataclass(frozen=True)
class Case:
    """A claim: the actions of both sides, and the number of repeats within one round.

    `answer` returns the answer of a side after its action has run, if the action does not return it.
    """

    group: str
    claim: str
    sides: dict[str, Callable[[], object]]
    repeat: int = 1
    answer: Callable[[str], object] | None = None


def seconds(action: Callable[[], object], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        action()
    return (time.perf_counter() - start) / repeat


def run(case: Case, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {side: [] for side in case.sides}
    answers = {}
    for side, action in case.sides.items():  # warm-up, not counted
        returned = action()
        answers[side] = returned if case.answer is None else case.answer(side)
        del returned
    check_equal(case.claim, answers)
    del answers
    for number in range(rounds):
        order = list(case.sides) if number % 2 == 0 else list(reversed(case.sides))
        for side in order:
            times[side].append(seconds(case.sides[side], case.repeat))
    return {side: statistics.median(values) for side, values in times.items()}


def check_equal(claim: str, answers: Mapping[str, object]) -> None:
    """Fails unless both sides returned the same answer, which is not None."""
    ours, theirs = answers.values()
    if ours is None or theirs is None:
        raise AssertionError(f"{claim}: there is no answer to compare, found {ours!r} and {theirs!r}")
    if ours != theirs:
        raise AssertionError(f"{claim}: the answers differ, found {str(ours)[:500]} and {str(theirs)[:500]}")


def sampled(batches: Iterable[pa.RecordBatch]) -> tuple[int, list[dict[str, object]]]:
    """The number of rows of a scan, and the values of every 997th of them."""
    rows, picked = 0, []
    for batch in batches:
        wanted = list(range(-rows % STEP, batch.num_rows, STEP))
        picked += batch.take(pa.array(wanted, pa.int64())).to_pylist()
        rows += batch.num_rows
    return rows, picked


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
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--rows", type=int, default=rows)
    made.add_argument("--only", default=",".join(groups), help="groups of claims, by name")
    made.add_argument("--json", type=Path)
    return made


def compare(
    args: argparse.Namespace, parts: Iterable[tuple[set[str], Callable[[Path], Iterator[Case]]]]
) -> list[dict[str, object]]:
    """Runs the cases of the wanted groups, each part in a directory of its own, and prints a line for each."""
    wanted = set(args.only.split(","))
    results: list[dict[str, object]] = []
    print(f"{'claim':<78} {'pennon':>11} {'reference':>11} {'ratio':>7}")
    for groups, cases in parts:
        if not groups & wanted:
            continue
        root = Path(tempfile.mkdtemp())
        try:
            for case in cases(root):
                if case.group not in wanted:
                    continue
                medians = run(case, args.rounds)
                ratio = medians["pennon"] / medians["reference"]
                results.append({"claim": case.claim, "ratio": ratio, **medians})
                print(
                    f"{case.claim:<78} {medians['pennon'] * 1e3:>8.2f} ms {medians['reference'] * 1e3:>8.2f} ms"
                    f" {ratio:>7.2f}",
                    flush=True,
                )
        finally:
            shutil.rmtree(root, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))
    return results
