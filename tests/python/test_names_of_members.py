"""Data whose lists and maps call their members otherwise, or say otherwise whether these may be null."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.file import LanceFileReader, LanceFileWriter
from support.spread import spread

ROWS = 6


def schema(item: str = "item", key: str = "key", value: str = "value", *, nullable: bool = True) -> pa.Schema:
    def listed(kind: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field(item, kind, nullable))

    number = pa.int32()
    members = [pa.field("x", number, nullable), pa.field("l", listed(number))]
    entry = pa.field(value, listed(number), nullable)
    return pa.schema(
        [
            pa.field("id", pa.int64(), nullable),
            pa.field("list", listed(number)),
            pa.field("lists", listed(listed(number))),
            pa.field("struct", pa.struct(members)),
            pa.field("structs", listed(pa.struct(members))),
            pa.field("vector", pa.list_(pa.field(item, pa.float32(), nullable), 2)),
            pa.field("large", pa.large_list(pa.field(item, number, nullable))),
            pa.field("map", pa.map_(pa.field(key, pa.string(), nullable=False), entry)),
        ]
    )


SCHEMAS = {
    "arrow": schema(),
    "spark": schema("element"),
    "parquet": schema("element", "k", "v"),
    "required": schema(nullable=False),
    "spark required": schema("element", nullable=False),
}


def rows(start: int = 0, count: int = ROWS) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "list": [i, i + 1],
            "lists": [[i], []],
            "struct": {"x": i, "l": [i]},
            "structs": [{"x": i, "l": [1, i]}],
            "vector": [float(i), 1.0],
            "large": [i],
            "map": [("a", [i]), ("b", [])],
        }
        for i in range(start, start + count)
    ]


def data(kind: str, start: int = 0, count: int = ROWS) -> pa.Table:
    return pa.Table.from_pylist(rows(start, count), schema=SCHEMAS[kind])


def disguised(declared: str, actual: str, start: int = 0, count: int = ROWS) -> pa.RecordBatchReader:
    """Batches that state one schema over arrays of another, which pyarrow lets pass: so come those of Spark."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in data(actual, start, count).to_batches(2):
            columns = [
                array if array.type == field.type else array.cast(field.type)
                for array, field in zip(batch.columns, SCHEMAS[declared], strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[declared])

    return pa.RecordBatchReader.from_batches(SCHEMAS[declared], batches())


def check(uri: str, kind: str, expected: list[dict[str, Any]]) -> None:
    table = pennon.dataset(uri)
    found = table.to_table()
    assert found.to_pylist() == expected
    # The format has no field for members of fixed-size lists, and pyarrow takes maps over with its own names.
    stored = [name for name in SCHEMAS[kind].names if name not in ("vector", "map")]
    for name in stored:
        assert repr(table.schema.field(name)) == repr(SCHEMAS[kind].field(name))
    assert lance.dataset(uri).to_table().to_pylist() == expected
    table.validate()


WRITERS: dict[str, tuple[Callable[[str, Any], object], list[dict[str, Any]]]] = {
    "append": (lambda uri, new: pennon.write_dataset(new, uri, mode="append"), [*rows(), *rows(4, 4)]),
    "insert": (lambda uri, new: pennon.dataset(uri).insert(new), [*rows(), *rows(4, 4)]),
    "overwrite": (lambda uri, new: pennon.write_dataset(new, uri, mode="overwrite"), rows(4, 4)),
    "merge_insert": (
        lambda uri, new: (
            pennon.dataset(uri)
            .merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(new)
        ),
        [*rows(0, 4), *rows(4, 4)],
    ),
    "write_fragments": (
        lambda uri, new: pennon.LanceDataset.commit(
            uri, pennon.LanceOperation.Append(pennon.fragment.write_fragments(new, uri)), read_version=1
        ),
        [*rows(), *rows(4, 4)],
    ),
}


@spread(of=1, times=2)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("given", SCHEMAS)
@pytest.mark.parametrize("table", SCHEMAS)
def test_writers(tmp_path: Path, table: str, given: str, writer: str) -> None:
    uri = str(tmp_path / "t")
    write, expected = WRITERS[writer]
    pennon.write_dataset(data(table), uri)
    write(uri, data(given, 4, 4))
    check(uri, given if writer == "overwrite" else table, expected)


@pytest.mark.parametrize("actual", SCHEMAS)
@pytest.mark.parametrize("declared", SCHEMAS)
def test_batches_that_are_not_quite_what_they_say(tmp_path: Path, declared: str, actual: str) -> None:
    uri = str(tmp_path / "t")
    pennon.write_dataset(disguised(declared, actual), uri)
    pennon.write_dataset(disguised(declared, actual, 6, 2), uri, mode="append")
    merge = pennon.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(disguised(declared, actual, 7, 2))
    check(uri, declared, rows(0, 9))


@pytest.mark.parametrize("actual", SCHEMAS)
@pytest.mark.parametrize("declared", SCHEMAS)
def test_columns(tmp_path: Path, declared: str, actual: str) -> None:
    uri = str(tmp_path / "t")
    pennon.write_dataset(pa.table({"id": pa.array(range(ROWS), pa.int64())}), uri)
    others = [name for name in SCHEMAS[declared].names if name != "id"]

    def without_id(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        kept = pa.schema([reader.schema.field(name) for name in others])
        return pa.RecordBatchReader.from_batches(kept, (batch.select(others) for batch in reader))

    table = pennon.dataset(uri)
    table.add_columns(without_id(disguised(declared, actual)))
    assert table.to_table().to_pylist() == rows()
    table.drop_columns(others)
    table.merge(disguised(declared, actual), "id")
    assert table.to_table().to_pylist() == rows()
    fragment = table.get_fragments()[0]
    changed, fields, *_ = fragment.update_columns(disguised(declared, actual, 1, 2), "id", "id")
    operation = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=list(fields))
    pennon.LanceDataset.commit(uri, operation, read_version=table.version)
    assert pennon.dataset(uri).to_table().to_pylist() == rows()
    lance.dataset(uri).validate()
    assert lance.dataset(uri).to_table().to_pylist() == rows()


@pytest.mark.parametrize("actual", SCHEMAS)
def test_data_files(tmp_path: Path, actual: str) -> None:
    path = str(tmp_path / "a.lance")
    with LanceFileWriter(path, SCHEMAS["arrow"]) as writer:
        writer.write_batch(data(actual))
        for batch in disguised("spark", actual):
            writer.write_batch(batch)
    assert LanceFileReader(path).read_all().to_table().to_pylist() == rows() * 2


def nulls(path: str) -> pa.Table:
    """Rows with one null, at that path."""
    changed = rows()
    row = changed[2]
    if path == "list.item":
        row["list"] = [1, None]
    elif path == "struct.x":
        row["struct"]["x"] = None
    elif path == "structs.item.l.item":
        row["structs"][0]["l"] = [None]
    elif path == "map.entries.value":
        row["map"] = [("a", None)]
    else:
        row["id"] = None
    return pa.Table.from_pylist(changed, schema=SCHEMAS["arrow"])


@pytest.mark.parametrize("writer", ["append", "insert", "merge_insert"])
@pytest.mark.parametrize("path", ["id", "list.item", "struct.x", "structs.item.l.item", "map.entries.value"])
def test_a_null_where_none_may_be(tmp_path: Path, path: str, writer: str) -> None:
    if path == "id" and writer == "merge_insert":
        pytest.skip("null keys of a merge match nothing")
    uri = str(tmp_path / "t")
    pennon.write_dataset(data("required"), uri)
    with pytest.raises(pennon.SchemaMismatchError, match=rf"`{path}`.*null"):
        WRITERS[writer][0](uri, nulls(path))
    reader = pa.RecordBatchReader.from_batches(SCHEMAS["required"], iter(nulls(path).to_batches()))
    with pytest.raises(pennon.SchemaMismatchError, match=rf"`{path}`.*null"):
        pennon.write_dataset(reader, str(tmp_path / "new"))
    assert pennon.dataset(uri).to_table().to_pylist() == rows()


def test_nulls_that_nobody_sees(tmp_path: Path) -> None:
    """Outside of a slice, and beneath a null struct or list."""
    uri = str(tmp_path / "t")
    required = pa.list_(pa.field("item", pa.int32(), nullable=False))
    pennon.write_dataset(pa.table({"l": pa.array([[1]], required)}), uri)
    loose = pa.list_(pa.field("element", pa.int32()))
    lists = pa.table({"l": pa.array([[None], [2, 3], None, [None]], loose)})
    pennon.write_dataset(lists.slice(1, 2), uri, mode="append")
    assert pennon.dataset(uri).to_table()["l"].to_pylist() == [[1], [2, 3], None]
