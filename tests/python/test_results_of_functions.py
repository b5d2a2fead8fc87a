"""What functions of `add_columns` return: frames, dicts and lists get the types of `output_schema`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pennon
import polars
import pyarrow as pa
import pytest
from pennon import jobs

SCHEMA = pa.schema([("n", pa.int32()), ("s", pa.string())])


def values(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    """Those of the first two rows, which come in one batch, are null."""
    ids = batch["id"].to_pylist()
    return {"n": [i if i > 1 else None for i in ids], "s": [str(i) if i > 1 else None for i in ids]}


def in_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    return pd.DataFrame(values(batch))


def filtered_in_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    """With an index that is not a range."""
    return pd.concat([in_pandas(batch)] * 2).iloc[batch.num_rows :].set_axis([7] * batch.num_rows)


def in_polars(batch: pa.RecordBatch) -> polars.DataFrame:
    return polars.DataFrame(values(batch))


def in_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return pa.table(values(batch)).to_pylist()


FUNCTIONS: list[Callable[[pa.RecordBatch], Any]] = [values, in_pandas, filtered_in_pandas, in_polars, in_rows]


@pytest.mark.parametrize("in_a_job", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_they_have_the_types_of_the_schema(
    uri: str, function: Callable[[pa.RecordBatch], Any], *, in_a_job: bool
) -> None:
    table = pennon.write_dataset({"id": range(4)}, uri)
    udf = pennon.BatchUDF(function, SCHEMA)
    if in_a_job:
        table = jobs.run(jobs.plan_add_columns(table, udf, batch_size=2)).dataset
    else:
        table.add_columns(udf, batch_size=2)
    expected = {"id": [0, 1, 2, 3], "n": [None, None, 2, 3], "s": [None, None, "2", "3"]}
    assert table.to_table().to_pydict() == expected
    assert table.schema.field("n").type == pa.int32()
    assert table.schema.field("s").type == pa.string()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_type_of_the_first_row(uri: str, function: Callable[[pa.RecordBatch], Any]) -> None:
    table = pennon.write_dataset({"id": range(4)}, uri)
    said = "n was null in the first row: give batch_udf an output_schema"
    with pytest.raises((pennon.SchemaMismatchError, pennon.InvalidTypeError), match=said):
        table.add_columns(function, batch_size=2)
    assert table.latest_version == 1
    table.delete("id < 2")
    table.add_columns(function)
    assert table.to_table()["n"].to_pylist() == [2, 3]
    assert table.schema.names == ["id", "n", "s"]


@pytest.mark.parametrize("made", [pa.RecordBatch.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_index_in_data_of_arrow(uri: str, made: Callable[..., Any], *, wrapped: bool) -> None:
    table = pennon.write_dataset({"id": [1, 2]}, uri)

    def function(batch: pa.RecordBatch) -> Any:
        return made(pd.DataFrame({"n": batch["id"].to_pylist()}, index=[7, 5][: batch.num_rows]))

    table.add_columns(pennon.BatchUDF(function) if wrapped else function)
    assert table.to_table().to_pydict() == {"id": [1, 2], "n": [1, 2], "__index_level_0__": [7, 5]}


def test_an_index_of_results(uri: str) -> None:
    """A schema says whether it is a column."""

    def function(batch: pa.RecordBatch) -> pd.DataFrame:
        return pd.DataFrame({"n": batch["id"].to_pylist()}, index=pd.Index(batch["id"].to_pylist(), name="k"))

    def clash(batch: pa.RecordBatch) -> pd.DataFrame:
        return function(batch).rename_axis("n")

    def without(batch: pa.RecordBatch) -> pd.DataFrame:
        return function(batch).rename_axis(None)

    n, k = pa.field("n", pa.int8()), pa.field("k", pa.int8())
    for transform, names in (
        (function, ["n", "k"]),
        (clash, ["n"]),
        (pennon.BatchUDF(function, pa.schema([n])), ["n"]),
        (pennon.BatchUDF(function, pa.schema([k, n])), ["k", "n"]),
        (pennon.BatchUDF(clash, pa.schema([n])), ["n"]),
        (pennon.BatchUDF(without, pa.schema([n])), ["n"]),
        (pennon.BatchUDF(without, pa.schema([n, k.with_name("__index_level_0__")])), ["n", "__index_level_0__"]),
    ):
        table = pennon.write_dataset({"id": [1, 2]}, uri, mode="overwrite")
        table.add_columns(transform)
        assert table.to_table().to_pydict() == {"id": [1, 2]} | {name: [1, 2] for name in names}


def test_an_index_of_changes(uri: str) -> None:
    def decided(batch: pa.RecordBatch) -> pd.DataFrame:
        frame = batch.to_pandas().set_index(["id", "_rowaddr"])
        return frame.assign(id=frame.index.get_level_values("id") * 10)

    table = pennon.write_dataset({"id": [1, 2]}, uri)
    schema = pa.schema([("_rowaddr", pa.uint64()), ("id", pa.int64())])
    found = jobs.run(jobs.plan_change_rows(table, schema, columns=["id"], decide=decided)).dataset
    assert found.to_table()["id"].to_pylist() == [10, 20]


@pytest.mark.parametrize(
    "result",
    [{"n": [1.5]}, pd.DataFrame({"n": [1.5]}), polars.DataFrame({"n": [1.5]}), [{"n": 1.5}]],
    ids=lambda result: type(result).__module__,
)
def test_values_that_would_change(uri: str, result: Any) -> None:
    table = pennon.write_dataset({"id": [0]}, uri)
    udf = pennon.BatchUDF(lambda _batch: result, pa.schema([("n", pa.int64())]))
    with pytest.raises(pennon.InvalidInputError, match=r"column n: its type int64 would change the value 1\.5"):
        table.add_columns(udf)
    other = pennon.BatchUDF(lambda _batch: result, pa.schema([("other", pa.int64())]))
    with pytest.raises((pennon.SchemaMismatchError, pennon.InvalidInputError), match="other"):
        table.add_columns(other)
    assert table.latest_version == 1


def test_one_message_for_batches_and_functions(uri: str) -> None:
    schema, given = pa.schema([("n", pa.int64())]), polars.DataFrame({"n": [["a"]]})
    table = pennon.write_dataset({"id": [0]}, uri)
    for call in (
        lambda: table.add_columns(pennon.BatchUDF(lambda _batch: given, schema)),
        lambda: pennon.write_dataset(iter(given.to_arrow().to_batches()), f"{uri}.2", schema=schema),
    ):
        with pytest.raises(pennon.PennonError, match="column n: its type is int64, found large_list"):
            call()
    texts = polars.DataFrame({"n": ["a"]})
    for call in (
        lambda: table.add_columns(pennon.BatchUDF(lambda _batch: texts, schema)),
        lambda: pennon.write_dataset(iter(texts.to_arrow().to_batches()), f"{uri}.2", schema=schema),
    ):
        with pytest.raises(pennon.SchemaMismatchError, match=r"The data does not fit the schema: .*'a'"):
            call()
    assert table.latest_version == 1


@pytest.mark.parametrize("result", [None, 5, "text"])
def test_no_rows(uri: str, result: Any) -> None:
    table = pennon.write_dataset({"id": [0]}, uri)
    for transform in (pennon.BatchUDF(lambda _batch: result), lambda _batch: result):
        with pytest.raises(
            pennon.InvalidTypeError, match=r"The function returned .*, expected a pyarrow\.RecordBatch"
        ):
            table.add_columns(transform)
