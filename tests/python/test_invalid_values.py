"""Arrays that pyarrow takes on trust: those that nobody could read are refused before anything is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pennon
import pennon.file
import pyarrow as pa
import pytest

GOOD, BAD = b"abc", b"a\xffc"


def offsets(*values: int, type: pa.DataType | None = None) -> pa.Buffer:
    return pa.array(values, type or pa.int32()).buffers()[1]


def text(value: bytes, type: pa.DataType | None = None) -> pa.Array:
    """Three texts of a byte each."""
    large = type == pa.large_string()
    ends = offsets(0, 1, 2, 3, type=pa.int64() if large else pa.int32())
    return pa.Array.from_buffers(type or pa.string(), 3, [None, ends, pa.py_buffer(value)])


def view(value: bytes) -> pa.Array:
    return pa.array([value[at : at + 1] for at in range(3)], pa.binary_view()).view(pa.string_view())


ARRAYS: dict[str, Callable[[bytes], pa.Array]] = {
    "string": text,
    "large_string": lambda value: text(value, pa.large_string()),
    "string_view": view,
    "struct": lambda value: pa.StructArray.from_arrays([pa.array([1, 2, 3]), text(value)], ["n", "t"]),
    "list": lambda value: pa.ListArray.from_arrays([0, 1, 2, 3], text(value)),
    "large_list": lambda value: pa.LargeListArray.from_arrays([0, 1, 2, 3], text(value)),
    "fixed_size_list": lambda value: pa.FixedSizeListArray.from_arrays(
        pa.StructArray.from_arrays([text(value)], ["t"]), 1
    ),
    "map": lambda value: pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["a", "b", "c"]), text(value)),
    "dictionary": lambda value: pa.DictionaryArray.from_arrays([2, 1, 0], text(value)),
    "nested": lambda value: pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays([0, 1, 2, 3], text(value))], ["l"]
    ),
}
# Only files of this version have maps.
VERSION = "2.2"


def test_lengths_beyond_their_buffers(tmp_path: Path) -> None:
    """As a damaged file of Arrow has them: pyarrow reads that without a look at the lengths of members."""
    rows = pa.table({"st": [{"y": "zz"}] * 50})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_table(rows)
    intact = stream.getvalue().to_pybytes()
    positions = [at for at in range(len(intact) - 8) if intact[at : at + 8] == (50).to_bytes(8, "little")]
    refused = 0
    for at in positions:
        damaged = intact[: at + 3] + b"\1" + intact[at + 4 :]
        try:
            batch = pa.ipc.open_file(damaged).get_batch(0)
        except (pa.ArrowInvalid, OSError):
            continue
        with pytest.raises(pennon.InvalidInputError, match=r"not valid: .*too small"):
            pennon.write_dataset(batch, tmp_path / "t")
        refused += 1
    assert refused
    assert not Path(tmp_path, "t").exists()


@pytest.mark.parametrize("kind", ARRAYS)
def test_text_that_is_not_utf8(kind: str, tmp_path: Path) -> None:
    good, bad = (pa.table({"id": [0, 1, 2], "x": ARRAYS[kind](value)}) for value in (GOOD, BAD))
    table = pennon.write_dataset(good, str(tmp_path / "t"), data_storage_version=VERSION)
    files = sorted(tmp_path.rglob("*.lance"))
    for rows in (bad, bad.to_reader()):
        with pytest.raises(pennon.InvalidInputError, match=r"Column x has values that are not valid: .*utf-8"):
            table.insert(rows)
    with pytest.raises(pennon.InvalidInputError, match="Column x"):
        table.merge_insert("id").when_matched_update_all().execute(bad)
    with pytest.raises(pennon.InvalidInputError, match="Column x"):
        pennon.write_dataset(bad, str(tmp_path / "u"), data_storage_version=VERSION)
    with pytest.raises(pennon.InvalidInputError, match="Column x"):
        pennon.fragment.write_fragments(bad, table)
    with (
        pytest.raises(pennon.InvalidInputError, match="Column x"),
        pennon.file.LanceFileWriter(str(tmp_path / "f.lance"), bad.schema, version=VERSION) as writer,
    ):
        writer.write_batch(bad)
    assert sorted(tmp_path.rglob("*.lance")) == files
    assert pennon.dataset(table.uri).version == 1
    table.insert(good)
    assert table.to_table(columns=["x"])["x"].to_pylist() == 2 * good["x"].to_pylist()


@pytest.mark.parametrize("type", [pa.string(), pa.large_string()], ids=str)
def test_text_that_is_cut_within_a_letter(type: pa.DataType, tmp_path: Path) -> None:
    letters = "é€".encode()
    wide = pa.int64() if type == pa.large_string() else pa.int32()
    for number, ends in enumerate(((0, 2, 5), (0, 1, 5), (0, 5, 2))):
        buffers = [None, offsets(*ends, type=wide), pa.py_buffer(letters)]
        rows = pa.table({"x": pa.Array.from_buffers(type, 2, buffers)})
        uri = str(tmp_path / str(number))
        if number == 0:
            assert pennon.write_dataset(rows, uri).to_table()["x"].to_pylist() == ["é", "€"]
        else:
            with pytest.raises(pennon.InvalidInputError, match="Column x"):
                pennon.write_dataset(rows, uri)


def test_bytes_of_a_null(uri: str) -> None:
    buffers = [pa.py_buffer(b"\x05"), offsets(0, 1, 2, 3), pa.py_buffer(BAD)]
    rows = pa.table({"x": pa.Array.from_buffers(pa.string(), 3, buffers)})
    assert pennon.write_dataset(rows, uri).to_table()["x"].to_pylist() == ["a", None, "c"]


@pytest.mark.parametrize("kind", ["string", "list"])
def test_slices_cost_what_they_have(kind: str, uri: str) -> None:
    """Slices of one array share its bytes."""
    count = 40_000
    rows = pa.array(["é" * 50] * count)
    if kind == "list":
        rows = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), rows)
    seconds = []
    for size in (count, 20):
        reader = pa.table({"x": rows}).to_reader(max_chunksize=size)
        started = time.process_time()
        assert pennon.write_dataset(reader, uri, mode="overwrite", durability="os").count_rows() == count
        seconds.append(time.process_time() - started)
    # With all bytes of the array for each slice it is more than 1 s.
    assert seconds[1] < seconds[0] + 1, seconds


def test_what_other_rows_have_is_not_looked_at(tmp_path: Path) -> None:
    for number, kind in enumerate(("string", "struct", "list", "fixed_size_list", "map")):
        rows = pa.table({"x": ARRAYS[kind](BAD)})
        found = []
        for at in (0, 2):
            table = pennon.write_dataset(
                rows.slice(at, 1), str(tmp_path / f"{number}-{at}"), data_storage_version=VERSION
            )
            found += table.to_table()["x"].to_pylist()
        good = ARRAYS[kind](GOOD).to_pylist()
        assert found == [good[0], good[2]]
        with pytest.raises(pennon.InvalidInputError, match="Column x"):
            pennon.write_dataset(rows.slice(1, 2), str(tmp_path / "u"), data_storage_version=VERSION)


@pytest.mark.parametrize(
    "array",
    [
        pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["a"]), safe=False),
        pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, offsets(0, 9, 2)], children=[pa.array([1, 2])]),
        pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, offsets(1, 0, 2)], children=[pa.array([1, 2])]),
        pa.Array.from_buffers(pa.binary(), 2, [None, offsets(0, 9, 2), pa.py_buffer(b"ab")]),
    ],
    ids=["key of a dictionary", "offset of a list", "offsets in disorder", "offsets of bytes"],
)
def test_what_points_elsewhere(array: pa.Array, tmp_path: Path) -> None:
    table = pa.Table.from_arrays([array], ["x"])
    with pytest.raises(pennon.InvalidInputError, match="Column x has values that are not valid"):
        pennon.write_dataset(table, str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


NOWHERE = pa.py_buffer(b"\x07\x00\x00\x00\x07\x00\x00\x00")[:0]
"""An offset that was never written: Java's Arrow sends no byte of it, and what is next in memory is read."""

