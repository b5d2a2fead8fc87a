"""Compaction: the same plans and results as the reference makes, on tables that both go on with."""

from __future__ import annotations

import json
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import lance
import lance.optimize
import pennon
import pennon.optimize
import pyarrow as pa
import pytest
from lance.optimize import Compaction as TheirCompaction
from pennon.optimize import Compaction, CompactionPlan, CompactionTask, RewriteResult
from support.compare import assert_both_agree, assert_same, contents
from support.long import LONG
from support.protobuf import fields, index_entries
from support.seeds import seeds


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "kind": pa.array([i % 5 for i in ids], pa.int64()),
            "text": pa.array([f"row {i}" for i in ids], pa.utf8()),
        }
    )


def history(uri: str, dice: random.Random, stable: bool) -> None:
    """A table that the reference made, with fragments of many sizes, deletions and moved rows."""
    table = lance.write_dataset(rows(0, 120), uri, enable_stable_row_ids=stable, max_rows_per_file=25)
    next_id = 120
    for _ in range(dice.randrange(3, 9)):
        kind = dice.choice(["append", "append", "delete", "delete", "update", "merge"])
        if kind == "append":
            count = dice.choice([1, 7, 30])
            table.insert(rows(next_id, count))
            next_id += count
        elif kind == "delete":
            table.delete(f"id % {dice.choice([3, 9, 40])} = 1 and id < {dice.randrange(next_id)}")
        elif kind == "update":
            table.update({"text": "concat(text, '+')"}, where=f"id % 13 = {dice.randrange(13)}")
        else:
            merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(rows(next_id - 10, 20))
            next_id += 10


def some_options(dice: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"target_rows_per_fragment": dice.choice([10, 26, 60, 100, 1000])}
    if dice.random() < 0.3:
        options["materialize_deletions"] = False
    if dice.random() < 0.3:
        options["materialize_deletions_threshold"] = dice.choice([0.0, 0.3, 1.0])
    if dice.random() < 0.3:
        options["excluded_fragment_ids"] = dice.sample(range(10), 2)
    limits = {"max_source_rows": 90, "max_source_fragments": 4, "max_source_bytes": 9000}
    return options | {name: limit for name, limit in limits.items() if dice.random() < 0.2}


def planned(plan: Any) -> list[list[int]]:
    return [[fragment.id for fragment in task.fragments] for task in plan.tasks]


