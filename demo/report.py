"""Tables and timings on a terminal, in plain text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def title(text: str) -> None:
    """Start a section."""
    print(f"\n== {text}", flush=True)


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under headers; numbers to the right, missing values as a dash."""
    values = [list(row) for row in rows]
    cells = [[_text(value) for value in row] for row in values]
    numeric = [
        bool(values) and all(isinstance(row[at], (int, float)) or row[at] is None for row in values)
        for at in range(len(headers))
    ]
    widths = [max([len(header), *(len(row[at]) for row in cells)]) for at, header in enumerate(headers)]
    print("   " + _line(headers, widths, numeric))
    print("   " + "  ".join("-" * width for width in widths))
    for row in cells:
        print("   " + _line(row, widths, numeric))


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)


def mebibytes(size: int) -> str:
    """A size in MiB with one digit."""
    return f"{size / (1 << 20):.1f} MiB"


class Timings:
    """Named wall times of the steps, in seconds."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self._started = time.perf_counter()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the block."""
        started = time.perf_counter()
        yield
        self.steps.append((name, time.perf_counter() - started))

    @property
    def last(self) -> float:
        """Seconds of the step that ended last."""
        return self.steps[-1][1]

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._started
