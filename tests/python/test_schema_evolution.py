"""Columns that come, change and go: checkpoints, concurrency, and what is left behind after failures."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon import jobs
from support.files import data_files


@pennon.batch_udf()
def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"copy": batch["a"]})


def test_values_are_where_their_rows_are(table: pennon.LanceDataset) -> None:
    table.delete("id in (0, 4, 9)")
    table.add_columns({"double": "id * 2"})
    table.merge({"id": [1, 5, 77], "name": ["one", "five", "none"]}, "id")
    found = table.to_table().to_pylist()
    assert [row["double"] for row in found] == [row["id"] * 2 for row in found]
    assert [row["name"] for row in found] == [{1: "one", 5: "five"}.get(row["id"]) for row in found]


def test_old_versions_keep_their_columns(table: pennon.LanceDataset) -> None:
    table.add_columns({"double": "id * 2"})
    table.drop_columns(["text"])
    table.alter_columns({"path": "id", "name": "key", "data_type": pa.int16()})
    assert table.schema == pa.schema({"key": pa.int16(), "double": pa.int64()})
    assert table.checkout_version(1).schema.names == ["id", "text"]
    assert table.checkout_version(2).to_table()["double"].to_pylist() == [i * 2 for i in range(10)]


def test_last_updated_moves_with_values_only(table: pennon.LanceDataset) -> None:
    def updated() -> set[int]:
        column = "_row_last_updated_at_version"
        return set(table.to_table(columns=[column])[column].to_pylist())

    table.add_columns(pa.field("nothing", pa.int8()))
    table.alter_columns({"path": "text", "name": "words"})
    table.drop_columns(["nothing"])
    assert updated() == {1}
    table.add_columns({"double": "id * 2"})
    assert updated() == {table.version}
    table.alter_columns({"path": "double", "data_type": pa.int32()})
    assert updated() == {table.version}
    created = table.to_table(columns=["_row_created_at_version"])
    assert set(created["_row_created_at_version"].to_pylist()) == {1}


def test_a_function_that_fails_leaves_nothing(table: pennon.LanceDataset) -> None:
    before = data_files(table.uri)

    @pennon.batch_udf(output_schema=pa.schema({"new": pa.int64()}))
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 8 in batch["id"].to_pylist():
            raise KeyError("no eight")
        return pa.record_batch({"new": batch["id"]})

    with pytest.raises(KeyError, match="no eight"):
        table.add_columns(fails)

    @pennon.batch_udf(output_schema=pa.schema({"new": pa.int64()}))
    def short(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"new": batch["id"][1:]})

    with pytest.raises(pennon.InvalidInputError, match="returned 3 rows for a batch of 4: batch 0 of fragment 0"):
        table.add_columns(short)

    @pennon.batch_udf(output_schema=pa.schema({"new": pa.int64()}))
    def other(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"new": pc.cast(batch["id"], pa.utf8())})

    with pytest.raises(pennon.SchemaMismatchError, match="does not match the expected schema"):
        table.add_columns(other)

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"new": [1, 2, 3, 4, 5]})
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        table.add_columns(broken(), reader_schema=pa.schema({"new": pa.int64()}))
    with pytest.raises(pennon.InvalidInputError, match="Divide by zero"):
        table.add_columns({"new": "1 / (id - 9)"})
    assert (table.version, table.latest_version) == (1, 1)
    assert data_files(table.uri) == before


def test_a_value_that_does_not_fit_its_new_type(uri: str) -> None:
    table = pennon.write_dataset({"big": [*range(9), 300]}, uri, max_rows_per_file=4)
    before = data_files(table.uri)
    with pytest.raises(pennon.InvalidInputError, match="Can't cast value 300"):
        table.alter_columns({"path": "big", "data_type": pa.int8()})
    assert table.latest_version == 1
    assert data_files(table.uri) == before


def test_a_conflict_leaves_nothing(table: pennon.LanceDataset) -> None:
    other = pennon.dataset(table.uri)

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        if other.version == 1:
            other.insert({"id": [77], "text": ["new"]})
        return pa.record_batch({"new": batch["id"]})

    with pytest.raises(pennon.CommitConflictError) as conflict:
        table.add_columns(slow)
    assert conflict.value.retryable
    assert table.version == 1
    referred = {file.path for fragment in other.get_fragments() for file in fragment.data_files()}
    assert data_files(table.uri) == referred
    table.checkout_latest()
    table.add_columns(slow)
    assert table.to_table()["new"].to_pylist() == [*range(10), 77]


def test_concurrent_rows_and_columns(table: pennon.LanceDataset) -> None:
    """A column may not be null, and somebody appends a null: one of them has to give way."""
    other = pennon.dataset(table.uri)
    other.insert({"id": [None], "text": ["new"]}, schema=pa.schema({"id": pa.int64(), "text": pa.utf8()}))
    with pytest.raises(pennon.CommitConflictError):
        table.alter_columns({"path": "id", "nullable": False})
    table.checkout_latest()
    with pytest.raises(pennon.InvalidInputError, match="contains NULL values"):
        table.alter_columns({"path": "id", "nullable": False})
    # A rename does not mind.
    table.alter_columns({"path": "id", "name": "key"})


def test_a_checkpoint_saves_what_was_computed(table: pennon.LanceDataset, tmp_path: Path) -> None:
    kept = tmp_path / "kept.sqlite"
    seen: list[list[int]] = []
    broken = True

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch["id"].to_pylist()
        seen.append(ids)
        if broken and ids[0] >= 8:
            raise RuntimeError("out of quota")
        return pa.record_batch({"new": pc.add(batch["id"], 100)})

    def udf() -> pennon.BatchUDF:
        return pennon.batch_udf(pa.schema({"new": pa.int64()}), checkpoint_file=kept)(function)

    with pytest.raises(RuntimeError, match="out of quota"):
        table.add_columns(udf(), batch_size=2)
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert kept.exists()
    seen.clear()
    broken = False
    # Rows that changed meanwhile are computed again.
    table.delete("id = 1")
    table.add_columns(udf(), batch_size=2)
    assert seen == [[0, 2], [3], [8, 9]]
    assert table.to_table()["new"].to_pylist() == [100, *range(102, 110)]
    assert not kept.exists()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_a_checkpoint_resumed_with_other_batches(table: pennon.LanceDataset, tmp_path: Path, size: int) -> None:
    seen: list[list[int]] = []

    def udf(is_broken: bool) -> pennon.BatchUDF:
        @pennon.batch_udf(pa.schema({"new": pa.int64()}), checkpoint_file=tmp_path / "kept.sqlite")
        def function(batch: pa.RecordBatch) -> pa.RecordBatch:
            seen.append(batch["id"].to_pylist())
            if is_broken and 9 in seen[-1]:
                raise RuntimeError("out of memory")
            return pa.record_batch({"new": pc.add(batch["id"], 100)})

        return function

    with pytest.raises(RuntimeError, match="out of memory"):
        table.add_columns(udf(True), batch_size=2)
    seen.clear()
    table.add_columns(udf(False), batch_size=size)
    assert table.to_table()["new"].to_pylist() == list(range(100, 110))
    assert (seen == [[8, 9]]) == (size == 2)


def test_a_checkpoint_that_does_not_say_which_rows(table: pennon.LanceDataset, tmp_path: Path) -> None:
    udf = pennon.batch_udf(pa.schema({"new": pa.int64()}), checkpoint_file=tmp_path / "old.sqlite")(
        lambda batch: pa.record_batch({"new": batch["id"]})
    )
    assert udf.cache is not None
    for fragment in table.get_fragments():
        for number in range(2):
            source = f"{fragment.metadata.to_json()} None"
            key = udf.cache.BatchInfo(fragment.fragment_id, number, source)
            udf.cache.insert_batch(key, pa.record_batch({"new": [-1, -1]}))
    table.add_columns(udf, batch_size=2)
    assert table.to_table()["new"].to_pylist() == list(range(10))


def test_functions_see_what_they_ask_for(table: pennon.LanceDataset) -> None:
    @pennon.batch_udf()
    def who(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["_rowid", "text"]
        return pa.record_batch({"who": batch["_rowid"]})

    table.delete("id < 3")
    table.add_columns(who, read_columns=["_rowid", "text"], batch_size=2)
    assert table.to_table()["who"].to_pylist() == list(range(3, 10))
    # It may be for a table with other columns next.
    assert who.output_schema is None


def test_a_function_is_for_several_tables(tmp_path: Path) -> None:
    @pennon.batch_udf()
    def local(batch: pa.RecordBatch) -> pa.RecordBatch:
        return copied.func(batch)

    for function in (local, copied):
        for values in ([1, 2], ["x", "y"]):
            table = pennon.write_dataset({"a": values}, str(tmp_path / "table"), mode="overwrite")
            table.add_columns(function)
            assert table.to_table()["copy"].to_pylist() == values
        assert function.output_schema is None


def test_tasks_know_the_schema_of_a_function(tmp_path: Path) -> None:
    table = pennon.write_dataset({"a": [1, 2]}, str(tmp_path / "table"))
    plan = jobs.plan_add_columns(table, copied, tasks=1)
    (task,) = plan.tasks
    done = plan.commit([pickle.loads(pickle.dumps(task)).run()])
    assert done.dataset.to_table()["copy"].to_pylist() == [1, 2]


def test_results_are_kept_for_a_function_without_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pennon.write_dataset({"a": [1, 2]}, str(tmp_path / "table"))
    function = pennon.batch_udf(checkpoint_file=tmp_path / "kept.sqlite")(copied.func)
    kept: list[pa.RecordBatch] = []
    monkeypatch.setattr(function.cache, "insert_batch", lambda _info, batch: kept.append(batch))
    table.add_columns(function)
    assert [batch["copy"].to_pylist() for batch in kept] == [[1, 2]]


def test_what_fails_before_a_function_is_called(table: pennon.LanceDataset) -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    with pytest.raises(pennon.InvalidInputError, match="nope") as caught:
        table.add_columns(function, read_columns=["nope"])
    assert not isinstance(caught.value, TypeError)
    for path in Path(table.uri, "data").iterdir():
        path.unlink()
    with pytest.raises(pennon.PennonError, match="Not found") as lost:
        table.add_columns(function)
    assert not isinstance(lost.value, TypeError)


def test_an_empty_table(uri: str) -> None:
    table = pennon.write_dataset(pa.table({"a": pa.array([], pa.int64())}), uri)
    table.add_columns({"b": "a + 1"})
    table.add_columns(lambda batch: pa.record_batch({"c": batch["a"]}))
    table.merge({"a": [1], "d": ["x"]}, "a")
    table.alter_columns({"path": "b", "data_type": pa.int8()})
    assert table.schema == pa.schema({"a": pa.int64(), "b": pa.int8(), "c": pa.int64(), "d": pa.utf8()})


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([1, None, 3, 3]),
        pa.array([1.5, None, 0.0, -0.0]),
        pa.array(["a", None, "", "é"]),
        pa.array([b"a", None, b"", b"a\0"]),
        pa.array([True, None, False, False]),
        pa.array(["a", "b", None, "a"]).dictionary_encode(),
        pa.array([1, None, 3, 4], pa.decimal128(10, 2)),
        pa.array([1, None, 3, 4], pa.timestamp("us", "UTC")),
        pa.array([b"ab", None, b"cd", b"\0\0"], pa.binary(2)),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_of_every_type(uri: str, keys: pa.Array) -> None:
    """Each row finds the last row of the data with its key; none of another one."""
    table = pennon.write_dataset(pa.table({"key": keys, "n": range(4)}), uri)
    table.merge(pa.table({"key": keys, "found": pa.array(range(4), pa.int32())}), "key")
    values = keys.to_pylist()
    assert table.to_table()["found"].to_pylist() == [
        max(at for at, other in enumerate(values) if other == value) for value in values
    ]
    with pytest.raises(pennon.InvalidInputError, match="no column besides the key"):
        table.merge(pa.table({"key": keys}), "key")


def test_keys_that_cannot_be_looked_up(uri: str) -> None:
    table = pennon.write_dataset({"key": [[1], [2]]}, uri)
    with pytest.raises(pennon.UnsupportedError, match="cannot be looked up"):
        table.merge({"key": [[1]], "n": [1]}, "key")


def test_names_that_cannot_be(table: pennon.LanceDataset) -> None:
    for name in ("", "a.b", "_rowid"):
        with pytest.raises(pennon.InvalidInputError):
            table.add_columns({name: "id"})
        with pytest.raises(pennon.InvalidInputError):
            table.alter_columns({"path": "id", "name": name})
    assert table.latest_version == 1
