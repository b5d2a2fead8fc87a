"""`order_by`: rows in the order of the reference, whatever the columns are."""

from __future__ import annotations

import random
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering as TheirOrdering
from pennon._expression import one_batch
from pennon.dataset import ColumnOrdering, ScannerBuilder
from support.long import long
from support.spread import spread

NAN, INF = float("nan"), float("inf")
FLOATS = [NAN, -NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, 65504.0, -5e-324, 5e-324]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 127, 0, -1]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, 2**63]),
    "float16": (pa.float16(), FLOATS),
    "float32": (pa.float32(), FLOATS),
    "float64": (pa.float64(), FLOATS),
    "bool": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["", "a", "B", "é", "z", "aa", "\U0001f600", "￿"]),
    "large_text": (pa.large_string(), ["", "a", "B", "é"]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
    "fixed": (pa.binary(2), [b"ab", b"\xff\x00", b"aa"]),
    "date": (pa.date32(), [date(1969, 1, 1), date(2024, 2, 29), date(1970, 1, 1)]),
    "time": (pa.time64("us"), [time(0), time(23, 59), time(0, 0, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1), datetime(2024, 1, 1)]),
    "duration": (pa.duration("s"), [timedelta(-1), timedelta(1), timedelta(0)]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.10"), Decimal("1.09"), Decimal("0.00")]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["b", "a", "c"]),
    "struct": (
        pa.struct([("x", pa.float64()), ("y", pa.string())]),
        [{"x": 1.0, "y": "b"}, {"x": 1.0, "y": None}, {"x": None, "y": "a"}, {"x": -0.0, "y": "a"}],
    ),
}


def rows_of(seed: int, count: int = 60) -> pa.Table:
    dice = random.Random(seed)
    columns: dict[str, pa.Array] = {"i": pa.array(range(count), pa.int64())}
    for name, (data_type, values) in VALUES.items():
        drawn = [None if dice.random() < 0.2 else dice.choice(values) for _ in range(count)]
        columns[name] = pa.array(drawn, data_type)
    return pa.table(columns)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("order") / "table.lance")
    table = pennon.write_dataset(rows_of(1), uri, max_rows_per_file=17)
    table.delete("i % 7 = 3")
    return uri


def both(uri: str, keys: list[tuple[Any, ...]], **options: Any) -> tuple[list[Any], list[Any]]:
    """The numbers of the rows in the order of Pennon and of the reference."""
    ours = pennon.dataset(uri).to_table(order_by=[ColumnOrdering(*key) for key in keys], **options)
    # The reference needs the columns of the order in the result.
    theirs = lance.dataset(uri).to_table(order_by=[TheirOrdering(*key) for key in keys], **options)
    assert ours.schema.equals(theirs.schema)
    return ours["i"].to_pylist(), theirs["i"].to_pylist()


@spread()
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_every_type(uri: str, name: str, ascending: bool, nulls_first: bool) -> None:
    keys = [(name, ascending, nulls_first), ("i",)]
    ours, theirs = both(uri, keys)
    assert ours == theirs
    assert len(ours) == pennon.dataset(uri).count_rows()
    whole = ours
    for limit, offset in ((7, 0), (5, 9), (None, 40), (9, 48)):
        ours, theirs = both(uri, keys, limit=limit, offset=offset)
        assert ours == whole[offset:][:limit]
        # With a limit the reference loses some structs of which members are null, and returns others.
        assert ours == theirs or name == "struct"


@pytest.mark.parametrize("seed", range(30))
def test_several_columns(uri: str, seed: int) -> None:
    dice = random.Random(seed)
    drawn = [
        (name, dice.random() < 0.5, dice.random() < 0.5)
        for name in dice.sample(sorted(VALUES.keys() - {"struct"}), 3)
    ]
    options: dict[str, Any] = {"filter": dice.choice([None, "int8 >= 0", "text is not null"])}
    if dice.random() < 0.5:
        options["limit"] = dice.randrange(1, 70)
    if dice.random() < 0.5:
        options["offset"] = dice.randrange(30)
    if dice.random() < 0.5:
        options["with_row_id"] = options["with_row_address"] = True
    ours, theirs = both(uri, [*drawn, ("i", dice.random() < 0.5)], **options)
    assert ours == theirs


