"""What the comparisons share: a claim has two sides, which take turns; the figure is the ratio of the medians.

Absolute times of a shared machine say little and are only printed next to the ratio.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa

MODULES = {"pennon": pennon, "reference": lance}


@dataclasses.dataclass(frozen=True)
class Case:
    """A claim: what is done, on which prepared tables, and how often within one round."""

    group: str
    claim: str
    sides: dict[str, Callable[[], object]]
    repeat: int = 1


def seconds(action: Callable[[], object], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        action()
    return (time.perf_counter() - start) / repeat


def run(case: Case, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {side: [] for side in case.sides}
    for action in case.sides.values():  # warm-up, not counted
        seconds(action, 1)
    for number in range(rounds):
        order = list(case.sides) if number % 2 == 0 else list(reversed(case.sides))
        for side in order:
            times[side].append(seconds(case.sides[side], case.repeat))
    return {side: statistics.median(values) for side, values in times.items()}


def options(side: str) -> dict[str, str]:
    """The reference never syncs, so the comparison is made without syncing."""
    return {"durability": "os"} if side == "pennon" else {}


def drain(dataset: object, **scan: object) -> int:
    """Reads a table batch by batch and lets each go."""
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
    print(f"{'claim':<66} {'pennon':>11} {'reference':>11} {'ratio':>7}")
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
                    f"{case.claim:<66} {medians['pennon'] * 1e3:>8.2f} ms {medians['reference'] * 1e3:>8.2f} ms"
                    f" {ratio:>7.2f}",
                    flush=True,
                )
        finally:
            shutil.rmtree(root, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))
    return results
