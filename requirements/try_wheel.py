"""Installs a wheel in an empty environment, runs a first query there, and says how long each took.

    python requirements/try_wheel.py dist/pennon-*.whl [--rounds 3] [--results benches/results]

It needs the index of packages, and the interpreter that runs it. With `--results` there are several rounds, after
one that fills the cache of pip, and the samples are written to a file that `docs/install.md` shows: in seconds
of a processor, which other work on the machine changes less than the time that passes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benches" / "python"))

from records import Record, check_whole, result, save

QUERY = """
import pennon
table = pennon.write_dataset({"id": [1, 2, 3], "name": ["ann", "bob", "cid"]}, "people.lance")
table.delete("id = 3")
assert table.to_table(filter="id > 1").to_pylist() == [{"id": 2, "name": "bob"}]
"""
INSTALLED = """
import json, sys, sysconfig
from importlib.metadata import version
from pathlib import Path
folder = Path(sysconfig.get_path("purelib"))
sizes = {path.name: sum(file.stat().st_size for file in path.rglob("*.*")) for path in folder.iterdir()}
names = ("pennon", "pyarrow", "click", "rich", "pip")
print(json.dumps({
    "versions": {name: version(name) for name in names},
    "pennon": sizes["pennon"],
    "all": sum(size for name, size in sizes.items() if not name.startswith("pip")),
}))
"""
IMPORT = "`import pennon`, beyond Python's own start"


@dataclass
class Trial:
    """What one environment took, and what is installed there."""

    seconds: dict[str, float] = field(default_factory=dict)
    installed: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Print how long it takes."""
        begin, before = time.perf_counter(), processor()
        yield
        self.seconds[what] = processor() - before
        took = time.perf_counter() - begin
        print(f"{what}: {took:.1f} s, {self.seconds[what]:.2f} s of a processor", flush=True)


def processor() -> float:
    """Seconds of a processor that processes took which have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def tried(wheel: Path) -> Trial:
    """Run the steps; the first that fails ends it."""
    trial = Trial()
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "environment", "bin", "python"))

        def run(*arguments: str) -> str:
            return subprocess.run(
                [python, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        with trial.step("an empty environment, by `python -m venv`"):
            subprocess.run([sys.executable, "-m", "venv", Path(folder, "environment")], check=True)
        with trial.step("`pip install` of the wheel, with pyarrow, click and rich"):
            run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        with trial.step("the first query: a process that creates a table, deletes a row and reads the others"):
            run("-c", QUERY)
        with trial.step("`pennon log`"):
            run("-m", "pennon", "log", "people.lance", "--oneline")
        with trial.step("the query again"):
            run("-c", QUERY.replace("people", "others"))
        with trial.step("python"):
            run("-c", "")
        with trial.step(IMPORT):
            run("-c", "import pennon")
        trial.seconds[IMPORT] -= trial.seconds.pop("python")
        trial.installed = json.loads(run("-c", INSTALLED))
    return trial


def recorded(record: Record, wheel: Path, trials: list[Trial]) -> dict[str, Any]:
    """The file of results."""
    installed = trials[-1].installed
    found = record.of("install", "From a wheel to the first query", (), {}, len(trials))
    found["versions"] = {"python": found["versions"]["python"], **installed["versions"]}
    found["wheel"] = {
        "name": wheel.name,
        "bytes": wheel.stat().st_size,
        "installed_bytes": installed["pennon"],
        "installed_bytes_of_all": installed["all"],
    }
    store = "local disk, packages in the cache of pip"
    cases = [result(what, store, {"pennon": [t.seconds[what] for t in trials]}) for what in trials[0].seconds]
    return found | {"sides": {"pennon": "time of a processor"}, "cases": cases}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="environments that are measured for the results")
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    # It has no default that a run could differ from.
    check_whole(parser, argparse.Namespace(rounds=options.rounds, results=options.results))
    record = Record()
    tried(wheel)
    if options.results is not None:
        save(options.results, recorded(record, wheel, [tried(wheel) for _ in range(options.rounds)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