@pytest.mark.parametrize("seed", seeds(40 if LONG else 16))
def test_the_same_plan_and_result(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    stable = dice.random() < 0.7
    uris = str(tmp_path / "theirs"), str(tmp_path / "ours")
    for uri in uris:
        history(uri, random.Random(seed), stable)
    theirs, ours = lance.dataset(uris[0]), pennon.dataset(uris[1])
    if stable and dice.random() < 0.5:
        for uri in uris:
            table = lance.dataset(uri)
            table.create_scalar_index("kind", "BITMAP")
            table.insert(rows(5000, 12))
            table.insert(rows(6000, 12))
        theirs.checkout_version(theirs.latest_version)
        theirs = lance.dataset(uris[0])
        ours.checkout_latest()
    options = some_options(dice)
    assert planned(Compaction.plan(ours, options)) == planned(TheirCompaction.plan(theirs, options))  # type: ignore[arg-type]
    before = contents(ours)
    expected, found = theirs.optimize.compact_files(**options), ours.optimize.compact_files(**options)
    for name in ("fragments_removed", "fragments_added", "files_removed", "files_added"):
        assert getattr(found, name) == getattr(expected, name), name
    assert ours.version == lance.dataset(uris[0]).version
    shape = [(f.fragment_id, f.physical_rows, f.num_deletions) for f in theirs.get_fragments()]
    assert [(f.fragment_id, f.physical_rows, f.num_deletions) for f in ours.get_fragments()] == shape
    names = ["id", "kind", "text", "_row_created_at_version", "_row_last_updated_at_version"]
    names += ["_rowid"] if stable else []
    after = assert_both_agree(uris[1])
    assert_same(after.select(names).sort_by("id"), before.select(names).sort_by("id"))
    assert_same(after.select(names).sort_by("id"), contents(theirs).select(names).sort_by("id"))
    # Both go on.
    for uri in uris:
        table = lance.dataset(uri)
        table.delete("id % 7 = 2")
        table.update({"text": "'new'"}, where="id % 7 = 3")
        table.optimize.compact_files(target_rows_per_fragment=500)
    assert_same(
        assert_both_agree(uris[1]).select(names).sort_by("id"),
        contents(lance.dataset(uris[0])).select(names).sort_by("id"),
    )


def test_rows_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = lance.write_dataset(rows(0, 1000), uri, enable_stable_row_ids=True, max_rows_per_file=300)
    for step in range(4):
        table.update({"text": "'changed'"}, where=f"id % 11 = {step}")
    ours = pennon.dataset(uri)
    done = ours.optimize.compact_files()
    ids = assert_both_agree(uri)["_rowid"].to_pylist()
    assert ids == list(range(1000))
    assert done.before is not None
    assert done.after is not None
    assert done.after.id_bits_per_row < 1 < done.before.id_bits_per_row
    assert (done.after.rows, done.after.fragments, done.after.files, done.after.deleted_share) == (1000, 1, 1, 0.0)
    assert done.before.deleted_share > 0.2


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target_rows_per_fragment": 30, "compaction_mode": "reencode", "num_threads": 2},
        {"max_source_rows": 5000, "excluded_fragment_ids": [1], "batch_size": 7, "data_storage_version": "2.1"},
        {"materialize_deletions": False, "defer_index_remap": True, "compaction_mode": "try_binary_copy"},
    ],
)
def test_plans_and_tasks_of_the_other(options: Any, stable: bool, tmp_path: Path) -> None:
    if stable:
        # pylance refuses it for stable row ids.
        options = {name: value for name, value in options.items() if name != "defer_index_remap"}
    modules: dict[Any, Any] = {lance: lance.optimize, pennon: pennon.optimize}
    for planner, worker in ((lance, pennon), (pennon, lance)):
        uri = str(tmp_path / planner.__name__)
        lance.write_dataset(rows(0, 100), uri, enable_stable_row_ids=stable, max_rows_per_file=10)
        expected = contents(pennon.dataset(uri)).select(["id", "kind", "text", *["_rowid"] * stable])
        plan = modules[planner].Compaction.plan(planner.dataset(uri), options)
        assert modules[worker].CompactionPlan.from_json(plan.json()).num_tasks() == plan.num_tasks() > 0
        results = []
        for task in plan.tasks:
            read = modules[worker].CompactionTask.from_json(task.json())
            # Written again by the other, it is still the same task.
            again = modules[planner].CompactionTask.from_json(read.json())
            assert [f.id for f in again.fragments] == [f.id for f in task.fragments]
            result = read.execute(worker.dataset(uri))
            results.append(modules[planner].RewriteResult.from_json(result.json()))
        modules[planner].Compaction.commit(planner.dataset(uri), results)
        found = assert_both_agree(uri)
        assert found.select(expected.column_names).sort_by("id").equals(expected.sort_by("id"))
        assert len(pennon.dataset(uri).get_fragments()) < 10


def test_options_of_a_plan_of_the_reference(tmp_path: Path) -> None:
    lance.write_dataset(rows(0, 100), tmp_path / "t", max_rows_per_file=10)
    given: Any = {"target_rows_per_fragment": 30, "compaction_mode": "try_binary_copy", "num_threads": 2}
    theirs = lance.optimize.Compaction.plan(lance.dataset(str(tmp_path / "t")), given)
    read = CompactionPlan.from_json(theirs.json())
    assert read.options.items() >= given.items()
    assert read.options == read.tasks[0].options
    # A table config may have another value: what was not given stays so, and what was given is kept.
    ours = Compaction.plan(pennon.dataset(tmp_path / "t"), given)
    for plan in (ours, read):
        assert CompactionPlan.from_json(plan.json()) == plan
        for task in plan.tasks:
            assert CompactionTask.from_json(task.json()) == task
    assert json.loads(ours.json())["options"]["compaction_mode"] == "TryBinaryCopy"


