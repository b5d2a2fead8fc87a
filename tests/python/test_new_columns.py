"""Columns that are committed together with rows."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.fragment import write_fragments

NEW = pa.schema({"b": pa.int64(), "c": pa.struct({"d": pa.string()})})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    address = str(tmp_path / "t.lance")
    pennon.write_dataset({"a": list(range(6))}, address, max_rows_per_file=3)
    return address


def rows(uri: str) -> list[dict[str, object]]:
    """As pylance reads them too."""
    found = pennon.dataset(uri).to_table().sort_by("a").to_pylist()
    assert lance.dataset(uri).to_table().sort_by("a").to_pylist() == found
    assert pennon.dataset(uri).verify(data=True).ok
    return found


def plain(*keys: int) -> list[dict[str, object]]:
    return [{"a": key, "b": None, "c": None} for key in keys]


@pytest.mark.parametrize("stable", [True, False])
def test_each_change_of_rows_commits_them(tmp_path: Path, stable: bool) -> None:
    whole = {"a": [9], "b": [90], "c": [{"d": "x"}]}
    changes = {
        "append": lambda table: table.insert(whole),
        "write_dataset": lambda table: pennon.write_dataset(whole, table, mode="append"),
        "merge": lambda table: table.merge_insert("a").when_not_matched_insert_all().execute(whole),
        "update": lambda table: table.update({"b": "a * 10"}, where="a = 4"),
        "delete": lambda table: table.delete("a = 4"),
    }
    for name, change in changes.items():
        uri = str(tmp_path / name)
        pennon.write_dataset({"a": list(range(6))}, uri, max_rows_per_file=3, enable_stable_row_ids=stable)
        table = pennon.dataset(uri).with_new_columns(NEW)
        assert (table.version, table.schema.names, table.to_table().num_columns) == (1, ["a", "b", "c"], 3)
        assert pennon.dataset(uri).schema.names == ["a"]
        change(table)
        assert pennon.dataset(uri).version == 2, name
        expected = plain(*range(6))
        if name == "update":
            expected[4]["b"] = 40
        elif name == "delete":
            del expected[4]
        else:
            expected.append({"a": 9, "b": 90, "c": {"d": "x"}})
        assert rows(uri) == expected
        operation = pennon.dataset(uri).read_transaction(2).operation
        assert type(operation).__name__ == "Merge"
        if stable and name == "update":
            found = lance.dataset(uri).scanner(columns=["a", "_row_last_updated_at_version"]).to_table()
            assert sorted(found.column(1).to_pylist()) == [1, 1, 1, 1, 1, 2]


def test_the_feed(uri: str) -> None:
    table = pennon.dataset(uri).with_new_columns(NEW)
    source = {"a": [4, 9], "b": [40, 90]}
    table.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(source)
    found = pennon.dataset(uri).changes(1, images="both").read_all().select(["_change_type", "a", "b"])
    assert sorted(map(str, found.to_pylist())) == sorted(
        map(
            str,
            [
                {"_change_type": "update_preimage", "a": 4, "b": None},
                {"_change_type": "update_postimage", "a": 4, "b": 40},
                {"_change_type": "insert", "a": 9, "b": 90},
            ],
        )
    )


def test_copies_of_the_handle_have_them(uri: str) -> None:
    table = pennon.dataset(uri).with_new_columns(pa.field("b", pa.int64()))
    for twin in (copy.copy(table), pickle.loads(pickle.dumps(table))):
        assert twin.schema.names == ["a", "b"]
        assert twin.count_rows("b IS NULL") == 6
    assert table.checkout_version(1).schema.names == ["a"]
    child = os.fork()
    if child == 0:
        os._exit(0 if table.count_rows("b IS NULL") == 6 else 1)
    assert os.waitpid(child, 0)[1] == 0
    table.delete("a = 0")
    assert table.schema.names == ["a", "b"]
    assert pickle.loads(pickle.dumps(table)).version == 2


def test_fragments_of_the_handle(uri: str) -> None:
    table = pennon.dataset(uri).with_new_columns(NEW)
    row = {"a": [9], "b": [90], "c": [{"d": "x"}]}
    with pytest.raises(
        pennon.InvalidInputError,
        match="columns that are not committed, b, c: expected mode='append' and return_transaction",
    ):
        write_fragments(row, table)
    with pytest.raises(pennon.InvalidInputError, match="expected mode='append' and return_transaction"):
        write_fragments(row, table, mode="overwrite", return_transaction=True)
    complete = write_fragments(row, table, return_transaction=True)
    for target in (table, uri):
        # Once, by its uuid.
        assert pennon.LanceDataset.commit(target, complete).version == 2
    assert rows(uri)[-1] == {"a": 9, "b": 90, "c": {"d": "x"}}
    # Files with fields that the table has not: from another table.
    other = pennon.write_dataset({f"c{n}": [n] for n in range(9)}, f"{uri}-other")
    wide = write_fragments({f"c{n}": [n] for n in range(9)}, other)
    before = pennon.dataset(uri)
    with pytest.raises(pennon.InvalidInputError, match="has field 8; the table has fields up to 3"):
        pennon.LanceDataset.commit(uri, pennon.LanceOperation.Append(wide), read_version=before.version)
    transaction = pennon.Transaction(7, pennon.LanceOperation.Append(wide))
    extended = before.with_new_columns(pa.field("e", pa.int64()))
    with pytest.raises(pennon.InvalidInputError, match="is for version 7; expected 2"):
        pennon.LanceDataset.commit(extended, transaction)
    with pytest.raises(pennon.UnsupportedError, match="not detached"):
        pennon.LanceDataset.commit(extended, pennon.Transaction(2, transaction.operation), detached=True)
    assert pennon.dataset(uri).version == 2


def test_others_may_change_other_rows(uri: str) -> None:
    """Between the handle and its commit: appends, deletes, a compaction, and reserved ids, by both libraries."""

    def between(number: int) -> None:
        pennon.dataset(uri).insert({"a": [100 + number]})
        lance.write_dataset(pa.table({"a": [200 + number]}), uri, mode="append")
        pennon.dataset(uri).delete(f"a = {number}")

    verbs = {
        "append": lambda table: table.insert({"a": [9], "x0": [1]}),
        "merge": lambda table: table.merge_insert("a").when_matched_update_all().execute({"a": [5], "x1": [1]}),
        "update": lambda table: table.update({"x2": "a"}, where="a = 4"),
        "delete": lambda table: table.delete("a = 3"),
    }
    for number, verb in enumerate(verbs.values()):
        table = pennon.dataset(uri).with_new_columns(pa.field(f"x{number}", pa.int64()))
        if number < 3:
            between(number)
        if number == 1:
            pennon.dataset(uri).optimize.compact_files()
        verb(table)
        newest = pennon.dataset(uri)
        assert table.version == newest.version
        assert newest.schema.names == ["a", *(f"x{n}" for n in range(number + 1))]
        assert type(newest.read_transaction(newest.version).operation).__name__ == "Merge"
    found = {row.pop("a"): {name: value for name, value in row.items() if value is not None} for row in rows(uri)}
    expected = {key: {} for key in (100, 101, 102, 200, 201, 202)}
    assert found == {4: {"x2": 4}, 5: {"x1": 1}, 9: {"x0": 1}, **expected}


def test_others_change_the_columns(uri: str) -> None:
    table = pennon.dataset(uri).with_new_columns(NEW)
    pennon.dataset(uri).add_columns(pa.field("z", pa.string()))
    with pytest.raises(pennon.CommitConflictError, match="it changed the columns, and so does this") as caught:
        table.insert({"a": [9], "b": [90]})
    assert caught.value.retryable
    table.checkout_latest()
    table.insert({"a": [9], "b": [90]})
    assert rows(uri)[-1] == {"a": 9, "z": None, "b": 90, "c": None}
    table = pennon.dataset(uri).with_new_columns(pa.field("e", pa.int64()))
    pennon.dataset(uri).update_field_metadata({"a": {"unit": "m"}})
    table.merge_insert("a").when_matched_update_all().execute({"a": [9], "e": [1]})
    assert pennon.dataset(uri).schema.field("a").metadata == {b"unit": b"m"}
    assert pennon.dataset(uri).count_rows("e = 1") == 1


def test_a_transaction_that_pylance_commits(uri: str) -> None:
    """A merge with a new fragment, of the reference, is read by Pennon, and one of Pennon's by the reference."""
    table = pennon.dataset(uri).with_new_columns(NEW)
    builder = table.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = builder.execute_uncommitted({"a": [1, 9], "b": [10, 90]})
    assert type(transaction.operation).__name__ == "Merge"
    pennon.LanceDataset.commit(uri, transaction)
    expected = [*plain(*range(6)), {"a": 9, "b": 90, "c": None}]
    expected[1]["b"] = 10
    assert rows(uri) == expected

    theirs = lance.dataset(uri)
    fragments = [fragment.metadata for fragment in theirs.get_fragments()]
    extra = json.loads(json.dumps(write_fragments({"a": [20], "b": [1]}, uri)[0].to_json()))
    extra["id"] = max(fragment.id for fragment in fragments) + 1
    added = lance.FragmentMetadata.from_json(json.dumps(extra))
    merge = lance.LanceOperation.Merge([*fragments, added], theirs.lance_schema)
    lance.LanceDataset.commit(uri, merge, read_version=theirs.version)
    assert rows(uri)[-1] == {"a": 20, "b": 1, "c": None}
    # The id 0 is for new fragments as well, and so is one that was reserved.
    ours = pennon.dataset(uri)
    present = [fragment.metadata for fragment in ours.get_fragments()]
    new = write_fragments({"a": [21], "b": [1]}, uri)
    merge = pennon.LanceOperation.Merge([*present, *new], ours.lance_schema)
    pennon.LanceDataset.commit(uri, merge, read_version=ours.version)
    assert rows(uri)[-1] == {"a": 21, "b": 1, "c": None}
    reserved = pennon.LanceDataset.commit(
        uri, pennon.LanceOperation.ReserveFragments(2), read_version=ours.version + 1
    )
    extra = json.loads(json.dumps(write_fragments({"a": [22], "b": [1]}, uri)[0].to_json()))
    extra["id"] = max(fragment.fragment_id for fragment in reserved.get_fragments()) + 2
    added = pennon.FragmentMetadata.from_json(json.dumps(extra))
    present = [fragment.metadata for fragment in reserved.get_fragments()]
    merge = pennon.LanceOperation.Merge([*present, added], reserved.lance_schema)
    done = pennon.LanceDataset.commit(uri, merge, read_version=reserved.version)
    assert (done.get_fragments()[-1].fragment_id, rows(uri)[-1]) == (extra["id"], {"a": 22, "b": 1, "c": None})
    ours, mirror = pennon.dataset(uri), lance.dataset(uri)
    ids = ours.to_table(with_row_id=True).sort_by("a")["_rowid"].to_pylist()
    assert ids == mirror.to_table(with_row_id=True).sort_by("a")["_rowid"].to_pylist() == list(range(10))


