"""Data files by themselves: `pennon.file`."""

from __future__ import annotations

import os
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon.file import LanceFileReader, LanceFileWriter, stable_version
from support.tables import numbers

NESTED = pa.table(
    {
        "id": pa.array(range(3000), pa.int64()),
        "point": [{"x": i, "name": f"point {i}"} for i in range(3000)],
        "tags": [[{"key": "k", "value": i}] * (i % 3) for i in range(3000)],
    }
)


def write(path: Path, data: pa.Table = NESTED, **options: object) -> Path:
    with LanceFileWriter(path, **options) as writer:
        writer.write_batch(data)
    return path


@pytest.mark.parametrize("version", [None, "2.1", "2.2", "stable"])
def test_rows_come_back(tmp_path: Path, version: str | None) -> None:
    path = write(tmp_path / "new directory" / "a.lance", version=version)
    reader = LanceFileReader(str(path))
    assert reader.num_rows() == 3000
    assert reader.read_all().to_table().equals(NESTED)
    assert [batch.num_rows for batch in reader.read_all().to_batches()] == [1024, 1024, 952]
    assert [batch.num_rows for batch in reader.read_all(batch_size=1500, batch_readahead=1).to_batches()] == [
        1500
    ] * 2
    assert reader.read_range(1000, 1500).to_table().equals(NESTED.slice(1000, 1500))
    assert reader.read_range(3000, 0).to_table().num_rows == 0
    rows = [0, 1, 999, 1000, 2999]
    assert reader.take_rows(rows).to_table().equals(NESTED.take(rows))
    assert reader.take_rows(pa.array(rows)).to_table().equals(NESTED.take(rows))
    assert reader.take_rows([]).to_table().equals(NESTED.slice(0, 0))
    assert LanceFileReader(path.as_uri()).num_rows() == 3000
    assert repr(reader) == f"LanceFileReader({str(path)!r}, rows=3000)"


def test_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.lance")

    def rows(columns: list[str]) -> list[dict]:
        return LanceFileReader(path, columns=columns).read_range(1, 1).to_table().to_pylist()

    assert rows(["id"]) == [{"id": 1}]
    assert rows(["point.name"]) == [{"point": {"name": "point 1"}}]
    assert rows(["point", "id"]) == [{"point": {"x": 1, "name": "point 1"}, "id": 1}]
    assert rows(["point.name", "id", "point.x"]) == [{"point": {"x": 1, "name": "point 1"}, "id": 1}]
    assert rows(["tags.item.key"]) == [{"tags": [{"key": "k"}]}]
    for wrong in (["nope"], ["point.nope"], ["ID"], []):
        with pytest.raises(pennon.InvalidInputError) as caught:
            LanceFileReader(path, columns=wrong)
        assert isinstance(caught.value, OSError)
    with pytest.raises(TypeError):
        LanceFileReader(path, columns="id")  # type: ignore[arg-type]


def test_what_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    schema = NESTED.schema.with_metadata({"k": "v"})
    with LanceFileWriter(path, schema, max_page_bytes=4096) as writer:
        writer.write_batch(NESTED)
        writer.add_schema_metadata("added", "later")
        assert writer.add_global_buffer(b"one") == 1
        assert writer.add_global_buffer(bytearray(5)) == 2
        assert writer.size_bytes is None
        assert repr(writer).endswith(", open)")
    assert writer.size_bytes == path.stat().st_size
    assert writer.close() is None

    reader = LanceFileReader(path)
    found = reader.metadata()
    assert found.schema.equals(schema)
    assert found.schema.metadata == {b"k": b"v", b"added": b"later"}
    assert (found.num_rows, found.size_bytes, found.version) == (3000, writer.size_bytes, "2.2")
    assert (found.major_version, found.minor_version) == (2, 2)
    assert [column.name for column in found.columns] == [
        "id", "point.x", "point.name", "tags.item.key", "tags.item.value",
    ]  # fmt: skip
    data = path.read_bytes()
    for column in found.columns:
        assert len(column.pages) > 1
        assert sum(page.num_rows for page in column.pages) == 3000
        for page in column.pages:
            assert page.encoding
            assert all(buffer.position % 64 == 0 for buffer in page.buffers)
    *given, statistics = [data[b.position : b.position + b.size] for b in found.global_buffers[1:]]
    assert given == [b"one", bytes(5)]
    assert statistics.startswith(b"PENNSTAT")
    assert found.num_global_buffer_bytes == sum(b.size for b in found.global_buffers)
    parts = found.num_data_bytes + found.num_column_metadata_bytes + found.num_global_buffer_bytes
    # Tables of columns and of global buffers, the record of checksums, the footer.
    assert parts + 4 * 16 + 48 + 40 == len(data)
    assert reader.read_global_buffer(1) == b"one"
    assert b"point" in reader.read_global_buffer(0)
    for column, figures in zip(found.columns, reader.file_statistics().columns, strict=True):
        assert figures.num_pages == len(column.pages)
        assert figures.size_bytes == sum(b.size for page in column.pages for b in page.buffers)
    with pytest.raises(ValueError, match="index 4 but there were only 4"):
        reader.read_global_buffer(4)
    with pytest.raises(OverflowError):
        reader.read_global_buffer(-1)


