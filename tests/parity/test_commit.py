"""Transactions of one implementation committed by the other, and fragments handed over as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from lance.optimize import Compaction
from support.compare import assert_both_agree

Ours = pennon.LanceOperation
Theirs = lance.LanceOperation
reference = sys.modules["lance.dataset"]


def rows(start: int, count: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(start, start + count), pa.int64()), "text": [f"t{i}" for i in range(count)]}
    )


def ours(fragments: list[Any]) -> list[pennon.FragmentMetadata]:
    return [pennon.FragmentMetadata.from_json(json.dumps(fragment.to_json())) for fragment in fragments]


def theirs(fragments: list[Any]) -> list[lance.FragmentMetadata]:
    return [lance.FragmentMetadata.from_json(json.dumps(fragment.to_json())) for fragment in fragments]


@pytest.fixture
def uri(tmp_path: Path, stable: bool, file_version: str) -> str:
    """Two fragments of ten rows, one of them with a deletion file."""
    uri = str(tmp_path / "t")
    table = lance.write_dataset(
        rows(0, 20), uri, max_rows_per_file=10, enable_stable_row_ids=stable, data_storage_version=file_version
    )
    table.delete("id = 3")
    return uri


def newest(uri: str) -> int:
    return lance.dataset(uri).version


def commit_ours(uri: str, operation: Any, **options: Any) -> pa.Table:
    pennon.LanceDataset.commit(uri, operation, read_version=newest(uri), **options)
    return assert_both_agree(uri)


def commit_theirs(uri: str, operation: Any, **options: Any) -> pa.Table:
    lance.LanceDataset.commit(uri, operation, read_version=newest(uri), **options)
    return assert_both_agree(uri)


def test_metadata_in_json(uri: str) -> None:
    lance.dataset(uri).update({"text": "'new'"}, where="id > 15")
    for mine, other in zip(pennon.dataset(uri).get_fragments(), lance.dataset(uri).get_fragments(), strict=True):
        assert json.dumps(mine.metadata.to_json()) == json.dumps(other.metadata.to_json())
        assert ours([other.metadata]) == [mine.metadata]
        assert theirs([mine.metadata]) == [other.metadata]
        if other.metadata.deletion_file is not None:
            assert mine.metadata.deletion_file.json() == other.metadata.deletion_file.json()
            assert mine.deletion_file() == other.deletion_file()


def test_append(uri: str) -> None:
    by_reference = lance.fragment.write_fragments(rows(100, 5), uri, max_rows_per_file=3)
    by_pennon = pennon.fragment.write_fragments(rows(200, 5), uri, max_rows_per_file=3)
    commit_ours(uri, Ours.Append(ours(by_reference)))
    found = commit_theirs(uri, Theirs.Append(theirs(by_pennon)))
    expected = [*range(3), *range(4, 20), *range(100, 105), *range(200, 205)]
    assert found["id"].to_pylist() == expected


def test_delete(uri: str) -> None:
    by_reference = lance.dataset(uri).get_fragment(0).delete("id < 6")
    commit_ours(uri, Ours.Delete(ours([by_reference]), [], "id < 6"))
    by_pennon = pennon.dataset(uri).get_fragment(0).delete("id < 8")
    found = commit_theirs(uri, Theirs.Delete(theirs([by_pennon]), [1], "id < 8"))
    assert found["id"].to_pylist() == [8, 9]


def test_overwrite_and_restore(uri: str) -> None:
    other = pa.table({"x": pa.array([1.0, 2.0])})
    by_reference = lance.fragment.write_fragments(other, uri, mode="overwrite")
    assert commit_ours(uri, Ours.Overwrite(other.schema, ours(by_reference)))["x"].to_pylist() == [1.0, 2.0]
    assert commit_theirs(uri, Theirs.Restore(1)).num_rows == 20
    by_pennon = pennon.fragment.write_fragments(other, uri, mode="overwrite")
    commit_theirs(uri, Theirs.Overwrite(other.schema, theirs(by_pennon)))
    assert commit_ours(uri, Ours.Restore(2)).num_rows == 19
    with pytest.raises(OSError, match="77"):
        pennon.LanceDataset.commit(uri, Ours.Restore(77))


def test_columns(uri: str) -> None:
    """A column added by the reference's fragments, and dropped again by a projection of ours."""
    table = lance.dataset(uri)
    merged = [part.merge_columns({"twice": "id * 2"}) for part in table.get_fragments()]
    arrow = merged[0][1].to_pyarrow()
    found = commit_ours(uri, Ours.Merge(ours([part for part, _ in merged]), arrow))
    assert found["twice"].to_pylist() == [2 * i for i in found["id"].to_pylist()]
    schema = pennon.dataset(uri).lance_schema
    kept = pennon.LanceSchema(tuple(field for field in schema.fields() if field.name != "text"), schema.metadata)
    found = commit_ours(uri, Ours.Project(kept))
    assert found.column_names[:2] == ["id", "twice"]
    operation = lance.dataset(uri).read_transaction(newest(uri)).operation
    assert operation.schema.to_pyarrow() == kept.to_pyarrow()


