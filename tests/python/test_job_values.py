"""Values that tasks are given: those that the types of the table would change, and ids as Python has them."""

from __future__ import annotations

from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.errors import PositionError

ADDRESS = pa.field("_rowaddr", pa.uint64())


def changes(values: Any, kind: pa.DataType) -> pa.Table:
    schema = pa.schema([ADDRESS, pa.field("a", kind)])
    return pa.table([pa.array([0], pa.uint64()), pa.array(values, kind)], schema=schema)


@pytest.mark.parametrize("as_stream", [False, True])
def test_changes_that_the_type_of_a_column_would_change(uri: str, *, as_stream: bool) -> None:
    table = pennon.write_dataset({"a": [1, 2]}, uri)
    data = changes([1.7], pa.float64())
    plan = jobs.plan_change_rows(table, data.schema)
    with pytest.raises(pennon.InvalidInputError, match=r"column a: its type int64 would change the value 1\.7"):
        plan.task(0).run(data.to_reader() if as_stream else data)
    result = plan.task(0).run(changes([7.0], pa.float64()))
    assert plan.commit([result]).dataset.to_table().sort_by("a")["a"].to_pylist() == [2, 7]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_a_function_whose_values_would_be_cut(uri: str, kind: pa.DataType) -> None:
    table = pennon.write_dataset({"a": [1, 2]}, uri)
    schema = pa.schema([ADDRESS, pa.field("a", kind)])

    def halves(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"_rowaddr": batch["_rowaddr"], "a": [1.5] * batch.num_rows}

    def halves_of_arrow(batch: pa.RecordBatch) -> pa.Table:
        return pa.table({"_rowaddr": batch["_rowaddr"], "a": pa.array([1.5] * batch.num_rows)})

    for decide in (halves, halves_of_arrow):
        plan = jobs.plan_change_rows(table, schema, columns=["a"], decide=decide)
        with pytest.raises(pennon.InvalidInputError, match=r"column a: its type int64 would change the value 1\.5"):
            jobs.run(plan)
    assert table.latest_version == 1


def test_columns_that_the_type_of_a_column_would_change(uri: str) -> None:
    table = pennon.write_dataset({"id": [1, 2], "a": [1, 2]}, uri)
    source = pa.table({"id": [1], "a": [1.7]})
    with pytest.raises(pennon.InvalidInputError, match=r"column a: its type int64 would change the value 1\.7"):
        jobs.run(jobs.plan_update_columns(table, source.schema, "id"), source=source)
    with pytest.raises(pennon.InvalidInputError, match=r"column a: its type int64 would change the value 1\.7"):
        table.get_fragment(0).update_columns(source, "id")
    whole = pa.table({"id": [1], "a": [7.0]})
    done = jobs.run(jobs.plan_update_columns(table, whole.schema, "id"), source=whole)
    assert done.dataset.to_table()["a"].to_pylist() == [7, 2]


@pytest.mark.parametrize("given", ["data", "source", "stream"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64()])
def test_a_merge_by_ids_of_python(uri: str, kind: pa.DataType, given: str) -> None:
    table = pennon.write_dataset({"a": [1, 2]}, uri, enable_stable_row_ids=True)
    source = pa.table({"_rowid": pa.array([1], kind), "a": [7]})
    merge = table.merge_insert("_rowid").when_matched_update_all()
    plan = jobs.plan_merge(merge, source.schema, tasks=1)
    if given == "source":
        done = jobs.run(plan, source=source)
    else:
        done = jobs.run(plan, [source.to_reader() if given == "stream" else source])
    assert done.dataset.to_table(order_by=["_rowid"])["a"].to_pylist() == [1, 7]


def test_a_merge_by_ids_that_cannot_be(uri: str) -> None:
    table = pennon.write_dataset({"a": [1, 2]}, uri, enable_stable_row_ids=True)
    merge = table.merge_insert("_rowid").when_matched_update_all()
    source = pa.table({"_rowid": [-1], "a": [7]})
    with pytest.raises(PositionError, match="must not be negative, found -1"):
        jobs.run(jobs.plan_merge(merge, source.schema, tasks=1), source=source)
    fractions = pa.schema({"_rowid": pa.float64(), "a": pa.int64()})
    with pytest.raises(pennon.SchemaMismatchError, match="_rowid of the source must be uint64"):
        jobs.plan_merge(merge, fractions, tasks=1)
