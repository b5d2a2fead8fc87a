"""Structs without members: written where the reference writes them and reads them back."""

from __future__ import annotations

from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree

NOTHING = pa.struct([])
AROUND = pa.struct([("x", pa.int64()), ("e", NOTHING)])
WORKS = {
    "plain": pa.array([{}, {}, {}], NOTHING),
    "in a struct": pa.array([{"x": 1, "e": {}}, {"x": None, "e": {}}], AROUND),
    "alone in a struct": pa.array([{"e": {}}] * 2, pa.struct([("e", NOTHING)])),
    "in a list": pa.array([[{}, {}], None, []], pa.list_(NOTHING)),
}
# The reference writes structs that are all null as if they were not.
REFUSED = {
    "null": pa.array([{}, None], NOTHING),
    "all null": pa.array([None, None], NOTHING),
    "in a null struct": pa.array([{"e": {}, "x": 1}, None], AROUND),
}


@pytest.mark.parametrize("writer", [lance, pennon], ids=["reference-writes", "pennon-writes"])
@pytest.mark.parametrize("name", WORKS)
def test_what_is_written(tmp_path: Path, writer: object, name: str, file_version: str) -> None:
    column, uri = WORKS[name], str(tmp_path / "t")
    data = pa.table({"id": range(len(column)), "c": column})
    if name == "in a list" and file_version != "2.0":
        with pytest.raises((OSError, pennon.UnsupportedError), match=r"(?i)empty structs|structs without members"):
            writer.write_dataset(data, uri, data_storage_version=file_version)  # type: ignore[attr-defined]
        return
    writer.write_dataset(data, uri, data_storage_version=file_version)  # type: ignore[attr-defined]
    for module in (lance, pennon):
        module.write_dataset(data, uri, mode="append")
    dataset = pennon.dataset(uri)
    dataset.delete("id = 1")
    rows = assert_both_agree(uri)
    assert rows["c"].to_pylist() == [value for at, value in enumerate(column.to_pylist()) if at != 1] * 3
    if name == "plain":
        assert dataset.count_rows("c is null") == 0
        assert dataset.count_rows("c is not null") == rows.num_rows
    dataset.optimize.compact_files()
    assert assert_both_agree(uri).num_rows == rows.num_rows


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path: Path, name: str, file_version: str) -> None:
    data = pa.table({"c": REFUSED[name]})
    with pytest.raises((pennon.UnsupportedError, pennon.InvalidInputError), match="field `c"):
        pennon.write_dataset(data, tmp_path / "t", data_storage_version=file_version)


def test_columns_behind_one(tmp_path: Path, file_version: str) -> None:
    """The reference reads what is behind a struct without members as null, or crashes; not in file version 2.0."""
    data = pa.table({"c": WORKS["plain"], "id": [1, 2, 3]})
    lance.write_dataset(data, str(tmp_path / "theirs"), data_storage_version=file_version)
    assert pennon.dataset(tmp_path / "theirs").to_table().equals(data)
    if file_version != "2.0":
        assert not lance.dataset(str(tmp_path / "theirs")).to_table().equals(data)
        with pytest.raises(pennon.UnsupportedError, match="field `c`: behind a struct without members"):
            pennon.write_dataset(data, tmp_path / "ours", data_storage_version=file_version)
        return
    pennon.write_dataset(data, tmp_path / "ours", data_storage_version=file_version)
    assert_both_agree(tmp_path / "ours")


@pytest.mark.parametrize("type", [NOTHING, AROUND], ids=["alone", "in a struct"])
def test_new_columns_of_nulls(tmp_path: Path, type: pa.DataType, file_version: str) -> None:
    """The reference adds the column, and its next compaction writes other values."""
    uri, column = str(tmp_path / "t"), pa.field("e", type)
    table = pennon.write_dataset({"id": [1, 2]}, uri, data_storage_version=file_version)
    refused = (pennon.UnsupportedError, pennon.InvalidInputError)
    for add in (table.add_columns, table.with_new_columns):
        with pytest.raises(refused, match=r"field `e.*: (structs without members can be stored|1 null structs)"):
            add(column)
    assert (table.version, pennon.dataset(uri).schema.names) == (1, ["id"])
    assert table.optimize.compact_files().fragments_removed == 0
    # Nothing is null without rows.
    table.delete("true")
    table.add_columns(column)
    table.optimize.compact_files()
    assert table.schema.names == ["id", "e"]