def test_nested_and_expressions(uri: str) -> None:
    columns = {"i": "i", "twice": "i * 2"}
    for keys in ([("struct.x", False, True), ("i",)], [("struct.y",), ("i", False)]):
        for limit in (None, 6):
            ours, theirs = both(uri, keys, with_row_id=True, limit=limit)
            assert ours == theirs
            # The columns of the order are those of the table, although one of the result has the same name.
            ours, theirs = both(uri, keys, columns={"i": "-i"}, with_row_id=True, limit=limit)
            assert ours == theirs
            ours, theirs = both(uri, keys, columns=columns, with_row_id=True, limit=limit)
            assert ours == theirs


def test_names_and_batches(uri: str) -> None:
    def options() -> dict[str, Any]:
        return {"columns": ["i", "text"], "order_by": ["text", "i"], "batch_size": 10}

    ours, theirs = (m.dataset(uri).to_batches(**options()) for m in (pennon, lance))
    sizes, found = zip(*[(batch.num_rows, batch["i"].to_pylist()) for batch in ours], strict=True)
    assert list(found) == [batch["i"].to_pylist() for batch in theirs]
    assert set(sizes[:-1]) == {10}
    ours = pennon.dataset(uri).to_batches(**options())
    assert ours.schema.names == ["i", "text"]  # type: ignore[attr-defined]


def test_of_a_fragment(uri: str) -> None:
    orders = [[ordering("float64"), ordering("i", False)] for ordering in (ColumnOrdering, TheirOrdering)]
    for fragment in range(3):
        ours, theirs = (
            m.dataset(uri).get_fragment(fragment).to_table(["i", "float64"], order_by=order)
            for m, order in zip((pennon, lance), orders, strict=True)
        )
        assert ours["i"].equals(theirs["i"])


def test_more_than_the_reference_does(uri: str) -> None:
    table = pennon.dataset(uri)
    by_text = table.to_table(order_by=["text", "i"])["i"]
    # Columns that are not in the result; the reference refuses them.
    assert table.to_table(["i"], order_by=["text", "i"])["i"].equals(by_text)
    assert table.to_table(["i"], order_by=["text", "i"], limit=5)["i"].equals(by_text[:5])
    assert table.head(5, columns=["i"], order_by=["text", "i"])["i"].equals(by_text[:5])
    backwards = table.to_table(["i"], order_by=[ColumnOrdering("_rowid", ascending=False)])["i"]
    assert backwards.to_pylist() == sorted(by_text.to_pylist(), reverse=True)
    # No rows; it panics.
    assert table.to_table(order_by=["i"], limit=0).num_rows == 0
    assert table.to_table(order_by=["i"], offset=1000).num_rows == 0
    # Counting; the order makes no difference.
    assert table.scanner(order_by=["i"]).count_rows() == len(by_text)
    assert table.scanner(order_by=["i"], offset=3, limit=1000).count_rows() == len(by_text) - 3
    assert table.scanner(order_by=["i"], limit=2).count_rows() == 2
    shown = table.to_table(["i"], order_by=["i"], include_deleted_rows=True, with_row_id=True)
    assert shown["i"].to_pylist() == list(range(60))
    default = pennon.dataset(uri, default_scan_options={"order_by": ["text", "i"]})
    assert default.to_table(["i"])["i"].equals(by_text)
    builder = ScannerBuilder(table).columns(["i"]).order_by(["text", ColumnOrdering("i")])
    assert builder.to_scanner().to_table()["i"].equals(by_text)


def test_equal_rows_keep_their_order(tmp_path: Path) -> None:
    rows = 200_000
    data = pa.table({"k": [i % 3 for i in range(rows)], "i": range(rows)})
    table = pennon.write_dataset(data, tmp_path / "t", max_rows_per_file=70_000)
    whole = table.to_table(["i"], order_by=["k"])["i"].to_pylist()
    assert whole == [i for k in range(3) for i in range(k, rows, 3)]
    for limit, offset in ((10, 0), (70_000, 50), (5, 120_000)):
        first = table.to_table(["i"], order_by=["k"], limit=limit, offset=offset)["i"].to_pylist()
        assert first == whole[offset : offset + limit]


