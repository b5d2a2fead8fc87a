"""Large values against the reference: binary values of 1 MB, one cell of text, large dictionaries, long lists.

Times come from processes of their own, which is where the memory is measured as well: the peak of the process minus
what it had before. The answers of both sides are compared first.

    python benches/python/large_values.py [--rounds 3] [--bytes 1500000000] [--only binary,cell,dictionary,list]
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from memory import peak, resident
from records import Record, check_whole, line, result, save

GROUPS = ["binary", "cell", "dictionary", "list"]
SIDES = {"pennon": "pennon", "pylance": "lance"}
VALUE = 1_000_000
MEGABYTE = 1_000_000


def binary(total: int, repeats: bool) -> pa.Table:
    """Values of 1 MB, every tenth null: noise, or the same kilobyte again and again."""
    rows, rng = max(total // VALUE, 20), np.random.default_rng(1)
    if repeats:
        kilobytes = rng.integers(0, 256, (rows, 1000), dtype=np.uint8)
        values = np.tile(kilobytes, (1, VALUE // 1000))
    else:
        values = rng.integers(0, 256, rows * VALUE, dtype=np.uint8)
    offsets = pa.py_buffer(np.arange(0, VALUE * (rows + 1), VALUE, dtype=np.int64))
    valid = pa.py_buffer(np.packbits(np.arange(rows) % 10 > 0, bitorder="little"))
    array = pa.Array.from_buffers(pa.large_binary(), rows, [valid, offsets, pa.py_buffer(values)])
    return pa.table({"id": pa.array(np.arange(rows)), "v": array})


def cell(total: int) -> pa.Table:
    """One row of text, a fifth of the bytes of the binary values."""
    words = "".join(np.random.default_rng(2).choice(list("abcdefghij klmno"), 1000))
    return pa.table({"id": [1], "v": pa.array([words * max(total // 5000, 1)])})


def dictionary(_: int) -> pa.Table:
    items = pa.array([f"value {number}" for number in range(1_000_000)])
    keys = np.random.default_rng(3).permutation(1_000_000).astype(np.int32)
    return pa.table({"v": pa.DictionaryArray.from_arrays(pa.array(keys), items)})


def long_list(_: int) -> pa.Table:
    items = pa.array([f"value {number}" for number in range(1_000_000)])
    return pa.table({"v": pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)})


def digest(table: pa.Table) -> str:
    """A short text that says what is in a table."""
    column = table["v"].combine_chunks() if table["v"].num_chunks else pa.array([], table["v"].type)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type):
        column = column.flatten()
    wanted = range(0, len(column), max(len(column) // 50, 1))
    found = hashlib.sha256(repr((len(column), column.null_count)).encode())
    for at in wanted:
        value = column[at].as_py()
        found.update(repr(value).encode() if not isinstance(value, bytes) else value)
    return found.hexdigest()


def drain(dataset: object) -> int:
    return sum(batch.num_rows for batch in dataset.to_batches())  # type: ignore[attr-defined]


CASES: dict[str, tuple[str, Callable[[int], pa.Table], tuple[str, ...]]] = {
    "noise": ("binary", lambda total: binary(total, repeats=False), ("write", "read", "count", "delete")),
    "repeating": ("binary", lambda total: binary(total, repeats=True), ("write", "read", "count", "delete")),
    "cell": ("cell", cell, ("write", "take")),
    "dictionary": ("dictionary", dictionary, ("write", "read")),
    "list": ("list", long_list, ("write", "read")),
}
CLAIMS = {
    "noise": "binary values of 1 MB, noise, a tenth null",
    "repeating": "binary values of 1 MB, compressible, a tenth null",
    "cell": "one cell of text",
    "dictionary": "dictionary array of 1,000,000 distinct strings",
    "list": "list of 1,000,000 strings in one row",
}


def measure(side: str, case: str, uri: str, total: int) -> dict[str, list[object]]:
    """Seconds, megabytes above the start, and the answer of each step of a case, in this process."""
    module = importlib.import_module(SIDES[side])
    settings = {"durability": "os"} if side == "pennon" else {}
    _, make, steps = CASES[case]
    data = make(total)
    found: dict[str, list[object]] = {}

    def step(name: str, action: Callable[[], object]) -> object:
        Path("/proc/self/clear_refs").write_text("5")
        before, start = resident(), time.perf_counter()
        answer = action()
        found[name] = [time.perf_counter() - start, (peak() - before) / MEGABYTE]
        return answer

    step("write", functools.partial(module.write_dataset, data, uri, **settings))
    del data
    if "read" in steps:
        step("read", lambda: drain(module.dataset(uri)))
    if "count" in steps:
        answer = step("count", lambda: module.dataset(uri).count_rows(filter="v IS NULL"))
        found["count"].append(answer)
    if "take" in steps:
        answer = step("take", lambda: module.dataset(uri).take([0]))
        found["take"].append(digest(answer))
    table = module.dataset(uri)
    found["write"].append(digest(table.take(list(range(0, table.count_rows(), 97)))))
    if "delete" in steps:
        step("delete", lambda: module.dataset(uri, **settings).delete("v IS NULL"))
        found["delete"].append(module.dataset(uri).count_rows())
    if "read" in steps:
        found["read"].append(table.count_rows())
    return found


def child(side: str, case: str, total: int) -> dict[str, list[object]]:
    folder = tempfile.mkdtemp()
    try:
        command = [sys.executable, __file__, "--child", side, case, f"{folder}/table", str(total)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        side, case, uri, total = sys.argv[2:]
        print(json.dumps(measure(side, case, uri, int(total))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=600_000_000)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups of cases, by name")
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    args = parser.parse_args()
    check_whole(parser, args)
    record, results = Record(), []
    for case, (group, _, steps) in CASES.items():
        if group not in args.only.split(","):
            continue
        runs: dict[str, list[dict[str, list[object]]]] = {side: [] for side in SIDES}
        for number in range(args.rounds):
            for side in SIDES if number % 2 == 0 else reversed(list(SIDES)):
                runs[side].append(child(side, case, args.bytes))
        for step in steps:
            answers = {str(run[step][2:]) for side in SIDES for run in runs[side]}
            if len(answers) != 1:
                raise AssertionError(f"{case}, {step}: the answers differ, found {sorted(answers)}")
            figures = {side: [run[step] for run in runs[side]] for side in SIDES}
            seconds = {side: [float(str(figure[0])) for figure in found] for side, found in figures.items()}
            memory = {
                side: {"MB": round(statistics.median(float(str(figure[1])) for figure in found))}
                for side, found in figures.items()
            }
            claim = f"{CLAIMS[case]}: {step}"
            results.append(result(claim, "local disk, warm", seconds, memory, name=f"{case}, {step}"))
            print(line(results[-1]), flush=True)
    found = record.of("large_values", "Large values", ("pylance",), {"bytes": args.bytes}, args.rounds)
    save(args.results, found | {"cases": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
