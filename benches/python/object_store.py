"""Pennon against the reference on an S3 server that adds some milliseconds to each request.

Each operation runs in a fresh process on a table of 200,000 rows, ten fragments and twenty versions, five with
deletion files, which each side has written itself, or on a copy of it if it changes the table; those of indices on
one with a B-tree and two indices over vectors. Both sides take turns; their answers are compared. Counted are
requests, rounds (requests that had to wait for one another) and megabytes. Last comes the bandwidth of a scan; see
`bandwidth.py`.

    python benches/python/object_store.py [--rounds 5] [--delays 0,30,100] [--only take,bandwidth]
        [--results FOLDER]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import bandwidth
from late_store import BUCKET, LateServer, Traffic, running
from records import Record, check_whole, line, result, save

ROWS = 200_000
FRAGMENTS = 10
DIMENSION, PARTITIONS = 32, 64
SIDES = {"pennon": "pennon", "pylance": "lance"}


def rows(start: int, stop: int) -> Any:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(start)
    letters = rng.integers(97, 123, size=(stop - start, 20), dtype=np.uint8)
    return pa.table(
        {
            "id": pa.array(np.arange(start, stop)),
            "value": pa.array(rng.random(stop - start)),
            "text": pa.array([bytes(row).decode() for row in letters]),
        }
    )


def build(module: Any, uri: str, options: dict[str, str], count: int = ROWS) -> None:
    """Ten fragments, twenty versions, five of them with deletion files."""
    each = count // FRAGMENTS
    settings = {"storage_options": options, "enable_stable_row_ids": True}
    table = module.write_dataset(rows(0, each), uri, **settings)
    for number in range(1, FRAGMENTS):
        module.write_dataset(rows(number * each, (number + 1) * each), uri, mode="append", storage_options=options)
    table = module.dataset(uri, storage_options=options)
    for number in range(5):
        table.delete(f"id = {number * each + 7}")
    for number in range(5):
        table.update_config({"benchmark": str(number)})
    assert (table.version, table.count_rows()) == (20, count - 5)


@cache
def vectors(count: int, seed: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype("f4")


def build_indexed(module: Any, uri: str, options: dict[str, str]) -> None:
    """The same rows with vectors, a B-tree over their key and two indices over the vectors."""
    import pyarrow as pa

    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors(ROWS, 1).reshape(-1)), DIMENSION)
    table = module.write_dataset(
        rows(0, ROWS).append_column("vec", column).append_column("codes", column),
        uri,
        max_rows_per_file=ROWS // FRAGMENTS,
        enable_stable_row_ids=True,
        storage_options=options,
    )
    table.create_scalar_index("id", "BTREE")
    table = module.dataset(uri, storage_options=options)
    table.create_index("vec", "IVF_FLAT", num_partitions=PARTITIONS)
    table = module.dataset(uri, storage_options=options)
    table.create_index("codes", "IVF_PQ", num_partitions=PARTITIONS, num_sub_vectors=8)


def nearest(table: Any, column: str, **search: Any) -> Any:
    """Whether the nearest row is found, whose vector is asked for."""
    asked = {"column": column, "q": vectors(ROWS, 1)[84_321], "k": 10, "nprobes": 2, **search}
    found = table.to_table(columns=["id", "_distance"], nearest=asked)["id"].to_pylist()
    return len(found), 84_321 in found


def merge(table: Any) -> object:
    source = rows(0, 20).set_column(0, "id", [[n * 9_999 for n in range(20)]])
    done = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    return done["num_updated_rows"], done["num_inserted_rows"]


def changes(table: Any) -> object:
    """The rows that were inserted or updated in the last twelve versions."""
    if hasattr(table, "changes"):
        feed = table.changes(table.version - 12).read_all()
        return sum(kind in ("insert", "update_postimage") for kind in feed["_change_type"].to_pylist())
    delta = table.delta(begin_version=table.version - 12, end_version=table.version)
    return delta.get_inserted_rows().read_all().num_rows + delta.get_updated_rows().read_all().num_rows


def cleanup(table: Any) -> object:
    from datetime import timedelta

    return table.cleanup_old_versions(timedelta(0), delete_unverified=True).old_versions


def counted(table: Any, act: Callable[[Any], object]) -> object:
    """The number of rows after an act whose own answers differ by side."""
    act(table)
    return table.count_rows()


def three_ids(count: int) -> list[int]:
    """Row ids in three fragments, of rows that were not deleted."""
    return [3, count * 2 // 5, count * 7 // 8]


def compared(answer: Any) -> object:
    """What both sides must have in common: of a table the number of its rows, its columns and all of its values."""
    if not hasattr(answer, "sort_by"):
        return answer
    ordered = answer.select(sorted(answer.column_names)).sort_by("id").to_pydict()
    return answer.num_rows, list(ordered), hashlib.sha256(repr(ordered).encode()).hexdigest()


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "open": lambda table: table.count_rows(),
    "open_at": lambda table: table.count_rows(),
    "take": lambda table: table.take(list(range(0, ROWS - 5, ROWS // 10)))["id"].to_pylist(),
    "take_ids": lambda table: table._take_rows(three_ids(table.count_rows())),
    "scan_column": lambda table: sum(table.to_table(columns=["id"])["id"].to_pylist()),
    "scan_all": lambda table: table.to_table(),
    "filter_point": lambda table: table.to_table(filter="id = 123456")["id"].to_pylist(),
    "filter_range": lambda table: table.to_table(filter="id >= 50000 and id < 50100").num_rows,
    "append": lambda table: counted(table, lambda table: table.insert(rows(ROWS, ROWS + 10))),
    "delete": lambda table: counted(table, lambda table: table.delete("id = 84321")),
    "update": lambda table: table.update({"value": "1.5"}, "id = 84321")["num_rows_updated"],
    "merge": merge,
    "changes": changes,
    "compact": lambda table: counted(table, lambda table: table.optimize.compact_files()),
    "cleanup": cleanup,
    "versions": lambda table: len(table.versions()),
}
INDEXED: dict[str, Callable[[Any], object]] = {
    "index_point": lambda table: table.to_table(filter="id = 123456")["text"].to_pylist(),
    "index_count": lambda table: table.count_rows("id < 50000"),
    "ivf_flat": lambda table: nearest(table, "vec"),
    "ivf_pq": lambda table: nearest(table, "codes", refine_factor=4),
}
OPERATIONS |= INDEXED
CLAIMS = {
    "open": "open, count",
    "open_at": "open at a version",
    "take": "take 10 rows by position",
    "take_ids": "take 3 rows by id",
    "scan_column": "scan one column",
    "scan_all": "scan everything",
    "filter_point": "filter for one id",
    "filter_range": "filter for a range of 100 ids",
    "append": "append 10 rows",
    "delete": "delete one row",
    "update": "update one row",
    "merge": "merge 20 rows",
    "changes": "changes of the last 12 versions",
    "compact": "compact ten fragments",
    "cleanup": "clean up",
    "versions": "list the versions",
    "index_point": "one key by a B-tree",
    "index_count": "count by a B-tree",
    "ivf_flat": "ten nearest by IVF_FLAT",
    "ivf_pq": "ten nearest by IVF_PQ, refined",
}
READS = {
    "open",
    "open_at",
    "take",
    "take_ids",
    "scan_column",
    "scan_all",
    "filter_point",
    "filter_range",
    "versions",
}
READS |= INDEXED.keys()


class Starter:
    """A process that has imported what a side needs, and forks for each operation: imports take longer."""

    def __init__(self, side: str) -> None:
        command = [sys.executable, __file__, "--fork", side]
        self.side = side
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, operation: str, uri: str, options: dict[str, str]) -> dict[str, Any]:
        """What the operation printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([operation, uri, options]) + "\n")
        self.process.stdin.flush()
        printed = self.process.stdout.readline()
        if not printed.strip():
            raise RuntimeError(f"{operation} of {self.side} failed, see above")
        return json.loads(printed)

    def stop(self) -> None:
        self.process.communicate()


