"""What criterion measured, as a table: a line per claim, the medians of both sides and their ratio.

python benches/peers/table.py benches/peers/target/criterion
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


def shown(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "-"
    size, unit = next(((size, unit) for size, unit in UNITS if nanoseconds >= size), UNITS[-1])
    return f"{nanoseconds / size:.2f} {unit}"


def main(root: Path) -> int:
    claims: dict[str, dict[str, float]] = defaultdict(dict)
    amounts: dict[str, str] = {}
    for path in sorted(root.glob("*/*/new/benchmark.json"), key=lambda path: path.stat().st_mtime):
        named = json.loads(path.read_text())
        claim, side = named["group_id"], named["function_id"] or named["value_str"]
        claims[claim][side] = json.loads((path.parent / "estimates.json").read_text())["median"]["point_estimate"]
        for kind, count in (named["throughput"] or {}).items():
            time = claims[claim].get("pennon", float("nan"))
            amounts[claim] = f"{count / time:.1f} GB/s" if kind == "Bytes" else f"{time / count:.0f} ns each"
    print(f"{'claim':<72}{'pennon':>12}{'reference':>12}{'ratio':>8}  others")
    for claim, sides in claims.items():
        ours, theirs = sides.pop("pennon", None), sides.pop("reference", None)
        ratio = f"{ours / theirs:.3f}" if ours and theirs else "-"
        others = [amounts[claim]] if claim in amounts else []
        others += [f"{side} {shown(time)}" for side, time in sides.items()]
        print(f"{claim:<72}{shown(ours):>12}{shown(theirs):>12}{ratio:>8}  {', '.join(others)}")
    return 0 if claims else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
