"""Data files against the reference: scans, deletions, filters, writes, sizes, takes. `memory.py` has their memory.

Each claim about reading is made two times: each side from files that it wrote itself, and both from files that the
reference wrote.

    python benches/python/datafile.py [--rounds 5] [--rows 5000000] [--only scan,take] [--results FOLDER]
"""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from side_by_side import MODULES, Case, compare, drain, options, parsed, parser, sampled, texts

GROUPS = ["scan", "vector", "delete", "filter", "write", "take"]
MEGABYTE = 1 << 20


def columns(rows: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(8)
    carriers = pa.array([f"carrier {i:02}" for i in range(40)])
    few = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 40, rows, dtype=np.int8)), carriers)
    return {
        "int64 sequential": pa.array(np.arange(rows, dtype=np.int64)),
        "int64 0..999": pa.array(rng.integers(0, 1000, rows)),
        "float64 random": pa.array(rng.random(rows)),
        "utf8 of 20 random letters": texts(rng, rows),
        "utf8, 40 distinct": few.cast(pa.utf8()),
    }


def vectors(rows: int) -> pa.Table:
    flat = pa.array(np.random.default_rng(9).random(rows * 128, dtype=np.float32))
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, 128)})


def written(root: Path, name: str, data: pa.Table, **settings: object) -> dict[str, str]:
    """The table as each side writes it."""
    uris = {}
    for side, module in MODULES.items():
        uris[side] = str(root / f"{side}-{name}")
        module.write_dataset(data, uris[side], max_rows_per_file=max(data.num_rows, 1), **settings, **options(side))
    return uris


def readers(uris: dict[str, str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Open tables for both ways of reading."""
    own = {side: module.dataset(uris[side]) for side, module in MODULES.items()}
    yield "own files", own
    yield "files of `pylance`", {side: module.dataset(uris["pylance"]) for side, module in MODULES.items()}


def both_ways(
    group: str,
    claim: str,
    uris: dict[str, str],
    takes: list[list[int]] | None = None,
    repeat: int = 1,
    **scan: object,
) -> Iterator[Case]:
    """The claim for both ways of reading: a take of other rows at every call, or a scan."""
    for label, opened in readers(uris):
        if takes is None:
            sides = {side: lambda d=dataset: drain(d, **scan) for side, dataset in opened.items()}
            yield Case(
                group,
                f"{claim}, {label}",
                sides,
                repeat,
                answer=lambda side, o=opened: sampled(o[side].to_batches(**scan)),
            )
        else:
            rows = {side: itertools.cycle(takes) for side in MODULES}
            sides = {side: lambda s=side, o=opened, r=rows: o[s].take(next(r[s])) for side in MODULES}
            yield Case(group, f"{claim}, {label}", sides, repeat)


def size(uri: str) -> int:
    return sum(path.stat().st_size for path in (Path(uri) / "data").iterdir())


def scanning(root: Path, rows: int) -> Iterator[Case]:
    for name, values in columns(rows).items():
        data = pa.table({"v": values})
        uris = written(root, "scan", data)
        yield from both_ways("scan", f"scan {name}", uris)
        case = writing(root, name, data)
        case.counts.update({side: {"MB": round(size(uri) / MEGABYTE, 1)} for side, uri in uris.items()})
        yield case
        for uri in uris.values():
            shutil.rmtree(uri)


def writing(root: Path, name: str, data: pa.Table) -> Case:
    def write(side: str) -> None:
        target = root / f"{side}-write"
        shutil.rmtree(target, ignore_errors=True)
        MODULES[side].write_dataset(data, str(target), **options(side))

    def written(side: str) -> object:
        return sampled(lance.dataset(str(root / f"{side}-write")).to_batches())

    return Case("write", f"write {name}", {side: lambda s=side: write(s) for side in MODULES}, answer=written)


def vector_cases(root: Path, rows: int) -> Iterator[Case]:
    data = vectors(rows)
    uris = written(root, "vectors", data)
    yield from both_ways("vector", f"scan {rows:,} x float32[128]", uris)
    rng = np.random.default_rng(3)
    picks = [rng.choice(rows, 1000, replace=False).tolist() for _ in range(16)]
    yield from both_ways("vector", "take 1,000 random vectors", uris, picks, 3)
    case = writing(root, f"{rows:,} x float32[128]", data)
    yield Case("vector", case.claim, case.sides, answer=case.answer)


def deleting(root: Path, rows: int) -> Iterator[Case]:
    some = columns(rows)
    data = pa.table({"id": some["int64 sequential"], "f": some["float64 random"], "s": some["utf8, 40 distinct"]})
    for claim, predicate in (
        ("1 row", f"id = {rows // 2}"),
        ("1 %", "id % 100 = 7"),
        ("10 %", "id % 10 = 7"),
        ("50 %", "id % 2 = 1"),
    ):
        uris = written(root, "deleted", data)
        for side, uri in uris.items():
            MODULES[side].dataset(uri, **options(side)).delete(predicate)
        yield from both_ways("delete", f"scan with {claim} deleted", uris)
        for uri in uris.values():
            shutil.rmtree(uri)


def filtering(root: Path, rows: int) -> Iterator[Case]:
    some = columns(rows)
    data = pa.table(
        {
            "id": some["int64 sequential"],
            "f": some["float64 random"],
            "s": some["utf8, 40 distinct"],
            "t": some["utf8 of 20 random letters"],
        }
    )
    uris = written(root, "filter", data, enable_stable_row_ids=True)
    for side, uri in uris.items():
        MODULES[side].write_dataset(data.slice(0, rows // 20), uri, mode="append", **options(side))
    for claim, predicate, text in (
        ("that keeps 1 %, random letters", "f < 0.01", "t"),
        ("that keeps 1 %, 40 distinct strings", "f < 0.01", "s"),
        ("on text that keeps 1 in 40", "s = 'carrier 07'", "s"),
        ("on the creating version that keeps 5 %", "_row_created_at_version > 1", "s"),
        ("on the updating version that keeps none", "_row_last_updated_at_version > 5", "s"),
    ):
        yield from both_ways("filter", f"filter {claim}", uris, filter=predicate, columns=["id", "f", text])


def taking(root: Path, rows: int) -> Iterator[Case]:
    some = columns(rows)
    data = pa.table(
        {"a": some["int64 0..999"], "b": some["float64 random"], "c": some["utf8 of 20 random letters"]}
    )
    uris = written(root, "take", data)
    rng = np.random.default_rng(5)
    for what, count, repeat in (
        ("1 random row", 1, 50),
        ("1,000 random rows", 1_000, 5),
        ("10,000 random rows", 10_000, 1),
    ):
        picks = [rng.choice(rows, size=min(count, rows)).tolist() for _ in range(64)]
        claim = f"take {what} of three columns, handle open"
        yield from both_ways("take", claim, uris, picks, repeat)


def main() -> int:
    args = parsed(parser(__doc__, GROUPS, rows=5_000_000))
    compare(
        args,
        "datafile",
        "Data files",
        (
            ({"scan", "write"}, lambda root: scanning(root, args.rows)),
            ({"vector"}, lambda root: vector_cases(root, max(args.rows // 10, 2_000))),
            ({"delete"}, lambda root: deleting(root, args.rows)),
            ({"filter"}, lambda root: filtering(root, args.rows)),
            ({"take"}, lambda root: taking(root, args.rows)),
        ),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