@contextmanager
def starters() -> Iterator[dict[str, Starter]]:
    """One for each side."""
    made = {side: Starter(side) for side in SIDES}
    try:
        yield made
    finally:
        for starter in made.values():
            starter.stop()


def fork(side: str) -> None:
    """Forks for each line of the input, before any thread was started; an empty line is printed for a failure."""
    warnings.simplefilter("ignore")  # pylance warns of forks, which it does not bear once it has threads
    module = importlib.import_module(SIDES[side])
    importlib.import_module("pandas")
    _ = module.dataset, module.write_dataset  # imports what they need
    for given in sys.stdin:
        number = os.fork()
        if number == 0:
            try:
                child(module, *json.loads(given))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(number, 0)[1]:
            print(flush=True)


def child(module: Any, operation: str, uri: str, options: dict[str, str]) -> None:
    """One operation; prints its seconds, those of opening included, and the answer."""
    # What a process loads, makes and starts once.
    vectors(ROWS, 1)
    with tempfile.TemporaryDirectory() as directory:
        module.write_dataset(rows(0, 1), directory + "/t")
        module.dataset(directory + "/t").to_table()
    version = 5 if operation == "open_at" else None
    begin = time.perf_counter()
    table = module.dataset(uri, version=version, storage_options=options)
    answer = OPERATIONS[operation](table)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "answer": compared(answer)}))


