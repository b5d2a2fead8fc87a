"""Pennon against the reference: scans, writes and takes, in one run, in turns.

Each case is a claim with two sides, whose answers are compared first. A round runs both sides once, in changing
order; the figure is the ratio of the medians (Pennon / reference, below 1 is faster).

    python benches/python/compare.py [--rounds 7] [--rows 5000000] [--only scan,take] [--json FILE]
"""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa
from side_by_side import (
    MODULES,
    Case,
    compare,
    drain,
    options,
    parser,
    sampled,
    small,
    table_of_fragments,
    texts,
)


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
        sides = {side: lambda s=side: drain(datasets[s], **scan) for side in MODULES}
        return Case("scan", claim, sides, answer=lambda side: sampled(datasets[side].to_batches(**scan)))

    what = f"{rows:,} rows of int64, float64, utf8(20)"
    yield case(f"scan {what}")
    yield case(f"scan {what}, reference's files", crossed)
    yield case(f"scan the int64 column of {what}", columns=["i"])
    yield case(f"scan {what}, filter keeps 1 %", filter="f < 0.01")

    def write(side: str) -> None:
        target = root / f"{side}-write"
        shutil.rmtree(target, ignore_errors=True)
        MODULES[side].write_dataset(data, str(target), **options(side))

    def written(side: str) -> object:
        return sampled(lance.dataset(str(root / f"{side}-write")).to_batches())

    yield Case("write", f"write {what}", {side: lambda s=side: write(s) for side in MODULES}, answer=written)

    # Other rows at every call, the same for both sides.
    picks = rng.choice(rows, size=min(rows, 20_000), replace=False).tolist()
    for claim, count, repeat in (("1 random row", 1, 50), ("1,000 random rows", min(rows, 1_000), 3)):
        for warmth, source in (("handle open", opened), ("handle fresh", None)):
            parts = [picks[at : at + count] for at in range(0, len(picks) - count + 1, count)]
            wanted = {side: itertools.cycle(parts) for side in MODULES}

            def take(side: str, source: dict | None = source, wanted: dict = wanted) -> object:
                dataset = source[side] if source else MODULES[side].dataset(uris[side])
                return dataset.take(next(wanted[side]))

            yield Case(
                "take",
                f"take {claim} of {rows:,}, {warmth}",
                {side: lambda s=side, t=take: t(s) for side in MODULES},
                repeat=repeat,
            )


def taking_by_id(root: Path, fragments: int) -> Iterator[Case]:
    """First takes: each opens the table again, so that nothing is prepared."""
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
    yield Case("row_ids", f"{claim}, Pennon's own take by address", sides)

    rows = 1_000_000
    for moved in (0, 1, 1_000, 10_000):
        uri = str(root / f"moved-{moved}")
        lance.write_dataset(small(rows), uri, enable_stable_row_ids=True, max_rows_per_file=100_000)
        if moved:
            lance.dataset(uri).update({"text": "'moved'"}, where=f"id % {rows // moved} = 0")
        # Ten moved rows, if that many were moved.
        kinds = max(moved, 10)
        ten = [number * (rows // kinds) for number in rng.choice(kinds, 10, replace=False).tolist()]
        claim = f"open, take 10 rows by stable id, 1 M rows of which {moved:,} moved"
        yield Case(
            "row_ids", claim, {side: lambda s=side, u=uri, w=ten: by_id(s, u, w) for side in MODULES}, repeat=3
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
