"""`pennon import` of every type: what `export` wrote is added to the same table, in every format."""

from __future__ import annotations

import datetime
import io
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pennon
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.command import pennon as run
from support.command import process
from support.long import LONG

DAY = datetime.date(2024, 2, 29)
MOMENTS = [0, 1_709_251_199, None, -1]
HALVES = pa.array([1.5, None, -65504, 1.099609375], pa.float32()).cast(pa.float16())
UNITS = ("s", "ms", "us", "ns")
FLAT: dict[str, pa.Array] = {
    "null": pa.nulls(4),
    "bool": pa.array([True, None, False, True]),
    "int8": pa.array([1, None, -128, 127], pa.int8()),
    "uint64": pa.array([1, None, 0, 2**64 - 1], pa.uint64()),
    "float16": HALVES,
    "float32": pa.array([0.1, None, 1e-30, -2.5], pa.float32()),
    "text": pa.array(["a", None, "", "ü\n"]),
    "large_text": pa.array(["a", None, "", "ü\n"], pa.large_utf8()),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal(0)], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal(0)], pa.decimal256(50, 2)),
    "date32": pa.array([DAY, None, datetime.date(1, 1, 1), DAY], pa.date32()),
    "date64": pa.array([DAY, None, datetime.date(1, 1, 1), DAY], pa.date64()),
    "time32[s]": pa.array([0, None, 86_399, 60], pa.time32("s")),
    "time32[ms]": pa.array([0, None, 86_399_999, 1], pa.time32("ms")),
    "time64[us]": pa.array([0, None, 86_399_999_999, 1], pa.time64("us")),
    "time64[ns]": pa.array([0, None, 86_399_999_999_999, 1], pa.time64("ns")),
    **{f"timestamp[{unit}]": pa.array(MOMENTS, pa.timestamp(unit)) for unit in UNITS},
    **{f"timestamp[{unit}, UTC]": pa.array(MOMENTS, pa.timestamp(unit, "UTC")) for unit in UNITS},
    "timestamp[us, Berlin]": pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin")),
    **{f"duration[{unit}]": pa.array(MOMENTS, pa.duration(unit)) for unit in UNITS},
    "bytes": pa.array([b"a", None, b"", b"\xff"]),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "large_dictionary": pa.array(["a", None, "b", "a"]).cast(pa.dictionary(pa.int8(), pa.large_utf8())),
    "dictionary of ints": pa.array([1, None, 2, 1]).dictionary_encode(),
    "uuid": pa.array([UUID(int=1).bytes, None, b"\xff" * 16, bytes(16)], pa.uuid()),
    "json": pa.array(['{"a":1}', None, "[]", '"x"'], pa.json_()),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0, 1], pa.int8())),
}
POINTS = [[1.0, 2.0], None, [3.0, 4.0], [0.0, -1.0]]
TENSOR = pa.fixed_shape_tensor(pa.float32(), [2])
NESTED: dict[str, pa.Array] = {
    "list": pa.array([[DAY], None, [], [None, DAY]], pa.list_(pa.date32())),
    "large_list": pa.array([[1], None, [], [None, 2]], pa.large_list(pa.duration("s"))),
    "fixed_size_list": pa.array(POINTS, pa.list_(pa.float32(), 2)),
    "vector": pa.array(POINTS, pa.list_(pa.float64(), 2))
    .cast(pa.list_(pa.float32(), 2))
    .cast(pa.list_(pa.float16(), 2)),
    "tensor": pa.ExtensionArray.from_storage(TENSOR, pa.array(POINTS, TENSOR.storage_type)),
    "list of dictionaries": pa.ListArray.from_arrays([0, 1, 1, 1, 4], FLAT["dictionary"]),
    "list of dictionaries of ints": pa.ListArray.from_arrays([0, 1, 1, 1, 4], FLAT["dictionary of ints"]),
    "struct": pa.array(
        [{"d": DAY, "t": 1}, None, {"d": None, "t": 2}, {"d": DAY, "t": None}],
        pa.struct([("d", pa.date32()), ("t", pa.time32("s"))]),
    ),
    "seconds": pa.array([[0], None, [], [None, 1]], pa.list_(pa.timestamp("s"))),
    "map": pa.array([[("a", 1)], None, [], [("b", None), ("c", 2)]], pa.map_(pa.utf8(), pa.int64())),
    "map of dates": pa.array([[(DAY, b"\xff")], None, [], [(DAY, None)]], pa.map_(pa.date32(), pa.binary())),
    "list of maps": pa.array([[[("a", DAY)], None], None, [], [[]]], pa.list_(pa.map_(pa.utf8(), pa.date32()))),
    "struct with a map": pa.array(
        [{"m": [("a", 1)]}, None, {"m": None}, {"m": []}], pa.struct([("m", pa.map_(pa.utf8(), pa.int8()))])
    ),
}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
@pytest.mark.parametrize("name", [*FLAT, *NESTED])
def test_there_and_back(tmp_path: Path, name: str, form: str) -> None:
    column = FLAT[name] if name in FLAT else NESTED[name]
    table = pennon.write_dataset(pa.table({"id": range(4), "x": column}), tmp_path / "t")
    file = tmp_path / f"rows.{form}"
    assert run("export", table.uri, file).status == 0
    done = run("import", table.uri, file, "--mode", "append")
    if name in NESTED and form == "csv":
        assert (done.status, done.err.count("\n")) == (3, 1)
        assert "rows.csv: Column 'x': " in done.err
        assert "cannot be read from CSV" in done.err
        return
    assert (done.status, done.err) == (0, "")
    found = pennon.dataset(table.uri).to_table()
    assert found.schema == table.schema
    assert found.slice(4).to_pylist() == found.slice(0, 4).to_pylist()


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_numbers_that_json_lacks(tmp_path: Path, form: str) -> None:
    table = pennon.write_dataset({"x": [math.nan, math.inf, -math.inf, 1.0]}, tmp_path / "t")
    run("export", table.uri, tmp_path / f"rows.{form}")
    assert run("import", table.uri, tmp_path / f"rows.{form}", "--mode", "append").status == 0
    found = pennon.dataset(table.uri).to_table()["x"].to_pylist()
    assert str(found[4:]) == str([None, None, None, 1.0] if form == "jsonl" else found[:4])


