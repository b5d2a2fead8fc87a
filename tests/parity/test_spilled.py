"""The reference on tables whose lineage Pennon put into data columns, without a setting in the table.

Each operation is done to such a table and to one with everything in the manifest; both must say the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.optimize import Compaction as TheirCompaction
from support.compare import assert_both_agree, assert_same
from support.spread import spread

pytestmark = pytest.mark.slow

LIMIT = "lance.row_lineage.inline_max_bytes"
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    texts, values = [f"row {i}" for i in ids], [i * 1.5 for i in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "text": texts, "v": values})


# How rows are changed, and whether they are compacted then.
MODES = {
    "moved": ("rewrite_rows", "rewrite_rows"),
    "compacted": ("rewrite_rows", "rewrite_rows"),
    "in place": ("rewrite_columns", "rewrite_columns"),
    "moved, in place": ("rewrite_rows", "rewrite_columns"),
    "in place, moved": ("rewrite_columns", "rewrite_rows"),
    # Somebody else got the version that was foreseen.
    "raced": ("rewrite_columns", "rewrite_columns"),
    "compacted in place": ("rewrite_columns", "rewrite_columns"),
}


def made(uri: str, kind: str, spill: bool) -> None:
    """Rows that moved or changed in place, twice; then a fragment in the manifest only."""
    table = pennon.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    table.update_config({LIMIT: "0" if spill else "1000000"})
    first, second = MODES[kind]
    table.update({"text": "concat(text, '+')"}, where="id % 3 = 0", mode=first)
    table.delete("id % 10 = 1")
    if kind == "raced":
        pennon.dataset(uri).update_config({"raced": "1"})
    table.update({"v": "v + 0.5"}, where="id % 7 = 0", mode=second)
    if kind.startswith("compacted"):
        table.optimize.compact_files(target_rows_per_fragment=150)
    table.update_config({LIMIT: None, "raced": None})
    table.insert(rows(300, 40))
    table.delete("id % 10 = 3")
    assert table.config() == {}


def where_lineage_is(uri: str) -> set[str]:
    """For each fragment which of ids, created-at and last-updated-at versions are columns."""
    found = set()
    for fragment in pennon.dataset(uri).get_fragments():
        of = fragment.metadata
        sources = (of.row_id_meta, of.created_at_version_meta, of.last_updated_at_version_meta)
        found.add("".join("c" if source is not None and source.inline is None else "i" for source in sources))
    return found


@pytest.fixture(scope="module", params=MODES)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp(request.param.replace(", ", "-").replace(" ", "-"))
    for name, spill in (("inline", False), ("spilled", True)):
        made(str(root / name), request.param, spill)
    assert where_lineage_is(str(root / "inline")) == {"iii"}
    columns = {
        "moved": {"cci"},
        "compacted": {"ccc"},
        "in place": {"iic"},
        "moved, in place": {"iic", "ccc"},
        "in place, moved": {"iic", "cci"},
        "raced": {"iic"},
        "compacted in place": {"ccc"},
    }
    spilled = columns[request.param] | {"iii"}
    assert where_lineage_is(str(root / "spilled")) == spilled
    return {"inline": root / "inline", "spilled": root / "spilled"}


def upsert(table: Any) -> None:
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(290, 100))


def patch(table: Any, every: int, with_offsets: bool) -> None:
    """New values for some rows of each fragment, in place."""
    fragments, fields, offsets = [], [], {}
    for fragment in table.get_fragments():
        ids = fragment.to_table(columns=["id"])["id"].to_pylist()[::every]
        data = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"patched {i}" for i in ids]})
        found = fragment.update_columns(data, "id", "id", with_offsets=with_offsets)
        fragments.append(found[0])
        fields = list(found[1])
        if with_offsets:
            offsets[fragment.fragment_id] = found[2]
    update = lance.LanceOperation.Update(
        updated_fragments=fragments,
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets or None,
    )
    lance.LanceDataset.commit(table.uri, update, read_version=table.version)


def merge_some_columns(table: Any) -> None:
    ids = range(0, 340, 5)
    source = pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([i * 9.0 for i in ids])})
    table.merge_insert("id").when_matched_update_all().execute(source)


def compaction_in_steps(table: Any) -> None:
    plan = TheirCompaction.plan(table, {"target_rows_per_fragment": 1000})
    TheirCompaction.commit(table, [task.execute(table) for task in plan.tasks])


def function(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"u": pa.array([i * 3 for i in batch["id"].to_pylist()], pa.int64())})


def drop_what_was_there(table: Any) -> None:
    table.add_columns({"n": "id * 2"})
    lance.dataset(table.uri).drop_columns(["id", "text", "v"])


def cloned(table: Any, deep: bool) -> None:
    """The clone is what is compared: it takes the table's place."""
    target = table.uri + "-clone"
    (table.deep_clone if deep else table.shallow_clone)(target, table.version)
    lance.dataset(target).update({"text": "'cloned'"}, where="id % 4 = 0")
    lance.dataset(target).optimize.compact_files()
    assert_both_agree(target)


