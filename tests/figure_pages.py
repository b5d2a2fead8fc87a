"""Tables and the plot of `docs/performance.md`, made of the files in `benches/results` that `figures.py` wrote, and
`verbs.py` for Spark.

A ratio is the peer's median divided by Pennon's: how many times faster Pennon is. Below 1 Pennon is slower, which
is bold. Next to Pennon without syncing a ratio says how many times slower syncing is. Nothing here is typed by hand
but names.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benches" / "results"
PAGE = "performance.md"
BENCH_PAGE = "../benches/README.md"
CHECKSUM_PAGE = "checksums.md"
INSTALL_PAGE = "install.md"
GROUPS = ("pylance", "parquet", "formats", "cold", "s3", "synced")
SPARK = ("spark-5M", "spark-20M")
BENCHES = (
    "commits",
    "datafile",
    "large_values",
    "rows",
    "growth",
    "indices",
    "nearest",
    "vectors",
    "checksums",
    "object_store",
    "command_line",
    "start",
    "connector",
    "merge_large",
    "stream_pace",
)
"""Those of `benches/README.md`."""
INSTALL = "install"
"""What `requirements/try_wheel.py` wrote."""
SIZED = ("datafile", "rows", "indices", "checksums", "vectors", "large_values", "connector")
SPARK_CASES = (
    "read",
    "column",
    "range",
    "vectors",
    "append",
    "delete",
    "update",
    "merge",
    "feed",
    "compaction",
    "count",
)
PLOT = "images/row-identity.svg"

NAMES = {
    "pennon": "Pennon",
    "pylance": "`pylance`",
    "duckdb": "DuckDB",
    "polars": "Polars",
    "deltalake": "delta-rs",
    "pyiceberg": "pyiceberg",
    "pennon_unsynced": "Pennon, unsynced",
    "load": "Pennon by `format`",
    "delta": "Delta",
    "iceberg": "Iceberg",
    "parquet": "Parquet",
    "workers": "workers alone",
    "faiss": "faiss",
    "off": "Pennon, `off`",
    "pages": "Pennon, `pages`",
    "gets": "plain GETs",
    "connector": "the connector",
}
# Libraries whose versions matter to a group, besides Pennon and the peers.
ALSO = {
    "vectors": ("faiss-cpu",),
    "object_store": ("moto",),
    "command_line": ("moto",),
    "start": ("pylance", "pyarrow"),
    **dict.fromkeys(("connector", "merge_large", "stream_pace"), ("pyspark", "pyarrow")),
    "parquet": ("pyarrow",),
    "cold": ("pyarrow",),
    "s3": ("moto",),
    "spark": ("pyspark", "pyarrow"),
}


def results(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What was measured of a group."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def figure(value: float) -> str:
    """A number with two or three digits that matter."""
    digits = 0 if value >= 100 or value == 0 else (1 if value >= 10 else 1 - math.floor(math.log10(value)))
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{figure(seconds * factor)} {unit}"
    return f"{figure(seconds * 1e6)} µs"


def in_kilobytes(count: float) -> str:
    return f"{figure(count / 1e3)} kB"


def times(ours: float, theirs: float) -> str:
    """How many times faster, or smaller, ours is; bold if what is shown is below 1."""
    shown = figure(theirs / ours)
    return f"**{shown}**" if float(shown.replace(",", "")) < 1 else shown


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def caption(found: dict[str, Any], medians: str = "medians of {rounds}") -> str:
    """What the figures were measured with, and what they are."""
    machine, versions = found["machine"], found["versions"]
    libraries = [
        name for name in (*found["peers"], *ALSO.get(found["group"].partition("-")[0], ())) if name in versions
    ]
    commit = f"commit {found['commit'][:12]}" if found["commit"] else "no commit"
    loads = [found["load_before"][0], found["load_after"][0], *(case["load"] for case in found["cases"])]
    # A wheel that was given is of its own commit, not of that of the checkout.
    made = "" if "wheel" in found else f", {commit}{' with changes' if found['modified'] else ''}"
    # What is measured is busy by itself, up to about this much.
    busy = ", **other programs ran**" if max(loads) > 2 * machine["cores"] else ""
    parts = [
        f"{found['date'][:10]}{made}",
        f"Pennon {versions['pennon']}" + "".join(f", {name} {versions[name]}" for name in libraries),
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_bytes'] / 2**30:.0f} GiB",
        f"{machine['system']}, {machine['file_system']}, Python {versions['python']}",
        *sizes(found),
        medians.format(rounds=found["rounds"]) if found["rounds"] > 1 else "one run",
        f"load {min(loads):.1f} to {max(loads):.1f}{busy}",
    ]
    return f"{'; '.join(parts)}.\n"


def sizes(found: dict[str, Any]) -> list[str]:
    """How large the tables are, where claims do not say it."""
    if found["group"] not in SIZED:
        return []
    return [", ".join(f"{count:,} {name}" for name, count in found["size"].items())]


def group_part(found: dict[str, Any]) -> str:
    """The table of a group of cases."""
    peers = found["peers"]
    sides = found.get("sides") or {side: NAMES[side] for side in ("pennon", *peers)}
    counted = list(dict.fromkeys(what for case in found["cases"] for of in counts(case).values() for what in of))
    is_synced = found["group"] == "synced"
    names = ["Pennon, synced", *list(sides.values())[1:]] if is_synced else sides.values()
    head = ["case", *names]
    head += ["times slower than unsynced" if is_synced else f"times faster than {NAMES[peer]}" for peer in peers]
    rows, notes = [], []
    for case in found["cases"]:
        medians = {side: statistics.median(samples) for side, samples in case["seconds"].items() if samples}
        missing = dict.fromkeys(case["absent"], "cannot")
        cells = [duration(medians[side]) if side in medians else missing.get(side, "") for side in sides]
        for peer in peers:
            ours, theirs = medians.get("pennon"), medians.get(peer)
            if ours is None or theirs is None:
                cells.append("")
            else:
                cells.append(figure(ours / theirs) if is_synced else times(ours, theirs))
        for what in counted:
            values = [f"{of[what]:,}" for of in counts(case).values() if what in of]
            cells.append(" / ".join(values))
        rows.append([case["claim"], *cells])
        notes += [f"- {NAMES[peer]}, {case['claim']}: {why}.\n" for peer, why in case["absent"].items()]
    text = f"{table([*head, *counted], rows)}\n{''.join(notes)}{chr(10) if notes else ''}"
    return f"{text}{stores_of(found)}; {caption(found)}"


def stores_of(found: dict[str, Any]) -> str:
    """Where the tables were, as the begin of a sentence."""
    stores = " and ".join(dict.fromkeys(case["store"] for case in found["cases"]))
    return f"{stores[:1].upper()}{stores[1:]}"


def counts(case: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What the sides needed besides time."""
    found: dict[str, dict[str, float]] = case.get("counts", {})
    return found