def test_jobs(uri: str) -> None:
    plan = jobs.plan_append(pennon.dataset(uri).with_new_columns(NEW), tasks=2)
    plan = pickle.loads(pickle.dumps(plan))
    results = [task.run({"a": [10 + task.number], "b": [task.number]}) for task in plan.tasks]
    report = plan.commit(results)
    assert (report.rows, report.dataset.version, plan.commit(results).dataset.version) == (2, 2, 2)
    assert [row["b"] for row in rows(uri)[-2:]] == [0, 1]
    table = pennon.dataset(uri).with_new_columns(pa.field("e", pa.int64()))
    plan = jobs.plan_update(table, {"e": "a + 1"}, where="a > 3", tasks=3)
    pennon.dataset(uri).insert({"a": [50]})
    pennon.dataset(uri).add_columns(pa.field("f", pa.int64()))
    results = [task.run() for task in plan.tasks]
    with pytest.raises(pennon.CommitConflictError) as caught:
        plan.commit(results)
    assert caught.value.retryable
    plan = plan.renew(results)
    assert plan.commit([task.run() for task in plan.tasks]).rows == 5
    assert [row["e"] for row in rows(uri)] == [None, None, None, None, 5, 6, 11, 12, 51]
    assert pennon.dataset(uri).version == 5