def test_digits_of_numbers_in_rows_with_maps(tmp_path: Path) -> None:
    decimal, number = pa.decimal128(38, 10), "1234567890123456789.0123456789"
    schema = pa.schema(
        [("m", pa.map_(pa.utf8(), decimal)), ("d", decimal), ("u", pa.uint64()), ("f", pa.float64())]
    )
    table = pennon.write_dataset(schema.empty_table(), tmp_path / "t")
    line = f'{{"m": [["ü\\n", {number}]], "d": {number}, "u": {2**64 - 1}, "f": 1e5}}\n'
    (tmp_path / "a.jsonl").write_text(line)
    done = run("import", table.uri, tmp_path / "a.jsonl", "--mode", "append")
    assert (done.status, done.err) == (0, "")
    row = {"m": [("ü\n", Decimal(number))], "d": Decimal(number), "u": 2**64 - 1, "f": 1e5}
    assert pennon.dataset(table.uri).to_table().to_pylist() == [row]


@pytest.mark.parametrize("name", ["list of dictionaries", "list of dictionaries of ints"])
def test_dictionaries_in_lists_of_several_row_groups(tmp_path: Path, name: str) -> None:
    rows = pa.table({"x": NESTED[name]})
    table = pennon.write_dataset(rows, tmp_path / "t")
    pa.parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=1)
    done = run("import", table.uri, tmp_path / "a.parquet", "--mode", "append")
    assert (done.status, done.err) == (0, "")
    assert pennon.dataset(table.uri).to_table().to_pylist() == rows.to_pylist() * 2


