"""Charts as an HTML page that needs nothing else, and as a PNG by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from pennon.cli._charts import Bars, Line, shown
from pennon.errors import MissingPackageError

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 460, 220, 80, 34, 10
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #8b949e; --mark: #2f6fde; --line: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --mark: #6ea8ff; --line: #30363d; } }
body { font: 14px/1.4 system-ui, sans-serif; color: var(--ink); background: Canvas; margin: 2rem; }
h1 { font-size: 1.25rem; overflow-wrap: anywhere; } h2 { font-size: 1rem; margin: 0 0 .5rem; font-weight: 600; }
p { color: var(--soft); } main { display: grid; gap: 2rem;
  grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--soft); } .mark { fill: var(--mark); } .mark:hover { opacity: .7; }
.path { fill: none; stroke: var(--mark); stroke-width: 2; } .axis { stroke: var(--line); }
"""


def html(title: str, facts: str, charts: Sequence[Bars | Line]) -> str:
    """The page."""
    parts = "\n".join(f"<section><h2>{escape(chart.title)}</h2>{_svg(chart)}</section>" for chart in charts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1><p>{escape(facts)}</p>\n<main>\n{parts}\n</main></body></html>\n"
    )


def _svg(chart: Bars | Line) -> str:
    marks = _bars(chart) if isinstance(chart, Bars) else _curve(chart)
    label = escape(chart.title, quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(marks)}</svg>'


def _bars(chart: Bars) -> Iterator[str]:
    if not chart.counts:
        yield f'<text x="{_WIDTH / 2}" y="{_HEIGHT / 2}" text-anchor="middle">none</text>'
        return
    left, most = 190, max(chart.counts)
    step = (_HEIGHT - _TOP) / len(chart.counts)
    for at, (name, count) in enumerate(zip(chart.labels, chart.counts, strict=True)):
        y, height = _TOP + at * step, min(26.0, step * 0.75)
        length = (_WIDTH - left - 70) * count / most
        yield f'<text x="{left - 8}" y="{y + height / 2 + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        yield (
            f'<rect class="mark" x="{left}" y="{y:.1f}" width="{length:.1f}" height="{height:.1f}" rx="2">'
            f"<title>{escape(name)}: {count:,}</title></rect>"
        )
        yield f'<text x="{left + length + 6:.1f}" y="{y + height / 2 + 4:.1f}">{count:,}</text>'


def _curve(chart: Line) -> Iterator[str]:
    if not chart.x:
        yield f'<text x="{_WIDTH / 2}" y="{_HEIGHT / 2}" text-anchor="middle">none</text>'
        return
    low, high = min(0.0, *chart.y), max(chart.y) or 1.0
    first, last = chart.x[0], chart.x[-1]
    across, up = _WIDTH - _LEFT - 14, _HEIGHT - _TOP - _BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        right = (x - first) / (last - first) if last > first else 0.5
        return _LEFT + across * right, _TOP + up * (1 - (y - low) / (high - low))

    for value in (low, (low + high) / 2, high):
        y = at(first, value)[1]
        yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - 14}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(shown(value, chart.unit))}</text>'
    points = [at(x, y) for x, y in zip(chart.x, chart.y, strict=True)]
    steps = [f"M{points[0][0]:.1f},{points[0][1]:.1f}", *(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])]
    yield f'<path class="path" d="{"".join(steps)}"/>'
    for (x, y), value, label in zip(points, chart.y, chart.labels, strict=True):
        caption = f"{label}: {shown(value, chart.unit)}"
        yield f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(caption)}</title></circle>'
    for x, anchor, label in ((_LEFT, "start", chart.labels[0]), (_WIDTH - 14, "end", chart.labels[-1])):
        yield f'<text x="{x}" y="{_HEIGHT - 12}" text-anchor="{anchor}">{escape(label)}</text>'


def png(path: Path, title: str, facts: str, charts: Sequence[Bars | Line]) -> None:
    """Write a picture."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ModuleNotFoundError:
        raise MissingPackageError(
            "A PNG needs matplotlib, which is not installed: pip install 'pennon[plot]'; HTML needs nothing",
            name="matplotlib",
        ) from None
    columns = 2
    figure = Figure(figsize=(14, 3.2 * -(-len(charts) // columns)), layout="constrained")
    figure.suptitle(f"{title}\n{facts}")
    axes = figure.subplots(-(-len(charts) // columns), columns).flatten()
    for axis, chart in zip(axes, charts):  # noqa: B905
        axis.set_title(chart.title, fontsize=10)
        if isinstance(chart, Bars):
            axis.barh(chart.labels[::-1], chart.counts[::-1], height=min(0.8, 0.2 * len(chart.labels)))
        else:
            axis.step(chart.x, chart.y, where="post", marker=".")
            axis.set_ylim(0, 1.1 * (max(chart.y, default=0) or 1))
            axis.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
            axis.yaxis.set_major_formatter(lambda value, _, unit=chart.unit: shown(value, unit))
            if chart.x:
                axis.set_xlabel(f"{chart.labels[0]} to {chart.labels[-1]}", fontsize=8)
                axis.set_xticks([])
    for axis in axes[len(charts) :]:
        axis.set_visible(False)
    figure.savefig(path, format="png", dpi=100)
