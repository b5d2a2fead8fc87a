"""Small calls that pylance's programs make, next to the installed one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.fragment import RowIdSequence
from pennon.blob import blob_array, blob_field

PRIMARY = {"lance-schema:unenforced-primary-key": "true"}
CLUSTERING = {"lance-schema:unenforced-clustering-key:position": "1"}
SCHEMA = pa.schema(
    [
        pa.field("b", pa.int64(), nullable=False, metadata=CLUSTERING),
        pa.field("Id", pa.int64(), nullable=False, metadata=PRIMARY),
        pa.field("point", pa.struct([pa.field("X", pa.int32()), pa.field("x", pa.int32())])),
    ]
)
DATA = pa.table({"b": [2, 3], "Id": [1, 2], "point": [{"X": 1, "x": 2}, {"X": 3, "x": 4}]}, schema=SCHEMA)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Any, Any]:
    return pennon.write_dataset(DATA, str(tmp_path / "a")), lance.write_dataset(DATA, str(tmp_path / "b"))


def test_fields_and_keys(both: tuple[Any, Any]) -> None:
    ours, theirs = (table.lance_schema for table in both)
    for key in ("unenforced_primary_key", "unenforced_clustering_key"):
        (field,), (other,) = getattr(ours, key)(), getattr(theirs, key)()
        assert (field.name, field.id) == (other.name(), other.id())
        assert getattr(field, f"is_{key}")() is getattr(other, f"is_{key}")() is True
    for name in ("id", "ID", "POINT.x", "point.X", "Point.z", "z", "id.x"):
        field, other = ours.field_case_insensitive(name), theirs.field_case_insensitive(name)
        assert (field and field.id) == (other and other.id()), name
        if other is None:
            assert field is None


def test_a_fragment_as_a_frame(both: tuple[Any, Any]) -> None:
    options: dict[str, Any] = {"columns": ["b"], "filter": "b > 2", "with_row_id": True, "batch_size": 1}
    ours, theirs = (table.get_fragments()[0].to_pandas(**options, split_blocks=True) for table in both)
    assert ours.equals(theirs)
    assert ours.shape == (1, 2)


def test_storage_options(tmp_path: Path) -> None:
    for options in (None, {"timeout": "30s"}):
        found = [
            (table.initial_storage_options, table.latest_storage_options())
            for library in (pennon, lance)
            for table in [
                library.write_dataset(DATA, str(tmp_path / f"{library.__name__}{options}"), storage_options=options)
            ]
        ]
        assert found == [(options, options)] * 2


def test_a_sequence_of_row_ids_is_iterable() -> None:
    for ids in ([], [0, 1, 2], [3, 4, 9]):
        found = list(pennon.fragment.RowIdSequence(ids)), list(RowIdSequence(pa.array(ids, pa.uint64())))
        assert found == (ids, ids)


def test_a_blob_is_a_buffered_file(tmp_path: Path) -> None:
    values = [b"abc\ndef", b""]
    found = []
    for library, array, field in ((pennon, blob_array, blob_field), (lance, lance.blob_array, lance.blob_field)):
        data = pa.table([array(values)], schema=pa.schema([field("blob")]))
        uri = str(tmp_path / library.__name__)
        table = library.write_dataset(data, uri, data_storage_version="2.2")
        full, empty = table.take_blobs("blob", indices=[0, 1])
        assert isinstance(full, io.BufferedIOBase)
        steps = [
            full.read1(2),
            full.read(None),
            full.read(),
            full.read(3),
            full.seek(1),
            full.readline(),
            full.read(2),
        ]
        steps += [full.seek(0), full.readlines(), empty.read(), empty.read1(4), full.seek(5), full.read(100)]
        buffer = bytearray(3)
        steps += [full.seek(0), full.readinto1(buffer), bytes(buffer)]
        with pytest.raises(io.UnsupportedOperation):
            full.detach()
        found.append(steps)
    assert found[0] == found[1]