@pytest.mark.parametrize("is_pipe", [True, False])
def test_nested_columns_are_refused_before_pyarrow_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_pipe: bool
) -> None:
    """Its thread reads ahead, and aborted the process that ended meanwhile."""
    monkeypatch.setattr(pyarrow.csv, "open_csv", None)
    table = pennon.write_dataset({"a,b": [1], "x": [[1]]}, tmp_path / "t")
    raw = b'\xef\xbb\xbf\r\n"a,b",x\r\n1,[1]\r\n'
    (tmp_path / "a.csv").write_bytes(raw)
    source = ["-", "--input-format", "csv"] if is_pipe else [tmp_path / "a.csv"]
    done = run("import", table.uri, *source, "--mode", "append", stdin=raw)
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert "Column 'x': list<item: int64> cannot be read from CSV" in done.err


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_columns_that_a_file_lacks(tmp_path: Path, form: str) -> None:
    table = pennon.write_dataset(pa.table({"id": range(4), **FLAT, **NESTED}), tmp_path / "t")
    run("export", table.uri, tmp_path / f"rows.{form}", "-c", "id")
    done = run("import", table.uri, tmp_path / f"rows.{form}", "--mode", "append")
    assert (done.status, done.err) == (0, "")
    last = pennon.dataset(table.uri).to_table().slice(7).to_pylist()
    assert last == [{**dict.fromkeys(table.schema.names), "id": 3}]


def test_a_second_file_has_the_types_of_the_first(tmp_path: Path) -> None:
    rows = pa.table({name: FLAT[name] for name in ("date32", "time32[s]", "timestamp[s]", "duration[ms]")})
    table = pennon.write_dataset(rows, tmp_path / "t")
    files = [tmp_path / f"rows.{form}" for form in ("arrow", "jsonl", "csv", "parquet")]
    for file in files:
        run("export", table.uri, file)
    done = run("import", tmp_path / "all", *files)
    assert (done.status, done.err) == (0, "")
    assert pennon.dataset(tmp_path / "all").to_table().to_pylist() == rows.to_pylist() * 4


