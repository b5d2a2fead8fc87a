"""Compaction: budgets, what is left behind after failures, and what others do meanwhile."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon.jobs import Progress
from pennon.optimize import Compaction, CompactionPlan, RewriteResult
from support.files import data_files
from support.tables import ids


@pytest.fixture
def small(uri: str) -> pennon.LanceDataset:
    """Twenty fragments of five rows."""
    return pennon.write_dataset({"id": list(range(100))}, uri, max_rows_per_file=5)


def referred(table: pennon.LanceDataset) -> set[str]:
    return {file.path for fragment in table.get_fragments() for file in fragment.data_files()}


def test_nothing_to_do_is_no_version(table: pennon.LanceDataset) -> None:
    table.optimize.compact_files()
    version = table.version
    done = table.optimize.compact_files()
    assert (done.fragments_removed, table.latest_version) == (0, version)
    assert done.before == done.after
    assert Compaction.plan(table).num_tasks() == 0
    assert Compaction.commit(table, []).fragments_removed == 0
    assert table.latest_version == version


def test_a_budget(small: pennon.LanceDataset) -> None:
    done = small.optimize.compact_files(target_rows_per_fragment=20, max_source_rows=45)
    assert (done.fragments_removed, done.fragments_added) == (8, 2)
    done = small.optimize.compact_files(target_rows_per_fragment=20, max_seconds=0)
    assert (done.fragments_removed, done.fragments_added) == (4, 1)
    versions = small.version
    done = small.optimize.compact_files(target_rows_per_fragment=20, partial_progress=True)
    assert (done.fragments_removed, done.fragments_added) == (8, 2)
    assert small.version == versions + 4
    assert ids(small) == list(range(100))
    with pytest.raises(pennon.InvalidInputError, match="max_seconds is -1"):
        small.optimize.compact_files(max_seconds=-1)


def test_the_config_decides_what_is_not_given(small: pennon.LanceDataset) -> None:
    small.update_config({"lance.compaction.target_rows_per_fragment": "50"})
    small.optimize.compact_files()
    assert [fragment.count_rows() for fragment in small.get_fragments()] == [50, 50]
    small.optimize.compact_files(target_rows_per_fragment=1000)
    assert [fragment.count_rows() for fragment in small.get_fragments()] == [100]
    small.update_config({"lance.compaction.max_source_rows": "many"})
    with pytest.raises(pennon.InvalidInputError, match="max_source_rows"):
        small.optimize.compact_files()


def test_options_that_mean_nothing(table: pennon.LanceDataset) -> None:
    with pytest.raises(TypeError):
        table.optimize.compact_files(foo=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="Invalid compaction option: foo"):
        Compaction.plan(table, {"foo": 1})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ValueError, match="Invalid compaction mode"):
        table.optimize.compact_files(compaction_mode="x")  # type: ignore[arg-type]
    with pytest.raises(pennon.UnsupportedError):
        table.optimize.compact_files(compaction_mode="force_binary_copy")
    with pytest.raises(ValueError, match="target_rows_per_fragment is 0"):
        table.optimize.compact_files(target_rows_per_fragment=0)
    with pytest.raises(pennon.PennonError):
        table.optimize.compact_files(data_storage_version="9.9")
    with pytest.raises(ValueError, match="Could not load CompactionPlan"):
        CompactionPlan.from_json("{")
    assert table.latest_version == 1


def test_another_file_version(small: pennon.LanceDataset) -> None:
    small.optimize.compact_files(data_storage_version="2.1")
    (file,) = small.get_fragment(small.get_fragments()[0].fragment_id).data_files()  # type: ignore[union-attr]
    assert (file.file_major_version, file.file_minor_version) == (2, 1)
    assert small.data_storage_version == "2.2"
    assert ids(small) == list(range(100))


def test_dropped_columns_and_deleted_rows_go(small: pennon.LanceDataset) -> None:
    small.add_columns({"more": "id * 2"})
    small.drop_columns(["id"])
    small.delete("more % 4 = 0")
    small.optimize.compact_files()
    (fragment,) = small.get_fragments()
    assert (fragment.physical_rows, fragment.num_deletions) == (50, 0)
    (file,) = fragment.data_files()
    assert len(file.fields) == 1
    assert small.to_table()["more"].to_pylist() == [i * 2 for i in range(1, 100, 2)]


def test_a_task_that_fails_leaves_nothing(small: pennon.LanceDataset) -> None:
    plan = Compaction.plan(small, {"target_rows_per_fragment": 20})
    broken = plan.tasks[3].fragments[1].files[0].path
    (Path(small.uri) / "data" / broken).write_bytes(b"no data file")
    before = data_files(small.uri)
    with pytest.raises(pennon.CorruptError, match=broken):
        small.optimize.compact_files(target_rows_per_fragment=20)
    assert (data_files(small.uri), small.latest_version) == (before, 1)
    with pytest.raises(pennon.CorruptError, match=broken):
        plan.tasks[3].execute(small)
    assert data_files(small.uri) == before
    # What was committed before stays.
    with pytest.raises(pennon.CorruptError, match=broken):
        small.optimize.compact_files(target_rows_per_fragment=20, partial_progress=True, num_threads=1)
    newest = pennon.dataset(small.uri)
    assert newest.version > 1
    assert data_files(newest.uri) == before | referred(newest)


def test_a_task_that_is_reported_is_committed(small: pennon.LanceDataset) -> None:
    """Who interrupts at a report loses nothing that was reported, and hears of nothing more."""
    heard: list[tuple[int, int]] = []

    def stop(progress: Progress) -> None:
        heard.append((progress.tasks, pennon.dataset(small.uri).version))
        if progress.tasks == 2:
            raise KeyError("stop")

    options: dict[str, Any] = {"target_rows_per_fragment": 20, "partial_progress": True}
    with pytest.raises(KeyError, match="stop"):
        small.optimize.compact_files(**options, progress=stop)
    tasks, versions = zip(*heard, strict=True)
    assert tasks == (0, 1, 2)
    assert versions[0] < versions[1] < versions[2] == pennon.dataset(small.uri).version


@pytest.mark.parametrize("spill", [False, True], ids=["inline", "spilled"])
def test_tasks_that_meet_other_changes(small: pennon.LanceDataset, spill: bool) -> None:
    """Rows of some fragments go while they are copied, wherever their ids are stored."""
    if spill:
        small.update_config({"lance.row_lineage.inline_max_bytes": "0"})
        small.optimize.compact_files(target_rows_per_fragment=11)
    plan = Compaction.plan(small, {"target_rows_per_fragment": 20})
    results = [task.execute(small) for task in plan.tasks]
    other = pennon.dataset(small.uri)
    other.delete("id in (1, 2, 3, 99)")
    other.delete("id >= 40 and id < 60")
    Compaction.commit(small, results)
    assert ids(small) == [i for i in range(100) if i not in (1, 2, 3, 99) and not 40 <= i < 60]
    assert small.count_rows() == 76
    small.validate()


def test_a_conflict_with_another_compaction(small: pennon.LanceDataset) -> None:
    plan = Compaction.plan(small, {"target_rows_per_fragment": 50})
    results = [task.execute(small) for task in plan.tasks]
    other = pennon.dataset(small.uri)
    Compaction.commit(other, pickle.loads(pickle.dumps(results[:1])))
    with pytest.raises(pennon.CommitConflictError) as conflict:
        Compaction.commit(small, results)
    assert conflict.value.retryable
    Compaction.commit(small, results[1:])
    assert ids(small) == list(range(100))
    assert len(small.get_fragments()) == 2


def test_results_of_columns_that_are_gone(small: pennon.LanceDataset) -> None:
    plan = Compaction.plan(small, {"target_rows_per_fragment": 50})
    results = [task.execute(small) for task in plan.tasks]
    pennon.dataset(small.uri).add_columns({"more": "id"})
    with pytest.raises(pennon.CommitConflictError):
        Compaction.commit(small, results)
    small.checkout_latest()
    small.optimize.compact_files()
    assert small.to_table()["more"].to_pylist() == list(range(100))


def test_results_are_values(small: pennon.LanceDataset) -> None:
    task = Compaction.plan(small, {"target_rows_per_fragment": 50}).tasks[0]
    result = task.execute(small)
    assert RewriteResult.from_json(result.json()) == result == pickle.loads(pickle.dumps(result))
    assert repr(result.metrics) == (
        "CompactionMetrics(fragments_removed=10, fragments_added=1, files_removed=10, files_added=1)"
    )
    assert data_files(small.uri) == referred(small) | {result.new_fragments[0].files[0].path}


def test_auto_cleanup_is_a_setting(small: pennon.LanceDataset) -> None:
    small.optimize.enable_auto_cleanup({"interval": 20, "older_than_seconds": 3600})
    assert small.config() == {"lance.auto_cleanup.interval": "20", "lance.auto_cleanup.older_than": "3600s"}
    small.optimize.disable_auto_cleanup()
    assert small.config() == {}
    with pytest.raises(pennon.InvalidInputError, match=r"unknown \['older_then_seconds'\], expected \['interval'"):
        small.optimize.enable_auto_cleanup({"older_then_seconds": 1})  # type: ignore[typeddict-unknown-key]


def test_a_fragment_without_rows_goes(uri: str) -> None:
    table = pennon.write_dataset({"id": list(range(10))}, uri, max_rows_per_file=5)
    result = Compaction.plan(table, {"target_rows_per_fragment": 50}).tasks[0].execute(table)
    other = pennon.dataset(uri)
    other.delete("true")
    other.insert(pa.table({"id": [77]}))
    Compaction.commit(table, [result])
    assert ids(table) == [77]
    table.validate()