def with_index(table: Any) -> None:
    table.create_scalar_index("id", "BTREE")
    lance.dataset(table.uri).update({"v": "v + 1"}, where="id < 50")
    lance.dataset(table.uri).optimize.optimize_indices()
    lance.dataset(table.uri).optimize.compact_files()
    assert lance.dataset(table.uri).to_table(filter="id = 42").num_rows == 1


def delete_in_fragment(table: Any) -> None:
    fragment = table.get_fragments()[0].delete("id % 2 = 0")
    delete = lance.LanceOperation.Delete([fragment], [], "id % 2 = 0")
    lance.LanceDataset.commit(table.uri, delete, read_version=table.version)


def twice(table: Any, first: Callable[[Any], object], second: Callable[[Any], object]) -> None:
    first(table)
    second(lance.dataset(table.uri))


def update(table: Any) -> None:
    table.update({"text": "'u'"}, where="id % 4 = 0")


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "nothing": lambda table: None,
    "delete": lambda table: table.delete("id % 5 = 0"),
    "delete fragments": lambda table: table.delete("id < 150"),
    "delete in a fragment": delete_in_fragment,
    "update": update,
    "update all": lambda table: table.update({"text": "'u'"}),
    "update and compact": lambda table: twice(table, update, lambda t: t.optimize.compact_files()),
    "upsert": upsert,
    "insert new": lambda table: table.merge_insert("id").when_not_matched_insert_all().execute(rows(250, 150)),
    "delete matched": lambda table: table.merge_insert("id").when_matched_delete().execute(rows(100, 50)),
    "merge some columns": merge_some_columns,
    "patch": lambda table: patch(table, 4, True),
    "patch without telling": lambda table: patch(table, 3, False),
    "patch twice": lambda table: twice(table, lambda t: patch(t, 4, True), lambda t: patch(t, 7, True)),
    "patch and compact": lambda table: twice(
        table, lambda t: patch(t, 4, True), lambda t: t.optimize.compact_files(target_rows_per_fragment=77)
    ),
    "compact": lambda table: table.optimize.compact_files(),
    "compact copying pages": lambda table: table.optimize.compact_files(compaction_mode="try_binary_copy"),
    "compact in steps": compaction_in_steps,
    "add a column": lambda table: table.add_columns({"n": "id * 2"}),
    "add a null column": lambda table: table.add_columns([pa.field("n", pa.int32())]),
    "add by function": lambda table: table.add_columns(function, read_columns=["id"]),
    "rename": lambda table: table.alter_columns({"path": "text", "name": "t"}),
    "another type": lambda table: table.alter_columns({"path": "v", "data_type": pa.float32()}),
    "drop a column": lambda table: table.drop_columns(["v"]),
    "drop what was there": drop_what_was_there,
    "join": lambda table: table.merge(pa.table({"id": pa.array(range(340)), "m": pa.array(range(340))}), "id"),
    "restore": lambda table: twice(table, update, lambda t: lance.dataset(t.uri, version=t.version - 1).restore()),
    "restore an old version": lambda table: lance.dataset(table.uri, version=4).restore(),
    "append": lambda table: table.insert(rows(1000, 10)),
    "overwrite": lambda table: lance.write_dataset(rows(0, 10), table.uri, mode="overwrite"),
    "shallow clone": lambda table: cloned(table, False),
    "deep clone": lambda table: cloned(table, True),
    "branch": lambda table: update(table.create_branch("b")),
    "clean up": lambda table: table.cleanup_old_versions(timedelta(0), delete_unverified=True),
    "index": with_index,
}


def answers(uri: str) -> dict[str, Any]:
    """What the reference says about a table, whatever the order of rows."""
    table = lance.dataset(uri)
    table.validate()
    names = [field.name for field in table.schema]
    all_rows = table.to_table(columns=names + LINEAGE).sort_by("_rowid")
    ids = all_rows["_rowid"].to_pylist()
    said: dict[str, Any] = {"rows": all_rows.to_pylist(), "versions": [v["version"] for v in table.versions()]}
    said["taken"] = table._take_rows([*ids[::7], 5, 11, 100_000]).to_pylist()
    for condition in ["_rowid > 100", "_row_created_at_version > 1", "_row_last_updated_at_version in (3, 5)"]:
        found = table.to_table(columns=names + LINEAGE, filter=condition).sort_by("_rowid")
        said[condition] = found.to_pylist()
        said["count " + condition] = table.count_rows(condition)
    begin = said["versions"][0]
    if begin < table.version:
        delta = table.delta(compared_against=begin)
        for name in ("get_inserted_rows", "get_updated_rows"):
            said[name] = getattr(delta, name)().read_all().sort_by("_rowid").to_pylist()
    return said