@pytest.mark.parametrize(
    ("kind", "line", "says"),
    [
        (pa.date32(), '"2024-02-30"', "2024-02-30"),
        (pa.time32("s"), '"24:00"', "24:00"),
        (pa.time32("s"), '"12:00:00.5"', "12:00:00.5"),
        (pa.float16(), "1e6", "1000000.0 is too large for float16"),
        (pa.list_(pa.float32(), 2), "[1]", "size"),
        (pa.uuid(), '"12"', "badly formed hexadecimal UUID string"),
        (pa.map_(pa.utf8(), pa.int64()), '{"a": 1}', "expected an array of pairs"),
        (pa.map_(pa.utf8(), pa.int64()), "[[null, 1]]", "a required field was null"),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, kind: pa.DataType, line: str, says: str) -> None:
    table = pennon.write_dataset(pa.schema([("x", kind)]).empty_table(), tmp_path / "t")
    (tmp_path / "a.jsonl").write_text(f'{{"x": {line}}}\n')
    done = run("import", table.uri, tmp_path / "a.jsonl", "--mode", "append")
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert says in done.err
    assert f"{tmp_path}/a.jsonl: " in done.err


def test_times_that_a_cast_would_change(tmp_path: Path) -> None:
    table = pennon.write_dataset(pa.schema([("t", pa.timestamp("s"))]).empty_table(), tmp_path / "t")
    pa.parquet.write_table(pa.table({"t": pa.array([1_500], pa.timestamp("ms"))}), tmp_path / "a.parquet")
    done = run("import", table.uri, tmp_path / "a.parquet", "--mode", "append")
    assert done.status == 3
    assert "a.parquet: Column 't': " in done.err
    assert "would lose data: 1500" in done.err


@pytest.mark.parametrize("first", ["null", "5", '"x"', "[1]", "true"])
@pytest.mark.parametrize("mode", ["create", "append"])
def test_lines_that_are_no_object(tmp_path: Path, first: str, mode: str) -> None:
    """In a process of its own: one that begins with null made pyarrow crash."""
    in_process = first != "null" and not LONG
    table = pennon.write_dataset({"a": [1]}, tmp_path / "t")
    uri = table.uri if mode == "append" else tmp_path / "new"
    for number, text in ((1, f'{first}\n{{"a": 1}}\n'), (3, f'{{"a": 1}}\n\n{first}\n')):
        (tmp_path / "a.jsonl").write_text(text)
        arguments = ("import", uri, tmp_path / "a.jsonl", "--mode", mode)
        if in_process:
            here = run(*arguments)
            status, err = here.status, here.err
        else:
            done = process(*arguments)
            status, err = done.returncode, done.stderr.decode()
        says = f"Line {number} is {first!r}; expected an object in each line"
        if text.startswith("["):
            says = "This is a JSON array; expected an object in each line"
        assert (status, err) == (3, f"pennon: {tmp_path}/a.jsonl: {says}\n")


def test_blank_lines_and_the_mark_of_an_editor(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n \t\n  {"a": 2}')
    assert run("import", tmp_path / "t", tmp_path / "a.jsonl").out == "version 1: 2 rows\n"
    assert pennon.dataset(tmp_path / "t").to_table().to_pydict() == {"a": [1, 2]}


def test_the_number_of_a_line_that_is_no_object_late_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n' * 1_000_000 + b"null\n")
    done = process("import", tmp_path / "t", tmp_path / "a.jsonl")
    assert (done.returncode, b"a.jsonl: Line 1000001 is 'null'; " in done.stderr) == (3, True)


@pytest.mark.parametrize(
    "value", ["[null, 1.5]", '[null, {"b": 1}]', "[[null, 1]]", '{"x": [null, "s"]}', "[null, null, true]"]
)
def test_lists_that_begin_with_null(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": {value}}}\n{{"a": null}}\n')
    done = run("import", tmp_path / "t", tmp_path / "a.jsonl")
    assert (done.status, done.err) == (0, "")
    lines = run("export", tmp_path / "t", "-", "--format", "jsonl").lines
    assert lines == [f'{{"a": {value}}}', '{"a": null}']


def _with_long_list(raw: bytes) -> bytes:
    """A file whose lists end behind their values."""
    return raw.replace(struct.pack("<3i", 0, 77, 154), struct.pack("<3i", 0, 77, 1 << 30))


def _with_long_text(raw: bytes) -> bytes:
    return raw.replace(struct.pack("<3i", 0, 66, 132), struct.pack("<3i", 0, 66, 1 << 30))


@pytest.mark.parametrize("damage", [_with_long_list, _with_long_text])
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_damaged_arrow_file(
    tmp_path: Path, damage: Callable[[bytes], bytes], make: Callable[[Any, pa.Schema], Any]
) -> None:
    rows = pa.table({"list": [[1] * 77, [2] * 77], "text": ["a" * 66, "b" * 66]})
    target = io.BytesIO()
    with make(target, rows.schema) as writer:
        writer.write_table(rows)
    damaged = damage(target.getvalue())
    assert damaged != target.getvalue()
    (tmp_path / "a.arrow").write_bytes(damaged)
    done = process("import", tmp_path / "t", tmp_path / "a.arrow")
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    assert done.stderr.startswith(f"pennon: {tmp_path}/a.arrow: ".encode())


def test_arrow_without_its_end(tmp_path: Path) -> None:
    target = io.BytesIO()
    with pa.ipc.new_file(target, pa.schema([("a", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"a": [1]}))
    raw = target.getvalue()
    (tmp_path / "a.arrow").write_bytes(raw[:-60] + bytes(50) + raw[-10:])
    done = run("import", tmp_path / "t", tmp_path / "a.arrow")
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert done.err.startswith(f"pennon: {tmp_path}/a.arrow: ")


@pytest.mark.parametrize("address", ["s3://bucket/a.csv", "gs://bucket/a.parquet"])
def test_files_in_object_stores(tmp_path: Path, address: str) -> None:
    table = pennon.write_dataset({"a": [1]}, tmp_path / "t")
    for arguments in (["export", table.uri, address], ["import", table.uri, address, "--mode", "append"]):
        done = run(*arguments)
        assert done.status == 2
        assert f"{address!r} is not a local file: only tables can be in an object store" in done.err
