r"""Changing rows, against the reference, in one run, in turns: a function for each claim.

    python benches/python/rows.py [--rounds 5] [--rows 2000000] \
        [--only update,loop,merge,partial,delete,compact,manifest,feed,history,memory] [--results FOLDER]

Every run works on a copy of the table whose data files are links. `durability="os"` on Pennon's side, since the
reference does not sync. Peaks, and the loop of updates, are measured once, in a process for each side.
"""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from records import Record, line, result, save

SIDES = {"pennon": "pennon", "pylance": "lance"}
MEGABYTE = 1 << 20
RESULTS: list[dict[str, Any]] = []


def opened(side: str, uri: str) -> Any:
    """Open the table; the reference never syncs, so Pennon does not sync here."""
    settings = {"durability": "os"} if side == "pennon" else {}
    return importlib.import_module(SIDES[side]).dataset(uri, **settings)


def columns(ids: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Ten columns: a key, numbers, and texts of ten and twenty letters."""
    from side_by_side import texts

    rows = len(ids)
    table = {"id": pa.array(ids)}
    for number in range(4):
        table[f"i{number}"] = pa.array(rng.integers(0, 1 << 40, rows))
    for number in range(3):
        table[f"f{number}"] = pa.array(rng.random(rows))
    table["s"] = texts(rng, rows, 10)
    table["t"] = texts(rng, rows, 20)
    return pa.table(table)


def base(root: Path, rows: int, stable: bool = True) -> str:
    """A table of ten columns, keys ascending, with stable row ids or without. Both sides get the same files."""
    import lance

    uri = str(root / ("base.lance" if stable else "addresses.lance"))
    rng = np.random.default_rng(1)
    for start in range(0, rows, 1 << 20):
        part = columns(np.arange(start, min(rows, start + (1 << 20)), dtype=np.int64), rng)
        lance.write_dataset(part, uri, mode="append", enable_stable_row_ids=stable)
    return uri


def linked(uri: str, to: Path) -> str:
    """A copy that changes independently: files of data and indices are never changed, so links are enough."""
    for directory, _, names in os.walk(uri):
        below = to / Path(directory).relative_to(uri)
        below.mkdir(parents=True, exist_ok=True)
        for name in names:
            is_kept = below.name == "data" or below.parent.name == "_indices"
            (os.link if is_kept else shutil.copy)(Path(directory, name), below / name)
    return str(to)


def source(rows: int, table_rows: int, names: list[str] | None = None) -> pa.Table:
    """Rows in no order, half of which the table has."""
    rng = np.random.default_rng(2)
    old = rng.choice(table_rows, rows // 2, replace=False)
    ids = np.concatenate([old, np.arange(table_rows, table_rows + rows - rows // 2)]).astype(np.int64)
    found = columns(rng.permutation(ids), rng)
    return found.select(names) if names else found


def upsert(side: str, uri: str, data: pa.Table) -> dict[str, int]:
    merge = opened(side, uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(data)


def turns(claim: str, uri: str, rounds: int, action: Callable[[str, str], object]) -> None:
    """Note the times of both sides."""
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    results = {}
    for number in range(rounds):
        order = list(SIDES) if number % 2 == 0 else list(reversed(SIDES))
        for side in order:
            with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
                copy = linked(uri, Path(directory) / "t.lance")
                start = time.perf_counter()
                results[side] = action(side, copy)
                times[side].append(time.perf_counter() - start)
    assert results["pennon"] == results["pylance"]
    note(claim, times)


def note(claim: str, seconds: dict[str, list[float]], counts: dict[str, dict[str, float]] | None = None) -> None:
    """Add a case to the results, and print it."""
    RESULTS.append(result(claim, "local disk, warm", seconds, counts))
    print(line(RESULTS[-1]), flush=True)


def once(uri: str, action: Callable[[str, str], object]) -> float:
    """Seconds of Pennon on a copy."""
    with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
        copy = linked(uri, Path(directory) / "t.lance")
        start = time.perf_counter()
        action("pennon", copy)
        return time.perf_counter() - start


def updates(uri: str, rows: int, rounds: int) -> None:
    """Updates of one column of scattered rows; then Pennon's time with and without stable row ids."""
    addresses = base(Path(uri).parent, rows, stable=False)
    for share in (0.001, 0.1, 0.5):
        where = f"i1 < {int(share * (1 << 40))}"

        def update(side: str, uri: str, where: str = where) -> object:
            return opened(side, uri).update({"f0": "f0 + 1"}, where)

        turns(f"update of {share:.1%} of {rows:,} rows", uri, rounds, update)
        without = [once(addresses, update) for _ in range(rounds)]
        note(f"update of {share:.1%} of {rows:,} rows, without stable row ids", {"pennon": without})


def one_row_updates(uri: str, _rows: int, _rounds: int) -> None:
    """200 updates of one row of 1 M through one handle, in a process for each side: seconds, growth of memory."""
    root = Path(uri).parent
    table = base(root / "loop", 1_000_000)
    found = {}
    for side in SIDES:
        copy = linked(table, root / "loop" / side)
        call = [sys.executable, __file__, "loop", side, copy, "200", "1000000"]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
        found[side] = [float(number) for number in done.stdout.split()]
    note(
        "200 updates of one row of 1 M, one handle, one run; growth of memory",
        {side: [taken] for side, (taken, _) in found.items()},
        {side: {"MB": round(grown)} for side, (_, grown) in found.items()},
    )


def loop(side: str, uri: str, count: int, rows: int) -> None:
    from memory import resident

    table = opened(side, uri)
    table.update({"f0": "f0 + 1"}, "id = 0")
    before, start = resident(), time.perf_counter()
    for number in range(count):
        table.update({"f0": "f0 + 1"}, f"id = {number * 4993 % rows}")
    print(time.perf_counter() - start, (resident() - before) / MEGABYTE)


def merges(uri: str, rows: int, rounds: int) -> None:
    """Upserts of which half of the rows match."""
    for count in (1_000, 100_000, 1_000_000):
        data = source(count, rows)
        claim = f"upsert of {count:,} rows, half match, 10 columns"
        turns(claim, uri, rounds, lambda s, u, d=data: upsert(s, u, d))


def partial_merges(uri: str, rows: int, rounds: int) -> None:
    """Updates of one column by key."""
    for count in (1_000, 100_000):
        data = source(count, rows, ["id", "f0"])
        claim = f"upsert of {count:,} rows, half match, 2 of 10 columns"
        turns(claim, uri, rounds, lambda s, u, d=data: upsert(s, u, d))


def deletes(uri: str, rows: int, rounds: int) -> None:
    """Scattered rows of a table with twice the rows; then 50 deletes through one handle, each in all fragments."""
    import lance

    many = str(Path(uri).parent / "deletes.lance")
    rng = np.random.default_rng(4)
    for start in range(0, 2 * rows, 1 << 20):
        count = min(2 * rows - start, 1 << 20)
        part = {"id": np.arange(start, start + count), "i": rng.integers(0, 1 << 40, count), "f": rng.random(count)}
        lance.write_dataset(pa.table(part), many, mode="append", enable_stable_row_ids=True)

    def delete(side: str, uri: str, bounds: list[float]) -> int:
        table = opened(side, uri)
        for low, high in itertools.pairwise(bounds):
            table.delete(f"i >= {int(low * (1 << 40))} AND i < {int(high * (1 << 40))}")
        return table.count_rows()

    for share in (0.0001, 0.1, 0.5):
        claim = f"delete of {share:.2%} of {2 * rows:,} rows"
        turns(claim, many, rounds, lambda s, u, b=share: delete(s, u, [0, b]))
    bounds = [number / 10_000 for number in range(51)]
    turns(
        f"50 deletes of 0.01% of {2 * rows:,} rows each, one handle",
        many,
        rounds,
        lambda s, u: delete(s, u, bounds),
    )


def sampled(actions: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of reads, in turns, after one warm-up of each."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name in actions if number % 2 == 0 else reversed(actions):
            start = time.perf_counter()
            actions[name]()
            times[name].append(time.perf_counter() - start)
    return {name: list_[1:] for name, list_ in times.items()}


def updated(uri: str, to: Path, rows: int, changed: int, versions: int) -> tuple[str, int]:
    """A copy in which `changed` scattered rows were updated in `versions` versions; and the version before."""
    table = opened("pennon", linked(uri, to))
    before = table.version
    each = max(1, changed // versions)
    step = max(1, rows // each)
    for number in range(versions):
        table.update({"i0": "i0 + 1"}, where=f"id % {step} = {number * 7 % step}")
    return str(to), before


def feeds(uri: str, rows: int, rounds: int) -> None:
    """The changes of 1 % of the rows in 100 versions, before and after a compaction; and of a smaller table."""
    with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
        copy, begin = updated(uri, Path(directory, "t.lance"), rows, rows // 100, 100)
        tenth = base(Path(directory), rows // 10)
        small, small_begin = updated(tenth, Path(directory, "tenth.lance"), rows // 10, rows // 100, 100)

        def count(reader: Any) -> int:
            return sum(batch.num_rows for batch in reader)

        for when in ("before", "after"):
            if when == "after":
                for table in (copy, small):
                    opened("pylance", table).optimize.compact_files(target_rows_per_fragment=2 << 20)
            end = opened("pennon", copy).version
            found = sampled(
                {
                    "changes": lambda: count(opened("pennon", copy).changes(begin)),
                    "delta": lambda: count(opened("pennon", copy).delta(begin).get_updated_rows()),
                    "both": lambda: count(opened("pennon", copy).changes(begin, images="both")),
                    "small": lambda: count(opened("pennon", small).changes(small_begin)),
                    "pylance": lambda: count(opened("pylance", copy).delta(begin).get_updated_rows()),
                },
                rounds,
            )
            rows_found = count(opened("pennon", copy).changes(begin))
            theirs = count(opened("pylance", copy).delta(begin).get_updated_rows())
            assert rows_found == theirs, (rows_found, theirs, end)
            when = f"{when} a compaction"
            for what in ("changes", "delta"):
                seconds = {"pennon": found[what], "pylance": found["pylance"]}
                note(f"{rows_found:,} changed rows by `{what}` (`pylance`: `delta`), {when}", seconds)
            note(f"`changes` with both images, {when}", {"pennon": found["both"]})
            note(f"as many rows of a table of {rows // 10:,} rows, {when}", {"pennon": found["small"]})


def histories(uri: str, rows: int, rounds: int) -> None:
    """One row over 1,000 versions, of which it changed in 10, and one that changed in all."""
    del rows
    with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
        table = importlib.import_module("pennon").write_dataset(
            columns(np.arange(10_000, dtype=np.int64), np.random.default_rng(3)), f"{directory}/h", durability="os"
        )
        for number in range(1, 1000):
            also = " OR id = 5000" if number % 100 == 0 else ""
            table.update({"i0": "i0 + 1"}, where=f"id = 77 OR id = {number + 100}{also}")
        found = sampled(
            {str(row): lambda row=row: opened("pennon", f"{directory}/h").history(row) for row in (5000, 77)},
            rounds,
        )
        for row, text in (("5000", "10"), ("77", "1,000")):
            note(f"history of a row over 1,000 versions, {text} changes", {"pennon": found[row]})


def compact(side: str, uri: str) -> tuple[int, int]:
    done = opened(side, uri).optimize.compact_files()
    return done.fragments_removed, done.fragments_added


def compactions(uri: str, rows: int, rounds: int) -> None:
    """Many small fragments, and fragments with deletions everywhere."""
    import lance

    root = Path(uri).parent
    rng = np.random.default_rng(3)
    small, count = str(root / "small.lance"), rows * 2 // 5
    data = columns(np.arange(count, dtype=np.int64), rng)
    lance.write_dataset(data, small, max_rows_per_file=max(1, count // 200), enable_stable_row_ids=True)
    turns(f"compaction of 200 fragments, {count:,} rows", small, rounds, compact)
    thinned = linked(uri, root / "thinned.lance")
    lance.dataset(thinned).delete("(id * 7919) % 1000003 % 5 = 0")
    turns(f"compaction of {rows:,} rows, a fifth deleted", thinned, rounds, compact)


def manifest_bytes(uri: str) -> int:
    return min((Path(uri) / "_versions").glob("*.manifest"), key=lambda path: int(path.stem)).stat().st_size


def manifests(uri: str, rows: int, rounds: int) -> None:
    """Bytes of the last manifest after a history of changes; no times."""
    del rounds

    def scattered(side: str, copy: str) -> None:
        opened(side, copy).delete("(id * 7919) % 1000003 % 100 = 0")
        opened(side, copy).update({"i0": "i0 + 1"}, where="(id * 7919) % 1000003 % 100 = 1")
        for count in (1_000, 1_000_000):
            upsert(side, copy, source(count, rows))
        compact(side, copy)

    def updates(side: str, copy: str) -> None:
        for number in range(5):
            where = f"(id * 7919) % 1000003 % 10 = {number}"
            opened(side, copy).update({"i0": "i0 + 1"}, where=where)

    inline = {"lance.row_lineage.spill": "false"}
    cases: list[tuple[str, Callable[[str, str], object], dict[str, str]]] = [
        ("delete 1 %, update 1 %, merge 1,000 and 1 M, compact", scattered, {}),
        ("the same changes, lineage in the manifest", scattered, inline),
        ("five scattered updates of 10 %", updates, {}),
    ]
    for claim, action, config in cases:
        found = {}
        for side in SIDES:
            with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
                copy = linked(uri, Path(directory) / "t.lance")
                if config:
                    opened(side, copy).update_config(config)
                action(side, copy)
                found[side] = {"kB": round(manifest_bytes(copy) / 1000, 1)}
        note(f"manifest after {claim}", {}, found)


def peaks(uri: str, rows: int) -> None:
    """Peak memory above that of the process when it had the source."""
    for count in (1_000, 100_000, 1_000_000):
        found = {}
        for side in SIDES:
            with tempfile.TemporaryDirectory(dir=Path(uri).parent) as directory:
                copy = linked(uri, Path(directory) / "t.lance")
                call = [sys.executable, __file__, "child", side, copy, str(count), str(rows)]
                peak = float(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
                found[side] = {"MB": round(peak)}
        note(f"peak memory above the source, upsert of {count:,} rows, one run", {}, found)


def child(side: str, uri: str, count: int, rows: int) -> None:
    from memory import peak, resident

    data = source(count, rows)
    opened(side, uri)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident()
    upsert(side, uri, data)
    print((peak() - before) / MEGABYTE)


def main() -> int:
    from side_by_side import parsed, parser

    groups = {
        "update": updates,
        "loop": one_row_updates,
        "merge": merges,
        "partial": partial_merges,
        "delete": deletes,
        "compact": compactions,
        "manifest": manifests,
        "feed": feeds,
        "history": histories,
    }
    args = parsed(parser(__doc__, [*groups, "memory"], 2_000_000))
    record = Record()
    wanted = set(args.only.split(","))
    root = Path(tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR")))
    try:
        uri = base(root, args.rows)
        for group, action in groups.items():
            if group in wanted:
                action(uri, args.rows, args.rounds)
        if "memory" in wanted:
            peaks(uri, args.rows)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    found = record.of("rows", "Changing rows", ("pylance",), {"rows": args.rows}, args.rounds)
    save(args.results, found | {"cases": RESULTS})
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["child"], ["loop"]):
        (child if sys.argv[1] == "child" else loop)(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        sys.exit(0)
    sys.exit(main())
