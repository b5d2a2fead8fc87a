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


@pytest.mark.parametrize("result", [None, 5, "text"])
def test_no_rows(uri: str, result: Any) -> None:
    table = pennon.write_dataset({"id": [0]}, uri)
    for transform in (pennon.BatchUDF(lambda _batch: result), lambda _batch: result):
        with pytest.raises(
            pennon.InvalidTypeError, match=r"The function returned .*, expected a pyarrow\.RecordBatch"
        ):
            table.add_columns(transform)
