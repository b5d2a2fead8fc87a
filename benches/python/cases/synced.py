"""What it costs that an acknowledged commit survives a power cut: Pennon with `durability="full"` and "os".

Each case changes little, so that most of its time is the commit; there are more rounds, since disks vary.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pennon
from rows import linked
from side_by_side import Case

from cases.data import Size, contents, table

TITLE = "synced commits"
PEERS = ("pennon_unsynced",)
ROUNDS = 11
DURABILITY = {"pennon": "full", "pennon_unsynced": "os"}


def cases(root: Path, size: Size) -> Iterator[Case]:
    rows = size.small_rows
    uri = str(root / "table")
    pennon.write_dataset(table(rows), uri, max_rows_per_file=-(-rows // 10))
    small = table(10, rows)

    def copied(side: str) -> Any:
        return pennon.dataset(linked(uri, Path(tempfile.mkdtemp(dir=root))), durability=DURABILITY[side])

    def left(side: str, handle: Any) -> object:
        del side
        return contents(handle.to_table())

    def case(name: str, claim: str, change: Callable[[Any], object]) -> Case:
        sides = dict.fromkeys(DURABILITY, change)
        return Case("synced", claim, sides, prepare=copied, answer=left, name=name)

    yield case("append", "append 10 rows", lambda t: t.insert(small))
    yield case("update", "update one row", lambda t: t.update({"value": "2.0"}, "id = 7"))
    yield case("delete", f"delete 0.1 % of {rows:,} rows in 10 fragments", lambda t: t.delete("value < 0.001"))
