"""Pennon beside the reference, in one run, in turns.

Each case is a claim with two sides. A round runs both sides once, in changing order; the figure is the ratio of
the medians (Pennon / reference, below 1 is faster). Absolute times of a shared machine say little and are only
printed next to it.

    python benches/python/compare.py [--rounds 7] [--rows 5000000] [--only scan,take] [--json FILE]
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa
from side_by_side import MODULES, Case, compare, drain, options, parser, small, table_of_fragments, texts


def scanning(root: Path, rows: int) -> Iterator[Case]:
    rng = np.random.default_rng(5)
    data = pa.table(
        {
            "i": pa.array(rng.integers(-(2**62), 2**62, size=rows)),
            "f": pa.array(rng.random(rows)),
            "s": texts(rng, rows),
        }
    )
    uris = {side: str(root / f"{side}-scan") for side in MODULES}
    for side, module in MODULES.items():
        module.write_dataset(data, uris[side], **options(side))
    opened = {side: module.dataset(uris[side]) for side, module in MODULES.items()}
    crossed = {"pennon": pennon.dataset(uris["reference"]), "reference": opened["reference"]}

    def case(claim: str, datasets: dict = opened, **scan: object) -> Case:
        return Case("scan", claim, {side: lambda s=side: drain(datasets[s], **scan) for side in MODULES})

    yield case(f"scan {rows:,} rows of int64, float64, utf8(20)")
    yield case(f"the same from files the reference wrote, {rows:,} rows", crossed)
    yield case(f"scan of the int64 column, {rows:,} rows", columns=["i"])
    yield case(f"scan with a filter that keeps 1 %, {rows:,} rows", filter="f < 0.01")

    def write(side: str) -> None:
        target = root / f"{side}-write"
        shutil.rmtree(target, ignore_errors=True)
        MODULES[side].write_dataset(data, str(target), **options(side))

    yield Case("write", f"write {rows:,} rows", {side: lambda s=side: write(s) for side in MODULES})

    picks = rng.choice(rows, size=1000, replace=False).tolist()
    one = picks[0]
    for claim, wanted, repeat in (("take 1 row", [one], 50), ("take 1,000 random rows", picks, 3)):
        for warmth, source in (("open table", opened), ("fresh table", None)):

            def take(side: str, source: dict | None = source, wanted: list[int] = wanted) -> object:
                dataset = source[side] if source else MODULES[side].dataset(uris[side])
                return dataset.take(wanted)

            yield Case(
                "take",
                f"{claim} of {rows:,}, {warmth}",
                {side: lambda s=side, t=take: t(s) for side in MODULES},
                repeat=repeat,
            )


def taking_by_id(root: Path, fragments: int) -> Iterator[Case]:
    """First takes: each opens the table anew, so that nothing is prepared."""
    rng = np.random.default_rng(11)
    uris = {side: table_of_fragments(root, side, fragments) for side in MODULES}
    ids = rng.choice(fragments * 4, size=min(100, fragments * 4), replace=False).tolist()
    addresses = [(row // 4) << 32 | row % 4 for row in ids]

    def by_id(side: str, uri: str, wanted: list[int]) -> object:
        return MODULES[side].dataset(uri)._take_rows(wanted)

    def by_address() -> object:
        return pennon.dataset(uris["pennon"])._take_row_addresses(addresses)

    claim = f"open, take 100 rows by stable id, {fragments:,} fragments"
    yield Case("row_ids", claim, {side: lambda s=side: by_id(s, uris[s], ids) for side in MODULES})
    sides = {"pennon": lambda: by_id("pennon", uris["pennon"], ids), "reference": by_address}
    yield Case("row_ids", "the same beside our own take by address", sides)

    rows = 1_000_000
    for moved in (0, 1, 1_000, 10_000):
        uri = str(root / f"moved-{moved}")
        lance.write_dataset(small(rows), uri, enable_stable_row_ids=True, max_rows_per_file=100_000)
        if moved:
            lance.dataset(uri).update({"text": "'moved'"}, where=f"id % {rows // moved} = 0")
        # Moved rows as far as there are ten.
        kinds = max(moved, 10)
        some = [number * (rows // kinds) for number in rng.choice(kinds, 10, replace=False).tolist()]
        claim = f"open, take 10 by id, 1 M rows of which {moved:,} moved"
        yield Case(
            "row_ids", claim, {side: lambda s=side, u=uri, w=some: by_id(s, u, w) for side in MODULES}, repeat=3
        )


def main() -> int:
    arguments = parser(__doc__, ["scan", "write", "take", "row_ids"], rows=5_000_000)
    arguments.add_argument("--fragments", type=int, default=10_000)
    args = arguments.parse_args()
    compare(
        args,
        (
            ({"scan", "write", "take"}, lambda root: scanning(root, args.rows)),
            ({"row_ids"}, lambda root: taking_by_id(root, args.fragments)),
        ),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
