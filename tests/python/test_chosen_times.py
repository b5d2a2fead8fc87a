"""`coalesce`, `nullif`, `greatest` and `least` of times of different units, and beyond the years of nanoseconds."""

from __future__ import annotations

from typing import Any

import pennon
import pyarrow as pa
import pytest

LATE = 253_402_300_799  # the last second of the year 9999
Y3000 = 32_503_680_000
S, MS, NS, UTC = pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("s", "UTC")


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    columns = {
        "id": pa.array([0, 1, 2]),
        "s": pa.array([0, LATE, None], S),
        "ms": pa.array([500, LATE * 1000, 7], MS),
        "n": pa.array([10, 2**63 - 1, None], NS),
        "z": pa.array([0, LATE, None], UTC),
        "d": pa.array([1, 2932896, None], pa.date32()),
        "t": pa.array([1, 2, None], pa.time32("s")),
        "u": pa.array([1_500_000, 2_000_000, 3_500_000], pa.time64("us")),
    }
    return pennon.write_dataset(pa.table(columns), uri)


CHOSEN: dict[str, tuple[pa.DataType, list[int | None]]] = {
    "coalesce(s, timestamp '1970-01-01 00:00:07')": (S, [0, LATE, 7]),
    "coalesce(s, timestamp '1970-01-01 00:00:00.5')": (MS, [0, LATE * 1000, 500]),
    "coalesce(s, timestamp '3000-01-01 00:00:00')": (S, [0, LATE, Y3000]),
    "greatest(s, timestamp '3000-01-01 00:00:00')": (S, [Y3000, LATE, Y3000]),
    "least(s, timestamp '3000-01-01 00:00:00', null)": (S, [0, Y3000, Y3000]),
    "greatest(z, arrow_cast('3000-01-01T00:00:00Z', 'Timestamp(s, \"UTC\")'))": (UTC, [Y3000, LATE, Y3000]),
    "coalesce(s, ms)": (MS, [0, LATE * 1000, 7]),
    "greatest(d, s)": (S, [86400, LATE, None]),
    "coalesce(d, ms)": (MS, [86_400_000, 2932896 * 86_400_000, 7]),
    "nullif(s, timestamp '1970-01-01 00:00:00')": (S, [None, LATE, None]),
    "nullif(s, timestamp '1970-01-01 00:00:00.5')": (S, [0, LATE, None]),
    "nullif(s, timestamp '9999-12-31 23:59:59')": (S, [0, None, None]),
    "nullif(n, timestamp '3000-01-01 00:00:00')": (NS, [10, 2**63 - 1, None]),
    "nullif(s, '1970-01-01 00:00:00')": (S, [None, LATE, None]),
    "nullif(s, ms)": (S, [0, None, None]),
    "coalesce(t, u)": (pa.time64("us"), [1_000_000, 2_000_000, 3_500_000]),
    "greatest(t, u)": (pa.time64("us"), [1_500_000, 2_000_000, 3_500_000]),
    "nullif(t, u)": (pa.time32("s"), [1, None, None]),
}


@pytest.mark.parametrize("expression", CHOSEN)
def test_values(table: pennon.LanceDataset, expression: str) -> None:
    kind, numbers = CHOSEN[expression]
    found = table.to_table(columns={"x": expression})["x"].combine_chunks()
    assert found.equals(pa.array(numbers, kind))


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("coalesce(s, timestamp '3000-01-01 00:00:00') = timestamp '3000-01-01 00:00:00'", [2]),
        ("greatest(s, timestamp '3000-01-01 00:00:00') > timestamp '3000-01-01 00:00:00'", [1]),
        ("nullif(s, timestamp '1970-01-01 00:00:00') is null", [0, 2]),
        ("coalesce(s, ms) = ms", [1, 2]),
        ("least(t, u) = time '00:00:01'", [0]),
    ],
)
def test_filters(table: pennon.LanceDataset, condition: str, ids: list[int]) -> None:
    assert table.to_table(filter=condition)["id"].to_pylist() == ids


def test_updates(table: pennon.LanceDataset) -> None:
    table.update({"s": "greatest(s, timestamp '3000-01-01 00:00:00')", "d": "nullif(d, date '1970-01-02')"})
    found = table.to_table(order_by=["id"])
    assert found["s"].combine_chunks().equals(pa.array([Y3000, LATE, Y3000], S))
    assert found["d"].combine_chunks().equals(pa.array([None, 2932896, None], pa.date32()))


@pytest.mark.parametrize(
    "expression", ["coalesce(s, n)", "nullif(s, n)", "least(d, n)", "coalesce(n, timestamp '3000-01-01 00:00:00')"]
)
def test_what_nanoseconds_cannot_hold(table: pennon.LanceDataset, expression: str) -> None:
    """One unit would have to hold the columns: nothing is cut."""
    attempts: list[Any] = [
        lambda: table.to_table(columns={"x": expression}),
        lambda: table.to_table(filter=f"{expression} is null"),
        lambda: table.update({"n": expression}),
    ]
    for attempt in attempts:
        with pytest.raises(pennon.InvalidInputError, match=r"(?i)nanosecond|converted value exceeds"):
            attempt()
    assert table.latest_version == 1
