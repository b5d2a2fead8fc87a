"""How long commands of `pennon` take on a table of 10,000 fragments and on one of 5,000 versions.

Each runs in a process of its own, as a shell starts it, on the local disk and on an S3 server on the loopback
interface that adds some milliseconds to each request. A line shows the median and, for S3, the requests of a run;
the first lines are what a process costs that does nothing.

    python benches/python/command_line.py [--rounds 3] [--delay 30] [--fragments N] [--versions N] [--only log,du]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from growth_tables import many_fragments, many_versions
from late_store import BUCKET, QUICK, LateServer, running

COMMANDS: dict[str, list[str]] = {
    "log -n 10": ["log", "TABLE", "-n", "10"],
    "diff --stat": ["diff", "TABLE", "--stat"],
    "diff 1..": ["diff", "TABLE", "1.."],
    "blame": ["blame", "TABLE", "3"],
    "du": ["du", "TABLE"],
    "du --by version": ["du", "TABLE", "--by", "version"],
    "plot": ["plot", "TABLE"],
    "head": ["head", "TABLE"],
    "count": ["count", "TABLE"],
    "inspect": ["inspect", "TABLE"],
}


def seconds(arguments: list[str]) -> float:
    """The time of a process; its answer must be one."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "pennon", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - begin
    if done.returncode or not done.stdout:
        raise SystemExit(f"pennon {' '.join(arguments)}: {done.stderr}")
    return taken


def upload(server: LateServer, folder: Path, prefix: str) -> None:
    """All files of a table."""
    client = server.client()

    def put(path: Path) -> None:
        key = f"{prefix}/{path.relative_to(folder).as_posix()}"
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(put, (path for path in folder.rglob("*") if path.is_file())):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=int, default=30, help="milliseconds of each request to S3")
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=5_000)
    parser.add_argument("--only", default="", help="commands that begin like this, with commas")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = {what: words for what, words in COMMANDS.items() if what.startswith(tuple(options.only.split(",")))}
    results: list[dict[str, object]] = []

    def note(where: str, what: str, times: list[float], requests: int | None = None) -> None:
        taken = statistics.median(times)
        results.append({"table": where, "command": what, "seconds": taken, "requests": requests})
        asked = "" if requests is None else f"{requests:>9,} requests"
        print(f"{where:34} {what:18} {taken:8.2f} s{asked}", flush=True)

    for what in ("--version", "--help"):
        note("", what, [seconds([what]) for _ in range(options.rounds)])
    with tempfile.TemporaryDirectory() as folder, running() as server:
        tables = {f"{options.fragments:,} fragments": "fragments", f"{options.versions:,} versions": "versions"}
        many_fragments(f"{folder}/fragments", options.fragments)
        many_versions(f"{folder}/versions", options.versions)
        for where, name in tables.items():
            for what, words in chosen.items():
                call = [f"{folder}/{name}" if word == "TABLE" else word for word in words]
                note(f"{where}, local", what, [seconds(call) for _ in range(options.rounds)])
        for where, name in tables.items():
            server.delay(0)
            upload(server, Path(folder, name), f"{QUICK}/{name}")
            pairs = server.storage_options.items()
            settings = [word for pair in pairs for word in ("--storage-option", "=".join(pair))]
            for what, words in chosen.items():
                call = [f"s3://{BUCKET}/{QUICK}/{name}" if word == "TABLE" else word for word in words]
                times = []
                for _ in range(options.rounds):
                    server.delay(options.delay)
                    times.append(seconds([*call, *settings]))
                note(f"{where}, S3 at {options.delay} ms", what, times, server.traffic().requests)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