def test_steps_in_several_processes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 100), uri, enable_stable_row_ids=True, max_rows_per_file=10)
    ours = pennon.dataset(uri)
    before = contents(ours)
    plan = pickle.loads(pickle.dumps(Compaction.plan(ours, {"target_rows_per_fragment": 20})))
    assert CompactionPlan.from_json(plan.json()) == plan
    results = []
    for task in plan.tasks:
        task = CompactionTask.from_json(pickle.loads(pickle.dumps(task)).json())
        assert len(task.fragments) == 2
        result = task.execute(pennon.dataset(uri))
        results.append(RewriteResult.from_json(pickle.loads(pickle.dumps(result)).json()))
        assert results[-1] == result
    # Meanwhile others change rows, by either implementation.
    lance.dataset(uri).update({"text": "'new'"}, where="id = 33")
    pennon.dataset(uri).delete("id in (5, 90)")
    lance.dataset(uri).delete("id = 6")
    metrics = Compaction.commit(ours, results[:2])
    assert (metrics.fragments_removed, metrics.fragments_added) == (4, 2)
    Compaction.commit(ours, results[2:])
    found = assert_both_agree(uri)
    gone = {5, 6, 90}
    expected = [row for row in before.to_pylist() if row["id"] not in gone]
    by_id = {row["id"]: row for row in found.to_pylist()}
    assert sorted(by_id) == [row["id"] for row in expected]
    for row in expected:
        same = by_id[row["id"]]
        assert same["_rowid"] == row["_rowid"]
        assert same["_row_created_at_version"] == row["_row_created_at_version"]
        assert same["text"] == ("new" if row["id"] == 33 else row["text"])
    # The same results again: their fragments are gone.
    with pytest.raises(pennon.CommitConflictError):
        Compaction.commit(ours, results[:1])
    assert_both_agree(uri)


def test_results_of_another_table_or_branch_are_refused(tmp_path: Path) -> None:
    """Their files are below that table or branch."""
    table = pennon.write_dataset(rows(0, 40), tmp_path / "t", max_rows_per_file=10)
    branch = table.create_branch("dev")
    other = pennon.write_dataset(rows(0, 40), tmp_path / "other", max_rows_per_file=10)
    tables = {"main": table, "branch": branch, "other": other}
    results = {name: [task.execute(at) for task in Compaction.plan(at).tasks] for name, at in tables.items()}
    for name, at in tables.items():
        for made in tables:
            if made != name:
                with pytest.raises(pennon.InvalidInputError, match="done for another table or branch"):
                    Compaction.commit(at, results[made])
        assert Compaction.commit(at, results[name]).fragments_removed == 4
        assert at.to_table() == rows(0, 40)
        # Those that were committed are not there any more.
        with pytest.raises(pennon.CommitConflictError):
            Compaction.commit(at, results[name])