NO_TEXTS = pa.Array.from_buffers(pa.string(), 0, [None, NOWHERE, pa.py_buffer(b"")])


@pytest.mark.parametrize(
    "child",
    [
        NO_TEXTS,
        pa.Array.from_buffers(pa.large_binary(), 0, [None, NOWHERE, pa.py_buffer(b"")]),
        pa.Array.from_buffers(pa.list_(pa.int64()), 0, [None, NOWHERE], children=[pa.array([], pa.int64())]),
        pa.Array.from_buffers(pa.list_(pa.string()), 0, [None, NOWHERE], children=[NO_TEXTS]),
    ],
    ids=["texts", "bytes", "lists", "lists of texts"],
)
def test_members_without_values_need_no_offsets(child: pa.Array, tmp_path: Path) -> None:
    """What PySpark 3.5 makes of empty arrays."""
    lists = pa.Array.from_buffers(pa.list_(child.type), 3, [offsets(0b101), offsets(0, 0, 0, 0)], children=[child])
    dataset = pennon.write_dataset(pa.table({"x": lists}), str(tmp_path / "lists"))
    assert dataset.to_table()["x"].to_pylist() == [[], None, []]
    structs = pa.table({"x": pa.StructArray.from_arrays([child], ["inner"])})
    assert pennon.write_dataset(structs, str(tmp_path / "structs")).count_rows() == 0


def test_maps_without_entries_need_no_offsets(tmp_path: Path) -> None:
    """What PySpark 3.5 makes of empty maps."""
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())]
    entries = pa.StructArray.from_arrays([NO_TEXTS, pa.array([], pa.int64())], fields=fields)
    kind = pa.map_(pa.string(), pa.int64())
    maps = pa.Array.from_buffers(kind, 2, [None, offsets(0, 0, 0)], children=[entries])
    dataset = pennon.write_dataset(pa.table({"x": maps}), str(tmp_path / "maps"), data_storage_version="2.2")
    assert dataset.to_table()["x"].to_pylist() == [[], []]
