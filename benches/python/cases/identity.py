"""What row identity costs: bytes of the newest manifest and the time of takes while a table is updated.

Each update changes scattered rows, so that rows move. Both libraries have a table with stable row ids, and one
without: there, a row has another address after each update, which is looked up outside of the time.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
from rows import manifest_bytes
from side_by_side import check_equal

from cases.data import UNSYNCED, Size

TITLE = "row identity"
PEERS = ("pylance",)
LIBRARIES: dict[str, Any] = {"pennon": pennon, "pylance": lance}
# A side, its library, and whether its rows have stable ids.
SIDES = {
    "pennon": ("pennon", True),
    "pylance": ("pylance", True),
    "pennon_addresses": ("pennon", False),
    "pylance_addresses": ("pylance", False),
}
POINTS = 10
TAKEN = 10


@dataclasses.dataclass(frozen=True)
class Series:
    """A claim about how figures grow: `measure` returns the points, and of each measure the samples there."""

    group: str
    claim: str
    name: str
    store: str
    root: Path
    size: Size

    def measure(self, rounds: int) -> dict[str, Any]:
        rows, updates = self.size.small_rows, self.size.updates
        each = max(1, rows // 4_000)
        # Handles of each library share what it caches.
        settings = {"pennon": {**UNSYNCED, "session": pennon.Session()}, "pylance": {"session": lance.Session()}}
        data = pa.table({"id": np.arange(rows), "n": np.zeros(rows, np.int64)})
        uris = {side: str(self.root / side) for side in SIDES}
        for side, (library, stable) in SIDES.items():
            unsynced = UNSYNCED if library == "pennon" else {}
            LIBRARIES[library].write_dataset(data, uris[side], enable_stable_row_ids=stable, **unsynced)

        def opened(side: str) -> Any:
            library = SIDES[side][0]
            return LIBRARIES[library].dataset(uris[side], **settings[library])

        handles = {side: opened(side) for side in SIDES}
        order = np.random.default_rng(2).permutation(rows)
        wanted = order[: TAKEN * each : each].tolist()
        points = sorted({round(updates * at / POINTS) for at in range(POINTS + 1)})
        found: dict[str, Any] = {
            measure: {side: [] for side in SIDES}
            for measure in ("manifest_bytes", "take_seconds", "update_seconds")
        }
        for done in range(updates + 1):
            if done in points:
                self.look(opened, uris, wanted, rounds, found)
            if done == updates:
                break
            where = f"id IN ({', '.join(map(str, order[done * each : (done + 1) * each]))})"
            for side in list(SIDES) if done % 2 == 0 else reversed(SIDES):
                begin = time.perf_counter()
                handles[side].update({"n": "n + 1"}, where)
                found["update_seconds"][side].append([time.perf_counter() - begin])
        return {"points": points, "measures": found}

    def look(
        self, opened: Any, uris: dict[str, str], wanted: list[int], rounds: int, found: dict[str, Any]
    ) -> None:
        """Measures all sides after the same number of updates; their answers are compared first."""
        ids = {side: wanted if stable else addresses(opened(side), wanted) for side, (_, stable) in SIDES.items()}
        answers = {side: taken(opened(side)._take_rows(ids[side])) for side in SIDES}
        check_equal(self.claim, answers)
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for number in range(rounds):
            for side in list(SIDES) if number % 2 == 0 else reversed(SIDES):
                begin = time.perf_counter()
                opened(side)._take_rows(ids[side])
                times[side].append(time.perf_counter() - begin)
        for side in SIDES:
            found["take_seconds"][side].append(times[side])
            found["manifest_bytes"][side].append([manifest_bytes(uris[side])])


def addresses(handle: Any, wanted: list[int]) -> list[int]:
    """Where the rows are now."""
    where = f"id IN ({', '.join(map(str, wanted))})"
    return handle.to_table(columns=["id"], filter=where, with_row_id=True)["_rowid"].to_pylist()


def taken(found: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def cases(root: Path, size: Size) -> Iterator[Series]:
    each = max(1, size.small_rows // 4_000)
    claim = (
        f"{size.updates} updates of {each} scattered rows of {size.small_rows:,}: the newest manifest, and open "
        f"and take {TAKEN} rows by id"
    )
    yield Series("identity", claim, "identity", "local disk, warm", root, size)
