"""Values of `update_rows` that a cast to the type of their column would change, and those that it would not."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pennon
import pyarrow as pa
import pytest
from pennon import jobs

SECONDS, PAIR = pa.timestamp("s"), pa.struct([("a", pa.int32()), ("b", pa.string())])
HALF_SECONDS = pa.array([1500], pa.timestamp("ms"))

WOULD_CHANGE: dict[str, tuple[pa.DataType, Any]] = {
    "a fraction": (pa.int64(), [1.7]),
    "a decimal fraction": (pa.int64(), [Decimal("1.5")]),
    "a large integer as a float": (pa.float64(), [2**53 + 1]),
    "a large double as a float": (pa.float32(), [1e300]),
    "a large double as a half float": (pa.float16(), [70000.0]),
    "a large decimal as a half float": (pa.float16(), [Decimal("70000.0")]),
    "a number as bool": (pa.bool_(), [2]),
    "not a number": (pa.int64(), [float("nan")]),
    "half seconds": (SECONDS, HALF_SECONDS),
    "half seconds of a duration": (pa.duration("s"), [timedelta(milliseconds=1500)]),
    "microseconds of a time": (pa.time32("s"), [time(1, 2, 3, 4)]),
    "the time of a day": (pa.date32(), [datetime(2020, 1, 1, 5)]),
    "the day of a time": (pa.time32("s"), pa.array([86_400], SECONDS)),
    "digits of a decimal": (pa.decimal128(5, 1), [Decimal("1.25")]),
    "digits of a float": (pa.decimal128(5, 1), [1.25]),
    "an item of a list": (pa.list_(pa.int64()), [[1, 1.5]]),
    "an item of a view": (pa.list_(pa.int32()), pa.array([[1.5]], pa.list_view(pa.float64()))),
    "an item of a large view": (pa.list_(pa.int32()), pa.array([[1.5]], pa.large_list_view(pa.float64()))),
    "an item of a vector": (pa.list_(pa.float32(), 2), [[1.0, 1e300]]),
    "an item of a tensor": (pa.fixed_shape_tensor(pa.float32(), [2]), [[1.0, 1e300]]),
    "a number as an extension": (pa.bool8(), [1.5]),
    "a member of a struct": (PAIR, [{"a": 1.5, "b": "x"}]),
    "a value of a map": (
        pa.map_(pa.string(), pa.int32()),
        pa.array([[("a", 1.5)]], pa.map_(pa.string(), pa.float64())),
    ),
    "a value of a dictionary": (pa.int64(), pa.array([1.5]).dictionary_encode()),
    "a value for a dictionary": (pa.dictionary(pa.int32(), pa.int64()), [1.5]),
}


@pytest.mark.parametrize("name", WOULD_CHANGE)
def test_values_that_would_change(uri: str, name: str) -> None:
    kind, values = WOULD_CHANGE[name]
    table = pennon.write_dataset(pa.table({"c": pa.array([None, None], kind)}), uri)
    # The first row has nothing to lose.
    new = values if isinstance(values, pa.Array) else pa.array(values)
    with pytest.raises(pennon.InvalidInputError, match=r"column c.*: its type .* would change the value"):
        table.update_rows([0, 1], {"c": pa.concat_arrays([pa.nulls(1, new.type), new])})
    assert table.latest_version == 1


def test_a_run_that_would_change(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"c": pa.array([0] * 5)}), uri)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 6]), pa.array([1.5, 2.0, None]))
    with pytest.raises(pennon.InvalidInputError, match=r"column c: its type int64 would change the value 1.5"):
        table.update_rows(range(5), pa.table({"c": runs.slice(1)}))
    table.update_rows(range(4), pa.table({"c": runs.slice(2)}))
    assert table.to_table(order_by=["_rowid"])["c"].to_pylist() == [2, 2, None, None, 0]


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.float32(), "1e300"),
        (pa.float64(), "1.5"),
        (pa.decimal128(5, 1), "1.25"),
        (SECONDS, "2020-01-01T00:00:00.5"),
        (pa.time32("s"), "01:02:03.7"),
        (pa.date32(), "2020-01-01"),
        (pa.bool_(), "true"),
        (pa.list_(pa.float64()), "1.5"),
        (pa.dictionary(pa.int32(), pa.float64()), "1.5"),
    ],
)
def test_texts_in_columns_of_numbers(uri: str, kind: pa.DataType, text: str, text_type: pa.DataType) -> None:
    table = pennon.write_dataset(pa.table({"c": pa.array([None, None], kind)}), uri)
    texts = pa.array([text, "no number"], text_type)
    with pytest.raises(pennon.InvalidInputError, match=r"column c.*: its type is .*, found texts; cast them first"):
        table.update_rows([0, 1], {"c": texts})
    assert table.latest_version == 1


def test_a_member_that_the_column_does_not_have(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"c": pa.array([None], PAIR)}), uri)
    with pytest.raises(pennon.InvalidInputError, match="column c: found a member d, expected a, b"):
        table.update_rows([0], {"c": [{"a": 1, "b": "x", "d": 3}]})
    with pytest.raises(pennon.InvalidInputError, match=r"column c: found a member A, .*Did you mean a\?"):
        table.update_rows([0], {"c": [{"A": 1, "b": "x"}]})


ZONED, BERLIN = datetime(2020, 1, 1, 12, tzinfo=timezone.utc), pa.timestamp("us", "Europe/Berlin")

OTHER_KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "one number for a list": (pa.list_(pa.int64()), [1]),
    "one number for a vector": (pa.list_(pa.float32(), 1), [1.5]),
    "a struct for a list": (pa.list_(PAIR), [{"a": 1, "b": "x"}]),
    "a list as text": (pa.string(), [["a, b"]]),
    "a list for a number": (pa.int64(), [[1]]),
    "a list in a struct": (pa.struct([("a", pa.string())]), [{"a": ["x"]}]),
    "a number as bytes": (pa.binary(), [65]),
    "a number as bytes of a fixed size": (pa.binary(8), [65]),
    "a fraction as a time": (SECONDS, [1.5]),
    "a number as a time": (SECONDS, pa.array([5], pa.int32())),
    "a number as a date": (pa.date32(), [5]),
    "a number as a time of day": (pa.time32("s"), [5]),
    "a date as a number": (pa.int64(), [date(2020, 1, 1)]),
    "a time as a number": (pa.int64(), [datetime(2020, 1, 1)]),
    "a duration as a number": (pa.float64(), [timedelta(1)]),
    "a time without a zone": (BERLIN, [datetime(2020, 1, 1, 12)]),
    "a time with a zone": (pa.timestamp("us"), [ZONED]),
    "a time in a list": (pa.list_(BERLIN), [[datetime(2020, 1, 1, 12)]]),
    "a time in a dictionary": (BERLIN, pa.array([datetime(2020, 1, 1, 12)]).dictionary_encode()),
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_other_kinds(uri: str, name: str) -> None:
    kind, values = OTHER_KINDS[name]
    table = pennon.write_dataset(pa.table({"id": [0], "c": pa.array([None], kind)}), uri)
    said = r"column c.*: its type is .*, found .*; cast them first"
    data = pa.table({"id": [0], "c": values})
    with pytest.raises(pennon.InvalidInputError, match=said):
        table.update_rows([0], data.select(["c"]))
    with pytest.raises(pennon.InvalidInputError, match=said):
        table.get_fragment(0).update_columns(data, "id")
    with pytest.raises(pennon.InvalidInputError, match=said):
        jobs.run(jobs.plan_update_columns(table, data.schema, "id"), source=data)
    with pytest.raises((pennon.SchemaMismatchError, pennon.UnsupportedError)):
        table.merge_insert("id").when_matched_update_all().execute(data)
    assert table.latest_version == 1


def test_nulls(uri: str) -> None:
    """Those without a type are of any kind. In a column of lists, one of a number would be a list with a null."""
    schema = pa.schema([("d", pa.date32()), ("l", pa.list_(pa.int64()))])
    table = pennon.write_dataset(pa.table([[date(2020, 1, 1)] * 2, [[1]] * 2], schema=schema), uri)
    table.update_rows([0], {"d": pa.nulls(1, pa.int64()), "l": pa.nulls(1)})
    with pytest.raises(
        pennon.InvalidInputError, match=r"column l: its type is list.*, found int64; cast them first"
    ):
        table.update_rows([1], {"l": pa.nulls(1, pa.int64())})
    table.update_rows([1], {"l": pa.nulls(1, pa.large_list(pa.int8()))})
    assert table.to_table(order_by=["_rowid"])["l"].to_pylist() == [None, None]


def test_members_of_one_name(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"c": pa.array([None], PAIR)}), uri)
    repeated = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(pennon.InvalidInputError, match="column c: found several members of one name"):
        table.update_rows([0], {"c": repeated})


SAME: dict[str, tuple[pa.DataType, Any, Any]] = {
    "whole floats": (pa.int32(), [1.0], 1),
    "texts": (pa.int64(), ["22"], 22),
    "views of texts": (pa.int64(), pa.array(["22"], pa.string_view()), 22),
    "a dictionary of views": (
        pa.int64(),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["22"], pa.string_view())),
        22,
    ),
    "a list of views": (pa.list_(pa.int64()), pa.array([[1.0]], pa.list_view(pa.float64())), [1]),
    "a tensor": (pa.fixed_shape_tensor(pa.float32(), [2]), [[1.0, 1.5]], [1.0, 1.5]),
    "small integers": (pa.int8(), [-128], -128),
    "integers as decimals": (pa.decimal128(10, 2), [7], Decimal("7.00")),
    "decimals as integers": (pa.int64(), [Decimal("7.00")], 7),
    "decimals as floats": (pa.float64(), [Decimal("0.1")], 0.1),
    "decimals as half floats": (pa.float16(), [Decimal("1.5")], 1.5),
    "half floats as decimals": (pa.decimal128(10, 2), pa.array([1.5], pa.float16()), Decimal("1.50")),
    "floats as decimals": (pa.decimal128(10, 2), [0.1], Decimal("0.10")),
    "floats are rounded": (pa.float32(), [0.1], 0.10000000149011612),
    "infinity": (pa.float32(), [float("inf")], float("inf")),
    "vectors": (pa.list_(pa.float32(), 2), [[0.5, 1]], [0.5, 1.0]),
    "whole seconds": (SECONDS, [datetime(2020, 1, 1)], datetime(2020, 1, 1)),
    "times of another zone": (BERLIN, pa.array([ZONED]), ZONED),
    "days": (pa.date32(), [datetime(2020, 1, 1)], date(2020, 1, 1)),
    "days in a time zone": (pa.date32(), pa.array([-3600], pa.timestamp("s", "Europe/Berlin")), date(1970, 1, 1)),
    "days as times": (
        pa.timestamp("s", "America/New_York"),
        [date(2020, 1, 1)],
        datetime(2020, 1, 1, tzinfo=ZoneInfo("America/New_York")),
    ),
    "true": (pa.int64(), [True], 1),
    "members in another order": (PAIR, [{"b": "x", "a": 3}], {"a": 3, "b": "x"}),
    "maps": (
        pa.map_(pa.string(), pa.int32()),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        [("a", 1)],
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_values_that_are_cast(uri: str, name: str) -> None:
    kind, values, stored = SAME[name]
    table = pennon.write_dataset(pa.table({"c": pa.array([None], kind)}), uri)
    table.update_rows([0], {"c": values})
    assert table.to_table()["c"].to_pylist() == [stored]


def test_values_hidden_below_nulls_and_slices(uri: str) -> None:
    """What lies outside of a slice, or below a null, is not stored."""
    kinds = {"l": pa.list_(pa.int64()), "s": pa.struct([("a", pa.int64())]), "m": pa.map_(pa.string(), pa.int64())}
    table = pennon.write_dataset(pa.table({name: pa.array([None], kind) for name, kind in kinds.items()}), uri)
    number, key = pa.array([1.5, 2.0]), pa.array(["a", "b"])
    hidden = pa.array([True, False])
    data = pa.table(
        {
            "l": pa.ListArray.from_arrays(pa.array([0, 1, 2]), number),
            "s": pa.StructArray.from_arrays([number], ["a"], mask=hidden),
            "m": pa.MapArray.from_arrays(pa.array([0, 1, 2]), key, number),
        }
    )
    table.update_rows([0], data.slice(1))
    assert table.to_table().to_pylist() == [{"l": [2], "s": {"a": 2}, "m": [("b", 2)]}]
    table.update_rows([0], data.select(["s"]).slice(0, 1))
    assert table.to_table()["s"].to_pylist() == [None]
