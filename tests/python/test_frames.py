"""Rows as pandas frames, next to the installed pylance: what blobs become in the three modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pandas as pd
import pennon
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon.blob import blob_array, blob_field

VALUES = [b"abc", None, b"d" * 70_000, b"", b"e" * 10]
IDS = pa.array(range(5))


def blobs() -> pa.Table:
    return pa.table([IDS, blob_array(VALUES)], schema=pa.schema([pa.field("id", pa.int64()), blob_field("b")]))


def legacy() -> pa.Table:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table([IDS, pa.array(VALUES, pa.large_binary())], schema=schema)


def nested() -> pa.Table:
    fields = [blob_field("b"), pa.field("n", pa.int64())]
    is_null = pa.array([False] * 4 + [True])
    values = pa.StructArray.from_arrays([blob_array(VALUES), IDS], fields=fields, mask=is_null)
    return pa.table([IDS, values], schema=pa.schema([pa.field("id", pa.int64()), pa.field("s", values.type)]))


@pytest.fixture
def uris(tmp_path: Path) -> dict[str, str]:
    found = {name: str(tmp_path / name) for name in ("blobs", "legacy", "nested")}
    pennon.write_dataset(blobs(), found["blobs"], max_rows_per_file=3)
    pennon.write_dataset(nested(), found["nested"], max_rows_per_file=3)
    lance.write_dataset(legacy(), found["legacy"], data_storage_version="2.1", max_rows_per_file=3)
    return found


def seen(value: Any) -> Any:
    """A value with the bytes of files in it."""
    if type(value).__name__ == "BlobFile":
        return ["file", value.read()]
    if isinstance(value, dict):
        return {name: seen(part) for name, part in value.items()}
    return None if value is None or value is pd.NA else value


def content(frame: pd.DataFrame) -> Any:
    return list(frame.columns), frame.index.tolist(), [[seen(v) for v in frame[name]] for name in frame.columns]


CALLS: dict[str, Callable[[Any], pd.DataFrame]] = {
    "all": lambda table: table.to_pandas(),
    "lazy": lambda table: table.to_pandas(blob_mode="lazy"),
    "bytes": lambda table: table.to_pandas(blob_mode="bytes"),
    "scanner": lambda table: table.scanner().to_pandas(),
    "scanner, bytes": lambda table: table.scanner(filter="id > 0").to_pandas(blob_mode="bytes"),
    "rows": lambda table: table.to_pandas(filter="id != 1", limit=2, offset=1),
    "expression": lambda table: table.to_pandas(filter=pc.field("id") > 1),
    "none": lambda table: table.to_pandas(filter="id > 99"),
    "ids": lambda table: table.to_pandas(with_row_id=True),
    "addresses": lambda table: table.to_pandas(with_row_address=True, filter="id in (0, 4)"),
    "options": lambda table: table.to_pandas(strings_to_categorical=True, filter="id < 2"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["blobs", "legacy", "nested"])
def test_modes(uris: dict[str, str], name: str, call: str) -> None:
    mine, theirs = (content(CALLS[call](module.dataset(uris[name]))) for module in (pennon, lance))
    assert mine == theirs


@pytest.mark.parametrize("columns", [["b"], ["b", "id"], ["_rowid", "b", "id"]])
@pytest.mark.parametrize("name", ["blobs", "legacy"])
def test_columns(uris: dict[str, str], name: str, columns: list[str]) -> None:
    mine, theirs = (content(module.dataset(uris[name]).to_pandas(columns=columns)) for module in (pennon, lance))
    assert mine == theirs


def test_addresses_that_were_asked_for(uris: dict[str, str]) -> None:
    """By name: the reference loses them."""
    frame = pennon.dataset(uris["blobs"]).to_pandas(columns=["_rowaddr", "b"])
    assert list(frame) == ["_rowaddr", "b"]
    assert frame["_rowaddr"].tolist() == [0, 1, 2, 1 << 32, 1 << 32 | 1]


@pytest.mark.parametrize("name", ["blobs", "legacy"])
def test_renamed_columns(uris: dict[str, str], name: str) -> None:
    columns = {"id": "id", "x": "b"}
    mine, theirs = (content(m.dataset(uris[name]).to_pandas(columns=columns)) for m in (pennon, lance))
    assert mine == theirs


@pytest.mark.parametrize("name", ["blobs", "legacy", "nested"])
def test_descriptions(uris: dict[str, str], name: str) -> None:
    frames = [module.dataset(uris[name]).to_pandas(blob_mode="descriptions") for module in (pennon, lance)]
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize("wrong", ["eager", "", None, "Lazy"])
def test_wrong_modes(uris: dict[str, str], wrong: Any) -> None:
    for module in (pennon, lance):
        for table in (module.dataset(uris["blobs"]), module.dataset(uris["blobs"]).scanner()):
            with pytest.raises(ValueError, match="blob_mode must be one of: 'lazy', 'bytes', 'descriptions'"):
                table.to_pandas(blob_mode=wrong)
            with pytest.raises(TypeError, match="blob_modus"):
                table.to_pandas(blob_modus="lazy")


def test_blobs_are_read_when_they_are_looked_at(tmp_path: Path) -> None:
    large = [bytes([number]) * 5_000_000 for number in range(4)]
    data = pa.table([blob_array(large)], schema=pa.schema([blob_field("b")]))
    table = pennon.write_dataset(data, tmp_path / "large")
    table.io_stats_incremental()
    frame = table.to_pandas()
    assert table.io_stats_incremental().read_bytes < 1_000_000
    assert frame["b"][2].read() == large[2]
    assert 5_000_000 <= table.io_stats_incremental().read_bytes < 6_000_000


def test_a_scanner_reads_its_own_version(uris: dict[str, str]) -> None:
    table = pennon.dataset(uris["blobs"])
    scanner = table.scanner()
    table.delete("id < 3")
    assert scanner.to_table().num_rows == 5
    for mode in ("lazy", "bytes", "descriptions"):
        assert len(scanner.to_pandas(blob_mode=mode)) == 5
    assert len(table.to_pandas()) == 2
    assert "version=1" in repr(scanner)


def test_frames_of_polars_have_the_types_of_the_reference(tmp_path: Path) -> None:
    frame = polars.DataFrame(
        {"a": [1], "text": ["x"], "kind": ["k"]}, schema_overrides={"kind": polars.Categorical}
    )
    for number, (first, second) in enumerate([(lance, pennon), (pennon, lance)]):
        uri = str(tmp_path / str(number))
        first.write_dataset(frame, uri)
        second.write_dataset(frame, uri, mode="append")
        merge = pennon.dataset(uri).merge_insert("a").when_matched_delete().when_not_matched_insert_all()
        merge.execute(frame.with_columns(a=polars.lit(2, polars.Int64)))
        assert pennon.dataset(uri).schema.field("text").type == pa.large_string()
        assert lance.dataset(uri).to_table()["text"].to_pylist() == ["x"] * 3