def test_a_projection_with_other_types(uri: str) -> None:
    """A schema of pyarrow has no ids, so its fields get them by position: those of others if it is reordered."""
    table = pennon.dataset(uri)
    schema = table.schema
    reversed_ = pa.schema(list(schema)[::-1], schema.metadata)
    with pytest.raises(pennon.InvalidInputError, match=r"field 0 is `.*the projection has it as `.*by their ids"):
        commit_ours(uri, Ours.Project(reversed_))
    assert pennon.dataset(uri).version == table.version
    commit_ours(uri, Ours.Project(schema))
    assert pennon.dataset(uri).schema == schema


def test_rewrite(uri: str) -> None:
    """A compaction planned and run by the reference, its result committed by ours."""
    commit_ours(uri, Ours.ReserveFragments(2))
    table = lance.dataset(uri)
    plan = Compaction.plan(table, {"target_rows_per_fragment": 100})
    (result,) = [task.execute(table) for task in plan.tasks]
    before = assert_both_agree(uri)
    table.insert(rows(50, 2))
    old = [fragment.metadata for fragment in pennon.dataset(uri).get_fragments()[:2]]
    found = commit_ours(uri, Ours.Rewrite([Ours.RewriteGroup(old, ours(result.new_fragments))], []))
    assert sorted(found["id"].to_pylist()) == sorted([*before["id"].to_pylist(), 50, 51])
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    kept = found.filter(pa.compute.field("id") < 50).select(columns).sort_by("id")
    assert kept == before.select(columns).sort_by("id")


def test_update(uri: str) -> None:
    """An update of the reference, committed by ours from what the reference says it wrote."""
    table = lance.dataset(uri)
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = builder.execute_uncommitted(rows(15, 10))
    theirs_ = transaction.operation
    update = Ours.Update(
        theirs_.removed_fragment_ids,
        ours(theirs_.updated_fragments),
        ours(theirs_.new_fragments),
        theirs_.fields_modified,
        theirs_.fields_for_preserving_frag_bitmap,
        theirs_.update_mode,
        theirs_.updated_fragment_offsets,
    )
    found = commit_ours(uri, update)
    assert sorted(found["id"].to_pylist()) == [*range(3), *range(4, 25)]


def test_data_replacement(uri: str) -> None:
    by_reference = lance.fragment.write_fragments(rows(500, 10), uri)[0]
    group = Ours.DataReplacementGroup(1, ours([by_reference])[0].files[0])
    found = commit_ours(uri, Ours.DataReplacement([group]))
    assert found["id"].to_pylist() == [0, 1, 2, *range(4, 10), *range(500, 510)]


REPLACED = {"one of a file": ["text"], "of two files": ["text", "more"], "of all files": ["id", "text", "more"]}


@pytest.mark.parametrize("names", [*REPLACED, "one that has no file", "one with a file, one without"])
def test_data_replacement_of_other_columns(uri: str, names: str, file_version: str) -> None:
    """Other files lose the columns, and go with their last one; the reference does the same on a copy."""
    table = lance.dataset(uri)
    table.add_columns({"more": "id * 2"})
    table.add_columns(pa.field("none", pa.int64()))
    columns = REPLACED.get(names, ["none"] if names == "one that has no file" else ["none", "more"])
    new = pa.table({name: ["new"] * 10 if name == "text" else [7] * 10 for name in columns})
    with LanceFileWriter(f"{uri}/data/new.lance", new.schema, version=file_version) as writer:
        writer.write_batch(new)
    ids = {field.name(): field.id() for field in lance.dataset(uri).lance_schema.fields()}
    major, minor = map(int, file_version.split("."))
    found = []
    for library, commit in ((lance, commit_theirs), (pennon, commit_ours)):
        copy = f"{uri}-{library.__name__}"
        shutil.copytree(uri, copy)
        file = library.fragment.DataFile(
            "new.lance", [ids[name] for name in columns], list(range(len(columns))), major, minor
        )
        operation = library.LanceOperation.DataReplacement([library.LanceOperation.DataReplacementGroup(1, file)])
        if names == "one with a file, one without":
            with pytest.raises((OSError, pennon.InvalidInputError), match="no changes were made"):
                commit(copy, operation)
            continue
        content = commit(copy, operation)
        files = lance.dataset(copy).get_fragment(1).metadata.files
        found.append((content.to_pylist(), [(file.fields, file.column_indices) for file in files]))
    if found:
        assert found[0] == found[1]


