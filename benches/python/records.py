"""The files of `benches/results`: samples, what they were measured with, and their layout.

A case has a `claim`, samples of `seconds` by side, of which Pennon's is the first, and the `load` of the machine
after it. It may have `counts` of what each side needed besides time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benches" / "results"
PACKAGES = (
    "pennon",
    "pylance",
    "duckdb",
    "polars",
    "deltalake",
    "pyiceberg",
    "faiss-cpu",
    "moto",
    "numpy",
    "pyarrow",
    "pyspark",
)


def git(*arguments: str) -> str | None:
    """What git prints, or none where there is no repository."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def first(path: str, start: str) -> str | None:
    """The rest of the first line of a file that starts so."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.removeprefix(start).strip(' \t:="') for line in lines if line.startswith(start)), None)


def file_system(folder: str) -> str | None:
    """The kind of the file system that has a folder."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return None
    found = [(len(at), kind) for at, kind in mounts if Path(folder).resolve().is_relative_to(at)]
    return max(found)[1] if found else None


def machine() -> dict[str, Any]:
    """What the machine is, without its name."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": first("/proc/cpuinfo", "model name") or platform.machine(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()}, {first('/etc/os-release', 'PRETTY_NAME') or platform.release()}",
        "file_system": file_system(tempfile.gettempdir()),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Those that are installed."""
    installed = {(distribution.name or "").lower(): distribution.version for distribution in distributions()}
    return {
        "python": platform.python_version(),
        **{name: installed[name] for name in packages if name in installed},
    }


class Record:
    """The conditions of a run, from its begin to its end."""

    def __init__(self) -> None:
        self._begin, self._load = time.monotonic(), os.getloadavg()

    def of(
        self, group: str, title: str, peers: Iterable[str], size: Mapping[str, Any], rounds: int
    ) -> dict[str, Any]:
        """A file without its cases: when, of which commit, where, with which versions and at which load."""
        return {
            "group": group,
            "title": title,
            "peers": list(peers),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": git("rev-parse", "HEAD"),
            "modified": bool(git("status", "--porcelain", "--untracked-files=no", ":!benches/results", ":!docs")),
            "machine": machine(),
            "versions": versions(PACKAGES),
            "load_before": [round(value, 2) for value in self._load],
            "load_after": [round(value, 2) for value in os.getloadavg()],
            "took_seconds": round(time.monotonic() - self._begin, 1),
            "size": dict(size),
            "rounds": rounds,
        }


def result(
    claim: str,
    store: str,
    seconds: Mapping[str, list[float]],
    counts: Mapping[str, Mapping[str, float]] | None = None,
    *,
    name: str | None = None,
    absent: Mapping[str, str] | None = None,
    repeat: int | None = None,
) -> dict[str, Any]:
    """A case with the load of the machine; its name is the claim, unless it has another one."""
    made = {"name": name or claim, "claim": claim, "store": store, "absent": dict(absent or {})}
    made |= {} if repeat is None else {"repeat": repeat}
    return loaded(made | {"seconds": dict(seconds)} | ({"counts": counts} if counts else {}))


def loaded(case: dict[str, Any]) -> dict[str, Any]:
    """A case with the load of the machine."""
    return case | {"load": round(os.getloadavg()[0], 2)}


def line(case: dict[str, Any]) -> str:
    """What a case took, for who waits."""
    if "seconds" not in case:
        return str(case["claim"])
    found = [f"{side} {statistics.median(samples) * 1e3:.2f} ms" for side, samples in case["seconds"].items()]
    for side, counts in case.get("counts", {}).items():
        found += [f"{side}: {value:g} {what}" for what, value in counts.items()]
    return f"{case['claim']:<80} {', '.join(found)}"


def check_whole(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuse a part of a run, or one of another size, for the results that pages show."""
    options = {name: value for name, value in vars(given).items() if name not in ("jar", "results")}
    others = [name for name, value in options.items() if value != parser.get_default(name)]
    if others and given.results is not None and given.results.resolve() == RESULTS:
        shown = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        parser.error(f"the results of pages are those of whole runs: with {shown} give another folder")


def save(folder: Path | None, found: dict[str, Any]) -> None:
    """Write the results of a group to a folder, if there is one."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{found['group']}.json").write_text(dumped(found))


def dumped(results: dict[str, Any]) -> str:
    """JSON with lists of numbers on one line, so that a change of a case is a change of its lines."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.4g}")
        if isinstance(value, dict):
            return {key: rounded(item) for key, item in value.items()}
        return [rounded(item) for item in value] if isinstance(value, list) else value

    def laid_out(value: Any, indent: str) -> str:
        is_deep = isinstance(value, dict) or (
            isinstance(value, list) and any(isinstance(item, dict) for item in value)
        )
        if not value or not is_deep:
            return json.dumps(value)
        inner = indent + "  "
        if isinstance(value, list):
            return "[\n" + ",\n".join(inner + laid_out(item, inner) for item in value) + f"\n{indent}]"
        items = (f"{inner}{json.dumps(key)}: {laid_out(item, inner)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"

    return laid_out(rounded(results), "") + "\n"