def spark_part(found: dict[str, Any]) -> str:
    """The table of a run of `verbs.py`."""
    sides = ["pennon", *found["peers"]]
    compared = [name for name in found["peers"] if name not in ("load", "workers")]
    head = ["case", *(NAMES[side] for side in sides), *(f"times faster than {NAMES[peer]}" for peer in compared)]
    rows = []
    for case in found["cases"]:
        medians = {side: statistics.median(samples) for side, samples in case["seconds"].items()}
        cells = [duration(medians[side]) if side in medians else "" for side in sides]
        ratios = [times(medians["pennon"], medians[peer]) if peer in medians else "" for peer in compared]
        rows.append([case["claim"], *cells, *ratios])
    return f"{table(head, rows)}\nLocal disk, warm; {caption(found)}"


# What row identity costs.

LINES = {
    "pennon": ("Pennon, stable row ids", "#2f6fde", ""),
    "pennon_addresses": ("Pennon, addresses", "#2f6fde", "5 4"),
    "pylance": ("pylance, stable row ids", "#d9730d", ""),
    "pylance_addresses": ("pylance, addresses", "#d9730d", "5 4"),
}


def checksums_part(found: dict[str, Any]) -> str:
    """What reads that look at checksums cost, as times the cost of those that look at none."""
    rows = []
    for case in found["cases"]:
        medians = {side: statistics.median(samples) for side, samples in case["seconds"].items()}
        metadata, pages = (medians[side] / medians["off"] for side in ("pennon", "pages"))
        rows.append([case["claim"], f"{metadata:.2f}", f"{pages:.2f}"])
    head = ["case", '`"metadata"`', '`"pages"`']
    return f"{table(head, rows)}\nLocal disk, warm; {caption(found)}"


def install_part(found: dict[str, Any]) -> str:
    """How long it takes from a wheel to the first query, and how large the wheel is."""
    rows = [[case["claim"], duration(statistics.median(case["seconds"]["pennon"]))] for case in found["cases"]]
    wheel, versions = found["wheel"], found["versions"]
    sizes = {name: f"{figure(wheel[name] / 1e6)} MB" for name in wheel if "bytes" in name}
    text = (
        f"`{wheel['name']}` has {sizes['bytes']}, and {sizes['installed_bytes']} once it is installed:"
        f" {sizes['installed_bytes_of_all']} with pyarrow {versions['pyarrow']}, click {versions['click']} and rich"
        f" {versions['rich']}."
    )
    return f"{table(['step', *found['sides'].values()], rows)}\n{text}\n\n{stores_of(found)}; {caption(found)}"


TAKES = "takes, with manifests in the cache: medians of {rounds}; updates and the size of the manifest: one run"


def at(series: dict[str, Any], measure: str, side: str) -> list[float]:
    """The medians of a measure at its points."""
    return [statistics.median(samples) for samples in series["measures"][measure][side]]