def test_what_is_refused(uri: str) -> None:
    table = pennon.dataset(uri)
    with pytest.raises(pennon.AlreadyExistsError):
        table.with_new_columns(pa.field("a", pa.int64()))
    with pytest.raises(pennon.SchemaMismatchError):
        table.with_new_columns(pa.field("a", pa.string()))
    with pytest.raises(pennon.InvalidInputError, match="must be nullable"):
        table.with_new_columns(pa.field("b", pa.int64(), nullable=False))
    extended = table.with_new_columns(NEW)
    with pytest.raises(pennon.InvalidInputError, match="columns already"):
        extended.with_new_columns(pa.field("z", pa.int64()))
    for change in (
        lambda: extended.create_scalar_index("a", "BTREE"),
        lambda: extended.optimize.compact_files(),
        lambda: extended.drop_columns(["a"]),
        lambda: extended.update_config({"x.y": "1"}),
        lambda: extended.restore(),
        lambda: extended.create_branch("b"),
    ):
        with pytest.raises(pennon.UnsupportedError, match="cannot add columns in the same version"):
            change()
    with pytest.raises(pennon.InvalidInputError, match="No columns"):
        table.with_new_columns([])
    assert pennon.dataset(uri).version == 1
    # Also after others have committed.
    table.delete("a = 0")
    for change in (extended.restore, lambda: extended.create_branch("b")):
        with pytest.raises(pennon.UnsupportedError):
            change()
    assert extended.schema.names == ["a", "b", "c"]


