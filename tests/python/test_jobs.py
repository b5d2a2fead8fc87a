"""Jobs: the same work in one process, in threads, in others, from JSON; and what does not belong together."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from time import sleep
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.jobs import JobPlan, Task, TaskResult
from pennon.jobs._connection import Connection
from support.spread import spread
from support.tables import numbers

from .conftest import processes

SCHEMA = numbers(0).schema


@pytest.fixture
def table(tmp_path: Path) -> pennon.LanceDataset:
    """500 rows in fragments of 300, 100 and 100; every seventh is deleted."""
    uri = str(tmp_path / "table")
    table = pennon.write_dataset(numbers(300), uri, max_rows_per_file=300)
    for start in (300, 400):
        table.insert(numbers(100, start))
    table.delete("id % 7 = 0")
    return table


def rows_of(table: pennon.LanceDataset) -> list[tuple[int, int]]:
    found = table.to_table(columns=["id"], with_row_id=True)
    return sorted(zip(found["_rowid"].to_pylist(), found["id"].to_pylist(), strict=True))


def one_by_one(plan: JobPlan, _workers: Executor | None = None) -> list[TaskResult]:
    return [task.run() for task in plan.tasks]


def in_json(plan: JobPlan, _workers: Executor) -> list[TaskResult]:
    """As on machines that share nothing: the last task first, everything as text."""
    plan = JobPlan.from_json(plan.json())
    texts = [Task.from_json(task.json()).run().json() for task in reversed(plan.tasks)]
    return [TaskResult.from_json(text) for text in texts]


def threads() -> Executor:
    return ThreadPoolExecutor(2)


def test_run_reports_progress(table: pennon.LanceDataset) -> None:
    seen: list[jobs.Progress] = []
    plan = jobs.plan_update(table, {"id": "id + 1"}, tasks=5)
    done = jobs.run(plan, progress=seen.append)
    assert [at.tasks for at in seen] == [1, 2, 3, 4, 5]
    assert [at.rows for at in seen] == sorted(at.rows for at in seen)
    last = seen[-1]
    assert (last.of_tasks, last.fragments, last.of_fragments, last.rows) == (5, 3, 3, done.rows)
    written = [file for part in done.dataset.get_fragments() for file in part.data_files()]
    assert last.bytes == sum(file.file_size_bytes or 0 for file in written)


def test_the_versions_used_last_stay_open(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, open_table = [], Connection.open

    def counted(self: Connection, *given: Any) -> pennon.LanceDataset:
        opened.append(given)
        return open_table(self, *given)

    monkeypatch.setattr(Connection, "open", counted)
    first, *others = (jobs.plan_update(table, {"id": "id"}, tasks=1).tasks[0] for _ in range(6))
    for other in others:
        for task in (first, other):
            task.run()
    assert len(opened) == 6


def in_threads(plan: JobPlan, _workers: Executor) -> list[TaskResult]:
    with threads() as executor:
        return list(executor.map(Task.run, plan.tasks))


def in_processes(plan: JobPlan, workers: Executor) -> list[TaskResult]:
    return list(workers.map(Task.run, plan.tasks))


SHAPES = [one_by_one, in_json, in_threads, in_processes]


@spread(of=1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tasks", [1, 5])
def test_every_shape_does_the_same(
    table: pennon.LanceDataset,
    workers: Executor,
    shape: Callable[[JobPlan, Executor], list[TaskResult]],
    tasks: int,
) -> None:
    before = rows_of(table)
    plan = jobs.plan_delete(table, "id % 3 = 0", tasks=tasks)
    assert (plan.kind, plan.version, plan.num_tasks) == ("delete", table.version, tasks)
    results = shape(plan, workers)
    done = plan.commit(results)
    left = [(row, id) for row, id in before if id % 3]
    assert (rows_of(done.dataset), done.rows) == (left, len(before) - len(left))
    with pytest.raises(pennon.InvalidInputError, match=f"is committed already, as version {done.dataset.version}"):
        plan.renew(results)
    # Again, with twins, as after an answer that was lost.
    again = plan.commit([*shape(plan, workers), *results])
    assert (again.dataset.version, again.rows) == (done.dataset.version, done.rows)

    plan = jobs.plan_update(done.dataset, {"id": "id * 1000"}, "id > 250", tasks=tasks)
    done = plan.commit(shape(plan, workers))
    expected = [(row, id * 1000 if id > 250 else id) for row, id in left]
    assert (rows_of(done.dataset), done.rows) == (expected, sum(id > 250 for _, id in left))
    assert done.dataset.validate() is None
    assert lance.dataset(done.dataset.uri).count_rows() == len(left)
    # Nobody's creation moves, and the feed has both images of the rows of the update and no others.
    created = done.dataset.to_table(columns=["_row_created_at_version"])["_row_created_at_version"]
    assert set(created.to_pylist()) == {1, 2, 3}
    changes = done.dataset.changes(done.dataset.version - 1, images="both").read_all()
    assert changes["_change_type"].to_pylist().count("update_preimage") == done.rows
    assert changes["_change_type"].to_pylist().count("update_postimage") == done.rows
    assert changes.num_rows == 2 * done.rows


@pytest.mark.parametrize("tasks", [1, 3, 8])
@pytest.mark.parametrize(
    ("predicate", "fragments"),
    [
        ("id < 5000", {0}),
        ("id BETWEEN 95000 AND 121000", {0, 1}),
        ("id >= 120000 AND text < 'text 145000'", {1}),
        ("_row_created_at_version = 2", {2}),
        ("id = -1", set()),
        ("id % 2 = 0", {0, 1, 2}),
        ("id IS NULL", set()),
        ("text LIKE '%9%'", {0, 1, 2}),
    ],
)
def test_a_scan_is_divided_where_its_filter_can_match(
    tmp_path: Path, predicate: str, fragments: set[int], tasks: int
) -> None:
    def rows(first: int, last: int) -> pa.Table:
        ids = pa.array(range(first, last), pa.int64())
        return pa.table({"id": ids, "text": pa.array([f"text {id:06}" for id in range(first, last)])})

    table = pennon.write_dataset(rows(0, 200_000), str(tmp_path / "table"), max_rows_per_file=100_000)
    table.insert(rows(200_000, 250_000))
    # Before the first row that may match, between such rows and after them.
    table.delete("id % 10 = 3 OR id BETWEEN 1000 AND 4000 OR id BETWEEN 120000 AND 140000 OR id = 99999")
    plan = jobs.plan_scan(table, filter=predicate, tasks=tasks, with_row_id=True)
    slices = [slice for task in plan.tasks for slice in task.slices]
    assert {fragment for fragment, _ in slices} == fragments
    assert plan.num_tasks <= tasks
    found = [batch for task in plan.tasks for batch in task.to_batches()]
    expected = table.to_table(filter=predicate, with_row_id=True)
    assert pa.Table.from_batches(found, expected.schema) == expected
    if predicate.endswith("121000"):
        counts = [sum(batch.num_rows for batch in task.to_batches()) for task in plan.tasks]
        assert len(counts) == tasks
        # Most of the rows between 120,000 and 121,000 are deleted.
        assert max(counts) <= 2 * sum(counts) / tasks


def test_words_of_time_are_no_functions(tmp_path: Path) -> None:
    """Only a filter that is another one later is left to the tasks."""

    def rows(first: int) -> pa.Table:
        ids = pa.array(range(first, first + 20_000), pa.int64())
        return pa.table({"known": ids, "snow_depth": ids, "day": ["today"] * 20_000})

    table = pennon.write_dataset(rows(0), str(tmp_path / "table"))
    table.insert(rows(20_000))

    def fragments(predicate: str) -> set[int]:
        plan = jobs.plan_scan(table, filter=predicate, tasks=4)
        return {fragment for task in plan.tasks for fragment, _ in task.slices}

    assert fragments("known = 1") == {0}
    assert fragments("snow_depth > 30000") == {1}
    assert fragments("known = 30000 AND day = 'today'") == {1}
    assert fragments("known < 50 AND day <> 'now() or current_date'") == {0}
    for time in ("now()", "NOW()", "current_timestamp", "CURRENT_TIMESTAMP()", "today()", "current_date"):
        assert fragments(f"known = 1 AND {time} > timestamp '2020-01-01'") == {0, 1}, time


def test_scan(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_scan(table, columns=["id"], filter="id != 4", tasks=4, with_row_id=True)
    version = table.version
    table.delete("id = 1")
    assert plan.num_tasks == 4
    # The first fragment has three fifths of the rows.
    assert [fragment for task in plan.tasks for fragment, _ in task.slices].count(0) > 1
    found = pa.concat_tables(task.to_reader().read_all() for task in pickle.loads(pickle.dumps(plan.tasks)))
    pinned = pennon.dataset(table.uri, version=version)
    expected = pinned.to_table(columns=["id"], filter="id != 4", with_row_id=True)
    assert found == expected
    assert [batch for task in plan.tasks for batch in task.to_batches()]
    expressions = jobs.plan_scan(table.uri, columns={"double": "id * 2"}, version=version, tasks=2)
    doubled = pa.concat_tables(task.to_reader().read_all() for task in expressions.tasks)
    assert doubled["double"].to_pylist() == [
        id * 2 for _, id in rows_of(pennon.dataset(table.uri, version=version))
    ]
    with pytest.raises(pennon.InvalidInputError, match="No field named idd"):
        jobs.plan_scan(table, columns=["idd"])
    with pytest.raises(pennon.InvalidInputError, match="nothing to commit"):
        jobs.run(plan)
    with pytest.raises(pennon.InvalidInputError, match="cannot be run"):
        plan.tasks[0].run()
    with pytest.raises(pennon.InvalidInputError, match="cannot be committed"):
        plan.commit([])
    with pytest.raises(pennon.InvalidInputError, match="kind delete"):
        next(jobs.plan_delete(table, "true").tasks[0].to_batches())


@pytest.mark.parametrize("mode", ["create", "overwrite"])
def test_new_table(uri: str, mode: Any) -> None:
    plan = jobs.plan_overwrite(uri, SCHEMA, mode=mode)
    assert plan.num_tasks is None
    with pytest.raises(pennon.InvalidInputError, match="how many"):
        plan.tasks  # noqa: B018
    results = [plan.task(number).run(numbers(5, number * 5), max_rows_per_file=3) for number in (7, 0)]
    done = plan.commit(results)
    assert (done.rows, done.dataset.version, len(done.dataset.get_fragments())) == (10, 1, 4)
    assert rows_of(done.dataset) == list(enumerate([*range(5), *range(35, 40)]))
    # Much later, after others wrote.
    for start in range(40):
        pennon.dataset(uri).insert(numbers(1, 100 + start))
    assert plan.commit(results).dataset.version == 1
    assert pennon.dataset(uri).count_rows() == 50
    other = jobs.plan_overwrite(uri, SCHEMA, mode=mode, tasks=1)
    result = other.tasks[0].run(numbers(1))
    if mode == "create":
        with pytest.raises(pennon.AlreadyExistsError):
            other.commit([result])
    else:
        assert other.commit([result]).dataset.count_rows() == 1
    with pytest.raises(pennon.SchemaMismatchError, match=r"expected id: int64.*found text: string"):
        other.tasks[0].run({"text": ["a"]})


def test_empty_table(uri: str) -> None:
    table = jobs.plan_overwrite(uri, SCHEMA, enable_stable_row_ids=False).commit([]).dataset
    assert (table.count_rows(), table.schema, table.has_stable_row_ids) == (0, SCHEMA, False)
    done = jobs.run(jobs.plan_delete(table, "true", tasks=4))
    assert (done.rows, done.dataset.version) == (0, 2)
    assert jobs.plan_scan(table).tasks == []


def test_append(table: pennon.LanceDataset) -> None:
    before = table.count_rows()
    plan = jobs.plan_append(table, tasks=2)
    late, early = (task.run(numbers(5, 1000 + 5 * task.number)) for task in reversed(plan.tasks))
    table.insert(numbers(1, 9999))
    done = plan.commit([late, early])
    assert (done.rows, done.dataset.count_rows()) == (10, before + 11)
    assert [id for _, id in rows_of(done.dataset)][-10:] == list(range(1000, 1010))
    with pytest.raises(pennon.SchemaMismatchError, match="text"):
        plan.tasks[0].run({"id": [1], "text": [2]})
    with pytest.raises(pennon.InvalidInputError, match=r"1 of 2 tasks .* have no result; the first is task 1"):
        plan.commit([early])
    with pytest.raises(pennon.InvalidInputError, match="max_rows"):
        plan.tasks[0].run(numbers(1), max_rows=3)
    with pytest.raises(pennon.InvalidInputError, match="without rows"):
        plan.tasks[0].run()


@pytest.mark.parametrize("made", [threads, processes])
def test_run_with_an_executor(table: pennon.LanceDataset, uri: str, made: Callable[[], Executor]) -> None:
    with made() as executor:
        expected = [(row, id) for row, id in rows_of(table) if id % 2]
        done = jobs.run(jobs.plan_delete(table, "id % 2 = 0", tasks=4), executor=executor)
        assert rows_of(done.dataset) == expected
        plan = jobs.plan_overwrite(uri, SCHEMA, tasks=3)
        done = jobs.run(plan, [numbers(4, 4 * number) for number in range(3)], executor=executor)
        assert rows_of(done.dataset) == [(id, id) for id in range(12)]
        with pytest.raises(pennon.InvalidInputError, match="2 items of rows were given for 3 tasks"):
            jobs.run(plan, [numbers(1)] * 2, executor=executor)


class Meddling(ThreadPoolExecutor):
    """Lets another writer change rows while the tasks of the first plans run."""

    def __init__(self, uri: str, *predicates: str) -> None:
        super().__init__(2)
        self.uri = uri
        self.predicates = list(predicates)
        self.fragments: list[int] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.fragments.extend(fragment for fragment, _ in args[0].slices)
        future = super().submit(fn, *args, **kwargs)
        future.result()
        if self.predicates:
            pennon.dataset(self.uri).delete(self.predicates.pop(0))
        return future


@pytest.mark.parametrize("kind", ["delete", "update"])
def test_run_looks_again_at_what_changed(table: pennon.LanceDataset, kind: str) -> None:
    before = rows_of(table)
    plan = {
        "delete": jobs.plan_delete(table, "id % 2 = 0", tasks=5),
        "update": jobs.plan_update(table, {"id": "id + 1"}, "id % 2 = 0", tasks=5),
    }[kind]
    with Meddling(table.uri, "id = 402", "id = 2") as executor:
        done = jobs.run(plan, executor=executor)
    left = [(row, id) for row, id in before if id not in (402, 2)]
    if kind == "delete":
        assert rows_of(done.dataset) == [(row, id) for row, id in left if id % 2]
    else:
        assert rows_of(done.dataset) == sorted((row, id + (id % 2 == 0)) for row, id in left)
    assert done.rows == sum(id % 2 == 0 for _, id in left)
    # The fragment that nobody touched was read once.
    first, untouched, last = (executor.fragments.count(part) for part in range(3))
    assert untouched == 1
    assert min(first, last) > 1
    assert pennon.dataset(table.uri).validate() is None
    with Meddling(table.uri, *[f"id = {id}" for id in range(41, 99, 2)]) as executor:
        plan = jobs.plan_delete(table.uri, "id < 200", tasks=3)
        with pytest.raises(pennon.CommitConflictError) as caught:
            jobs.run(plan, executor=executor, conflict_retries=2)
        assert caught.value.retryable


def test_no_job_is_planned_again_after_its_time(table: pennon.LanceDataset) -> None:
    with Meddling(table.uri, "id = 402") as executor, pytest.raises(pennon.CommitConflictError):
        jobs.run(jobs.plan_delete(table, "id % 2 = 0", tasks=5), executor=executor, retry_timeout=timedelta(0))
    with Meddling(table.uri, "id = 404") as executor:
        plan = jobs.plan_delete(table.uri, "id % 2 = 0", tasks=5)
        assert jobs.run(plan, executor=executor, retry_timeout=timedelta(hours=1)).rows > 0
    with pytest.raises(pennon.InvalidTypeError, match="retry_timeout must be a timedelta, found 60"):
        jobs.run(jobs.plan_delete(table.uri, "id = 1"), retry_timeout=60)  # type: ignore[arg-type]


def test_a_callback_that_raises_ends_the_job(table: pennon.LanceDataset) -> None:
    def stop(at: jobs.Progress) -> None:
        raise RuntimeError(f"after {at.tasks}")

    version = table.version
    with pytest.raises(RuntimeError, match="after 1"):
        jobs.run(jobs.plan_delete(table, "true", tasks=3), progress=stop)
    assert pennon.dataset(table.uri).version == version


def test_workers_scan_as_many_tasks_each(uri: str) -> None:
    rows = pa.table({"id": np.random.default_rng(1).integers(0, 1 << 40, 1_000_000)})
    dataset = pennon.write_dataset(rows, uri, max_rows_per_file=300_000)
    assert len(jobs.plan_scan(dataset, workers=3).tasks) == 3
    # Tasks would be of less than 1 MiB.
    assert 3 < len(jobs.plan_scan(dataset, workers=100).tasks) < 10
    assert len(jobs.plan_scan(dataset, workers=100, least_bytes_per_task=1000).tasks) == 100
    plan = jobs.plan_scan(dataset, bytes_per_task=2_000_000, workers=2)
    read = [pa.Table.from_batches(task.to_batches()) for task in plan.tasks]
    assert len(read) == 4
    assert all(abs(part.num_rows - 250_000) < 2_500 for part in read)
    assert pa.concat_tables(read)["id"].combine_chunks().equals(rows["id"].combine_chunks())


def test_one_uuid_is_committed_once(table: pennon.LanceDataset, uri: str) -> None:
    uuid = "0f0f1b4e-9e0c-5c1b-8f0a-51b2f6f6a7d3"
    plans = [jobs.plan_append(table).with_uuid(uuid.upper()) for _ in range(2)]
    assert [plan.uuid for plan in plans] == [uuid, uuid]
    before = table.count_rows()
    reports = [plan.commit([plan.task(0).run(numbers(3, 900))]) for plan in plans]
    assert [report.dataset.version for report in reports] == [table.version + 1] * 2
    assert reports[1].dataset.count_rows() == before + 3
    new = jobs.plan_overwrite(uri, SCHEMA).with_uuid(uuid)
    made = new.commit([new.task(0).run(numbers(3))]).dataset
    assert made.read_transaction(1).uuid == uuid
    for text in ("", "abc", "../../data"):
        with pytest.raises(pennon.InvalidInputError, match="expected a uuid, as text"):
            new.with_uuid(text)
    plan = jobs.plan_delete(table, "id = 1", tasks=2)
    kept = plan.renew(one_by_one(plan))
    with pytest.raises(pennon.InvalidInputError, match="results of tasks"):
        kept.with_uuid(uuid)


def test_what_does_not_belong_together(table: pennon.LanceDataset, uri: str) -> None:
    plan = jobs.plan_delete(table, "id = 1", tasks=2)
    results = one_by_one(plan)
    other = jobs.plan_delete(table, "id = 1", tasks=2)
    with pytest.raises(pennon.InvalidInputError, match=f"not of this plan: expected 2 tasks of job {other.uuid}"):
        other.commit(results)
    with pytest.raises(pennon.InvalidInputError, match="the first is task 1"):
        plan.commit(results[:1])
    for text in ("", "[]", "{}", plan.json()[:-2]):
        for kind in (JobPlan, Task, TaskResult):
            with pytest.raises(pennon.InvalidInputError, match="This is no"):
                kind.from_json(text)
    with pytest.raises(pennon.InvalidInputError, match="format 9, from another release"):
        JobPlan.from_json(plan.json().replace('"pennon_job":1', '"pennon_job":9'))
    for kind, text in ((JobPlan, plan.json()), (Task, plan.task(0).json())):
        with pytest.raises(pennon.InvalidInputError, match='The uuid of a job is "one", which is none'):
            kind.from_json(text.replace(plan.uuid, "one"))
    with pytest.raises(pennon.InvalidInputError, match="at least one task"):
        jobs.plan_delete(table, "true", tasks=0)
    for tasks in (2**20 + 1, 2**40, 2**64 - 1):
        with pytest.raises(pennon.InvalidInputError, match=f"at most 1048576 tasks: found {tasks}"):
            jobs.plan_append(table, tasks=tasks)
        with pytest.raises(pennon.InvalidInputError, match=f"at most 1048576 tasks: found {tasks}"):
            jobs.plan_overwrite(table.uri, SCHEMA, tasks=tasks)
    with pytest.raises(pennon.InvalidInputError, match="not by both"):
        jobs.plan_delete(table, "true", tasks=1, bytes_per_task=1)
    with pytest.raises(pennon.InvalidInputError, match="not by both"):
        jobs.plan_scan(table, tasks=1, workers=1)
    with pytest.raises(pennon.InvalidInputError, match="at least one task"):
        jobs.plan_scan(table, workers=0)
    with pytest.raises(pennon.InvalidInputError, match="say how many workers"):
        jobs.plan_scan(table, least_bytes_per_task=1)
    with pytest.raises(pennon.InvalidInputError, match="has one"):
        jobs.plan_scan(table, version=1)
    with pytest.raises(pennon.InvalidInputError, match="No updates"):
        jobs.plan_update(table, {})
    with pytest.raises(pennon.InvalidInputError, match="mode is 'append'"):
        jobs.plan_overwrite(uri, SCHEMA, mode="append")  # type: ignore[arg-type]
    with pytest.raises(pennon.InvalidInputError, match="cannot be given rows"):
        plan.tasks[0].run(numbers(1))


def test_texts_of_other_parts_of_a_job(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_delete(table, "id = 1", tasks=2)
    results = one_by_one(plan)
    texts = {JobPlan: plan.json(), Task: plan.task(0).json(), TaskResult: results[0].json()}
    for kind in texts:
        for text in (text for of, text in texts.items() if of is not kind):
            with pytest.raises(pennon.InvalidInputError, match=r"This is no .* of a job: unknown field"):
                kind.from_json(text)
        with pytest.raises(pennon.InvalidTypeError, match="json must be text, found int 1"):
            kind.from_json(1)
    without = {name: value for name, value in json.loads(plan.json()).items() if name != "tasks"}
    with pytest.raises(pennon.InvalidInputError, match="missing field `tasks`"):
        JobPlan.from_json(json.dumps(without))
    assert (plan.commit(results).rows, plan.commit(results).dataset.version) == (1, table.version + 1)


def test_what_is_no_number_or_result(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_delete(table, "id = 1", tasks=2)
    for wrong in (-1, 2**64, "x", 1.5):
        with pytest.raises(pennon.InvalidInputError, match=r"^number must be"):
            plan.task(wrong)  # type: ignore[arg-type]
        for name in ("tasks", "bytes_per_task", "workers"):
            with pytest.raises(pennon.InvalidInputError, match=f"^{name} must be"):
                jobs.plan_scan(table, **{name: wrong})
        with pytest.raises(pennon.InvalidInputError, match=r"^least_bytes_per_task must be"):
            jobs.plan_scan(table, workers=1, least_bytes_per_task=wrong)  # type: ignore[arg-type]
        with pytest.raises(pennon.InvalidInputError, match=r"^tasks must be"):
            jobs.plan_overwrite(table.uri, SCHEMA, tasks=wrong)  # type: ignore[arg-type]
    for call in (plan.commit, plan.renew):
        for wrong, found in (("abc", "str"), (plan.tasks, "Task"), (7, "int"), ([None], "NoneType")):
            with pytest.raises(pennon.InvalidTypeError, match=f"results must be a list of TaskResult, .*{found}"):
                call(wrong)  # type: ignore[arg-type]


def test_a_table_that_was_replaced(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    pennon.write_dataset(numbers(10), uri)
    plan = jobs.plan_delete(uri, "id = 1")
    pennon.LanceDataset.drop(uri)
    pennon.write_dataset(numbers(20), uri)
    text = plan.tasks[0].json()
    with pytest.raises(pennon.InvalidInputError, match=r"is for version 1, made .* found version 1, made"):
        Task.from_json(text).run()


def test_secrets_stay_out_of_json(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_delete(table.uri, "id = 1", storage_options={"aws_secret_access_key": "hush"})
    assert "hush" not in plan.json() + plan.tasks[0].json() + repr(plan) + repr(plan.tasks[0])
    assert pickle.loads(pickle.dumps(plan.tasks[0]))._connection == plan._connection


def test_another_table_at_the_same_place(tmp_path: Path) -> None:
    # A process that runs tasks of many jobs, as Spark's do, keeps tables open.
    for count in (3, 5):
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        table = pennon.write_dataset({"a": list(range(count))}, tmp_path / "again")
        done = jobs.run(jobs.plan_delete(table, "a = 0"))
        assert (done.dataset.count_rows(), done.dataset.version) == (count - 1, 2)


def test_threads_open_a_version_once(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, opening = Connection.open, list[int]()

    def slowly(*given: Any) -> pennon.LanceDataset:
        opening.append(1)
        sleep(0.1)
        return opened(*given)

    monkeypatch.setattr(Connection, "open", slowly)
    plan = jobs.plan_scan(table, tasks=4)
    tasks = [jobs.Task.from_json(task.json()) for task in plan.tasks]
    with ThreadPoolExecutor(4) as threads:
        rows = sum(threads.map(lambda task: task.to_reader().read_all().num_rows, tasks))
    assert (rows, len(opening)) == (table.count_rows(), 1)