@pytest.mark.parametrize("partial", [False, True])
def test_while_the_reference_updates(tmp_path: Path, partial: bool) -> None:
    """Compactions and updates at once: every row has its last value and its own id."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 400), uri, enable_stable_row_ids=True, max_rows_per_file=20)
    ids = dict(enumerate(contents(pennon.dataset(uri))["_rowid"].to_pylist()))
    errors: list[BaseException] = []
    updated: dict[int, str] = {}
    deleted: set[int] = set()

    def update() -> None:
        try:
            for step in range(12):
                table = lance.dataset(uri)
                table.update({"text": f"'step {step}'"}, where=f"id % 40 = {step}", conflict_retries=50)
                updated.update({i: f"step {step}" for i in range(400) if i % 40 == step})
                lance.dataset(uri).delete(f"id % 80 = {40 + step}", conflict_retries=50)
                deleted.update(i for i in range(400) if i % 80 == 40 + step)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=update)
    thread.start()
    compactions = 0
    while thread.is_alive():
        table = pennon.dataset(uri)
        try:
            done = table.optimize.compact_files(target_rows_per_fragment=60, partial_progress=partial)
            compactions += done.fragments_removed > 0
        except pennon.CommitConflictError:
            continue
    thread.join()
    assert not errors, errors
    assert compactions > 0
    found = {row["id"]: row for row in assert_both_agree(uri).to_pylist()}
    assert set(found) == set(range(400)) - deleted
    for number, row in found.items():
        assert row["_rowid"] == ids[number]
        assert row["text"] == updated.get(number, f"row {number}")


def indexed(uri: str, stable: bool) -> Any:
    table = lance.write_dataset(rows(0, 200), uri, enable_stable_row_ids=stable, max_rows_per_file=20)
    table.create_scalar_index("id", "BTREE")
    table.create_scalar_index("kind", "BITMAP")
    table.delete("id % 10 = 3")
    table.insert(rows(1000, 5))
    table.insert(rows(2000, 5))
    return lance.dataset(uri)


def assert_found(uri: str) -> None:
    """Queries through the indices find what a scan finds."""
    table = lance.dataset(uri)
    everything = table.to_table(columns=["id", "kind"]).to_pylist()
    for number in range(0, 200, 3):
        found = table.to_table(columns=["id"], filter=f"id = {number}")["id"].to_pylist()
        assert found == [row["id"] for row in everything if row["id"] == number]
    for kind in range(5):
        found = table.to_table(columns=["id"], filter=f"kind = {kind}")["id"].to_pylist()
        assert sorted(found) == sorted(row["id"] for row in everything if row["kind"] == kind)


def coverage(uri: str) -> dict[str, list[int]]:
    return {index["name"]: sorted(index["fragment_ids"]) for index in lance.dataset(uri).list_indices()}


def test_indices_of_stable_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    uuids = {index["name"]: index["uuid"] for index in indexed(uri, True).list_indices()}
    ours = pennon.dataset(uri)
    ours.optimize.compact_files(target_rows_per_fragment=100)
    live = [fragment.fragment_id for fragment in ours.get_fragments()]
    assert live == [12, 13]
    now = {index["name"]: index["uuid"] for index in lance.dataset(uri).list_indices()}
    # One names ids, which stay. The other one names addresses: it is written again.
    assert now["kind_idx"] == uuids["kind_idx"]
    assert now["id_idx"] != uuids["id_idx"]
    assert coverage(uri) == {"kind_idx": [12], "id_idx": [12]}
    assert_both_agree(uri)
    assert_found(uri)
    with pytest.raises(pennon.UnsupportedError, match="defer_index_remap"):
        ours.optimize.compact_files(defer_index_remap=True)
    table = lance.dataset(uri)
    table.optimize.optimize_indices()
    assert_found(uri)


def test_indices_of_addresses(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, False).create_scalar_index("text", "INVERTED")
    ours = pennon.dataset(uri)
    with pytest.raises(pennon.UnsupportedError, match="index `text_idx` names by their addresses"):
        ours.optimize.compact_files(target_rows_per_fragment=100)
    assert ours.latest_version == ours.version
    ours.drop_index("text_idx")
    files = len(list((Path(uri) / "data").iterdir()))
    # What no index covers may be compacted.
    covered = [fragment.fragment_id for fragment in ours.get_fragments()][:-2]
    ours.optimize.compact_files(target_rows_per_fragment=100, excluded_fragment_ids=covered)
    assert len(list((Path(uri) / "data").iterdir())) == files + 1
    assert_found(uri)
    # With a note about where the rows went all of it may.
    ours.optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
    assert coverage(uri)["id_idx"] == coverage(uri)["__lance_frag_reuse"] != []
    assert_both_agree(uri)
    assert_found(uri)
    # Once more, after deletions by both, and by the reference on top of ours.
    lance.dataset(uri).delete("id % 10 = 4")
    ours.checkout_latest()
    ours.delete("id % 10 = 5")
    ours.optimize.compact_files(defer_index_remap=True)
    assert_both_agree(uri)
    assert_found(uri)
    lance.dataset(uri).delete("id % 10 = 6")
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
    assert_both_agree(uri)
    assert_found(uri)
    table = lance.dataset(uri)
    table.optimize.optimize_indices()
    assert_found(uri)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
@pytest.mark.parametrize("change", ["update", "merge", "commit"])
def test_values_that_change_in_place_after_moves(tmp_path: Path, kind: str, change: str) -> None:
    """The entries name the fragments before the moves; what is changed are those after them."""
    uri = str(tmp_path / "t")
    values = pa.table({"id": range(200), "v": range(200), "other": range(200)})
    lance.write_dataset(values, uri, max_rows_per_file=50, enable_stable_row_ids=False)
    lance.dataset(uri).create_scalar_index("v", kind)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
    table = pennon.dataset(uri)
    if change == "update":
        table.update({"v": "v + 1000"}, where="id = 5", mode="rewrite_columns")
    elif change == "merge":
        merge = table.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
        merge.execute(pa.table({"id": [5], "v": [1005]}))
    else:
        fragment = table.get_fragments()[0]
        changed, fields = fragment.update_columns(pa.table({"id": [5], "v": [1005]}), "id")
        operation = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
        pennon.LanceDataset.commit(uri, operation, read_version=table.version)
    for library in (pennon, lance):
        found = library.dataset(uri)
        for filter, ids in (("v = 5", []), ("v = 1005", [5]), ("v < 7", [0, 1, 2, 3, 4, 6]), ("v = 150", [150])):
            assert found.to_table(filter=filter)["id"].to_pylist() == ids, (library, filter)
    # The fragments that were left alone are found by the index as before.
    assert (
        f"v_idx ({'BTree' if kind == 'BTREE' else ''}"
        in pennon.dataset(uri).scanner(filter="v = 150").explain_plan()
    )


def test_the_same_note_as_the_reference(tmp_path: Path) -> None:
    """The entry of `__lance_frag_reuse`, message by message, except its uuid and time."""
    entries = []
    for library, name in ((lance, "theirs"), (pennon, "ours")):
        uri = str(tmp_path / name)
        indexed(uri, False)
        for _ in range(2):
            library.dataset(uri).optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
            lance.dataset(uri).delete("id % 4 = 1")
        transaction = pennon.dataset(uri)
        entries.append((index_section(uri), transaction.version))
    assert entries[0] == entries[1]


def index_section(uri: str) -> list[list[tuple[int, bytes | int]]]:
    reuse = [fields(entry) for entry in index_entries(uri) if b"__lance_frag_reuse" in entry]
    return [[(number, value) for number, value in entry if number not in (1, 8)] for entry in reuse]


def test_the_feed_of_changes_is_silent(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 100), uri, enable_stable_row_ids=True, max_rows_per_file=10)
    ours = pennon.dataset(uri)
    before = ours.version
    ours.optimize.compact_files()
    delta = lance.dataset(uri).delta(begin_version=before, end_version=ours.version)
    assert delta.get_inserted_rows().read_all().num_rows == 0
    assert delta.get_updated_rows().read_all().num_rows == 0
    assert ours.changes(before).read_all().num_rows == 0


def test_spilled_lineage(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = lance.write_dataset(rows(0, 300), uri, enable_stable_row_ids=True, max_rows_per_file=50)
    table.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    for step in range(3):
        table.update({"text": "'x'"}, where=f"id % 9 = {step}")
    before = contents(pennon.dataset(uri)).drop_columns(["_rowaddr"]).sort_by("id")
    pennon.dataset(uri).optimize.compact_files(target_rows_per_fragment=150)
    assert_same(assert_both_agree(uri).drop_columns(["_rowaddr"]).sort_by("id"), before)