@pytest.mark.parametrize("deleted", [False, True])
def test_an_overwrite_by_its_own_fragments(tmp_path: Path, stable: bool, deleted: bool) -> None:
    """They are numbered again in their order; deletions are in files that are named after the numbers of before."""
    uri = str(tmp_path / "own")
    table = lance.write_dataset(rows(0, 6), uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    if deleted:
        table.delete("id = 2")
    fragments = [fragment.metadata for fragment in pennon.dataset(uri).get_fragments()]
    operation = Ours.Overwrite(pennon.dataset(uri).lance_schema, fragments)
    if deleted:
        for made in (operation, Ours.Append(fragments[1:2])):
            with pytest.raises(pennon.InvalidInputError, match="fragment 1 has a deletion file"):
                pennon.LanceDataset.commit(uri, made, read_version=2)
        assert pennon.verify(uri).ok
        return
    assert commit_ours(uri, operation)["id"].to_pylist() == list(range(6))


def test_index_entries(uri: str) -> None:
    """An entry taken out by ours and put in again: the reference finds it as it was."""
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    entry = pennon.dataset(uri).read_transaction(newest(uri)).operation.new_indices[0]
    described = lance.dataset(uri).describe_indices()[0]
    other = lance.dataset(uri).read_transaction(newest(uri)).operation.new_indices[0]
    assert entry.fragment_ids == set(other.fragment_ids)
    for name in ("uuid", "name", "fields", "dataset_version", "index_version", "base_id", "index_details"):
        assert getattr(entry, name) == getattr(other, name)
    # The wire has milliseconds.
    assert abs((entry.created_at - other.created_at).total_seconds()) < 0.001
    commit_ours(uri, Ours.CreateIndex([], [entry]))
    assert lance.dataset(uri).describe_indices() == []
    commit_ours(uri, Ours.CreateIndex([entry], []))
    (found,) = lance.dataset(uri).describe_indices()
    assert (found.name, found.index_type) == (described.name, described.index_type)
    assert "ScalarIndexQuery" in lance.dataset(uri).scanner(filter="id = 7").explain_plan()
    assert lance.dataset(uri).to_table(filter="id = 7")["id"].to_pylist() == [7]


METADATA = [
    (lambda t: t.update_config({"a": "1", "b": "2"}), lambda t: t.config()),
    (lambda t: t.update_config({"a": None}), lambda t: t.config()),
    (lambda t: t.update_config({"c": "3"}, replace=True), lambda t: t.config()),
    (lambda t: t.delete_config_keys(["c"]), lambda t: t.config()),
    (lambda t: t.update_metadata({"m": "1"}), lambda t: t.metadata),
    (lambda t: t.update_metadata({"n": "1"}, replace=True), lambda t: t.metadata),
    (lambda t: t.update_schema_metadata({"s": "1"}), lambda t: t.schema_metadata),
    (lambda t: t.update_schema_metadata({"s": None}), lambda t: t.schema_metadata),
    (lambda t: t.update_field_metadata({"id": {"u": "1"}}), lambda t: t.schema.field("id").metadata),
    (lambda t: t.update_field_metadata({"id": {"v": "2"}}, replace=True), lambda t: t.schema.field("id").metadata),
]


@pytest.mark.parametrize("file_version", ["2.2"], indirect=True)
def test_config_and_metadata(uri: str) -> None:
    """The same changes through either: same answers, same state, same transactions, read by both."""
    for change, state in METADATA:
        expected = change(lance.dataset(uri))
        told = state(lance.dataset(uri))
        transaction = lance.dataset(uri).get_transactions(1)[0].operation
        lance.dataset(uri).checkout_version(newest(uri) - 1).restore()
        assert change(pennon.dataset(uri)) == expected
        assert state(lance.dataset(uri)) == state(pennon.dataset(uri)) == told
        assert lance.dataset(uri).get_transactions(1)[0].operation == transaction
        assert_both_agree(uri)


@pytest.mark.parametrize("file_version", ["2.2"], indirect=True)
def test_history_is_told_alike(uri: str) -> None:
    """Every transaction the reference writes, as both read it."""
    table = lance.dataset(uri)
    table.insert(rows(30, 5))
    table.update({"text": "'x'"}, where="id < 2")
    table.add_columns({"c": "id + 1"})
    table.alter_columns({"path": "c", "name": "d"})
    table.drop_columns(["d"])
    table.optimize.compact_files()
    # The reference cannot read a rewrite of a table with indices.
    table.create_scalar_index("id", "BTREE")
    table.update_config({"k": "v"})
    for found, expected in zip(pennon.dataset(uri).get_transactions(50), table.get_transactions(50), strict=True):
        assert (found.read_version, found.uuid) == (expected.read_version, expected.uuid)
        assert found.transaction_properties == expected.transaction_properties
        for name, value in vars(expected.operation).items():
            mine = getattr(found.operation, name)
            if name.endswith("fragments"):
                assert mine == ours(value)
            elif name in ("schema", "new_schema"):
                assert mine.to_pyarrow().equals(value.to_pyarrow(), check_metadata=True)
                assert [field.id for field in mine.fields()] == [field.id() for field in value.fields()]
            elif isinstance(value, str | int | bool | None):
                assert mine == value, name
    names = [type(entry.operation).__name__ for entry in pennon.dataset(uri).get_transactions(50)]
    assert names == [
        "UpdateConfig",
        "CreateIndex",
        "Rewrite",
        "ReserveFragments",
        "Project",
        "Project",
        "Merge",
        "Update",
        "Append",
        "Delete",
        "Overwrite",
    ]


@pytest.mark.parametrize("file_version", ["2.2"], indirect=True)
def test_detached(uri: str) -> None:
    new = pennon.fragment.write_fragments(rows(100, 2), uri)
    apart = pennon.LanceDataset.commit(uri, Ours.Append(new), read_version=1, detached=True)
    assert lance.dataset(uri, version=apart.version).count_rows() == 22
    assert_both_agree(uri, apart.version)
    theirs_ = lance.LanceDataset.commit(uri, Theirs.Append(theirs(new)), read_version=2, detached=True)
    assert pennon.dataset(uri, version=theirs_.version).count_rows() == 21
    assert_both_agree(uri)
    assert newest(uri) == 2


@pytest.mark.parametrize("file_version", ["2.2"], indirect=True)
def test_newer_manifest_names(tmp_path: Path, uri: str) -> None:
    old = str(tmp_path / "old")
    lance.write_dataset(rows(0, 3), old, enable_v2_manifest_paths=False)
    pennon.dataset(old).insert(rows(3, 3))
    pennon.dataset(old).migrate_manifest_paths_v2()
    lance.dataset(old).insert(rows(6, 3))
    assert assert_both_agree(old).num_rows == 9


def test_transactions_of_either(uri: str) -> None:
    """Whole transactions of `write_fragments`, with the properties of either."""
    transaction = lance.fragment.write_fragments(rows(100, 2), uri, return_transaction=True)
    again = pennon.Transaction(
        transaction.read_version,
        Ours.Append(ours(transaction.operation.fragments)),
        transaction.uuid,
        {"from": "the reference"},
    )
    pennon.LanceDataset.commit(uri, again)
    found = lance.dataset(uri).get_transactions(1)[0]
    assert (found.uuid, found.transaction_properties) == (transaction.uuid, {"from": "the reference"})
    transaction = pennon.fragment.write_fragments(rows(200, 2), uri, return_transaction=True)
    lance.LanceDataset.commit(
        uri,
        reference.Transaction(
            transaction.read_version, Theirs.Append(theirs(transaction.operation.fragments)), transaction.uuid
        ),
    )
    assert pennon.dataset(uri).get_transactions(1)[0].uuid == transaction.uuid
    assert assert_both_agree(uri).num_rows == 23


def outcome(call: Callable[[], Any]) -> type[Exception] | None:
    try:
        call()
    except Exception as error:
        return next(kind for kind in (TypeError, ValueError, OSError) if isinstance(error, kind))
    return None


@pytest.mark.parametrize("file_version", ["2.2"], indirect=True)
def test_wrong_calls(uri: str, tmp_path: Path) -> None:
    """The same exceptions for the same mistakes."""
    new = lance.fragment.write_fragments(rows(100, 2), uri)
    calls = [
        lambda lib, op, some: lib.LanceDataset.commit(uri, op.Append(some)),
        lambda lib, op, some: lib.LanceDataset.commit(uri, "append", read_version=2),
        lambda lib, op, some: op.Append(tuple(some)),
        lambda lib, op, some: op.Append("x"),
        lambda lib, op, some: op.Append([1]),
        lambda lib, op, some: op.Delete([1], [2], "x"),
        lambda lib, op, some: lib.LanceDataset.commit(uri, op.Restore("x")),
        lambda lib, op, some: lib.LanceDataset.commit(uri, op.Project("x"), read_version=2),
        lambda lib, op, some: lib.FragmentMetadata.from_json("[1"),
    ]
    for call in calls:
        expected = outcome(lambda call=call: call(lance, Theirs, new))
        assert expected is not None
        assert outcome(lambda call=call: call(pennon, Ours, ours(new))) is expected
    oserrors = [
        lambda lib, op, some: lib.LanceDataset.commit(uri, op.Append(some), read_version=99),
        lambda lib, op, some: lib.LanceDataset.commit(str(tmp_path / "no"), op.Append(some), read_version=1),
        lambda lib, op, some: lib.LanceDataset.commit(uri, op.Restore(77)),
        lambda lib, op, some: lib.LanceDataset.commit_batch(uri, []),
        lambda lib, op, some: lib.dataset(uri).update_field_metadata({"zz": {"a": "b"}}),
        lambda lib, op, some: lib.dataset(uri).read_transaction(99),
        lambda lib, op, some: lib.fragment.write_fragments({"b": [1]}, uri),
        lambda lib, op, some: lib.fragment.write_fragments(rows(0, 1), uri, mode="create"),
        lambda lib, op, some: lib.LanceFragment.create(uri, rows(0, 0)),
    ]
    for call in oserrors:
        for library, operations, fragments in ((lance, Theirs, new), (pennon, Ours, ours(new))):
            with pytest.raises(OSError, match=r"\w"):
                call(library, operations, fragments)
    assert newest(uri) == 2


def test_a_lock_that_is_not_given_back_ends_the_commit(tmp_path: Path) -> None:
    """After a race was lost: it cannot be acquired again."""
    uri, entered = str(tmp_path / "t"), []

    class Lock:
        def __init__(self, version: int) -> None:
            self.version = version

        def __enter__(self) -> None:
            entered.append(self.version)
            pennon.dataset(uri).delete("id = 0")

        def __exit__(self, *_: object) -> None:
            raise OSError("the lock is stuck")

    pennon.write_dataset(pa.table({"id": [0, 1]}), uri)
    table = pennon.dataset(uri, commit_lock=Lock)
    with pytest.raises(OSError, match="the lock is stuck"):
        table.insert(pa.table({"id": [2]}))
    assert entered == [2]
    assert pennon.dataset(uri).to_table()["id"].to_pylist() == [1]


def test_when_locks_are_held(tmp_path: Path) -> None:
    """With the version that is made; by everything that came of a dataset with a lock."""
    diaries: dict[str, list[tuple[str, int]]] = {}
    for side, module in (("pennon", pennon), ("lance", lance)):
        diary = diaries[side] = []

        class Lock:
            def __init__(self, version: int, diary: list[tuple[str, int]] = diary) -> None:
                self.version, self.diary = version, diary

            def __enter__(self) -> None:
                self.diary.append(("enter", self.version))

            def __exit__(self, *error: object) -> None:
                assert error == (None, None, None)
                self.diary.append(("exit", self.version))

        uri = str(tmp_path / side)
        options = {"commit_lock": Lock, "enable_stable_row_ids": True}
        table = module.write_dataset(pa.table({"id": range(10)}), uri, max_rows_per_file=5, **options)
        table.insert(pa.table({"id": [10]}))
        table = module.dataset(uri, commit_lock=Lock)
        table.delete("id = 1")
        table.delete("id = 100")
        table.update({"id": "100"}, where="id = 2")
        table.update_config({"a": "b"})
        table.add_columns({"more": "id"})
        table.drop_columns(["more"])
        table.merge_insert("id").when_not_matched_insert_all().execute(pa.table({"id": [77]}))
        table.optimize.compact_files()
        table.tags.create("tag", 1)
        module.dataset(uri, version=1, commit_lock=Lock).restore()
        table.checkout_version(1).restore()
        newest = module.dataset(uri).version
        new = module.LanceOperation.Append(module.fragment.write_fragments(pa.table({"id": [5]}), uri))
        module.LanceDataset.commit(uri, new, read_version=newest, commit_lock=Lock)
        module.LanceDataset.commit(module.dataset(uri, commit_lock=Lock), new, read_version=newest)
        module.LanceDataset.commit_batch(uri, [module.Transaction(newest, new)], commit_lock=Lock)
        module.dataset(uri, commit_lock=Lock).create_branch("branch").insert(pa.table({"id": [5]}))
    assert diaries["pennon"] == diaries["lance"]
