"""Times of Python and pandas: what pyarrow would cut or take for another time without a word is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pennon
import pyarrow as pa
import pytest

NANOS, SPAN = pd.Timestamp("2020-01-01 00:00:00.123456789"), pd.Timedelta(1)
NOON = datetime(2020, 1, 1, 12)
ZONED = NOON.replace(tzinfo=timezone(timedelta(hours=5)))
US, BERLIN = pa.timestamp("us"), pa.timestamp("us", "Europe/Berlin")


def of_a_new_table(uri: str, kind: pa.DataType, data: Any) -> pennon.LanceDataset:
    del kind
    return pennon.write_dataset(data, uri)


def of_a_schema(uri: str, kind: pa.DataType, data: Any) -> pennon.LanceDataset:
    return pennon.write_dataset(data, uri, schema=pa.schema([("c", kind)]))


def of_a_table(uri: str, kind: pa.DataType, data: Any) -> pennon.LanceDataset:
    table = pennon.write_dataset(pa.table({"c": pa.nulls(0, kind)}), uri)
    table.insert(data)
    return table


WAYS: list[Callable[..., pennon.LanceDataset]] = [of_a_new_table, of_a_schema, of_a_table]


def forms(*values: Any) -> list[Any]:
    return [
        [{"c": value} for value in values],
        {"c": list(values)},
        pd.DataFrame({"c": pd.Series(values, dtype=object)}),
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (US, NANOS),
        (pa.list_(US), [NANOS]),
        (pa.list_(pa.list_(US)), [[NANOS]]),
        (pa.struct([("t", US)]), {"t": NANOS}),
        (pa.list_(pa.struct([("t", US)])), [{"t": NANOS}]),
        (pa.duration("us"), SPAN),
        (pa.list_(pa.duration("us")), [SPAN]),
        (pa.time64("us"), time(1, tzinfo=timezone.utc)),
        (pa.list_(pa.time64("us")), [time(1, tzinfo=timezone.utc)]),
    ],
    ids=str,
)
def test_what_would_be_cut(uri: str, way: Callable[..., Any], kind: pa.DataType, value: Any) -> None:
    for number, data in enumerate(forms(value, None)):
        if way is of_a_new_table and number == 2 and kind in (US, pa.duration("us")):
            data = forms([value])[2]  # pyarrow sees the unit of times that are in the frame themselves
        with pytest.raises(pennon.InvalidInputError, match=r"column c.*(would change the value|has no zones)"):
            way(f"{uri}.{number}", kind, data)


@pytest.mark.parametrize("way", [of_a_schema, of_a_table])
def test_nanoseconds_that_the_type_has(uri: str, way: Callable[..., pennon.LanceDataset]) -> None:
    kind = pa.struct([("t", pa.list_(pa.timestamp("ns"))), ("d", pa.duration("ns"))])
    found = way(uri, kind, [{"c": {"t": [NANOS, None], "d": SPAN}}]).to_table()["c"].to_pylist()
    assert found == [{"t": [NANOS, None], "d": SPAN}]


@pytest.mark.parametrize(
    "times",
    [
        lambda noon: [noon, ZONED],
        lambda noon: [ZONED, noon],
        lambda noon: [[noon, ZONED]],
        lambda noon: [{"t": ZONED}, {"t": noon}],
    ],
)
def test_times_with_a_zone_and_without(uri: str, times: Callable[[datetime], list[Any]]) -> None:
    values, in_utc = times(NOON), times(NOON.replace(tzinfo=timezone.utc))
    said = r"column c.*: found times with a zone and times without one"
    for data in forms(*values):
        with pytest.raises(pennon.InvalidInputError, match=said):
            pennon.write_dataset(data, uri)
    for kind in (US, BERLIN):
        nested = pa.list_(kind) if isinstance(values[0], list) else kind
        nested = pa.struct([("t", kind)]) if isinstance(values[0], dict) else nested
        table = pennon.write_dataset(pa.table({"c": pa.nulls(0, nested)}), uri, mode="overwrite")
        for data in forms(*values):
            with pytest.raises(pennon.InvalidInputError, match=said):
                table.insert(data)
        # A schema that is given asks for them in UTC.
        other = pennon.write_dataset(forms(*values)[0], f"{uri}.2", schema=table.schema, mode="overwrite")
        assert other.to_table()["c"].to_pylist() == pa.array(in_utc, nested).to_pylist()


def test_nat_next_to_times_with_a_zone(uri: str) -> None:
    for data in (pd.DataFrame({"c": [[ZONED, pd.NaT]]}), pd.DataFrame({"c": [{"t": ZONED}, {"t": pd.NaT}]})):
        table = pennon.write_dataset(data, uri, mode="overwrite")
        table.insert(data)
        assert table.to_table()["c"].to_pylist() in ([[ZONED, None]] * 2, [{"t": ZONED}, {"t": None}] * 2)


@pytest.mark.parametrize("way", WAYS)
def test_nulls_of_pandas_next_to_times(uri: str, way: Callable[..., pennon.LanceDataset]) -> None:
    day = date(2020, 1, 1)
    for number, (kind, value, expected) in enumerate(
        [
            (pa.list_(US), [pd.NA, pd.Timestamp(NOON), pd.NaT], [None, NOON, None]),
            (pa.list_(pa.list_(US)), [[pd.NA, NOON]], [[None, NOON]]),
            (pa.struct([("t", US)]), {"t": pd.NA}, {"t": None}),
            (pa.list_(pa.date32()), [pd.NA, day], [None, day]),
            (pa.list_(pa.time64("us")), [pd.NA, time(1)], [None, time(1)]),
            (pa.list_(pa.duration("us")), [pd.NA, pd.NaT, timedelta(1)], [None, None, timedelta(1)]),
        ]
    ):
        rest = {"t": NOON} if isinstance(value, dict) else None
        found = way(f"{uri}.{number}", kind, forms(value, rest)[2])
        assert found.to_table()["c"].to_pylist() == [expected, rest]


def test_times_of_several_zones(uri: str) -> None:
    times = [ZONED, NOON.replace(tzinfo=timezone.utc), None]
    assert pennon.write_dataset({"c": times}, uri).to_table()["c"].to_pylist() == times


@pytest.mark.parametrize("way", [of_a_schema, of_a_table])
def test_dates_of_times_with_a_zone(uri: str, way: Callable[..., pennon.LanceDataset]) -> None:
    """Pyarrow takes the dates of series in UTC, and those of single values in their zone."""
    midnight = pd.Timestamp("2020-01-01", tz="Europe/Berlin")
    for data in (pd.DataFrame({"c": [midnight]}), {"c": pd.Series([midnight])}):
        with pytest.raises(pennon.InvalidInputError, match=r"column c: its type is date32.*\[ns, tz=Europe"):
            way(f"{uri}.{type(data).__name__}", pa.date32(), data)
    naive, zones = midnight.tz_localize(None), ("UTC", "Etc/UTC", "GMT", "America/New_York")
    same: list[Any] = [{"c": [midnight]}, *(pd.DataFrame({"c": [naive.tz_localize(zone)]}) for zone in zones)]
    if way is of_a_schema:  # times of Arrow are not cast by appends
        same.append({"c": pa.array([midnight], BERLIN)})
    for number, data in enumerate(same):
        found = way(f"{uri}.{number}", pa.date32(), data)
        assert found.to_table()["c"].to_pylist() == [date(2020, 1, 1)]


@pytest.mark.parametrize("way", [of_a_schema, of_a_table])
@pytest.mark.parametrize("given", ["datetime64[s]", "datetime64[ns]", "datetime64[D]", "timedelta64[ns]"])
def test_arrays_of_numpy_in_lists(uri: str, way: Callable[..., pennon.LanceDataset], given: str) -> None:
    """Pyarrow takes their numbers for those of the unit of the column."""
    item = pa.duration("us") if given.startswith("timedelta") else US
    times = np.array([86_400 * 10**9], given.split("[")[0] + "[ns]").astype(given)
    lists, struct = pa.list_(item), pa.struct([("t", pa.list_(item, 1))])
    for number, (kind, value) in enumerate([(lists, times), (pa.list_(lists), [times]), (struct, {"t": times})]):
        for at, data in enumerate(forms(value)):
            with pytest.raises(pennon.InvalidInputError, match=r"column c.*found an array of .*; cast it first"):
                way(f"{uri}.{number}.{at}", kind, data)
    same = times.astype(given.split("[")[0] + "[us]")
    for data in forms(same)[:2]:
        found = way(f"{uri}.same.{type(data).__name__}", lists, data).to_table()["c"].cast(pa.list_(pa.int64()))
        assert found.to_pylist() == [[86_400 * 10**6]]


class Packed(np.ndarray[Any, Any]):
    """An array that is not taken apart."""

    def __iter__(self) -> Any:
        raise AssertionError


@pytest.mark.parametrize("way", WAYS)
def test_times_of_numpy_are_not_compared_one_by_one(uri: str, way: Callable[..., pennon.LanceDataset]) -> None:
    for unit, kind, expected in (
        ("datetime64[us]", US, datetime(1970, 1, 1)),
        ("timedelta64[us]", pa.duration("us"), timedelta(0)),
    ):
        data = {"c": [np.array([0, "NaT"], unit).view(Packed)]}
        found = way(f"{uri}.{unit[:4]}", pa.list_(kind), data)
        assert found.to_table()["c"].to_pylist() == [[expected, None]]
    wrong = np.array([0], "timedelta64[us]")
    if way is not of_a_new_table:
        with pytest.raises(pennon.InvalidInputError, match=r"column c\.item: its type timestamp\[us\] may change"):
            way(f"{uri}.2", pa.list_(US), {"c": [wrong]})


def test_a_date_of_numpy(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"c": pa.nulls(0, pa.date64())}), uri)
    with pytest.raises(pennon.InvalidInputError, match="column c: its type is date64"):
        table.insert([{"c": np.datetime64("2020-01-01", "ns")}])
    table.insert({"c": np.array(["2020-01-01"], "datetime64[ns]")})
    table.insert([{"c": np.datetime64("NaT", "ns")}])
    assert table.to_table()["c"].to_pylist() == [date(2020, 1, 1), None]