def test_wrong_rows(tmp_path: Path) -> None:
    reader = LanceFileReader(write(tmp_path / "a.lance"))
    with pytest.raises(ValueError, match=r"cannot read Range\(2999..3004\) from columns with 3000 rows"):
        reader.read_range(2999, 5)
    with pytest.raises(ValueError, match="cannot read Indices"):
        reader.take_rows([1, 3000])
    with pytest.raises(ValueError, match="sorted in ascending order"):
        reader.take_rows([5, 1])
    with pytest.raises(ValueError, match="not strictly increasing"):
        reader.take_rows([1, 1])
    with pytest.raises(ValueError, match="batch_size"):
        reader.read_all(batch_size=0)
    for call in (lambda: reader.read_range(-1, 5), lambda: reader.take_rows([-1])):
        with pytest.raises(OverflowError):
            call()


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Not found"):
        LanceFileReader(tmp_path / "none.lance")
    for content in (b"", b"x", b"x" * 39, b"x" * 1000):
        path = tmp_path / "junk.lance"
        path.write_bytes(content)
        with pytest.raises(pennon.CorruptError, match=r"junk\.lance"):
            LanceFileReader(path)
    with pytest.raises(OSError, match=tmp_path.name):
        LanceFileReader(tmp_path)
    with pytest.raises(pennon.InvalidInputError, match="nope"):
        LanceFileReader("nope://a/b.lance")
    with pytest.raises(TypeError):
        LanceFileReader(b"bytes")  # type: ignore[arg-type]


def test_the_schema_decides(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    rows = numbers(3)
    with LanceFileWriter(path, rows.schema) as writer:
        writer.write_batch(rows.append_column("extra", rows["id"]).select(["extra", "text", "id"]))
        with pytest.raises(ValueError, match="missing the column `text`"):
            writer.write_batch(rows.select(["id"]))
        writer.write_batch(rows.to_batches()[0])
    assert LanceFileReader(path).read_all().to_table().equals(pa.concat_tables([rows, rows]))

    empty = write(tmp_path / "empty.lance", rows.slice(0, 0), schema=rows.schema)
    assert LanceFileReader(empty).read_all().to_table().equals(rows.slice(0, 0))
    for nothing in ([], [rows.slice(0, 0)]):
        writer = LanceFileWriter(tmp_path / "b.lance")
        for batch in nothing:
            writer.write_batch(batch)
        with pytest.raises(ValueError, match="No schema provided"):
            writer.close()
    assert sorted(os.listdir(tmp_path)) == ["a.lance", "empty.lance"]


WRONG = {
    "another type": (lambda rows: rows.set_column(0, "id", rows["text"]), pennon.SchemaMismatchError),
    "null": (lambda rows: rows.set_column(0, "id", pa.array([None] * 3, pa.int64())), pennon.SchemaMismatchError),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_failed_write_leaves_nothing(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "a.lance"
    path.write_bytes(b"before")
    rows = numbers(3)
    change, kind = WRONG[wrong]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.utf8())])
    writer = LanceFileWriter(path, schema)
    writer.write_batch(rows)
    with pytest.raises(kind, match="id"):
        writer.write_batch(change(rows))
    with pytest.raises(ValueError, match="failed"):
        writer.close()
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a.lance"]


def test_a_body_that_raises_leaves_nothing(tmp_path: Path) -> None:
    """pylance closes the file here, with the rows so far."""
    path = tmp_path / "a.lance"
    path.write_bytes(b"before")
    for rows in (0, 3):
        writer = LanceFileWriter(path)

        def body(writer: LanceFileWriter = writer, rows: int = rows) -> None:
            with writer:
                writer.write_batch(numbers(rows))
                raise KeyError("boom")

        with pytest.raises(KeyError, match="boom"):
            body()
        assert path.read_bytes() == b"before"
        assert writer.closed
        with pytest.raises(ValueError, match="closed"):
            writer.write_batch(numbers(1))
    forgotten = LanceFileWriter(path, numbers(0).schema)
    forgotten.write_batch(numbers(5))
    del forgotten
    assert os.listdir(tmp_path) == ["a.lance"]
    write(path, numbers(2))
    assert LanceFileReader(path).num_rows() == 2


def test_wrong_writers(tmp_path: Path) -> None:
    schema = numbers(0).schema
    path = tmp_path / "a.lance"
    for version in ("2", "x", "1.0", "2.4"):
        with pytest.raises(ValueError, match="Unknown Lance storage version"):
            LanceFileWriter(path, schema, version=version)
    for version in ("legacy", "0.1", "2.3", "next"):
        with pytest.raises(NotImplementedError):
            LanceFileWriter(path, schema, version=version)
    with pytest.raises(ValueError, match="max_page_bytes"):
        LanceFileWriter(path, schema, max_page_bytes=0)
    with pytest.raises(TypeError, match="compression"):
        LanceFileWriter(path, schema, compression="zstd")
    with pytest.raises(NotImplementedError, match="namespace_client"):
        LanceFileWriter(path, schema, namespace_client=object())
    with pytest.raises(OSError, match="directory"):
        LanceFileWriter(tmp_path, schema)
    writer = LanceFileWriter(path, schema, keep_original_array=True, data_cache_bytes=1)
    for wrong in ([1], {"id": [1]}, numbers(1).to_reader()):
        with pytest.raises(TypeError):
            writer.write_batch(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.add_schema_metadata(1, "b")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.add_global_buffer("text")  # type: ignore[arg-type]
    del writer
    assert os.listdir(tmp_path) == []
    assert stable_version() == "2.2"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork(tmp_path: Path) -> None:
    reader = LanceFileReader(write(tmp_path / "a.lance"))
    before = reader.read_all().to_table()
    writer = LanceFileWriter(tmp_path / "b.lance", NESTED.schema)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            same = reader.read_all().to_table().equals(before)
            try:
                writer.write_batch(NESTED)
            except pennon.UnsupportedError:
                status = 0 if same else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    writer.write_batch(NESTED)
    assert writer.close() == 3000
