"""Columns that are stored unlike any other, inside of tables, and tables that are refused rather than misread."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest

ROWS = 3000


def numbers() -> pa.Array:
    return pa.array(range(ROWS), pa.int64())


def packed(text: bool) -> pa.Table:
    rng = random.Random(3)
    member = {"a": pa.int32(), "b": pa.float64()} | ({"c": pa.string()} if text else {})
    make = lambda i: {"a": i, "b": rng.random()} | ({"c": f"text {i}"} if text else {})  # noqa: E731
    values = [None if i % 9 == 4 else make(i) for i in range(ROWS)]
    field = pa.field("p", pa.struct(list(member.items())), metadata={"lance-encoding:packed": "true"})
    return pa.table(
        [numbers(), pa.array(values, field.type)], schema=pa.schema([pa.field("id", pa.int64()), field])
    )


def blobs() -> pa.Table:
    rng = random.Random(4)
    values = [None if i % 7 == 3 else rng.randbytes(rng.choice([0, 1, 300])) for i in range(ROWS)]
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    return pa.table(
        [numbers(), pa.array(values, field.type)], schema=pa.schema([pa.field("id", pa.int64()), field])
    )


# Members of variable width came with 2.2.
@pytest.mark.parametrize(("version", "text"), [("2.1", False), ("2.2", False), ("2.2", True)])
def test_packed_structs(tmp_path: Path, version: str, text: bool) -> None:
    uri = str(tmp_path / "t")
    reference = lance.write_dataset(packed(text), uri, data_storage_version=version)
    reference.delete("id % 2 = 0")
    dataset = pennon.dataset(uri)
    assert dataset.to_table() == reference.to_table()
    assert dataset.take([5, 900, 1, 1]) == reference.take([5, 900, 1, 1])
    # One member alone, which the column holds together with the others.
    wanted = pc.struct_field(reference.to_table(columns=["p"])["p"], "b").combine_chunks()
    assert dataset.to_table(columns=["p.b"]).column(0).combine_chunks() == wanted
    assert dataset.count_rows("p.a > 1500") == reference.count_rows("p.a > 1500")


def test_blobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    reference = lance.write_dataset(blobs(), uri, data_storage_version="2.1")
    reference.delete("id % 3 = 0")
    dataset = pennon.dataset(uri)
    assert dataset.to_table() == reference.to_table()
    whole = dataset.to_table(blob_handling="all_binary")
    assert whole == reference.scanner(blob_handling="all_binary").to_table()
    assert dataset.take([7, 3, 1500]).to_pylist() == dataset.to_table().take([7, 3, 1500]).to_pylist()
    assert dataset.count_rows("id > 10 and blob is null") == whole["blob"].slice(7).null_count


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("text", [False, True])
def test_written_packed_structs(tmp_path: Path, version: str, text: bool) -> None:
    uri, data = str(tmp_path / "t"), packed(text)
    if text and version != "2.2":
        with pytest.raises(
            pennon.UnsupportedError, match=r"field `p`: members of type Utf8 .* need file version 2\.2"
        ):
            pennon.write_dataset(data, uri, data_storage_version=version)
        return
    if version == "2.0":
        data = data.filter(pc.is_valid(data["p"]))
    pennon.write_dataset(data, uri, data_storage_version=version)
    reference = lance.dataset(uri)
    reference.validate()
    assert reference.to_table() == data
    assert reference.take([5, 900, 1, 1]) == data.take([5, 900, 1, 1])
    reference.delete("id % 2 = 0")
    dataset = pennon.dataset(uri)
    assert dataset.to_table() == reference.to_table()
    # A row further on, by the reference and by Pennon.
    lance.write_dataset(data.slice(0, 9), uri, mode="append")
    dataset = pennon.write_dataset(data.slice(9, 9), uri, mode="append")
    assert dataset.to_table() == lance.dataset(uri).to_table()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_written_blobs(tmp_path: Path, version: str) -> None:
    uri, data = str(tmp_path / "t"), blobs()
    pennon.write_dataset(data, uri, data_storage_version=version)
    reference = lance.dataset(uri)
    reference.validate()
    assert reference.scanner(blob_handling="all_binary").to_table() == data
    values = data["blob"].to_pylist()
    rows = [0, 3, 5, 2999]
    found = [blob and blob.readall() for blob in reference.take_blobs("blob", indices=rows)]
    assert found == [values[row] for row in rows]
    reference.delete("id % 3 = 0")
    lance.write_dataset(data.slice(0, 9), uri, mode="append")
    dataset = pennon.write_dataset(data.slice(9, 9), uri, mode="append")
    found = dataset.to_table(blob_handling="all_binary")
    assert found == lance.dataset(uri).scanner(blob_handling="all_binary").to_table()


def test_other_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": numbers()}), uri, data_storage_version="2.3")
    dataset = pennon.dataset(uri)
    with pytest.raises(pennon.UnsupportedError, match=r"2\.3"):
        dataset.to_table()
    with pytest.raises(pennon.UnsupportedError, match=r"2\.3"):
        dataset.take([1, 2])