@spread(of=1)
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_the_reference_does(tables: dict[str, Path], tmp_path: Path, name: str) -> None:
    said = {}
    for side, source in tables.items():
        uri = str(tmp_path / side)
        shutil.copytree(source, uri)
        OPERATIONS[name](lance.dataset(uri))
        said[side] = answers(uri)
        assert_both_agree(uri)
        # And Pennon goes on with it.
        before = pennon.dataset(uri).to_table(with_row_id=True).sort_by("_rowid")
        pennon.dataset(uri).optimize.compact_files()
        assert_same(pennon.dataset(uri).to_table(with_row_id=True).sort_by("_rowid"), before)
        assert_both_agree(uri)
    assert said["spilled"] == said["inline"]


PENNON: dict[str, Callable[[pennon.LanceDataset], object]] = {
    "update in place": lambda table: table.update({"v": "v + 1"}, "id % 4 = 0", mode="rewrite_columns"),
    "twice in place": lambda table: [
        table.update({"v": "v + 1"}, f"id % {every} = 0", mode="rewrite_columns") for every in (4, 3)
    ],
    "in place, then rows": lambda table: [
        table.update({"v": "v + 1"}, "id % 4 = 0", mode=mode) for mode in ("rewrite_columns", "rewrite_rows")
    ],
    "merge columns": lambda table: (
        table.merge_insert("id")
        .when_matched_update_all()
        .write_mode("rewrite_columns")
        .execute({"id": list(range(0, 340, 5)), "v": [i * 9.0 for i in range(0, 340, 5)]})
    ),
    "patch": lambda table: patch_and_commit(table),
    "add a column": lambda table: table.add_columns({"n": "id * 2"}),
    "another type": lambda table: table.alter_columns({"path": "v", "data_type": pa.float32()}),
    "restore rows": lambda table: table.restore_rows([3, 13, 300, 303], table.version - 1),
}


def patch_and_commit(table: pennon.LanceDataset) -> None:
    """Written by Pennon, committed through Pennon: who commits it did not write it."""
    fragments, fields, offsets = [], [], {}
    for fragment in table.get_fragments():
        ids = fragment.to_table(columns=["id"])["id"].to_pylist()[::4]
        data = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"patched {i}" for i in ids]})
        metadata, fields, matched = fragment.update_columns(data, "id", "id", with_offsets=True)
        fragments.append(metadata)
        offsets[fragment.fragment_id] = matched
    update = pennon.LanceOperation.Update(
        updated_fragments=fragments,
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    pennon.LanceDataset.commit(table.uri, update, read_version=table.version)


@spread(of=1)
@pytest.mark.parametrize("name", PENNON)
def test_what_pennon_does(tables: dict[str, Path], tmp_path: Path, name: str) -> None:
    said = {}
    for side, source in tables.items():
        uri = str(tmp_path / side)
        shutil.copytree(source, uri)
        PENNON[name](pennon.dataset(uri))
        said[side] = answers(uri)
        assert_both_agree(uri)
        begin = pennon.dataset(uri).versions()[0]["version"]
        changes = pennon.dataset(uri).changes(begin, images="both", mode="each").read_all()
        said[side]["changes"] = (
            changes.drop_columns("_commit_timestamp")
            .sort_by([(column, "ascending") for column in ("_commit_version", "_rowid", "_change_type")])
            .to_pylist()
        )
    assert said["spilled"] == said["inline"]


@pytest.mark.parametrize(("config", "expected"), [(None, "cii"), ("true", "iii"), ("false", "iii")])
def test_sequences_above_a_limit_are_columns(tmp_path: Path, config: str | None, expected: str) -> None:
    """The ids of every tenth of a million rows are a bitmap of 125 kB."""
    uri = str(tmp_path / "t")
    table = pennon.write_dataset({"id": list(range(1_000_000)), "v": [0] * 1_000_000}, uri)
    if config is not None:
        table.update_config({"lance.row_lineage.spill": config})
    table.update({"v": "1"}, where="id % 10 = 0", mode="rewrite_rows")
    assert where_lineage_is(uri) == {"iii", expected}
    wanted = [0, 1, 10, 999_990, 999_999]
    assert lance.dataset(uri)._take_rows(wanted)["id"].to_pylist() == wanted
    assert pennon.dataset(uri)._take_rows(wanted)["id"].to_pylist() == wanted
    table.optimize.compact_files(materialize_deletions_threshold=0.01)
    # Ids are one range again; every tenth row has another version.
    assert where_lineage_is(uri) == {"iic" if config != "false" else "iii"}
    assert_both_agree(uri)
