"""Tables that get stable row ids later: rows keep their ids, indices stay right, and both libraries go on."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest

KINDS = {"a": "BTREE", "b": "BITMAP", "z": "ZONEMAP", "f": "BLOOMFILTER", "tags": "LABEL_LIST"}
FILTERS = ("a = 17", "a < 9", "b = 3", "b IS NULL", "z > 40", "f = 12", "array_has(tags, 't2')", "a = 17 OR b = 1")
ROWS = 60


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    vectors = np.random.default_rng(start).random(count * 4, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array(ids, pa.int64()),
            "b": pa.array([None if i % 11 == 0 else i % 7 for i in ids], pa.int64()),
            "z": pa.array(ids, pa.int64()),
            "f": pa.array(ids, pa.int64()),
            "tags": [[f"t{i % 5}", "all"] for i in ids],
            "e": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        }
    )


def made(uri: str, library: Any, version: str = "2.2") -> None:
    """Fragments of twenty rows without stable row ids, some rows deleted and updated, with all kinds of indices."""
    table = library.write_dataset(
        rows(0, ROWS), uri, max_rows_per_file=20, enable_stable_row_ids=False, data_storage_version=version
    )
    table.delete("id IN (5, 25, 26)")
    table.update({"b": "100"}, where="id = 30")
    for column, kind in KINDS.items():
        table.create_scalar_index(column, kind)
    table.create_index("e", "IVF_FLAT", num_partitions=1)


def with_ids(uri: str, library: Any = pennon) -> dict[int, int]:
    """Row ids by the values of `id`."""
    found = library.dataset(uri).to_table(columns=["id"], with_row_id=True)
    assert len(set(found["_rowid"].to_pylist())) == len(found)
    return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))


def content(uri: str, library: Any = pennon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = library.dataset(uri).to_table().to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


def check_answers(uri: str) -> None:
    """Both find by indices what they find without, and rows by their ids."""
    assert content(uri) == content(uri, lance)
    ids = with_ids(uri)
    assert ids == with_ids(uri, lance)
    values = {row["id"]: row["a"] for row in content(uri)}
    assert pennon.dataset(uri).take_rows(list(ids.values()))["a"].to_pylist() == [values[i] for i in ids]
    for library in (pennon, lance):
        table = library.dataset(uri)
        for predicate in FILTERS:
            found = [
                sorted(table.to_table(columns=["id"], filter=predicate, use_scalar_index=use)["id"].to_pylist())
                for use in (True, False)
            ]
            assert found[0] == found[1], (library.__name__, predicate)
    # Of pylance an index has fewer rows after a delete and a compaction: docs/pylance-faults.md.
    query = {"column": "e", "q": np.full(4, 0.5, np.float32), "k": 12, "nprobes": 1}
    nearest = [
        pennon.dataset(uri).to_table(columns=["id"], nearest=query | {"use_index": use})["id"].to_pylist()
        for use in (True, False)
    ]
    assert nearest[0] == nearest[1]
    assert pennon.dataset(uri).verify(data=True).findings == []


@pytest.mark.parametrize("library", [lance, pennon], ids=["pylance", "pennon"])
def test_rows_keep_their_ids_and_indices_are_kept(tmp_path: Path, library: Any) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, library)
    before, values = with_ids(uri), content(uri)
    indices = sorted(entry["uuid"] for entry in pennon.dataset(uri).list_indices())
    table = pennon.dataset(uri)
    table.migrate_to_stable_row_ids()
    version = table.version
    assert table.has_stable_row_ids
    assert with_ids(uri) == before
    assert content(uri) == values
    assert sorted(entry["uuid"] for entry in table.list_indices()) == indices
    check_answers(uri)
    for column in ("_row_created_at_version", "_row_last_updated_at_version"):
        assert set(table.to_table(columns=[column])[column].to_pylist()) == {version}
    table.migrate_to_stable_row_ids()
    assert table.version == version
    # From here on, by either library, rows are the same ones.
    table.update({"a": "a + 1000"}, where="id IN (1, 41)")
    lance.dataset(uri).update({"b": "7"}, where="id = 50")
    pennon.dataset(uri).optimize.compact_files()
    lance.write_dataset(rows(100, 5), uri, mode="append")
    check_answers(uri)
    after = with_ids(uri)
    assert {key: after[key] for key in before} == before
    assert min(after[key] for key in range(100, 105)) > max(before.values())
    feed = pennon.dataset(uri).changes(version).read_all()
    kinds = sorted(zip(feed["id"].to_pylist(), feed["_change_type"].to_pylist(), strict=True))
    updated, inserted = [(i, "update_postimage") for i in (1, 41, 50)], [(i, "insert") for i in range(100, 105)]
    assert kinds == [*updated, *inserted]
    history = pennon.dataset(uri).history(before[1])
    assert history["_change_type"].to_pylist() == ["insert", "update"]
    assert history["_commit_version"].to_pylist() == [version, version + 1]
    assert history["a"].to_pylist() == [1, 1001]


def test_versions_from_before_are_read_and_not_continued(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, lance)
    table = pennon.dataset(uri)
    old = table.version
    table.migrate_to_stable_row_ids()
    table.delete("id = 7")
    assert not pennon.dataset(uri, version=old).has_stable_row_ids
    assert pennon.dataset(uri, version=old).count_rows() == ROWS - 3
    with pytest.raises(
        pennon.InvalidInputError, match=f"version {old} is from before the table had stable row ids"
    ):
        pennon.dataset(uri, version=old).restore()
    with pytest.raises(pennon.InvalidInputError, match=f"version {old} is from before"):
        table.restore_rows([7], version=old)
    # The version that gave the ids changed no row, so a feed may begin before it, and not earlier.
    assert table.changes(old).read_all()["_change_type"].to_pylist() == ["delete"]
    assert table.changes(old, old + 1).read_all().num_rows == 0
    assert table.changes(old, mode="each").read_all().num_rows == 1
    with pytest.raises(pennon.InvalidInputError, match="since migrate_to_stable_row_ids gave them to the table"):
        table.changes(old - 1)
    delta = table.delta(begin_version=old, end_version=table.version)
    assert (delta.get_inserted_rows().read_all().num_rows, delta.get_updated_rows().read_all().num_rows) == (0, 0)
    with pytest.raises(pennon.InvalidInputError, match=f"version {old - 1} is from before"):
        table.delta(begin_version=old - 1, end_version=table.version).get_inserted_rows()
    assert pennon.dataset(uri).version == table.version
    with pytest.raises(OSError, match=f"Cannot restore version {old}: stable row ids were enabled after it"):
        lance.dataset(uri, version=old).restore()
    check_answers(uri)


def test_rows_that_indices_look_up_are_scanned(tmp_path: Path) -> None:
    """After a compaction that left indices the old addresses."""
    uri = str(tmp_path / "t.lance")
    made(uri, pennon)
    table = pennon.dataset(uri)
    table.drop_index("e_idx")
    table.optimize.compact_files(defer_index_remap=True, target_rows_per_fragment=40)
    before = with_ids(uri)
    table.migrate_to_stable_row_ids()
    assert with_ids(uri) == before
    table.create_index("e", "IVF_FLAT", num_partitions=1)
    check_answers(uri)
    table.optimize.optimize_indices()
    check_answers(uri)


@pytest.mark.parametrize("library", [lance, pennon], ids=["pylance", "pennon"])
@pytest.mark.parametrize("verb", ["append", "update", "delete", "merge", "compact", "index", "column"])
def test_a_handle_from_before_goes_on(tmp_path: Path, library: Any, verb: str) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, library)
    before = with_ids(uri)
    stale = library.dataset(uri)
    pennon.dataset(uri).migrate_to_stable_row_ids()
    verbs: dict[str, Callable[[], Any]] = {
        "append": lambda: library.write_dataset(rows(100, 5), stale, mode="append"),
        "update": lambda: stale.update({"a": "a + 1000"}, where="id IN (1, 41)"),
        "delete": lambda: stale.delete("id = 8"),
        "merge": lambda: (
            stale.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(55, 10))
        ),
        "compact": lambda: stale.optimize.compact_files(),
        "index": lambda: stale.create_scalar_index("id", "BTREE"),
        "column": lambda: stale.add_columns({"more": "a + 1"}),
    }
    try:
        verbs[verb]()
    except OSError as error:
        # A conflict: nothing is committed.
        assert library is lance or verb == "column"
        assert "conflict" in str(error)  # noqa: PT017
    check_answers(uri)
    after = with_ids(uri)
    assert {key: after[key] for key in after if key in before} == {
        key: before[key] for key in before if key in after
    }


def test_a_migration_is_tried_again_beside_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, lance)
    stale = pennon.dataset(uri)
    lance.dataset(uri).update({"a": "a + 1000"}, where="id = 3")
    lance.write_dataset(rows(100, 5), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    pennon.dataset(uri).alter_columns({"path": "id", "name": "renamed"})
    pennon.dataset(uri).alter_columns({"path": "renamed", "name": "id"})
    before = with_ids(uri)
    stale.migrate_to_stable_row_ids()
    assert with_ids(uri) == before
    check_answers(uri)


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1"])
def test_older_file_versions(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, lance, version)
    before = with_ids(uri)
    pennon.dataset(uri).migrate_to_stable_row_ids()
    assert with_ids(uri) == before
    check_answers(uri)
    pennon.dataset(uri).delete("id = 9")
    check_answers(uri)


def test_branches_and_clones(tmp_path: Path) -> None:
    uri, copy = str(tmp_path / "t.lance"), str(tmp_path / "copy.lance")
    made(uri, pennon)
    table = pennon.dataset(uri)
    branch = table.create_branch("dev")
    table.shallow_clone(copy, table.version)
    branch.migrate_to_stable_row_ids()
    assert not pennon.dataset(uri).has_stable_row_ids
    pennon.dataset(copy).migrate_to_stable_row_ids()
    check_answers(copy)
    branch.update({"a": "0"}, where="id = 2")
    assert branch.changes(branch.version - 1).read_all()["_change_type"].to_pylist() == ["update_postimage"]
    shutil.rmtree(copy)
    assert pennon.dataset(uri).verify(data=True).findings == []


def test_a_table_without_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = pennon.write_dataset(rows(0, 1).slice(0, 0), uri, enable_stable_row_ids=False)
    table.migrate_to_stable_row_ids()
    assert table.has_stable_row_ids
    lance.write_dataset(rows(0, 5), uri, mode="append")
    assert list(with_ids(uri).values()) == [0, 1, 2, 3, 4]


def test_a_table_for_older_readers_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = pennon.write_dataset(rows(0, 5), uri, compatible_with="pylance 0.34")
    with pytest.raises(pennon.InvalidInputError, match=r"compatible_with='pylance 0\.34' in the config"):
        table.migrate_to_stable_row_ids()
    assert table.version == 1


def test_the_version_is_repaired_with_its_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, pennon)
    table = pennon.dataset(uri)
    table.migrate_to_stable_row_ids()
    before = with_ids(uri)
    (manifest,) = (tmp_path / "t.lance" / "_versions").glob(f"{2**64 - 1 - table.version}.manifest")
    damaged = bytearray(manifest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    manifest.write_bytes(damaged)
    pennon.repair(uri, apply=True)
    assert pennon.dataset(uri).version == table.version
    assert pennon.dataset(uri).has_stable_row_ids
    assert with_ids(uri) == before
    check_answers(uri)


def test_a_compaction_that_was_planned_before(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    made(uri, pennon)
    table = pennon.dataset(uri)
    results = [task.execute(table) for task in pennon.optimize.Compaction.plan(table, {}).tasks]
    pennon.dataset(uri).migrate_to_stable_row_ids()
    with pytest.raises(pennon.CommitConflictError, match="had none when a task of the compaction") as caught:
        pennon.optimize.Compaction.commit(pennon.dataset(uri), results)
    assert caught.value.retryable
    check_answers(uri)


@pytest.mark.parametrize("seed", range(4))
def test_programs_that_go_on_after_it(tmp_path: Path, seed: int) -> None:
    """Both libraries change a table in turns, before and after it gets stable row ids, and agree at each step."""
    choose, uri, next_id = random.Random(seed), str(tmp_path / "t.lance"), 200
    made(uri, choose.choice([lance, pennon]))
    step = choose.randrange(6)
    ids = {}
    for number in range(14):
        library = choose.choice([lance, pennon])
        table = library.dataset(uri)
        match choose.choice(["append", "update", "delete", "merge", "compact", "optimize"]):
            case _ if number == step:
                ids = with_ids(uri)
                pennon.dataset(uri).migrate_to_stable_row_ids()
            case "append":
                library.write_dataset(rows(next_id, 9), uri, mode="append")
                next_id += 9
            case "update":
                table.update({choose.choice("abzf"): str(choose.randrange(60))}, where=f"id % 9 = {number % 9}")
            case "delete":
                table.delete(f"id % 17 = {choose.randrange(17)}")
            case "merge":
                merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.execute(rows(next_id - 4, 8))
                next_id += 4
            case "compact":
                table.optimize.compact_files(target_rows_per_fragment=choose.choice([30, 1000]))
            case "optimize":
                table.optimize.optimize_indices()
        check_answers(uri)
        now = with_ids(uri)
        assert {key: now[key] for key in now if key in ids} == {key: ids[key] for key in ids if key in now}
        ids = now if number >= step else {}
