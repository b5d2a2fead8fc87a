"""What `plot` draws, as numbers: histograms of fragments, and figures of versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pennon._text import counted, in_bytes
from pennon.cli import _commits

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset

BINS = 10
Unit = Literal["", "bytes", "percent"]


@dataclass(frozen=True)
class Bars:
    """A histogram: how many fragments have which values."""

    title: str
    labels: list[str]
    counts: list[int]


@dataclass(frozen=True)
class Line:
    """A figure by version or by time. `x` is for positions; `labels` say what it is."""

    title: str
    unit: Unit
    x: list[float]
    y: list[float]
    labels: list[str]


def shown(value: float, unit: Unit) -> str:
    """A value with its unit."""
    if unit == "bytes":
        return in_bytes(int(value))
    return f"{value:.0f} %" if unit == "percent" else f"{value:,.0f}"


def charts(table: LanceDataset, most_versions: int) -> list[Bars | Line]:
    """The charts of a table. Reads the manifest, and those of at most so many versions, evenly spaced."""
    metadata = [fragment.metadata for fragment in table.get_fragments()]
    sizes = [sum(file.file_size_bytes or 0 for file in entry.files) for entry in metadata]
    rows = [entry.physical_rows for entry in metadata]
    shares = [100 * entry.num_deletions // entry.physical_rows for entry in metadata if entry.physical_rows]
    of = counted(len(metadata), "fragment")
    found: list[Bars | Line] = [
        histogram(f"Rows of {of}", rows, ""),
        histogram(f"Bytes of {of}", sizes, "bytes"),
        histogram(f"Deleted share of {of}", shares, "percent"),
    ]
    numbers = spaced(_commits.numbers_of(table)[::-1], most_versions)
    versions = _commits.figures(table, numbers)
    position = [float(number) for number, _, _ in versions]
    times = [_label(number, time) for number, time, _ in versions]
    for title, unit, values in (
        ("Rows", "", [figures.rows for _, _, figures in versions]),
        ("Bytes of data files", "bytes", [figures.bytes for _, _, figures in versions]),
        ("Fragments", "", [figures.fragments for _, _, figures in versions]),
        ("Deleted rows", "", [figures.deleted for _, _, figures in versions]),
    ):
        found.append(Line(f"{title} by version", unit, position, [float(value) for value in values], times))  # type: ignore[arg-type]
    seconds = [time.timestamp() for _, time, _ in versions]
    found.append(Line("Versions by time", "", seconds, position, times))
    return found


def spaced(numbers: Sequence[int], most: int) -> list[int]:
    """At most so many of these, evenly spaced, the first and the last among them."""
    if len(numbers) <= most:
        return list(numbers)
    if most == 1:
        return [numbers[-1]]
    return [numbers[at * (len(numbers) - 1) // (most - 1)] for at in range(most)]


def histogram(title: str, values: Sequence[int], unit: Unit) -> Bars:
    """How often which value is there: each if they are few, or ranges of the same width."""
    counts = Counter(values)
    if len(counts) <= BINS:
        order = sorted(counts)
        return Bars(title, [shown(value, unit) for value in order], [counts[value] for value in order])
    low, high = min(counts), max(counts)
    step = -(-(high - low + 1) // BINS)
    ranges = [0] * BINS
    for value, count in counts.items():
        ranges[(value - low) // step] += count
    used = max(at for at, count in enumerate(ranges) if count) + 1
    labels = [
        f"{shown(low + at * step, unit)} to {shown(min(high, low + (at + 1) * step - 1), unit)}"
        for at in range(used)
    ]
    return Bars(title, labels, ranges[:used])


def _label(number: int, time: datetime) -> str:
    return f"version {number}, {time:%Y-%m-%d %H:%M:%S}"
