"""Large values, large dictionaries and long lists: what one side writes the other reads, and nulls are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_same
from support.spread import spread

pytestmark = pytest.mark.slow

SIDES = {"pennon": pennon, "lance": lance}


def values(kind: str) -> list[bytes | None]:
    """Values of 0 to 200 kB, every third null: noise, compressible, or both in turns."""
    rng = np.random.default_rng(4)

    def value(row: int) -> bytes:
        length = (0, 1, 300, 40_000, 200_000)[row % 5]
        if kind == "noise" or (kind == "mixed" and row % 2):
            return rng.integers(0, 256, length, dtype=np.uint8).tobytes()
        return (f"{row:04}".encode() * 50_000)[:length]

    return [None if row % 3 == 0 else value(row) for row in range(60)]


@spread()
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", SIDES)
@pytest.mark.parametrize("kind", ["noise", "compressible", "mixed"])
def test_values_and_nulls(tmp_path: Path, kind: str, writer: str, version: str) -> None:
    """Filters for null, alone, with others, and with the values in the result."""
    found = values(kind)

    def each(make: Callable[[bytes], object]) -> list[object]:
        return [None if value is None else make(value) for value in found]

    # Structs cannot be null in file version 2.0.
    structs = [{"m": value} for value in found] if version == "2.0" else each(lambda value: {"m": value})
    data = pa.table(
        {
            "id": pa.array(range(60)),
            "b": pa.array(found, pa.binary()),
            "large": pa.array(found, pa.large_binary()),
            "t": pa.array(each(bytes.hex), pa.utf8()),
            "s": pa.array(structs, pa.struct([("m", pa.large_binary())])),
            "f": pa.array(each(lambda _: [0.5] * 600), pa.list_(pa.float32(), 600)),
        }
    )
    uri = str(tmp_path / "table")
    SIDES[writer].write_dataset(data, uri, data_storage_version=version)
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    assert_same(ours.to_table(), theirs.to_table())
    filters = [f"{name} IS {test}" for name in data.schema.names[1:] for test in ("NULL", "NOT NULL")]
    filters += ["b IS NULL AND id > 20", "b IS NULL OR length(t) > 5", "large IS NOT NULL AND large = X'30'"]
    for predicate in filters:
        expected = theirs.to_table(filter=predicate)
        assert_same(ours.to_table(filter=predicate), expected)
        assert_same(ours.to_table(filter=predicate, use_stats=False), expected)
        assert_same(ours.to_table(columns=["id"], filter=predicate), expected.select(["id"]))
        assert ours.count_rows(predicate) == expected.num_rows
    assert ours.delete("large IS NULL")["num_deleted_rows"] == 20
    assert_same(pennon.dataset(uri).to_table(), data.filter(pa.array([value is not None for value in found])))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_nulls_among_large_values_are_found_without_reading_them(tmp_path: Path, version: str) -> None:
    """Also in files of the reference, which have no statistics."""
    valid = [row % 10 > 0 for row in range(300)]
    noise = np.random.default_rng(5).bytes(100_000)
    data = pa.table({"v": pa.array([noise[row:] if ok else None for row, ok in enumerate(valid)], pa.binary())})
    for side, module in SIDES.items():
        uri = str(tmp_path / side)
        module.write_dataset(data, uri, data_storage_version=version)
        table = pennon.dataset(uri)
        before = table.counters().read_bytes
        assert table.count_rows("v IS NULL") == 30
        assert table.delete("v IS NULL")["num_deleted_rows"] == 30
        assert table.counters().read_bytes - before < 300_000
        assert lance.dataset(uri).count_rows("v IS NULL") == 0


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("shape", ["all", "half", "few", "nulls", "repeated", "slices"])
def test_dictionaries(tmp_path: Path, shape: str, version: str) -> None:
    """Dictionaries that are in use as a whole, or hardly, with nulls among keys and items."""
    rng = np.random.default_rng(6)
    items = [f"item {number}" for number in range(20_000)]
    keys = rng.permutation(20_000).astype(np.int32)
    mask = None
    if shape == "half":
        keys = keys[keys < 10_050]
    elif shape == "few":
        keys = keys[:100]
    elif shape == "nulls":
        mask = rng.random(len(keys)) < 0.1
        items = [None if number % 50 == 0 and version != "2.0" else item for number, item in enumerate(items)]
    elif shape == "repeated":
        items = [f"item {number // 3}" for number in range(20_000)]
    column = pa.DictionaryArray.from_arrays(pa.array(keys, mask=mask), pa.array(items))
    data = pa.table({"d": column})
    if shape == "slices":
        data = pa.concat_tables([data.slice(start, 1_500) for start in (0, 9_000, 3_000)])
    uri = str(tmp_path / "table")
    pennon.write_dataset(data, uri, data_storage_version=version)
    wanted = pa.chunked_array([chunk.dictionary_decode() for chunk in data["d"].chunks]).to_pylist()
    for module in SIDES.values():
        found = module.dataset(uri).to_table()["d"]
        decoded = [value for chunk in found.chunks for value in chunk.dictionary_decode().to_pylist()]
        assert decoded == wanted


def test_a_long_list_and_a_long_text_in_one_row(tmp_path: Path) -> None:
    """Also compressible and incompressible ones, read whole and by position."""
    items = [f"value {number}" for number in range(200_000)]
    noise = np.random.default_rng(7).bytes(20_000_000)
    data = pa.table(
        {
            "list": pa.array([items], pa.list_(pa.utf8())),
            "text": pa.array(["some words and more of them " * 700_000]),
            "noise": pa.array([noise], pa.binary()),
        }
    )
    for writer, module in SIDES.items():
        uri = str(tmp_path / writer)
        module.write_dataset(data, uri)
        for reader in SIDES.values():
            assert_same(reader.dataset(uri).to_table(), data)
            assert_same(reader.dataset(uri).take([0]), data)