def test_the_config_of_a_table_that_a_job_makes(tmp_path: Path) -> None:
    uri, schema = str(tmp_path / "made.lance"), pa.schema({"a": pa.int64()})
    plan = jobs.plan_overwrite(uri, schema, tasks=1, config={"owner": "us"}, compatible_with="pylance 1.0")
    plan = pickle.loads(pickle.dumps(plan))
    made = plan.commit([task.run({"a": [1]}) for task in plan.tasks]).dataset
    assert made.version == 1
    assert made.config()["owner"] == "us"
    assert made.config()["pennon.compatible_with"] == "pylance 1.0"
    plan = jobs.plan_overwrite(uri, schema, tasks=1, config={"owner": "them"})
    made = plan.commit([task.run({"a": [2]}) for task in plan.tasks]).dataset
    assert (made.version, made.config()["owner"]) == (2, "them")
    assert lance.dataset(uri).config()["owner"] == "them"
    with pytest.raises(pennon.InvalidInputError, match=r"lance\.auto_cleanup\.interval"):
        jobs.plan_overwrite(uri, schema, config={"lance.auto_cleanup.interval": "x"})
    with pytest.raises(pennon.InvalidInputError, match="an older reader"):
        jobs.plan_append(uri, compatible_with="pylance 14.0")
    jobs.plan_append(uri, compatible_with="pylance 1.0")


NEVER_STORED = {
    "2.0": [pa.map_(pa.string(), pa.int64()), pa.list_(pa.struct({"x": pa.int8()}), 2), pa.binary(0)],
    "2.1": [pa.map_(pa.string(), pa.int64()), pa.list_(pa.struct({"x": pa.int8()}), 2), pa.binary(0)],
    "2.2": [pa.binary(0)],
}


@pytest.mark.parametrize("version", NEVER_STORED)
def test_null_columns_whose_values_no_file_can_have(tmp_path: Path, version: str) -> None:
    """Their rows could never be written again, not even by a compaction."""
    table = pennon.write_dataset({"a": [1]}, tmp_path / "t", data_storage_version=version)
    table.insert({"a": [2]})
    for type in NEVER_STORED[version]:
        for nested in (type, pa.struct({"inner": type})):
            for add in (table.add_columns, table.with_new_columns):
                with pytest.raises(pennon.UnsupportedError, match="field `new"):
                    add(pa.field("new", nested))
    assert (table.version, table.schema.names) == (2, ["a"])
    table.add_columns(pa.field("new", pa.list_(pa.string())))
    assert table.optimize.compact_files().fragments_removed == 2
