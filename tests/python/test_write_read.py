"""Writing anything that holds rows, and reading it back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pennon
import pyarrow as pa
import pyarrow.dataset
import pytest
from support.tables import numbers

SCHEMA = numbers(0).schema


class OnlyAStream:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return numbers(3).__arrow_c_stream__(requested_schema)


class OnlyAnArray:
    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return numbers(3).to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(3),
        lambda: numbers(3).to_batches()[0],
        lambda: numbers(3).to_reader(),
        lambda: numbers(3).to_pylist(),
        lambda: numbers(3).to_pydict(),
        lambda: pyarrow.dataset.dataset(numbers(3)),
        lambda: pyarrow.dataset.dataset(numbers(3)).scanner(),
        lambda: pennon.write_dataset(numbers(3), "memory://source", mode="overwrite"),
        lambda: pennon.write_dataset(numbers(3), "memory://source", mode="overwrite").scanner(),
        OnlyAStream,
        OnlyAnArray,
        lambda: pd.DataFrame(numbers(3).to_pydict()),
    ],
    ids=lambda make: getattr(make, "__name__", "data"),
)
def test_inputs(uri: str, make: object) -> None:
    written = pennon.write_dataset(make(), uri)  # type: ignore[operator]
    assert written.to_table().to_pylist() == numbers(3).to_pylist()
    assert pennon.dataset(uri).version == 1


def test_an_empty_batch_that_is_cast(uri: str) -> None:
    batches = [pa.record_batch({"i": pa.array(values, pa.int32())}) for values in ([], [1], [])]
    schema = pa.schema([("i", pa.int64())])
    assert pennon.write_dataset(iter(batches), uri, schema).to_table() == pa.table({"i": [1]}, schema)
    with pytest.raises(pennon.SchemaMismatchError, match="does not fit the schema"):
        pennon.write_dataset(iter(batches), uri, pa.schema([("j", pa.int64())]), mode="overwrite")


def test_iterables_have_the_schema_of_their_first_batch(uri: str) -> None:
    batches = numbers(3).to_batches(max_chunksize=1)
    for data in (batches, iter(batches), [numbers(2), numbers(1, 2)]):
        written = pennon.write_dataset(data, uri, mode="overwrite")
        assert written.to_table().equals(numbers(3))
    with pytest.raises(pennon.InvalidInputError, match="Must provide schema"):
        pennon.write_dataset(iter([]), uri, mode="overwrite")
    with pytest.raises(pennon.SchemaMismatchError, match="does not fit the schema"):
        pennon.write_dataset(iter([*batches, pa.record_batch({"other": [1]})]), uri, mode="overwrite")
    with pytest.raises(pennon.InvalidTypeError, match="got <class 'dict'> in an iterable: give rows as a list"):
        pennon.write_dataset(iter([{"a": 1}]), uri)
    assert pennon.dataset(uri).version == 3


def test_unknown_input(uri: str) -> None:
    with pytest.raises(TypeError, match="Unknown data type"):
        pennon.write_dataset(object(), uri)


def test_modes(uri: str) -> None:
    pennon.write_dataset(numbers(3), uri)
    with pytest.raises(OSError, match="already exists"):
        pennon.write_dataset(numbers(3), uri)
    appended = pennon.write_dataset(numbers(2, 3), uri, mode="append")
    assert (appended.version, appended.count_rows()) == (2, 5)
    replaced = pennon.write_dataset(numbers(1), Path(uri), mode="overwrite")
    assert (replaced.version, replaced.count_rows()) == (3, 1)
    with pytest.raises(ValueError, match="Invalid mode"):
        pennon.write_dataset(numbers(1), uri, mode="upsert")


def test_insert_moves_the_object(table: pennon.LanceDataset) -> None:
    table.insert(numbers(2, 10))
    assert (table.version, table.count_rows()) == (2, 12)
    table.insert(numbers(1), mode="overwrite", durability="os")
    assert (table.version, table.count_rows()) == (3, 1)


def test_max_rows_per_file(table: pennon.LanceDataset) -> None:
    assert [part.physical_rows for part in table.get_fragments()] == [4, 4, 2]


@pytest.mark.parametrize("wrap", [iter, lambda batches: pa.RecordBatchReader.from_batches(SCHEMA, batches)])
def test_exceptions_of_the_source_come_out(table: pennon.LanceDataset, wrap: object) -> None:
    class Broken(Exception):
        pass

    def produce() -> Iterator[pa.RecordBatch]:
        yield numbers(1).to_batches()[0]
        raise Broken("the source broke")

    with pytest.raises(Broken, match="the source broke"):
        pennon.write_dataset(wrap(produce()), table, schema=SCHEMA, mode="append")  # type: ignore[operator]
    assert table.version == table.latest_version == 1


def test_input_is_streamed(uri: str) -> None:
    produced = 0

    def produce() -> Iterator[pa.RecordBatch]:
        nonlocal produced
        for start in range(0, 100_000, 1000):
            produced += 1
            yield numbers(1000, start).to_batches()[0]

    assert pennon.write_dataset(produce(), uri, schema=SCHEMA).count_rows() == 100_000
    assert produced == 100


def test_schema_mismatch_names_the_field(table: pennon.LanceDataset) -> None:
    with pytest.raises(pennon.SchemaMismatchError, match="text") as caught:
        table.insert(pa.table({"id": [1], "text": [2]}))
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ValueError)
    assert table.latest_version == 1


def test_stable_row_ids_are_the_default(uri: str, tmp_path: Path) -> None:
    assert pennon.write_dataset(numbers(1), uri).has_stable_row_ids
    other = str(tmp_path / "other")
    assert not pennon.write_dataset(numbers(1), other, enable_stable_row_ids=False).has_stable_row_ids


def test_transaction_properties(uri: str) -> None:
    table = pennon.write_dataset(numbers(1), uri, commit_message="first", transaction_properties={"who": "me"})
    transaction = table.read_transaction(1)
    assert transaction is not None
    assert isinstance(transaction.operation, pennon.LanceOperation.Overwrite)
    assert transaction.transaction_properties["who"] == "me"
    assert "first" in transaction.transaction_properties.values()
    with pytest.raises(TypeError):
        pennon.write_dataset(numbers(1), uri, mode="append", transaction_properties={"n": 1})  # type: ignore[dict-item]


def test_unsupported_options_are_refused_only_when_they_ask_for_something(uri: str) -> None:
    pennon.write_dataset(numbers(1), uri, max_rows_per_group=10, progress=None, external_blob_mode="reference")
    with pytest.raises(NotImplementedError, match="table_id"):
        pennon.write_dataset(numbers(1), uri, mode="append", table_id=["a"])
    with pytest.raises(pennon.UnsupportedError, match="namespace_client"):
        pennon.dataset(uri, namespace_client=object())


@pytest.mark.parametrize("version", ["stable", "2.0", "2.1", "2.2"])
def test_data_storage_version(uri: str, version: str) -> None:
    table = pennon.write_dataset(numbers(1), uri, data_storage_version=version)
    assert table.data_storage_version == {"stable": "2.2"}.get(version, version)
    table = pennon.write_dataset(numbers(1), uri, mode="append")
    assert table.to_table().num_rows == 2 * numbers(1).num_rows


@pytest.mark.parametrize(
    ("version", "why"), [("legacy", "0.1"), ("0.1", "0.1"), ("next", "not stable"), ("2.3", "not stable")]
)
def test_versions_that_are_not_written(uri: str, version: str, why: str) -> None:
    for rows in (numbers(1), numbers(1).slice(0, 0)):
        with pytest.raises(pennon.UnsupportedError, match=why):
            pennon.write_dataset(rows, uri, data_storage_version=version)


def test_unknown_data_storage_version(uri: str) -> None:
    with pytest.raises(ValueError, match=r"7\.7"):
        pennon.write_dataset(numbers(1), uri, data_storage_version="7.7")


def test_drop_leaves_what_is_not_a_table(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "kept").touch()
    with pytest.raises(pennon.NotFoundError, match="refusing to drop"):
        pennon.LanceDataset.drop(tmp_path)
    pennon.LanceDataset.drop(tmp_path, ignore_not_found=True)
    assert (tmp_path / "data" / "kept").exists()


def test_the_handle_given_to_write_dataset_stays(table: pennon.LanceDataset) -> None:
    other = pennon.write_dataset({"z": [1]}, table, mode="overwrite")
    assert (table.version, table.schema.names, other.version, other.schema.names) == (1, ["id", "text"], 2, ["z"])


def test_many_writers_create_one_table(uri: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda start: pennon.write_dataset(numbers(2, start), uri, mode="append"), range(0, 16, 2)))
    assert sorted(pennon.dataset(uri).to_table()["id"].to_pylist()) == list(range(16))


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version"])
def test_names_of_system_columns_are_reserved(uri: str, name: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match="reserved name"):
        pennon.write_dataset({name: [1]}, uri)


def test_what_cannot_be_written(uri: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match="without columns"):
        pennon.write_dataset(numbers(2).select([]), uri)
    nothing = pa.struct([])
    for column in (pa.array([b""], pa.binary(0)), pa.array([None], nothing), pa.array([[{}]], pa.list_(nothing))):
        with pytest.raises(pennon.UnsupportedError, match="field `c"):
            pennon.write_dataset(pa.table({"c": column}), uri)
    with pytest.raises(pennon.InvalidInputError, match="max_rows_per_file is 0"):
        pennon.write_dataset(numbers(2), uri, max_rows_per_file=0)
    lying = pa.record_batch([pa.array([None], pa.int64())], pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    with pytest.raises(pennon.SchemaMismatchError, match="`a` contained null values"):
        pennon.write_dataset([lying], uri, schema=lying.schema)
    assert not Path(uri, "_versions").exists()


def test_drop(uri: str) -> None:
    pennon.write_dataset(numbers(1), uri)
    pennon.LanceDataset.drop(uri)
    assert not Path(uri).exists()
    with pytest.raises(OSError, match="Not found"):
        pennon.LanceDataset.drop(uri)
    pennon.LanceDataset.drop(uri, ignore_not_found=True)


def test_schema_survives(uri: str) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False, metadata={"unit": "m"}),
            pa.field("b", pa.list_(pa.field("item", pa.float64()))),
        ],
        metadata={"origin": "test"},
    )
    table = pennon.write_dataset(pa.table({"a": [1], "b": [[1.5]]}, schema=schema), uri)
    assert table.schema.equals(schema, check_metadata=True)
    assert [field.name for field in table.lance_schema.fields()] == ["a", "b"]
    nested = table.lance_schema.field("b.item")
    assert nested is not None
    assert table.max_field_id == nested.id == 2


def test_repr(table: pennon.LanceDataset, uri: str) -> None:
    assert repr(table) == f"LanceDataset({uri!r}, version=1, rows=10)"
    assert repr(table.get_fragments()[0]).startswith("LanceFragment(id=0, rows=4")


def test_slices_of_nested_structs(uri: str) -> None:
    """Pyarrow hands slices over as offsets, which Arrow's import applies twice to a struct in a struct."""
    inner = [{"y": i, "z": [str(i)] * (i % 3)} for i in range(40)]
    values = pa.array([None if i % 7 == 0 else {"in": inner[i] if i % 5 else None, "x": i} for i in range(40)])
    deeper = pa.StructArray.from_arrays([values, pa.array(range(40))], names=["v", "w"])
    lists = pa.ListArray.from_arrays(pa.array(range(31), pa.int32()), values.slice(3, 30))
    data = pa.table({"v": values.slice(0, 30), "deeper": deeper.slice(10), "lists": lists})
    for start, count in ((0, 30), (5, 10), (29, 1), (12, 0)):
        part = data.slice(start, count)
        expected = part.to_pylist()
        assert pennon.write_dataset(part, uri, mode="overwrite").to_table().to_pylist() == expected
        if count:
            reader = part.to_batches()[0].slice(0, count)
            assert pennon.write_dataset(reader, uri, mode="overwrite").to_table().to_pylist() == expected
    fixed = pa.FixedSizeListArray.from_arrays(values, 2).slice(3)
    written = pennon.write_dataset(pa.table({"v": fixed}), uri, mode="overwrite")
    assert written.to_table()["v"].to_pylist() == fixed.to_pylist()


@pytest.mark.parametrize("batches", [1, 7])
def test_files_of_a_write_that_failed_are_removed(tmp_path: Path, batches: int) -> None:
    """The ones that were complete, those that were on their way to that, and the one in progress."""

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(batches):
            yield numbers(25).to_batches()[0]
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        pennon.write_dataset(
            pa.RecordBatchReader.from_batches(SCHEMA, rows()), tmp_path / "t", max_rows_per_file=10
        )
    assert [path for path in (tmp_path / "t").rglob("*") if path.is_file()] == []