def run(
    server: LateServer, starter: Starter, operation: str, delay: float, number: int
) -> tuple[float, object, Traffic]:
    """Seconds, answer and traffic of an operation on the side's table, or on a copy if it may change it."""
    side = starter.side
    prefix = f"{side}/{'indexed' if operation in INDEXED else 'table'}"
    if operation not in READS:
        copied = f"{side}/{operation}-{delay:g}-{number}"
        server.delay(0)
        copy(server, prefix, copied)
        prefix = copied
    server.delay(delay)
    result = starter.run(operation, f"s3://{BUCKET}/{prefix}", server.storage_options)
    return result["seconds"], result["answer"], server.traffic()


def copy(server: LateServer, source: str, target: str) -> None:
    """Copies a table; its manifests name no absolute paths."""
    s3 = server.client()
    for key, _ in server.objects(f"{source}/"):
        to = key.replace(source, target, 1)
        s3.copy_object(Bucket=BUCKET, Key=to, CopySource={"Bucket": BUCKET, "Key": key})


def compare(
    server: LateServer, starting: dict[str, Starter], operation: str, delay: float, rounds: int
) -> dict[str, Any]:
    """The samples of both sides in turns."""
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    traffic: dict[str, Traffic] = {}
    answers: dict[str, object] = {}
    for number in range(rounds):
        order = list(SIDES) if number % 2 == 0 else list(reversed(SIDES))
        for side in order:
            seconds, answers[side], traffic[side] = run(server, starting[side], operation, delay, number)
            times[side].append(seconds)
        if answers["pennon"] != answers["pylance"]:
            raise AssertionError(f"{operation}: the answers differ, found {answers}")
    counts = {
        side: {
            "requests": traffic[side].requests,
            "rounds": traffic[side].rounds,
            "MB": round(traffic[side].bytes / 1e6, 2),
        }
        for side in SIDES
    }
    claim = f"{CLAIMS[operation]}, {delay:g} ms"
    return result(claim, f"S3 with {delay:g} ms", times, counts, name=f"{operation}, {delay:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delays", default="30", help="milliseconds, with commas")
    parser.add_argument("--only", default=",".join([*OPERATIONS, "bandwidth"]), help="operations, with commas")
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    args = parser.parse_args()
    check_whole(parser, args)
    record, results = Record(), []
    delays = [float(delay) for delay in args.delays.split(",")]
    operations = args.only.split(",")
    with starters() as starting, running() as server:
        if set(operations) & set(OPERATIONS):
            for side, module in SIDES.items():
                uri = f"s3://{BUCKET}/{side}/table"
                build(importlib.import_module(module), uri, server.storage_options)
                if set(operations) & set(INDEXED):
                    indexed = f"s3://{BUCKET}/{side}/indexed"
                    build_indexed(importlib.import_module(module), indexed, server.storage_options)
        for delay in delays:
            for operation in operations:
                if operation == "bandwidth":
                    continue
                results.append(compare(server, starting, operation, delay, args.rounds))
                print(line(results[-1]), flush=True)
        if "bandwidth" in operations:
            bandwidth.build(server)
            for delay in delays:
                for limit in bandwidth.LIMITS:
                    results.append(bandwidth.measure(server, delay, limit, args.rounds))
                    print(line(results[-1]), flush=True)
    found = record.of("object_store", "Object stores", ("pylance", "gets"), {"milliseconds": delays}, args.rounds)
    save(args.results, found | {"cases": results})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fork"]:
        fork(*sys.argv[2:])
    else:
        main()
