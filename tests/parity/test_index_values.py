"""Values that come from an index: those of a scan without it, of the reference, and without any data file."""

from __future__ import annotations

import random
import struct
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.types import ColumnOrdering
from support.spread import spread

ROWS = 6000
FLOATS = [-0.0, 0.0, float("nan"), -float("nan"), float("inf"), float("-inf")]
DAY = datetime(2024, 2, 29, tzinfo=timezone.utc)
ZONED = pa.timestamp("us", "Europe/Zurich")
LITERAL = "arrow_cast('{}', 'Timestamp(Microsecond, Some(\"Europe/Zurich\"))')"

# The type, the value of a number, and filters that few rows match.
TYPES: dict[str, tuple[pa.DataType, Any, list[str]]] = {
    "int64": (
        pa.int64(),
        lambda n: n - 300,
        [
            "k = 5",
            "k between 40 and 70",
            "k in (1, 3, 9999)",
            "k = 7 or k = 9 or k in (8, 7)",
            "k > 2960",
            "k < -9999",
        ],
    ),
    "uint64": (pa.uint64(), lambda n: 2**63 + n, [f"k > {2**63 + 3240}", f"k = {2**63}"]),
    "int8": (pa.int8(), lambda n: n % 250 - 125, ["k = -125", "k > 122"]),
    "double": (
        pa.float64(),
        lambda n: FLOATS[n] if n < len(FLOATS) else n / 8 - 20,
        ["k = 0.0", "isnan(k)", "k > 380.0", "k in (0.0, 1.5)", "k < -19.0", "k = -0.0"],
    ),
    "float": (
        pa.float32(),
        lambda n: FLOATS[n] if n < len(FLOATS) else n / 8 - 20,
        ["k = 0.0", "isnan(k)", "k > 380.0", "k = 1.5 or k = 0.0"],
    ),
    "halffloat": (pa.float16(), lambda n: FLOATS[n] if n < len(FLOATS) else n / 8, ["k = 0.0", "k > 400.0"]),
    "string": (
        pa.string(),
        lambda n: "" if n == 0 else f"{n * 7919 % 3000:04d}",
        [
            "k = ''",
            "k like '001%'",
            "k > '2960'",
        ],
    ),
    "large_string": (pa.large_string(), lambda n: f"{n:04d}" * 20, ["k < '0030'"]),
    "binary": (pa.binary(), lambda n: n.to_bytes(2, "big"), ["k < X'0020'", "k = X'0100'"]),
    "fixed": (pa.binary(3), lambda n: n.to_bytes(3, "big"), ["k = arrow_cast(X'000100', 'FixedSizeBinary(3)')"]),
    "decimal": (pa.decimal128(20, 3), lambda n: Decimal(n) / 8, ["k between 3 and 5", "k = 7"]),
    "date": (pa.date32(), lambda n: (DAY + timedelta(days=n)).date(), ["k < date '2024-03-20'"]),
    "timestamp": (pa.timestamp("ns"), lambda n: n * 1000, ["k < arrow_cast(30000, 'Timestamp(Nanosecond, None)')"]),
    "zoned": (ZONED, lambda n: DAY + timedelta(hours=n), [f"k < {LITERAL.format('2024-03-01T00:00:00Z')}"]),
}
COLUMNS: list[Any] = [["k"], ["k", "_rowid"], ["_rowaddr", "k"], {"k": "k", "is": "k is null"}]


def column(type: pa.DataType, value: Any, dice: random.Random, count: int = ROWS) -> pa.Array:
    found = [None if dice.random() < 0.003 else value(dice.randrange(3300)) for _ in range(count)]
    return pa.array(found, type, from_pandas=False)


def bits(table: pa.Table) -> list[Any]:
    """The schema and the rows, floats by their bits."""

    def value(found: Any) -> Any:
        return struct.pack("d", found) if isinstance(found, float) else found

    return [table.schema, *({name: value(v) for name, v in row.items()} for row in table.to_pylist())]


def hide(uri: str) -> Path:
    """Moves the data files away."""
    Path(uri, "data").rename(Path(uri, "hidden"))
    return Path(uri, "hidden")


def show(uri: str) -> None:
    Path(uri, "hidden").rename(Path(uri, "data"))


