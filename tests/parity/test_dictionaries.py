"""Dictionaries with narrow keys: rows of several are put together, and items without a key are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

VERSIONS = ["2.0", "2.1", "2.2"]


def part(start: int, items: int, keys: pa.DataType, name: str = "v", form: str = "plain") -> pa.Table:
    """A thousand rows, whose dictionary has so many items."""
    rows = 1000
    codes = pa.array([row % items for row in range(rows)], keys)
    column: pa.Array = pa.DictionaryArray.from_arrays(codes, [f"{name}{item}" for item in range(items)])
    if form == "struct":
        column = pa.StructArray.from_arrays([column], ["d"])
    if form == "list":
        column = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), column)
    return pa.table({"id": range(start, start + rows), "c": column})


def values(table: Any) -> list[tuple[int, str]]:
    def text(value: Any) -> str:
        if isinstance(value, dict):
            return text(value["d"])
        return text(value[0]) if isinstance(value, list) else value

    # Batches have their own dictionaries, which pyarrow does not put together.
    batches = table.to_batches() if isinstance(table, pa.Table) else [table]
    return sorted((row["id"], text(row["c"])) for batch in batches for row in batch.to_pylist())


CHANGES: dict[str, Callable[[pennon.LanceDataset], object]] = {
    "compaction": lambda table: table.optimize.compact_files(),
    "update of another column": lambda table: table.update({"id": "id + 0"}),
    "rows by id": lambda table: table.update_rows(
        table.to_table(columns=["_rowid", "id"]).select(["_rowid", "id"])
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", ["plain", "struct", "list"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_items_in_several_dictionaries(tmp_path: Path, version: str, form: str, change: str) -> None:
    """A hundred items fit into int8, however often they are there."""
    uri = tmp_path / "t"
    first, second = (part(start, 100, pa.int8(), form=form) for start in (0, 1000))
    table = pennon.write_dataset(first, uri, data_storage_version=version)
    table.insert(second)
    expected = values(first) + values(second)
    CHANGES[change](table)
    assert values(pennon.dataset(uri).to_table()) == expected
    assert pennon.verify(uri, data=True).ok
    assert values(lance.dataset(str(uri)).to_table(batch_size=50)) == expected


@pytest.mark.parametrize("keys", [pa.int8(), pa.uint8(), pa.int16()], ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_more_items_than_keys(tmp_path: Path, version: str, keys: pa.DataType) -> None:
    items = {"int8": 100, "uint8": 200, "int16": 20_000}[str(keys)]
    parts = [part(0, min(items, 1000), keys, "a"), part(1000, min(items, 1000), keys, "b")]
    if items > 1000:
        parts = [
            pa.table({"id": range(items), "c": pa.array([f"{name}{n}" for n in range(items)]).dictionary_encode()})
            for name in "ab"
        ]
        parts = [
            table.cast(pa.schema({"id": pa.int64(), "c": pa.dictionary(keys, pa.string())})) for table in parts
        ]
    uri = tmp_path / "t"
    with pytest.raises(pennon.UnsupportedError, match="different values of a dictionary"):
        pennon.write_dataset(pa.concat_tables(parts), uri, data_storage_version=version)
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)
    table = pennon.write_dataset(parts[0], uri, data_storage_version=version)
    table.insert(parts[1])
    expected = values(table.to_table())
    assert len(expected) == 2 * len(parts[0])
    for change in CHANGES.values():
        with pytest.raises(pennon.UnsupportedError, match="alter the column"):
            change(table)
    rows = [0, len(parts[0])]
    assert len(table.take(rows)) == 2
    assert len(table.sample(10)) == 10
    with pytest.raises(pennon.UnsupportedError, match="alter the column"):
        table.take(list(range(table.count_rows())))
    with pytest.raises(pennon.UnsupportedError):
        table.to_table(order_by=["id"])
    # The error says what helps.
    table.alter_columns({"path": "c", "data_type": pa.string()})
    table.optimize.compact_files()
    assert values(pennon.dataset(uri).to_table()) == expected
    assert pennon.dataset(uri).version > 2


def test_reads_of_several_dictionaries(tmp_path: Path) -> None:
    parts = [part(start, 100, pa.int8()) for start in (0, 1000)]
    table = pennon.write_dataset(parts[0], tmp_path / "t")
    table.insert(parts[1])
    expected = values(parts[0]) + values(parts[1])
    assert values(table.take(list(range(2000)))) == expected
    assert values(table.to_table(order_by=["c"])) == expected
    assert values(table.scanner(strict_batch_size=True, batch_size=1500).to_table()) == expected
    assert len(table.sample(1500)) == 1500
    assert values(pa.table(table.changes(0)).select(["id", "c"])) == expected
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.concat_tables([part(500, 100, pa.int8()), part(1500, 100, pa.int8())]))
    assert table.count_rows() == 2500
    assert len(values(table.to_table())) == 2500


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_dictionaries_of_booleans_by_the_reference(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int8()), pa.array([True, False]))
    lance.write_dataset(pa.table({"x": column}), uri, data_storage_version=version)
    assert pennon.dataset(uri).to_table()["x"].to_pylist() == [True, False, None, False]


@pytest.mark.parametrize(
    "items",
    [
        pa.array([1, 2], pa.timestamp("us")),
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.duration("s")),
        pa.array([b"ab", b"cd"], pa.binary(2)),
        pa.array([1, 2], pa.decimal128(20, 2)),
    ],
    ids=lambda items: str(items.type),
)
def test_items_that_crash_the_reference_are_refused(tmp_path: Path, items: pa.Array) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), items)
    with pytest.raises(pennon.UnsupportedError, match="unreadable for other readers"):
        pennon.write_dataset(pa.table({"x": column}), tmp_path / "t")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_null_items_are_put_in_order(uri: str, library: Any, version: str) -> None:
    """What a null item stands for is null."""
    parts = [
        pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 0], pa.int8()), pa.array(items))
        for items in (["a", None, "c"], [None, "e", "f"])
    ]
    for at, column in enumerate(parts):
        table = pa.table({"id": [7 - 2 * row - at for row in range(4)], "d": column})
        library.write_dataset(table, uri, mode="append" if at else "create", data_storage_version=version)
    expected = [None, "a", None, None, "e", None, "f", "c"]
    ordered = pennon.dataset(uri).to_table(order_by=["id"])
    assert ordered["id"].to_pylist() == list(range(8))
    assert ordered["d"].to_pylist() == expected
    assert pennon.dataset(uri).to_table(order_by=["id"], limit=3)["d"].to_pylist() == expected[:3]
