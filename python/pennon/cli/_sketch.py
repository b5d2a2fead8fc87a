"""Charts in a terminal, of blocks; of ASCII where there are no blocks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from pennon.cli._charts import Bars, Line, shown

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*##"
HEIGHT = 5


def sketch(chart: Bars | Line, width: int, unicode: bool) -> Iterator[str]:
    """The lines of a chart, none longer than `width`."""
    yield chart.title[:width]
    if isinstance(chart, Bars):
        yield from _bars(chart, width, "█" if unicode else "#")
    else:
        yield from _curve(chart, width, _BLOCKS if unicode else _ASCII)


def _bars(chart: Bars, width: int, block: str) -> Iterator[str]:
    if not chart.counts:
        yield "  (none)"
        return
    label = min(max(map(cell_len, chart.labels)), max(8, width // 2))
    figures = max(len(f"{count:,}") for count in chart.counts)
    room = max(1, width - label - figures - 5)
    most = max(chart.counts)
    for name, count in zip(chart.labels, chart.counts, strict=True):
        length = -(-count * room // most) if count else 0
        yield f"  {name[:label].rjust(label)} {block * length} {count:,}"[:width]


def _curve(chart: Line, width: int, blocks: str) -> Iterator[str]:
    if not chart.x:
        yield "  (none)"
        return
    low, high = min(chart.y), max(chart.y)
    marks = [shown(high, chart.unit), shown(low, chart.unit)]
    label = max(map(len, marks))
    room = max(1, width - label - 4)
    values = _columns(chart, room)
    steps = len(blocks) - 1
    # A line that does not rise is drawn at the top, unless it is zero.
    base = low if high > low else 0.0
    scale = (high - base) or 1.0
    heights = [round((value - base) / scale * (HEIGHT * steps - 1)) + 1 for value in values]
    if high == 0:
        heights = [1] * len(values)
    for row in range(HEIGHT - 1, -1, -1):
        cells = [blocks[max(0, min(steps, height - row * steps))] for height in heights]
        mark = (
            marks[0] if row == HEIGHT - 1 and high else marks[1] if row == 0 and (low != high or not high) else ""
        )
        yield f"  {mark.rjust(label)} {''.join(cells)}".rstrip()
    first, last = chart.labels[0], chart.labels[-1]
    ends = first if first == last else f"{first} to {last}"
    yield from _wrapped(ends, width)


def _columns(chart: Line, room: int) -> list[float]:
    """The value at each column: of the last point at or before it."""
    first, last = chart.x[0], chart.x[-1]
    if last <= first:
        return [chart.y[-1]] * room
    found, at = [], 0
    for column in range(room):
        x = first + (last - first) * column / max(1, room - 1)
        while at + 1 < len(chart.x) and chart.x[at + 1] <= x:
            at += 1
        found.append(chart.y[at])
    return found


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = " "
    for word in text.split():
        if len(line) + 1 + len(word) > width and line.strip():
            yield line
            line = " "
        line += f" {word}"
    yield line