def identity_part(found: dict[str, Any]) -> str:
    """The figures after the last update."""
    (series,) = found["cases"]
    last = series["points"][-1]
    head = ["figure", *(name.replace("pylance", "`pylance`") for name, _, _ in LINES.values())]
    head += [
        "stable ids: times smaller or faster than `pylance`",
        "Pennon: times smaller or faster than with addresses",
    ]
    rows = []
    for claim, measure, total, shown in (
        (f"the newest manifest after {last} updates", "manifest_bytes", False, in_kilobytes),
        (f"open and take by id after {last} updates", "take_seconds", False, duration),
        (f"all {last} updates", "update_seconds", True, duration),
    ):
        values = {side: at(series, measure, side) for side in LINES}
        ends = {side: sum(list_) if total else list_[-1] for side, list_ in values.items()}
        ratios = [times(ends["pennon"], ends[side]) for side in ("pylance", "pennon_addresses")]
        rows.append([claim, *(shown(ends[side]) for side in LINES), *ratios])
    return f"{series['claim'][:1].upper()}{series['claim'][1:]}.\n\n{table(head, rows)}\n{caption(found, TAKES)}"


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 380, 280, 62, 12, 34, 64


def panel(
    series: dict[str, Any], title: str, measure: str, factor: float, is_log: bool, left: int
) -> Iterator[str]:
    """One diagram, its upper left corner at `left`."""
    points = series["points"]
    values = {side: [value * factor for value in at(series, measure, side)] for side in LINES}
    every = [value for list_ in values.values() for value in list_]
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    if is_log:
        first, last = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
        marks = [10.0**power for power in range(first, max(last, first + 1) + 1)]
    else:
        step = 10 ** math.floor(math.log10(max(every)))
        step = next(width for width in (step / 5, step / 2, step, 2 * step) if max(every) / width <= 6)
        marks = [step * number for number in range(math.ceil(max(every) / step) + 1)]

    def y(value: float) -> float:
        low, high, at = (math.log10(v) if is_log else v for v in (marks[0], marks[-1], value))
        return TOP + up * (1 - (at - low) / (high - low))

    def x(point: float) -> float:
        return left + LEFT + across * point / points[-1]

    yield f'<text x="{left + LEFT}" y="20" class="title">{escape(title)}</text>'
    for mark in marks:
        height = f"{y(mark):.1f}"
        yield f'<path d="M{left + LEFT},{height}H{left + WIDTH - RIGHT}" class="axis"/>'
        yield f'<text x="{left + LEFT - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>'
    for point in points[:: max(1, len(points) // 4)]:
        yield f'<text x="{x(point):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{point}</text>'
    yield (
        f'<text x="{left + LEFT + across / 2:.1f}" y="{HEIGHT - BOTTOM + 32}" text-anchor="middle">updates</text>'
    )
    for side, (name, color, dashes) in LINES.items():
        path = " ".join(f"{x(p):.1f},{y(v):.1f}" for p, v in zip(points, values[side], strict=True))
        yield (
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}">'
            f"<title>{escape(name)}</title></polyline>"
        )


def plot(found: dict[str, Any]) -> str:
    """Manifest and takes by the number of updates, as SVG."""
    (series,) = found["cases"]
    width = 2 * WIDTH
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img">',
        f"<title>What row identity costs: {escape(series['claim'])}</title>",
        "<style>text { font: 12px system-ui, sans-serif; fill: #1f2328; } .title { font-weight: 600; }",
        ".axis { stroke: #d0d7de; }</style>",
        f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>',
        *panel(series, "newest manifest, kB", "manifest_bytes", 1e-3, False, 0),
        *panel(series, "open and take by id, ms", "take_seconds", 1e3, True, WIDTH),
    ]
    for number, (name, color, dashes) in enumerate(LINES.values()):
        left = LEFT + number * (width - LEFT) // len(LINES)
        stroke = f'stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}"'
        lines.append(f'<path d="M{left},{HEIGHT - 12}h24" {stroke}/>')
        lines.append(f'<text x="{left + 30}" y="{HEIGHT - 8}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    (PAGE, f"figures: {name}"): lambda name=name: group_part(results(name)) for name in GROUPS
} | {(PAGE, f"figures: {name}"): lambda name=name: spark_part(results(name)) for name in SPARK}
PARTS |= {(BENCH_PAGE, f"figures: {name}"): lambda name=name: group_part(results(name)) for name in BENCHES}
PARTS[CHECKSUM_PAGE, "figures: cost of checksums"] = lambda: checksums_part(results("checksums"))
PARTS[INSTALL_PAGE, f"figures: {INSTALL}"] = lambda: install_part(results(INSTALL))
PARTS[PAGE, "figures: identity"] = lambda: identity_part(results("identity"))
FILES: dict[str, Callable[[], str]] = {PLOT: lambda: plot(results("identity"))}
