"""Jobs whose tasks are given rows or a source: merges and columns; and compactions."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import signal
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon import jobs
from pennon.jobs import JobPlan, Task, TaskResult
from support.tables import upsert

from .conftest import processes


def rows(ids: range, value: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [value] * len(ids), "text": [f"row {at}" for at in ids]})


@pytest.fixture
def table(tmp_path: Path) -> pennon.LanceDataset:
    """600 rows in six fragments; every seventh is deleted."""
    table = pennon.write_dataset(rows(range(600), 0), str(tmp_path / "table"), max_rows_per_file=100)
    table.delete("id % 7 = 0")
    return table


def content(table: pennon.LanceDataset) -> list[dict[str, Any]]:
    return table.to_table(with_row_id=True).sort_by("id").to_pylist()


def a_source() -> pa.Table:
    return rows(range(500, 800), 1)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("in_processes", [False, True])
def test_merge_of_a_source(table: pennon.LanceDataset, workers: Executor, tasks: int, in_processes: bool) -> None:
    before = {row["id"]: row["_rowid"] for row in content(table)}
    plan = jobs.plan_merge(upsert(table), a_source().schema, tasks=tasks)
    assert (plan.kind, plan.num_tasks) == ("merge", tasks)
    executor, source = (workers, a_source) if in_processes else (None, a_source())
    done = jobs.run(plan, source=source, executor=executor)
    assert done.counts == {"num_inserted_rows": 214, "num_updated_rows": 86, "num_deleted_rows": 0}
    assert done.rows == 300
    found = {row["id"]: (row["_rowid"], row["n"]) for row in content(done.dataset)}
    expected = {at: 1 if at >= 500 else 0 for at in [*before, *range(500, 800)]}
    assert {at: n for at, (_, n) in found.items()} == expected
    assert {at: row for at, (row, _) in found.items() if at in before} == before
    assert done.dataset.validate() is None
    assert lance.dataset(done.dataset.uri).count_rows("n = 1") == 300
    assert done.dataset.version == table.version + 1


def test_merge_of_parts_from_json(table: pennon.LanceDataset) -> None:
    merge = upsert(table).when_not_matched_by_source_delete("id < 100")
    with pytest.raises(pennon.InvalidInputError, match="needs the number of its tasks"):
        jobs.plan_merge(merge, a_source().schema)
    plan = JobPlan.from_json(jobs.plan_merge(merge, a_source().schema, tasks=4).json())
    parts = [
        rows(range(500, 520), 1),
        rows(range(520, 700), 1),
        rows(range(1), 1).slice(1),
        rows(range(700, 800), 1),
    ]
    results = []
    for number, part in enumerate(parts):
        task = Task.from_json(plan.task(number).json())
        results.append(TaskResult.from_json(task.run(part, max_rows_per_file=50).json()))
    done = plan.commit(results)
    left = [at for at in range(100) if at % 7]
    assert done.counts == {"num_inserted_rows": 214, "num_updated_rows": 86, "num_deleted_rows": len(left)}
    again = plan.commit(results)
    assert (again.counts, again.dataset.version) == (done.counts, done.dataset.version)
    assert [row["id"] for row in content(done.dataset)] == [at for at in range(100, 500) if at % 7] + [
        *range(500, 800)
    ]


def test_damaged_columns_of_a_plan(table: pennon.LanceDataset) -> None:
    text = jobs.plan_merge(upsert(table), a_source().schema, tasks=1).json()
    columns = json.loads(text)["work"]["merge"]["source"]
    content, refused = base64.b64decode(columns), set()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            JobPlan.from_json(text.replace(columns, base64.b64encode(damaged).decode()))
        except pennon.InvalidInputError as error:
            refused.add(str(error).split(": ")[0])
    assert refused == {"columns of the source of a job"}


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_repeated_commit_reports_what_was_committed(table: pennon.LanceDataset, meanwhile: bool) -> None:
    plan = jobs.plan_append(table)
    results = [plan.task(number).run(rows(range(500, 500 + count), 1)) for number, count in enumerate((10, 20))]
    if meanwhile:
        pennon.dataset(table.uri).insert(rows(range(900, 905), 1))
    done = plan.commit(results)
    assert done.rows == 30
    for others in (results[:1], results[1:], [plan.task(0).run(rows(range(7), 1))], []):
        again = plan.commit(others)
        assert (again.rows, again.dataset.version) == (30, done.dataset.version)


def test_a_repeated_overwrite_reports_what_was_committed(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_overwrite(table.uri, table.schema)
    done = plan.commit([plan.task(0).run(rows(range(10), 1))])
    again = plan.commit([plan.task(0).run(rows(range(3), 1))])
    assert (again.rows, again.dataset.version) == (done.rows, done.dataset.version) == (10, table.version + 1)


def test_a_merge_is_done_again_after_a_conflict(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_merge(upsert(table), a_source().schema, tasks=2)
    other = pennon.dataset(table.uri)
    other.merge_insert("id").when_not_matched_insert_all().execute(rows(range(790, 810), 5))
    results = [task.run(source=a_source()) for task in plan.tasks]
    with pytest.raises(pennon.CommitConflictError) as conflict:
        plan.commit(results)
    assert conflict.value.retryable
    done = jobs.run(plan, source=a_source())
    assert done.counts == {"num_inserted_rows": 204, "num_updated_rows": 96, "num_deleted_rows": 0}
    assert [row["id"] for row in content(done.dataset)][-310:] == [*range(500, 810)]


def test_a_worker_that_is_killed(table: pennon.LanceDataset, workers: Executor) -> None:
    plan = jobs.plan_merge(upsert(table), a_source().schema, tasks=3)
    version = table.latest_version
    with processes() as executor, pytest.raises(BrokenProcessPool):
        jobs.run(plan, source=killed_once, executor=executor)
    assert pennon.dataset(table.uri).version == version
    done = jobs.run(plan, source=a_source, executor=workers)
    again = jobs.run(plan, source=a_source, executor=workers)
    assert done.dataset.version == again.dataset.version == version + 1
    assert done.dataset.count_rows() == 514 + 214


def killed_once() -> pa.Table:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"source": a_source(), "data": a_source()}, pennon.InvalidInputError, "one of them"),
        ({"data": pa.table({"id": [1]})}, pennon.SchemaMismatchError, "expected id: .*; found id"),
        ({"data": rows(range(500, 502), 1).slice(0, 0).drop_columns("text")}, pennon.SchemaMismatchError, "text"),
        ({"data": pa.concat_tables([a_source()] * 2)}, pennon.InvalidInputError, "Ambiguous merge inserts"),
        ({}, pennon.InvalidInputError, "without rows"),
    ],
)
def test_wrong_rows_of_a_merge(
    table: pennon.LanceDataset, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    task = jobs.plan_merge(upsert(table), a_source().schema, tasks=1).task(0)
    with pytest.raises(error, match=text):
        task.run(**given)
    assert pennon.dataset(table.uri).version == table.version


def test_wrong_merges(table: pennon.LanceDataset) -> None:
    schema = a_source().schema
    for merge, text in [
        (table.merge_insert("id"), "insert|nothing|no-op"),
        (upsert(table).data_storage_version("2.1"), "data_storage_version"),
        (table.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns"), "rewrite_columns"),
        (table.merge_insert("id").when_matched_update_all("source.zz > 1"), "zz"),
    ]:
        with pytest.raises(pennon.InvalidInputError, match=text):
            jobs.plan_merge(merge, schema, tasks=2)
    with pytest.raises(pennon.SchemaMismatchError):
        jobs.plan_merge(upsert(table), pa.schema({"id": pa.int64(), "other": pa.int64()}))
    plan = jobs.plan_merge(upsert(table), schema, tasks=2)
    with pytest.raises(pennon.InvalidInputError, match="can be read only once"):
        jobs.run(plan, source=a_source().to_reader())
    with pytest.raises(pennon.InvalidInputError, match="plan the merge with one"):
        jobs.run(jobs.plan_merge(upsert(table), schema), source=a_source())
    with pytest.raises(pennon.InvalidInputError, match="plan is of kind delete"):
        jobs.run(jobs.plan_delete(table, "id = 1"), source=a_source())
    # All rows to both tasks, as if each had only its own.
    with pytest.raises(pennon.InvalidInputError, match="two tasks change the same row"):
        jobs.run(plan, [a_source(), a_source()])


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"double": pc.multiply(batch["id"], 2), "where": batch["_rowid"]})


@pennon.batch_udf(pa.schema({"double": pa.int64(), "where": pa.uint64()}))
def decorated(batch: pa.RecordBatch) -> pa.RecordBatch:
    return double(batch)


@pytest.mark.parametrize("function", [double, decorated])
@pytest.mark.parametrize("in_processes", [False, True])
def test_columns_from_a_function(
    table: pennon.LanceDataset, workers: Executor, function: Any, in_processes: bool
) -> None:
    plan = jobs.plan_add_columns(table, function, read_columns=["id", "_rowid"], batch_size=30, tasks=4)
    assert (plan.kind, plan.num_tasks) == ("add_columns", 4)
    assert [positions for task in plan.tasks for _, positions in task.slices] == [None] * 6
    plan = pickle.loads(pickle.dumps(plan))
    done = jobs.run(plan, executor=workers if in_processes else None)
    assert done.rows == 514
    expected = [{**row, "double": 2 * row["id"], "where": row["_rowid"]} for row in content(table)]
    assert [{name: row[name] for name in expected[0]} for row in content(done.dataset)] == expected
    assert done.dataset.validate() is None
    assert lance.dataset(done.dataset.uri).to_table(columns=["double"]).num_rows == 514


def test_columns_that_tasks_are_given(table: pennon.LanceDataset) -> None:
    before = content(table)
    plan = jobs.plan_add_columns(table, pa.schema({"double": pa.int64()}), tasks=4)
    assert plan.num_tasks == 4
    results = []
    for task in plan.tasks:
        ids = [fragment for fragment, _ in task.slices]
        fragments = [part for part in table.get_fragments() if part.fragment_id in ids]
        read = [part.to_table(columns=["id"])["id"] for part in fragments]
        given = pa.table(
            {"double": pc.multiply(pa.concat_tables([pa.table({"id": part}) for part in read])["id"], 2)}
        )
        results.append(TaskResult.from_json(Task.from_json(task.json()).run(given).json()))
    done = plan.commit(results)
    assert done.rows == len(before)
    assert content(done.dataset) == [{**row, "double": 2 * row["id"]} for row in before]
    assert lance.dataset(table.uri).to_table(columns=["double"]).num_rows == len(before)
    short = jobs.plan_add_columns(table, pa.schema({"x": pa.int64()}), tasks=1)
    with pytest.raises(pennon.InvalidInputError):
        short.tasks[0].run(pa.table({"x": [1, 2]}))
    with pytest.raises(pennon.InvalidInputError, match="no function that gets them"):
        jobs.plan_add_columns(table, pa.schema({"x": pa.int64()}), batch_size=3)


def test_columns_from_expressions_and_a_join(table: pennon.LanceDataset, workers: Executor) -> None:
    plan = jobs.plan_add_columns(table, {"double": "id * 2", "none": "cast(null as int)"}, tasks=3)
    results = [task.run() for task in plan.tasks]
    # Only fragments that others change are done again.
    pennon.dataset(table.uri).delete("id = 1")
    with pytest.raises(pennon.CommitConflictError):
        plan.commit(results)
    assert plan.kept == []
    renewed = plan.renew(results)
    assert {fragment for task in renewed.tasks for fragment, _ in task.slices} == {0, 1}
    kept = sum(result.rows for result in renewed.kept)
    assert kept == table.count_rows() - sum(table.get_fragment(at).count_rows() for at in (0, 1))
    done = jobs.run(renewed)
    assert done.dataset.count_rows("double = id * 2 AND none IS NULL") == 513

    by_id = pa.table({"key": list(range(0, 600, 2)), "e": list(range(300))})
    plan = jobs.plan_join_columns(done.dataset, by_id.schema, "id", "key", tasks=2)
    done = jobs.run(plan, source=by_id)
    assert done.dataset.count_rows("e = id / 2 AND id % 2 = 0") == done.dataset.count_rows("id % 2 = 0")
    assert done.dataset.count_rows("e IS NULL") == done.dataset.count_rows("id % 2 = 1")

    ids = done.dataset.to_table(columns=["id"], filter="id % 50 = 1", with_row_id=True)
    source = pa.table({"_rowid": ids["_rowid"], "e": pc.multiply(ids["id"], -1)})
    plan = jobs.plan_update_columns(done.dataset, source.schema, tasks=3)
    updated = jobs.run(plan, source=source, executor=workers)
    assert updated.rows == len(ids)
    assert (
        updated.dataset.to_table(columns=["id"], filter="e = -id AND id > 0")["id"].to_pylist()
        == ids["id"].to_pylist()
    )
    changes = updated.dataset.changes(done.dataset.version).read_all()
    assert sorted(changes["id"].to_pylist()) == ids["id"].to_pylist()
    assert lance.dataset(table.uri).count_rows("e < 0") == len(ids)


def test_wrong_columns(table: pennon.LanceDataset) -> None:
    schema = pa.schema({"key": pa.int64(), "e": pa.int64()})
    for plan, text in [
        (lambda: jobs.plan_add_columns(table, {"x": "zz + 1"}), "zz"),
        (lambda: jobs.plan_add_columns(table, {"n": "id"}), "n"),
        (lambda: jobs.plan_add_columns(table, pa.table({"x": [1]})), "plan_join_columns"),
        (lambda: jobs.plan_join_columns(table, schema, "zz", "key"), "zz"),
        (lambda: jobs.plan_join_columns(table, schema, "id"), "key column id"),
        (lambda: jobs.plan_update_columns(table, schema, "id", "key"), "e"),
        (lambda: jobs.plan_compaction(table, target_rows=5), "target_rows"),
        (lambda: jobs.plan_compaction(table, max_seconds=5), "max_seconds"),
        (lambda: jobs.plan_join_columns(table, pa.schema({"id": pa.int64(), "n": pa.int64()}), "id"), "n"),
    ]:
        with pytest.raises(pennon.PennonError, match=text):
            plan()
    plan = jobs.plan_add_columns(table, double, read_columns=["id", "_rowid"], tasks=1)
    task = Task.from_json(plan.task(0).json())
    with pytest.raises(pennon.InvalidInputError, match="without values"):
        task.run()
    with pytest.raises(pennon.InvalidInputError):
        task.run(pa.table({"double": pa.array([1], pa.int64()), "where": pa.array([1], pa.uint64())}))
    assert pennon.dataset(table.uri).version == table.version


def test_compaction(table: pennon.LanceDataset, workers: Executor) -> None:
    before = content(table)
    plan = jobs.plan_compaction(table, target_rows_per_fragment=250)
    assert (plan.kind, plan.num_tasks) == ("compact", 2)
    done = jobs.run(plan, executor=workers)
    assert (len(done.dataset.get_fragments()), done.rows) == (2, 514)
    assert content(done.dataset) == before
    again = plan.commit([task.run() for task in plan.tasks])
    assert again.dataset.version == done.dataset.version
    assert jobs.plan_compaction(done.dataset, target_rows_per_fragment=100).num_tasks == 0


def test_an_empty_table_gets_columns(tmp_path: Path) -> None:
    table = pennon.write_dataset(rows(range(1), 0).slice(1), str(tmp_path / "empty"))
    done = jobs.run(jobs.plan_add_columns(table, {"double": "id * 2"}))
    assert (done.rows, done.dataset.schema.names) == (0, ["id", "n", "text", "double"])


def test_addresses_are_not_looked_for_again(table: pennon.LanceDataset) -> None:
    """After a compaction an address names another row, or none."""
    addresses = table.to_table(columns=["id"], with_row_address=True)
    source = pa.table({"_rowaddr": addresses["_rowaddr"], "e": addresses["id"]})
    plan = jobs.plan_join_columns(table, source.schema, "_rowaddr", tasks=2)
    results = [task.run(source=source) for task in plan.tasks]
    pennon.dataset(table.uri).optimize.compact_files(target_rows_per_fragment=1000)
    with pytest.raises(pennon.CommitConflictError):
        plan.commit(results)
    with pytest.raises(pennon.InvalidInputError, match="rows may have moved"):
        plan.renew(results)


def test_only_fragments_with_a_match_are_rewritten(table: pennon.LanceDataset) -> None:
    before = {fragment.fragment_id: fragment.metadata for fragment in table.get_fragments()}
    source = pa.table({"id": [205, 206], "n": [9, 9]})
    done = jobs.run(jobs.plan_update_columns(table, source.schema, "id", tasks=3), source=source)
    assert done.rows == 2
    after = {fragment.fragment_id: fragment.metadata for fragment in done.dataset.get_fragments()}
    assert [id for id in before if before[id] != after[id]] == [2]
    assert done.dataset.count_rows(f"_row_last_updated_at_version = {done.dataset.version}") == 2
    nothing = pa.table({"id": [7000], "n": [9]})
    assert jobs.run(jobs.plan_update_columns(done.dataset, nothing.schema, "id"), source=nothing).rows == 0


def test_rows_with_null_keys_are_inserted_once(table: pennon.LanceDataset) -> None:
    def source() -> pa.Table:
        # Other bytes under the nulls each time.
        values = pa.array([random.randrange(1 << 40) for _ in range(64)], pa.int64())
        nulls = pc.if_else(pa.array([True] * 64), pa.scalar(None, pa.int64()), values)
        noise = pa.Array.from_buffers(pa.int64(), 64, [pa.py_buffer(bytes(8)), values.buffers()[1]])
        assert nulls.null_count == noise.null_count == 64
        return pa.table({"id": noise, "n": [3] * 64, "text": ["x"] * 64})

    done = jobs.run(jobs.plan_merge(upsert(table), source().schema, tasks=5), source=source)
    assert done.counts == {"num_inserted_rows": 64, "num_updated_rows": 0, "num_deleted_rows": 0}
    assert done.dataset.count_rows("id IS NULL AND n = 3") == 64


def test_a_compaction_that_lost_says_so(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_compaction(table, target_rows_per_fragment=1000)
    pennon.dataset(table.uri).optimize.compact_files(target_rows_per_fragment=1000)
    with pytest.raises(pennon.CommitConflictError):
        jobs.run(plan)


def test_rows_that_were_forgotten(table: pennon.LanceDataset) -> None:
    for plan in (jobs.plan_append(table), jobs.plan_merge(upsert(table), a_source().schema)):
        with pytest.raises(pennon.InvalidInputError, match="was given no rows"):
            jobs.run(plan)
    columns = jobs.plan_add_columns(table, double, read_columns=["id", "_rowid"], tasks=1)
    with pytest.raises(pennon.InvalidInputError, match="max_rows_per_file"):
        columns.task(0).run(a_source(), max_rows_per_file=5)