def compare(uri: str, filters: list[str], without_files: bool = False) -> int:
    """Compares the answers of an index with those of a scan and of the reference; how many rows they have."""
    scans: list[dict[str, Any]] = [{"columns": columns} for columns in COLUMNS]
    scans += [{"columns": ["k"], "offset": 2, "limit": 3}, {"columns": ["k"], "batch_size": 2}]
    scans += [{"columns": ["k"], "with_row_id": True, "with_row_address": True}]
    table, rows, found = pennon.dataset(uri), 0, []
    for filter in filters:
        for scan in scans:
            rows += (expected := table.to_table(filter=filter, use_scalar_index=False, **scan)).num_rows
            found.append((filter, scan, bits(expected)))
        theirs = lance.dataset(uri).to_table(columns=["k"], filter=filter, use_scalar_index=False)
        # Equal NaNs are not equal to Python.
        expected = table.to_table(columns=["k"], filter=filter, use_scalar_index=False)
        assert sorted(map(str, theirs["k"].to_pylist())) == sorted(map(str, expected["k"].to_pylist())), filter
    if without_files:
        hide(uri)
    for filter, scan, expected in found:
        scanner = pennon.dataset(uri).scanner(filter=filter, **scan)
        assert "exact, with their values" in scanner.explain_plan(), filter
        assert bits(scanner.to_table()) == expected, (filter, scan)
    if without_files:
        with pytest.raises(pennon.CorruptError):
            pennon.dataset(uri).to_table(filter="k is not null", columns=["k", "n"])
        show(uri)
    return rows


def orders() -> list[dict[str, Any]]:
    return [
        {"order_by": [ColumnOrdering("k", ascending=up, nulls_first=first)], "limit": 5, "offset": offset}
        for up in (True, False)
        for first in (True, False)
        for offset in (0, 30)
    ]


def compare_orders(uri: str, filters: list[str | None], without_files: bool = False) -> None:
    table, found = pennon.dataset(uri), []
    for filter in filters:
        for order in orders():
            expected = table.to_table(columns=["k"], filter=filter, use_scalar_index=False, **order)
            found.append((filter, order, bits(expected)))
    if without_files:
        hide(uri)
    for filter, order, expected in found:
        scanner = pennon.dataset(uri).scanner(columns=["k"], filter=filter, **order)
        assert "k_idx (BTree), with their values" in scanner.explain_plan(), filter
        assert bits(scanner.to_table()) == expected, (filter, order)
    if without_files:
        show(uri)


def test_a_thousand_keys(tmp_path: Path) -> None:
    """Each in a page of its own, or nearly: no data file is read, also the first time."""
    uri, every = str(tmp_path / "t"), 2_600
    table = pennon.write_dataset(pa.table({"k": range(1_000 * every)}), uri, durability="os")
    table.create_scalar_index("k", "BTREE")
    wanted = list(range(0, 1_000 * every, every))
    hide(uri)
    found = pennon.dataset(uri).to_table(columns=["k"], filter=f"k in ({', '.join(map(str, wanted))})")
    assert found["k"].to_pylist() == wanted


@spread(of=1)
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_types(uri: str, stable: bool, library: Any, type: str) -> None:
    arrow, value, filters = TYPES[type]
    data = pa.table({"k": column(arrow, value, random.Random(type)), "n": range(ROWS)})
    lance.write_dataset(data, uri, max_rows_per_file=2500, enable_stable_row_ids=stable)
    library.dataset(uri).create_scalar_index("k", "BTREE")
    assert compare(uri, [*filters, "k is null"], without_files=True) > 50
    compare_orders(uri, [None, *filters[:1]], without_files=True)


def test_rows_that_moved_changed_or_came(uri: str, stable: bool) -> None:
    dice = random.Random(5)
    type, value, _ = TYPES["int64"]
    data = pa.table({"k": column(type, value, dice), "n": range(ROWS), "g": [f"g{n % 5}" for n in range(ROWS)]})
    lance.write_dataset(data, uri, max_rows_per_file=1500, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("k", pennon.indices.IndexConfig("BTREE", {"zone_size": 64}))
    filters = ["k = 7", "k between -300 and -270", "k > 2975", "k is null", "k in (3, 4, 5, 2990)"]

    def check(without_files: bool = False) -> None:
        assert compare(uri, filters, without_files) > 20
        compare_orders(uri, [None, "k > 2900", "k is null or k < -200"], without_files)

    check(without_files=True)
    pennon.dataset(uri).delete("n % 3 = 1 and k > -290")
    check(without_files=True)
    pennon.dataset(uri).update({"k": "k - 10"}, where="k between 2980 and 2990 and n % 2 = 0")
    check()
    pennon.dataset(uri).update({"g": "'g3'"}, where="n % 90 = 11")
    check()
    more = pa.table({"k": column(type, value, dice, 400), "n": range(ROWS, ROWS + 400), "g": ["g1"] * 400})
    pennon.write_dataset(more, uri, mode="append")
    check()
    # Fragments of a scan, and no others than those that the index covers.
    table = pennon.dataset(uri)
    for scan in ({"fragments": table.get_fragments()[1:3]}, {"fragments": table.get_fragments()[2:]}):
        for filter in filters:
            expected = table.scanner(columns=["k"], filter=filter, use_scalar_index=False, **scan).to_table()
            assert bits(table.scanner(columns=["k"], filter=filter, **scan).to_table()) == bits(expected)
    pennon.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    check(without_files=True)
    part = pennon.dataset(uri).get_fragment(1)
    old = part.to_table(columns=["n", "k"])
    new = pa.table({"n": old["n"], "k": pa.array(range(old.num_rows), pa.int64())})
    changed, fields = part.update_columns(new, "n", "n")
    operation = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    pennon.LanceDataset.commit(uri, operation, read_version=pennon.dataset(uri).version)
    check()
    pennon.dataset(uri).optimize.optimize_indices()
    check(without_files=True)
    pennon.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS)
    check(without_files=True)
    lance.dataset(uri).delete("k between 7 and 8 and n % 2 = 0")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS)
    check()