def test_few_rows_are_taken(tmp_path: Path) -> None:
    rows = 50_000
    data = pa.table({"k": [i * 7919 % rows for i in range(rows)], "wide": [bytes(200)] * rows, "i": range(rows)})
    data = data.set_column(1, "wide", pa.array([i.to_bytes(4, "big") * 50 for i in range(rows)]))
    table = pennon.write_dataset(data, tmp_path / "t", max_rows_per_file=20_000)
    table.to_table(["k"])
    before = table.counters().read_bytes
    found = table.to_table(order_by=["k"], limit=10)
    assert table.counters().read_bytes - before < rows * 200 / 4, "not all of the wide column is read"
    assert found["k"].to_pylist() == list(range(10))
    assert found["wide"].to_pylist() == [i.to_bytes(4, "big") * 50 for i in found["i"].to_pylist()]
    plan = table.scanner(order_by=[ColumnOrdering("k", False, True)], limit=10).explain_plan()
    assert "order: k descending, nulls first" in plan
    assert "columns, of rows taken by their addresses: k, wide, i" in plan


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (
            [{"column_name": "i"}],
            TypeError,
            "orderings must be a list of ColumnOrdering. Got <class 'dict'> instead",
        ),
        ("i", TypeError, "must be a list"),
        ([ColumnOrdering(None)], TypeError, "needs the name of a column"),  # type: ignore[arg-type]
        (["absent"], pennon.InvalidInputError, "No field named absent"),
        (["i + 1"], pennon.InvalidInputError, "No field named i"),
        (["list"], pennon.UnsupportedError, "ordered by list, which is of type list"),
        (["nested"], pennon.UnsupportedError, r"ordered by nested\.list"),
        (["months"], pennon.UnsupportedError, "of type map"),
    ],
)
def test_bad_input(tmp_path: Path, order: Any, error: type[Exception], message: str) -> None:
    data_type = pa.map_(pa.string(), pa.int8())
    data = pa.table({"i": [1], "list": [[1]], "nested": [{"list": [1]}], "months": pa.array([None], data_type)})
    table = pennon.write_dataset(data, tmp_path / "t")
    for limit in (None, 1):
        with pytest.raises(error, match=message):
            table.scanner(order_by=order, limit=limit)


def test_rows_that_do_not_fit_into_one_batch() -> None:
    piece = pa.array(["x" * (1 << 20)])
    table = pa.table({"s": pa.chunked_array([piece] * 2048)})
    with pytest.raises(pennon.InvalidInputError, match="2048 rows do not fit into one batch: offset overflow"):
        one_batch(table)


@long
@pytest.mark.timeout(900)
def test_more_text_than_an_array_can_hold(tmp_path: Path) -> None:
    rows = 2200
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("b", pa.binary())])

    def text(row: int) -> str:
        return f"{row:08d}" + "x" * 1_000_000

    def batches() -> Any:
        for start in range(0, rows, 100):
            ids = [row * 7 % rows for row in range(start, start + 100)]
            yield pa.record_batch([ids, [text(row) for row in ids], [b"%d" % row for row in ids]], schema=schema)

    table = pennon.write_dataset(batches(), tmp_path / "t", schema=schema)
    for options in ({}, {"limit": rows}, {"batch_size": 100}):
        row = 0
        for batch in table.scanner(order_by=["id"], **options).to_batches():
            assert batch.schema == schema
            for number, found in zip(batch["id"], batch["s"], strict=True):
                assert (number.as_py(), found.as_py()) == (row, text(row))
                row += 1
        assert row == rows
    for order in (None, ["id"]):
        with pytest.raises(pennon.InvalidInputError, match=r"overflow|32-bit offsets"):
            list(table.scanner(order_by=order, batch_size=rows, strict_batch_size=True).to_batches())
