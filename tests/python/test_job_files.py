"""`TaskResult.files`: what a task wrote, and nothing that was there before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.jobs import JobPlan, TaskResult

ROWS = pa.table({"id": range(40), "n": [0] * 40})
ADDRESSED = pa.schema({"_rowaddr": pa.uint64(), "n": pa.int64()})


def appended(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_append(table, tasks=2)
    return plan, [task.run({"id": [100], "n": [task.number]}) for task in plan.tasks]


def replaced(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_overwrite(table.uri, ROWS.schema, tasks=2)
    return plan, [task.run(ROWS, max_rows_per_file=15) for task in plan.tasks]


def updated(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_update(table, {"n": "n + 1"}, where="id > 5", tasks=2)
    return plan, [task.run() for task in plan.tasks]


def deleted(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_delete(table, "id > 5", tasks=2)
    return plan, [task.run() for task in plan.tasks]


def merged(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    clauses = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    plan = jobs.plan_merge(clauses, ROWS.schema, tasks=2)
    source = {"id": range(30, 50), "n": [1] * 20}
    return plan, [task.run(source=source) for task in plan.tasks]


def changed(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_change_rows(table, ADDRESSED, updates=["n"], tasks=1)
    rows = pa.Table.from_pydict({"_rowaddr": [1, 2], "n": [7, 7]}, schema=ADDRESSED)
    return plan, [task.run(rows) for task in plan.tasks]


def with_columns(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_add_columns(table, {"more": "n + 1"}, tasks=2)
    return plan, [task.run() for task in plan.tasks]


def columns_changed(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_update_columns(table, ROWS.schema, "id", tasks=2)
    source = pa.table({"id": [3, 33], "n": [1, 2]})
    return plan, [task.run(source=source) for task in plan.tasks]


def compacted(table: pennon.LanceDataset) -> tuple[JobPlan, list[TaskResult]]:
    plan = jobs.plan_compaction(table, target_rows_per_fragment=20)
    return plan, [task.run() for task in plan.tasks]


KINDS = [appended, replaced, updated, deleted, merged, changed, with_columns, columns_changed, compacted]


def files_in(root: Path) -> dict[str, int]:
    found = (path for name in ("data", "_deletions") for path in (root / name).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.stat().st_size for path in found}


@pytest.mark.parametrize("kind", KINDS)
def test_files(tmp_path: Path, kind: Callable[[pennon.LanceDataset], tuple[JobPlan, list[TaskResult]]]) -> None:
    table = pennon.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=10)
    before = files_in(tmp_path / "t")
    plan, results = kind(table)
    written = {path: size for path, size in files_in(tmp_path / "t").items() if path not in before}
    assert bool(written) == (kind is not deleted)
    for found in (results, pickle.loads(pickle.dumps(results))):
        assert [path for result in found for path in result.files] != [] or kind is deleted
        assert {path: size for result in found for path, size in result.files.items()} == written
        assert sum(len(result.files) for result in found) == len(written)
        assert sum(result.bytes for result in found) == sum(written.values())
    # They are those that the version refers to, besides old ones.
    fragments = plan.commit(results).dataset.get_fragments()
    referred = {f"data/{file.path}" for fragment in fragments for file in fragment.metadata.files}
    assert referred - set(before) == set(written)
