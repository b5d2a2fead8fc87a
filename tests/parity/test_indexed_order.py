"""The first rows of an order, found by a B-tree: those that sorting all rows gives, in both libraries."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering as TheirOrdering
from pennon.types import ColumnOrdering
from support.long import LONG
from support.spread import spread

ROWS = 3000
FLOATS = [-0.0, 0.0, float("nan"), -float("nan"), float("inf"), float("-inf"), 1.5, -2.5]


def column(type: str, dice: random.Random, count: int = ROWS, distinct: int = 700) -> pa.Array:
    def value(n: int) -> Any:
        if dice.random() < 0.05:
            return None
        return {
            "int64": n - 300,
            "uint64": 2**63 + n,
            "double": FLOATS[n] if n < len(FLOATS) else n / 8 - 20,
            "float": FLOATS[n] if n < len(FLOATS) else n / 8 - 20,
            "string": "" if n == 0 else f"{n * 7919 % 1000:x}",
            "binary": bytes([n % 251, n % 7]),
            "bool": n % 2 == 0,
            "timestamp[us]": n * 1000,
        }[type]

    types = {"double": pa.float64(), "float": pa.float32(), "timestamp[us]": pa.timestamp("us"), "bool": pa.bool_()}
    found = types[type] if type in types else getattr(pa, type)()
    return pa.array([value(dice.randrange(distinct)) for _ in range(count)], found)


TYPES = ["int64", "uint64", "double", "float", "string", "binary", "bool", "timestamp[us]"]


def orders(limit: int, offset: int = 0) -> list[dict[str, Any]]:
    return [
        {"order_by": [ColumnOrdering("k", ascending=up, nulls_first=first)], "limit": limit, "offset": offset}
        for up in (True, False)
        for first in (True, False)
    ]


def rows_of(table: Any, **scan: Any) -> list[str]:
    if not isinstance(table, pennon.LanceDataset):
        orderings = [TheirOrdering(o.column_name, o.ascending, o.nulls_first) for o in scan["order_by"]]
        scan = {**scan, "order_by": orderings}
    return [str(row) for row in table.scanner(columns=["k", "n"], **scan).to_table().to_pylist()]


def compare(uri: str, filters: tuple[str | None, ...] = (None,), limits: tuple[int, ...] = (1, 10, 90)) -> None:
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    asked = itertools.product(filters, (order for limit in limits for order in orders(limit) + orders(limit, 7)))
    # Every fifth of them, of each version another one.
    for filter, order in asked if LONG else itertools.islice(asked, ours.version % 5, None, 5):
        expected = rows_of(ours, filter=filter, use_scalar_index=False, **order)
        assert rows_of(ours, filter=filter, **order) == expected, (filter, order)
        assert ours.scanner(filter=filter, **order).count_rows() == len(expected)
        # The reference gives equal rows in another order when it has to.
        found = rows_of(theirs, filter=filter, **order)
        assert [row.partition(", 'n'")[0] for row in found] == [r.partition(", 'n'")[0] for r in expected]


@spread()
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_types(uri: str, stable: bool, library: Any, type: str) -> None:
    data = pa.table({"k": column(type, random.Random(type)), "n": range(ROWS)})
    lance.write_dataset(data, uri, max_rows_per_file=1000, enable_stable_row_ids=stable)
    library.dataset(uri).create_scalar_index("k", "BTREE")
    plan = pennon.dataset(uri).scanner(**orders(10)[0]).explain_plan()
    assert "found by an index: first 10 rows by k, nulls first: k_idx (BTree)" in plan
    compare(uri)


def test_rows_that_moved_changed_or_came(uri: str, stable: bool) -> None:
    """Deleted rows do not count, those that the index does not cover do; with filters of all sorts."""
    dice = random.Random(5)
    groups = pa.array([f"g{n % 5}" for n in range(ROWS)])
    data = pa.table({"k": column("int64", dice), "n": range(ROWS), "g": groups})
    lance.write_dataset(data, uri, max_rows_per_file=1000, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("k", pennon.indices.IndexConfig("BTREE", {"zone_size": 64}))
    filters = (None, "k > 50", "k is null", "g = 'g3'", "k > -280 and g = 'g1'", "n % 3 = 0", "k = 3", "n < 0")
    compare(uri, filters)
    pennon.dataset(uri).create_scalar_index("g", "BITMAP")
    pennon.dataset(uri).delete("k < -290 or k is null and n < 1500 or k > 390")
    compare(uri, filters)
    pennon.dataset(uri).update({"k": "k - 1000"}, where="n % 50 = 7")
    pennon.dataset(uri).update({"g": "'g3'"}, where="n % 90 = 11")
    more = pa.table({"k": column("int64", dice, 40), "n": range(ROWS, ROWS + 40), "g": ["g1"] * 40})
    pennon.write_dataset(more, uri, mode="append")
    compare(uri, filters)
    for row in (1, 5):
        table = pennon.dataset(uri)
        parts = [fragment for fragment in table.get_fragments() if fragment.fragment_id != row]
        for order in orders(20):
            expected = rows_of(table, fragments=parts, use_scalar_index=False, **order)
            assert rows_of(table, fragments=parts, **order) == expected
    pennon.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    compare(uri, filters)
    pennon.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS)
    compare(uri, filters)
    # Only rows that indices found: others are left out by a filter alone.
    table = pennon.dataset(uri)
    for filter in filters:
        for order in orders(15):
            expected = pennon.dataset(uri).scanner(filter=filter, fast_search=True).to_table().num_rows
            assert len(rows_of(table, filter=filter, fast_search=True, **order)) == min(15, expected)


def test_deferred_moves(uri: str) -> None:
    data = pa.table({"k": column("int64", random.Random(8)), "n": range(ROWS)})
    lance.write_dataset(data, uri, max_rows_per_file=500, enable_stable_row_ids=False)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    pennon.dataset(uri).delete("n % 4 = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS, defer_index_remap=True)
    compare(uri)


def test_few_rows_are_read(uri: str) -> None:
    pennon.write_dataset(pa.table({"k": range(60_000), "n": range(60_000)}), uri)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    table = pennon.dataset(uri)
    before = table.counters().rows_decoded
    first = table.to_table(order_by=[ColumnOrdering("k", ascending=False)], limit=5)
    assert first["k"].to_pylist() == [59_999, 59_998, 59_997, 59_996, 59_995]
    assert table.counters().rows_decoded - before <= 10
    # A large part of all, another column, no limit and several columns are sorted.
    for scan in (
        {"order_by": ["k"], "limit": 40_000},
        {"order_by": ["n"], "limit": 5},
        {"order_by": ["k"]},
        {"order_by": ["k", "n"], "limit": 5},
        {"order_by": ["k"], "limit": 5, "use_scalar_index": False},
        {"order_by": ["k"], "limit": 5, "filter": "n % 2 = 0"},
    ):
        assert "found by an index" not in table.scanner(**scan).explain_plan(), scan
    for path in Path(uri, "_indices").rglob("*.lance"):
        path.unlink()
    found = pennon.dataset(uri).to_table(order_by=["k"], limit=3)
    assert found["k"].to_pylist() == [0, 1, 2]
