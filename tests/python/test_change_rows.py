"""Jobs that are told which rows are deleted, updated and inserted: `jobs.plan_change_rows`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon import jobs

CHANGES = pa.schema({"_rowaddr": pa.uint64(), "_change_type": pa.string(), "a": pa.int64(), "b": pa.string()})


def decide(batch: pa.RecordBatch) -> pa.Table:
    """Rows whose `a` is a multiple of ten go, those after them change, and 99 has a successor."""
    rows: list[dict[str, Any]] = []
    for a, address in zip(batch["a"].to_pylist(), batch["_rowaddr"].to_pylist(), strict=True):
        if a % 10 == 0:
            rows.append({"_rowaddr": address, "_change_type": "delete"})
        elif a % 10 == 1:
            rows.append({"_rowaddr": address, "_change_type": "update", "a": a, "b": f"changed {a}"})
        if a == 99:
            rows.append({"_change_type": "insert", "a": 199, "b": "new"})
    return pa.Table.from_pylist(rows, CHANGES)


def model(rows: dict[int, tuple[int, str]]) -> dict[int, tuple[int, str]]:
    changed = {key: (a, f"changed {a}" if a % 10 == 1 else b) for key, (a, b) in rows.items() if a % 10}
    return {**changed, max(rows) + 1: (199, "new")}


def content(table: pennon.LanceDataset) -> dict[int, tuple[int, str]]:
    rows = table.to_table(with_row_id=True).to_pydict()
    pairs = zip(rows["a"], rows["b"], strict=True)
    return dict(zip(rows["_rowid"], pairs, strict=True))


@pytest.fixture
def table(tmp_path: Path) -> pennon.LanceDataset:
    rows = {"a": list(range(100)), "b": [f"row {a}" for a in range(100)]}
    return pennon.write_dataset(rows, tmp_path / "table", max_rows_per_file=16)


def test_a_function_decides_in_threads_and_processes(table: pennon.LanceDataset, workers: Executor) -> None:
    wanted = model(content(table))
    plan = jobs.plan_change_rows(table, CHANGES, columns=["a"], decide=decide, keys=["a"], tasks=4)
    assert (plan.kind, plan.num_tasks) == ("change_rows", 4)
    done = jobs.run(plan, executor=workers)
    assert done.counts == {"num_inserted_rows": 1, "num_updated_rows": 10, "num_deleted_rows": 10}
    assert (content(done.dataset), done.rows) == (wanted, 21)
    theirs = lance.dataset(table.uri)
    theirs.validate()
    assert dict(zip(*[theirs.to_table()[name].to_pylist() for name in "ab"], strict=True)) == dict(wanted.values())
    # The change feed has what was done to each row.
    kinds = done.dataset.changes(1, images="both").read_all()["_change_type"].value_counts().to_pylist()
    assert {kind["values"]: kind["counts"] for kind in kinds} == {
        "insert": 1,
        "update_preimage": 10,
        "update_postimage": 10,
        "delete": 10,
    }


def test_an_engine_of_ones_own(table: pennon.LanceDataset) -> None:
    plan = jobs.plan_change_rows(table, CHANGES, columns=["a"], filter="a % 10 < 2 or a = 99", tasks=3)
    results = []
    for task in pickle.loads(pickle.dumps(plan.tasks)):
        batches = list(task.to_batches())
        assert all(batch.schema.names == ["a", "_rowaddr"] for batch in batches)
        changes: Iterator[pa.RecordBatch] = (part for batch in batches for part in decide(batch).to_batches())
        results.append(task.run(pa.Table.from_batches(changes, CHANGES)))
    wanted = model(content(table))
    done = plan.commit(results, properties={"engine": "by hand"})
    assert content(done.dataset) == wanted
    transaction = done.dataset.read_transaction(done.dataset.version)
    assert transaction is not None
    assert transaction.transaction_properties["engine"] == "by hand"
    assert plan.commit(results).dataset.version == done.dataset.version


def test_after_a_conflict_only_what_changed_is_decided_again(table: pennon.LanceDataset) -> None:
    calls: list[int] = []

    def counting(batch: pa.RecordBatch) -> pa.Table:
        calls.append(batch.num_rows)
        if len(calls) == 1:
            pennon.dataset(table.uri).update({"b": "'theirs'"}, where="a in (1, 2)")
        return decide(batch)

    done = jobs.run(jobs.plan_change_rows(table, CHANGES, columns=["a"], decide=counting, tasks=7))
    found = dict(content(done.dataset).values())
    assert (found[1], found[2], found[11], done.dataset.version) == ("changed 1", "theirs", "changed 11", 3)
    # All rows once, then those of the fragments that the other writer made or changed.
    assert 100 < sum(calls) < 150
    done.dataset.validate()


def test_rows_are_added_once_by_key(table: pennon.LanceDataset) -> None:
    def inserting(a: int) -> tuple[jobs.JobPlan, list[jobs.TaskResult]]:
        plan = jobs.plan_change_rows(table, CHANGES, keys=["a"])
        rows = pa.Table.from_pylist([{"_change_type": "insert", "a": a, "b": "new"}], CHANGES)
        return plan, [plan.task(0).run(rows)]

    pairs = [inserting(a) for a in (500, 500, 501)]
    pairs[0][0].commit(pairs[0][1])
    with pytest.raises(pennon.CommitConflictError) as conflict:
        pairs[1][0].commit(pairs[1][1])
    assert conflict.value.retryable
    with pytest.raises(pennon.InvalidInputError, match="cannot be planned again"):
        pairs[1][0].renew(pairs[1][1])
    pairs[2][0].commit(pairs[2][1])
    # A merge names its keys as well.
    merge = pennon.dataset(table.uri, version=1).merge_insert("a").when_not_matched_insert_all()
    assert merge.execute({"a": [501, 502], "b": ["x", "y"]})["num_inserted_rows"] == 1


def test_addresses_alone_are_deleted(table: pennon.LanceDataset) -> None:
    schema = pa.schema({"_rowaddr": pa.int64()})

    def odd(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"_rowaddr": batch.filter(pc.equal(pc.bit_wise_and(batch["a"], 1), 1))["_rowaddr"]}

    plan = jobs.plan_change_rows(table, schema, columns=["a"], decide=odd, predicate="odd(a)", tasks=3)
    done = jobs.run(plan)
    assert (done.rows, done.dataset.to_table()["a"].to_pylist()) == (50, list(range(0, 100, 2)))
    transaction = done.dataset.read_transaction(2)
    assert transaction is not None
    operation: Any = transaction.operation
    assert (type(operation).__name__, operation.predicate) == ("Delete", "odd(a)")


def test_tasks_read_the_values_of_blobs(tmp_path: Path) -> None:
    values = [b"a", None, b"ccc", b"dddd"]
    blobs = pa.table({"a": range(4), "blob": pennon.blob_array(values)})
    table = pennon.write_dataset(blobs, tmp_path / "blobs")
    schema = pa.schema({"_rowaddr": pa.uint64(), "a": pa.int64()})

    def measure(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.num_rows == 1
        return pa.record_batch([batch["_rowaddr"], pc.binary_length(batch["blob"]).cast("int64")], schema=schema)

    options: Any = {"columns": ["blob"], "batch_size_bytes": 1, "blob_handling": "all_binary"}
    done = jobs.run(jobs.plan_change_rows(table, schema, decide=measure, **options))
    assert sorted(done.dataset.to_table(columns=["a"])["a"].to_pylist(), key=str) == [1, 3, 4, None]


def test_what_cannot_be_done(table: pennon.LanceDataset) -> None:
    with pytest.raises(pennon.InvalidInputError, match="no column _rowaddr"):
        jobs.plan_change_rows(table, pa.schema({"a": pa.int64()}))
    with pytest.raises(pennon.InvalidInputError, match="does not exist"):
        jobs.plan_change_rows(table, CHANGES.append(pa.field("c", pa.int8())))
    with pytest.raises(pennon.InvalidInputError, match="key b1 is not among"):
        jobs.plan_change_rows(table, CHANGES, keys=["b1"])
    with pytest.raises(pennon.InvalidInputError, match="no columns for tasks to read"):
        jobs.plan_change_rows(table, CHANGES, decide=decide)
    with pytest.raises(pennon.InvalidInputError, match="no columns for tasks to read"):
        jobs.plan_change_rows(table, CHANGES, blob_handling="all_binary")
    plan = jobs.plan_change_rows(table, CHANGES, columns=["a"], tasks=2)
    with pytest.raises(pennon.InvalidInputError, match="cannot be run without rows"):
        plan.task(0).run()
    with pytest.raises(pennon.SchemaMismatchError, match="other columns than the job was planned with"):
        plan.task(0).run({"a": [1]})
    wrong = pa.Table.from_pylist([{"_rowaddr": 6 << 32, "_change_type": "delete"}], CHANGES)
    with pytest.raises(pennon.InvalidInputError, match="fragment 6, which it does not read"):
        plan.task(0).run(wrong)
    renamed = jobs.plan_change_rows(table, CHANGES, columns=["a"], decide=lambda batch: {"x": [1]})
    with pytest.raises(pennon.SchemaMismatchError, match="returned x; expected the columns _rowaddr"):
        jobs.run(renamed)
    assert pennon.dataset(table.uri).version == 1


class Stop(Exception):
    """Raised by a callback."""


def test_a_verification_by_tasks(table: pennon.LanceDataset, tmp_path: Path) -> None:
    plan = jobs.plan_verify(table, tasks=3)
    seen: list[jobs.Progress] = []
    report = jobs.run(plan, progress=seen.append)
    found = report.verification
    assert found is not None
    assert found.ok
    assert (report.rows, found.fragments, seen[-1].fragments) == (100, 7, 7)
    file = next((tmp_path / "table" / "data").iterdir())
    damaged = bytearray(file.read_bytes())
    damaged[:200] = bytes(byte ^ 0xFF for byte in damaged[:200])
    file.write_bytes(damaged)
    alone = pennon.verify(table.uri, data=True)
    again = jobs.run(jobs.plan_verify(table.uri, tasks=3)).verification
    assert again is not None
    assert {str(one) for one in again.findings} == {str(one) for one in alone.findings}


def test_long_steps_tell_how_far_they_are(table: pennon.LanceDataset) -> None:
    seen: list[jobs.Progress] = []
    assert table.verify(data=True, progress=seen.append).ok
    assert (seen[-1].fragments, seen[-1].of_fragments, seen[-1].rows, seen[-1].of_rows) == (7, 7, 100, 100)

    def stop(at: jobs.Progress) -> None:
        seen.append(at)
        if at.tasks:
            raise Stop(f"after {at.tasks}")

    with pytest.raises(Stop, match="after 1"):
        table.optimize.compact_files(target_rows_per_fragment=50, progress=stop)
    assert pennon.dataset(table.uri).version == 1
    assert table.verify().ok
    seen.clear()
    table.optimize.compact_files(progress=seen.append)
    assert (seen[0].of_fragments, seen[-1].fragments, seen[-1].rows, seen[-1].tasks) == (7, 7, 100, 1)
    assert seen[-1].bytes > 0
    seen.clear()
    from datetime import timedelta

    removed = table.cleanup_old_versions(timedelta(0), delete_unverified=True, progress=seen.append)
    assert removed.old_versions == 2
    assert (seen[-1].tasks, seen[-1].of_tasks, seen[-1].bytes) == (
        seen[-1].of_tasks,
        seen[0].of_tasks,
        removed.bytes_removed,
    )
