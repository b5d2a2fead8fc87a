"""How long commands of `pennon` take on a table of 10,000 fragments and on one of 5,000 versions.

Each runs in a process of its own, as a shell starts it, on the local disk and on an S3 server on the loopback
interface that adds some milliseconds to each request; for S3 the requests of a run are counted. `start.py` has what
a process costs that does nothing.

    python benches/python/command_line.py [--rounds 3] [--delay 30] [--fragments N] [--versions N] [--only log,du]
        [--results FOLDER]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from growth_tables import many_fragments, many_versions
from late_store import BUCKET, QUICK, LateServer, running
from records import Record, check_whole, line, result, save

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
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    options = parser.parse_args()
    check_whole(parser, options)
    chosen = {what: words for what, words in COMMANDS.items() if what.startswith(tuple(options.only.split(",")))}
    record = Record()
    sides = {
        "fragments": f"{options.fragments:,} fragments",
        "fragments_s3": f"{options.fragments:,} fragments, S3",
        "versions": f"{options.versions:,} versions",
        "versions_s3": f"{options.versions:,} versions, S3",
    }
    taken: dict[str, dict[str, list[float]]] = {what: {} for what in chosen}
    counts: dict[str, dict[str, dict[str, int]]] = {what: {} for what in chosen}
    with tempfile.TemporaryDirectory() as folder, running() as server:
        many_fragments(f"{folder}/fragments", options.fragments)
        many_versions(f"{folder}/versions", options.versions)
        for name in ("fragments", "versions"):
            for what, words in chosen.items():
                call = [f"{folder}/{name}" if word == "TABLE" else word for word in words]
                taken[what][name] = [seconds(call) for _ in range(options.rounds)]
            server.delay(0)
            upload(server, Path(folder, name), f"{QUICK}/{name}")
            pairs = server.storage_options.items()
            settings = [word for pair in pairs for word in ("--storage-option", "=".join(pair))]
            for what, words in chosen.items():
                call = [f"s3://{BUCKET}/{QUICK}/{name}" if word == "TABLE" else word for word in words]
                taken[what][f"{name}_s3"] = []
                for _ in range(options.rounds):
                    server.delay(options.delay)
                    taken[what][f"{name}_s3"].append(seconds([*call, *settings]))
                counts[what][f"{name}_s3"] = {"requests": server.traffic().requests}
    results = []
    store = f"processes of their own; S3 with {options.delay} ms"
    for what in chosen:
        results.append(result(f"`{what}`", store, taken[what], counts[what], name=what))
        print(line(results[-1]))
    size = {"fragments": options.fragments, "versions": options.versions, "milliseconds": options.delay}
    found = record.of("command_line", "The command line", (), size, options.rounds)
    save(options.results, found | {"sides": sides, "cases": results})


if __name__ == "__main__":
    main()
