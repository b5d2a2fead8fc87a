"""Metadata of schemas and fields are texts: other bytes are refused, as by the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest

BROKEN = [{b"k": b"\xff\xfe"}, {b"\xff": b"v"}]
INT = pa.int64()


def in_schema(metadata: dict[bytes, bytes]) -> pa.Schema:
    return pa.schema([("a", INT)], metadata)


def in_field(metadata: dict[bytes, bytes]) -> pa.Schema:
    return pa.schema([pa.field("a", INT, metadata=metadata)])


def in_member(metadata: dict[bytes, bytes]) -> pa.Schema:
    return pa.schema([("a", pa.struct([pa.field("x", INT, metadata=metadata)]))])


def in_item(metadata: dict[bytes, bytes]) -> pa.Schema:
    return pa.schema([("a", pa.list_(pa.field("x", INT, metadata=metadata)))])


def in_map(metadata: dict[bytes, bytes]) -> pa.Schema:
    return pa.schema([("a", pa.map_(pa.string(), pa.field("value", INT, metadata=metadata)))])


PLACES = [in_schema, in_field, in_member, in_item, in_map]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("metadata", BROKEN)
def test_bytes_are_refused(place: Any, metadata: dict[bytes, bytes], tmp_path: Path) -> None:
    data = place(metadata).empty_table()
    for module in (pennon, lance):
        for rows in (data, data.to_reader()):
            with pytest.raises(ValueError, match=r"(?i)utf-?8"):
                module.write_dataset(rows, tmp_path / "t")
    (key,) = metadata
    for call in (pennon.write_dataset, pennon.fragment.write_fragments):
        with pytest.raises(pennon.InvalidInputError, match=r"is not valid utf8\. Consider base64 encode") as error:
            call(data, tmp_path / "t")
        assert repr(key) in str(error.value)
        assert ("the schema" if place is in_schema else "the field a") in str(error.value)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("place", PLACES)
def test_texts_are_kept(place: Any, tmp_path: Path) -> None:
    schema = place({"é".encode(): "ü\U0001f600".encode()})
    table = pennon.write_dataset(schema.empty_table(), tmp_path / "t")
    assert table.schema.equals(schema, check_metadata=True)