def test_deferred_moves(uri: str) -> None:
    type, value, filters = TYPES["int64"]
    data = pa.table({"k": column(type, value, random.Random(8)), "n": range(ROWS)})
    lance.write_dataset(data, uri, max_rows_per_file=500, enable_stable_row_ids=False)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    pennon.dataset(uri).delete("n % 4 = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS, defer_index_remap=True)
    compare(uri, filters, without_files=True)
    compare_orders(uri, [None, *filters[:2]], without_files=True)


def test_ids_alone_need_no_file(uri: str, stable: bool) -> None:
    pennon.write_dataset(pa.table({"k": range(ROWS), "n": range(ROWS)}), uri, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    hide(uri)
    found = pennon.dataset(uri).to_table(columns=["_rowid", "_rowaddr"], filter="k between 10 and 12")
    assert found.to_pydict() == {"_rowid": [10, 11, 12], "_rowaddr": [10, 11, 12]}


def test_what_values_do_not_come_from(uri: str) -> None:
    """Another column, filters that are not exact or of other indices, other kinds, and members."""
    data = pa.table({"k": range(ROWS), "n": range(ROWS), "p": [{"x": n} for n in range(ROWS)]})
    pennon.write_dataset(data, uri)
    for name in ("k", "p.x"):
        pennon.dataset(uri).create_scalar_index(name, "BTREE")
    pennon.dataset(uri).create_scalar_index("n", "BITMAP")
    table = pennon.dataset(uri)
    for scan in (
        {"columns": ["k", "n"], "filter": "k = 3"},
        {"columns": ["k"], "filter": "n = 3"},
        {"columns": ["n"], "filter": "n = 3"},
        {"columns": ["k"], "filter": "k < 9 and n % 2 = 0"},
        {"columns": ["k"], "filter": "k < 9 and n = 3"},
        {"columns": ["k"], "filter": "k = 3 or n = 4"},
        {"columns": ["p"], "filter": "p.x = 7"},
        {"columns": ["p.x"], "filter": "p.x = 7"},
        {"columns": ["k"], "order_by": ["n"], "limit": 3},
        {"columns": ["k"], "filter": "k = 3", "use_scalar_index": False},
        {"columns": ["k", "_rowid"], "filter": "k = 3", "include_deleted_rows": True},
    ):
        scanner = table.scanner(**scan)
        assert "with their values" not in scanner.explain_plan(), scan
        assert scanner.to_table().num_rows > 0 or "n = 3" in scan["filter"], scan


def test_files_of_an_index_that_are_damaged(uri: str) -> None:
    pennon.write_dataset(pa.table({"k": range(ROWS), "n": range(ROWS)}), uri, max_rows_per_file=2000)
    pennon.dataset(uri).create_scalar_index("k", "BTREE")
    (pages,) = Path(uri, "_indices").rglob("page_data.lance")
    good = pages.read_bytes()
    for damaged in (good[:-9], good[:40], b"", None):
        pages.unlink(missing_ok=True)
        if damaged is not None:
            pages.write_bytes(damaged)
        for scan in ({"filter": "k between 7 and 9"}, {"order_by": ["k"], "offset": 7, "limit": 3}):
            found = pennon.dataset(uri).to_table(columns=["k"], **scan)
            assert found["k"].to_pylist() == [7, 8, 9]
            with pytest.raises((pennon.CorruptError, pennon.NotFoundError)):
                pennon.dataset(uri).to_table(columns=["k"], strict_indices=True, **scan)
