"""Transactions made and committed through `LanceOperation`."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon import LanceOperation as Operation
from pennon.dataset import LANCE_COMMIT_MESSAGE_KEY, DatasetBasePath, Index
from pennon.errors import PositionError
from pennon.file import LanceFileWriter
from pennon.fragment import RowIdSequence, write_fragments
from support.files import all_files
from support.tables import ids, numbers

commit = pennon.LanceDataset.commit


def test_append(table: pennon.LanceDataset, uri: str) -> None:
    new = write_fragments(numbers(6, 10), uri, max_rows_per_file=4)
    assert [(part.id, part.num_rows) for part in new] == [(0, 4), (0, 2)]
    assert table.latest_version == 1, "nothing was committed"
    other = commit(uri, Operation.Append(new), read_version=1, commit_message="six")
    assert (other.version, ids(other), table.version) == (2, list(range(16)), 1)
    assert other.to_table(columns=["_rowid"])["_rowid"].to_pylist() == list(range(16))
    found = other.read_transaction(2)
    assert found.transaction_properties == {LANCE_COMMIT_MESSAGE_KEY: "six"}
    assert found.operation == Operation.Append(new)
    # On top of whatever came in between.
    table.delete("id = 0")
    assert table.version == 3
    late = commit(table, Operation.Append(write_fragments(numbers(1, 50), uri)), read_version=1)
    assert ids(late) == [*range(1, 16), 50]


def test_delete(table: pennon.LanceDataset, uri: str) -> None:
    kept = table.get_fragment(0).delete("id IN (1, 2)")
    assert (kept.num_deletions, kept.num_rows, kept.physical_rows) == (2, 2, 4)
    assert table.get_fragment(2).delete("id > 7") is None
    assert table.get_fragment(1).delete("id = 77") == table.get_fragment(1).metadata
    assert table.get_fragment(1).delete_rows([0, 3]).num_rows == 2
    other = commit(uri, Operation.Delete([kept], [2], "two and the rest"), read_version=1)
    assert ids(other) == [0, 3, 4, 5, 6, 7]
    assert other.read_transaction(2).operation == Operation.Delete([kept], [2], "two and the rest")
    # Deletions add up.
    assert other.get_fragment(0).delete("id = 0").num_deletions == 3
    assert other.get_fragment(0).delete("id < 5") is None
    for wrong in ("nope > 1", "id +"):
        with pytest.raises(pennon.PennonError):
            table.get_fragment(0).delete(wrong)
    with pytest.raises(pennon.InvalidInputError, match="out of range: fragment 0 has 4 rows"):
        table.get_fragment(0).delete_rows([4])


def test_overwrite_and_restore(table: pennon.LanceDataset, uri: str) -> None:
    data = pa.table({"b": pa.array([1.5, 2.5])})
    new = write_fragments(data, uri, mode="overwrite")
    # A schema of Arrow's gets the ids that the files have; none is read, so it goes on top of the newest.
    table.delete("id = 0")
    other = commit(uri, Operation.Overwrite(data.schema, new))
    assert (other.version, other.to_table()) == (3, data)
    assert other.to_table(columns=["_rowid"])["_rowid"].to_pylist() == [10, 11]
    operation = other.read_transaction(3).operation
    assert operation.new_schema == pennon.LanceSchema.from_pyarrow(data.schema)
    assert commit(uri, Operation.Restore(1)).count_rows() == 10
    # Both replaced the table: the one that read the older version has to look again.
    with pytest.raises(pennon.CommitConflictError) as refused:
        commit(uri, Operation.Overwrite(data.schema, new), read_version=2)
    assert refused.value.retryable
    with pytest.raises(pennon.NotFoundError, match="77"):
        commit(uri, Operation.Restore(77))
    assert table.latest_version == 4


def test_strict_overwrite(table: pennon.LanceDataset, uri: str) -> None:
    new = write_fragments(numbers(1), uri, mode="overwrite")
    table.insert(numbers(1, 99))
    with pytest.raises(pennon.CommitConflictError, match="after 0 retries"):
        commit(uri, Operation.Overwrite(table.lance_schema, new), read_version=1, max_retries=0)
    assert commit(uri, Operation.Overwrite(table.lance_schema, new), read_version=1).version == 3
    again = commit(uri, Operation.Overwrite(table.lance_schema, new), read_version=3, max_retries=0)
    assert again.version == 4


@pytest.mark.parametrize("stable", [True, False])
def test_creation(uri: str, stable: bool) -> None:
    data = numbers(3)
    transaction = write_fragments(data, uri, return_transaction=True, enable_stable_row_ids=stable)
    assert isinstance(transaction.operation, Operation.Overwrite)
    assert transaction.read_version == 0
    sent = pickle.loads(pickle.dumps(transaction))
    table = commit(uri, sent)
    assert (table.version, table.has_stable_row_ids, table.to_table()) == (1, stable, data)
    # The choice of the commit goes before that of the write.
    other = uri + "2"
    fragments = write_fragments(data, other, enable_stable_row_ids=stable)
    made = commit(other, Operation.Overwrite(data.schema, fragments), enable_stable_row_ids=not stable)
    assert made.has_stable_row_ids is not stable
    assert os.listdir(other + "/_versions") == os.listdir(uri + "/_versions")


def test_the_same_transaction_twice(table: pennon.LanceDataset, uri: str) -> None:
    transaction = write_fragments(numbers(2, 10), table, return_transaction=True)
    first = commit(uri, transaction)
    table.insert(numbers(1, 99))
    again = commit(uri, transaction)
    assert (first.version, again.version, again.count_rows()) == (2, 2, 12)
    with pytest.raises(ValueError, match="commit_message"):
        commit(uri, transaction, commit_message="no")


def test_batch(table: pennon.LanceDataset, uri: str) -> None:
    first = write_fragments(numbers(2, 10), table, return_transaction=True)
    table.delete("id = 0")
    second = write_fragments(numbers(2, 20), table, return_transaction=True)
    second.transaction_properties["a"] = "b"
    result = pennon.LanceDataset.commit_batch(uri, [second, first])
    assert ids(result["dataset"]) == [*range(1, 10), 20, 21, 10, 11]
    merged = result["merged"]
    assert (merged.read_version, merged.transaction_properties) == (1, {})
    assert result["dataset"].get_transactions(1) == [merged]
    overwrite = write_fragments(numbers(1), table, mode="overwrite", return_transaction=True)
    for wrong, error in (([], ValueError), ([first, overwrite], NotImplementedError), ([first, 7], TypeError)):
        with pytest.raises(error):
            pennon.LanceDataset.commit_batch(uri, wrong)
    assert table.latest_version == 3


def test_detached(table: pennon.LanceDataset, uri: str) -> None:
    new = write_fragments(numbers(1, 50), uri)
    table.insert(numbers(1, 40))
    apart = commit(uri, Operation.Append(new), read_version=1, detached=True)
    assert apart.version >> 63 == 1
    assert (ids(apart), apart.latest_version) == ([*range(10), 50], 2)
    assert ids(pennon.dataset(uri)) == [*range(10), 40]
    assert ids(pennon.dataset(uri, version=apart.version)) == [*range(10), 50]
    assert [entry["version"] for entry in table.versions()] == [1, 2]
    assert apart.get_transactions() == [apart.read_transaction(apart.version)]
    further = commit(
        apart, Operation.Delete([], [2], "the last fragment"), read_version=apart.version, detached=True
    )
    assert (ids(further), ids(apart)) == ([*range(8), 50], [*range(10), 50])
    with pytest.raises(pennon.InvalidInputError, match="detached"):
        commit(apart, Operation.Append(new), read_version=apart.version)
    with pytest.raises(pennon.InvalidInputError, match="detached"):
        apart.insert(numbers(1))
    with pytest.raises(NotImplementedError):
        commit(uri + "2", Operation.Overwrite(table.lance_schema, []), detached=True)
    old = pennon.write_dataset(numbers(1), uri + "3", enable_v2_manifest_paths=False)
    with pytest.raises(NotImplementedError, match="migrate_manifest_paths_v2"):
        commit(old, Operation.Append([]), read_version=1, detached=True)


class Locked:
    """A lock that keeps a diary, and fails where it has to."""

    diary: list[tuple[str, int]] = []
    fail_on: str | None = None

    def __init__(self, version: int) -> None:
        self.version = version

    def note(self, what: str) -> None:
        self.diary.append((what, self.version))
        if what == self.fail_on:
            raise RuntimeError(f"{what} of {self.version}")

    def __enter__(self) -> None:
        self.note("enter")

    def __exit__(self, *error: object) -> None:
        assert error == (None, None, None)
        self.note("exit")


def locks(fail_on: str | None = None) -> type[Locked]:
    return type("Lock", (Locked,), {"diary": [], "fail_on": fail_on})


def both(version: int) -> list[tuple[str, int]]:
    return [("enter", version), ("exit", version)]


def test_lock(uri: str) -> None:
    """Every way to commit takes it, those of what came of a dataset with a lock too."""
    lock = locks()

    def took(*versions: int) -> None:
        assert lock.diary == [step for version in versions for step in both(version)]
        lock.diary.clear()

    table = pennon.write_dataset(numbers(8), uri, max_rows_per_file=4, commit_lock=lock)
    took(1)
    table.insert(numbers(1, 8))
    took(2)
    table = pennon.dataset(uri)
    table.insert(numbers(1, 9), commit_lock=lock)
    table.update_config({"a": "b"})
    took(3)
    new = Operation.Append(write_fragments(numbers(1, 10), uri))
    commit(uri, new, read_version=1, commit_lock=lock)
    commit(pennon.dataset(uri, commit_lock=lock), new, read_version=1)
    pennon.LanceDataset.commit_batch(uri, [pennon.Transaction(1, new)], commit_lock=lock)
    took(5, 6, 7)
    table = pennon.dataset(uri, commit_lock=lock)
    table.delete("id = 1")
    table.update({"id": "id + 100"}, where="id = 2")
    table.add_columns({"more": "id"})
    table.merge_insert("id").when_not_matched_insert_all().execute(table.to_table().slice(0, 1))
    table.optimize.compact_files()
    assert [step for step, _ in lock.diary] == ["enter", "exit"] * (len(lock.diary) // 2)
    assert {version for _, version in lock.diary} == set(range(8, table.version + 1))
    lock.diary.clear()
    branch = table.create_branch("b")
    branch.insert(numbers(1, 50))
    took(table.version, table.version + 1)
    assert pickle.loads(pickle.dumps(table)).delete("id = 3")["num_deleted_rows"] == 1
    took()
    pennon.dataset(uri).delete("id = 4")
    took()


def test_lock_is_taken_anew_after_a_lost_race(table: pennon.LanceDataset, uri: str) -> None:
    seen: list[int] = []

    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        seen.append(version)
        if len(seen) == 1:
            pennon.dataset(uri).insert(numbers(1, 20))  # by somebody who does not ask
        yield
        assert pennon.dataset(uri).version == version

    table.insert(numbers(1, 30), commit_lock=lock)
    assert (seen, table.version, ids(table)) == ([2, 3], 3, [*range(10), 20, 30])


def test_lock_that_is_not_given(table: pennon.LanceDataset, uri: str) -> None:
    before = all_files(uri)
    lock = locks("enter")
    for attempt in (
        lambda: table.insert(numbers(1), commit_lock=lock),
        lambda: pennon.write_dataset(numbers(1), uri, mode="append", commit_lock=lock),
        lambda: pennon.dataset(uri, commit_lock=lock).delete("id = 1"),
        lambda: pennon.dataset(uri, commit_lock=lock).update({"id": "7"}, where="id = 1"),
        lambda: commit(uri, Operation.Append([]), read_version=1, commit_lock=lock),
    ):
        with pytest.raises(RuntimeError, match="enter of 2"):
            attempt()
        assert lock.diary == [("enter", 2)]
        lock.diary.clear()
    assert (all_files(uri), table.latest_version) == (before, 1)
    with pytest.raises(RuntimeError, match="enter of 1"):
        pennon.write_dataset(numbers(1), uri + "2", commit_lock=lock)
    assert all_files(uri + "2") == set()

    def busy(version: int) -> Any:
        raise pennon.CommitConflictError(f"version {version} is locked")

    with pytest.raises(pennon.CommitConflictError, match="version 2 is locked"):
        table.insert(numbers(1), commit_lock=busy)

    def interrupted(version: int) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.insert(numbers(1), commit_lock=interrupted)
    with pytest.raises(AttributeError, match="__enter__"):
        table.insert(numbers(1), commit_lock=str)
    for function in (
        lambda: table.insert(numbers(1), commit_lock=3),
        lambda: pennon.dataset(uri, commit_lock=3),
        lambda: commit(uri, Operation.Append([]), read_version=1, commit_lock=3),
    ):
        with pytest.raises(TypeError, match="commit_lock must be a function, got <class 'int'>"):
            function()
    assert (all_files(uri), table.latest_version) == (before, 1)


def test_lock_that_is_not_taken_back(table: pennon.LanceDataset, uri: str) -> None:
    """The version is there all the same, with its files."""
    with pytest.raises(RuntimeError, match="exit of 2"):
        table.insert(numbers(1, 20), commit_lock=locks("exit"))
    assert (table.version, table.latest_version) == (1, 2)
    assert ids(pennon.dataset(uri)) == [*range(10), 20]
    assert pennon.verify(uri).ok


def taken_id(fragment: pennon.FragmentMetadata, id: int) -> pennon.FragmentMetadata:
    return pennon.FragmentMetadata(id, fragment.files, fragment.physical_rows)


def repeated(table: pennon.LanceDataset) -> list[pennon.FragmentMetadata]:
    """The fragments, the first one two times."""
    all_ = [fragment.metadata for fragment in table.get_fragments()]
    return [*all_, all_[0]]


def changed_file(fragment: pennon.FragmentMetadata, **changes: Any) -> pennon.FragmentMetadata:
    file = pennon.DataFile(**{**vars(fragment.files[0]), **changes})
    return pennon.FragmentMetadata(fragment.id, [file], fragment.physical_rows)


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (lambda table, new: Operation.Append([taken_id(new, 1)]), ValueError),
        (lambda table, new: Operation.Append([taken_id(new, 40), taken_id(new, 40)]), ValueError),
        (lambda table, new: Operation.Append([changed_file(new, path="../../etc/passwd")]), ValueError),
        (lambda table, new: Operation.Append([changed_file(new, path="/etc/passwd")]), ValueError),
        (lambda table, new: Operation.Append([changed_file(new, column_indices=[0])]), ValueError),
        (lambda table, new: Operation.Append([changed_file(new, base_id=9)]), ValueError),
        (lambda table, new: Operation.Append([pennon.FragmentMetadata(0, new.files, 0)]), ValueError),
        (lambda table, new: Operation.Merge(repeated(table), table.lance_schema), ValueError),
        (lambda table, new: Operation.Append([changed_file(new, file_major_version=9)]), ValueError),
        (lambda table, new: Operation.Append([changed_file(new, path=7)]), TypeError),
        (lambda table, new: Operation.Append([taken_id(new, -1)]), TypeError),
        (lambda table, new: Operation.Delete([], [77], "x"), pennon.CommitConflictError),
        (lambda table, new: Operation.Delete([taken_id(new, 55)], [], "x"), pennon.CommitConflictError),
        (lambda table, new: Operation.Delete([], ["a"], "x"), TypeError),
        (lambda table, new: Operation.Delete([], [1], 3), TypeError),
        (lambda table, new: Operation.Overwrite("schema", []), TypeError),
        (lambda table, new: Operation.Restore("one"), TypeError),
        (lambda table, new: Operation.Unknown(999), NotImplementedError),
        (lambda table, new: Operation.BaseOperation(), TypeError),
        (lambda table, new: Operation.DataOverlay([]), NotImplementedError),
        (lambda table, new: Operation.UpdateMemWalState([]), NotImplementedError),
        (lambda table, new: "append", TypeError),
        (lambda table, new: Operation.CreateIndex([Index("x", "a", [0], 1, {0}, 0)], []), ValueError),
        (lambda table, new: Operation.Update(update_mode="rewrite_cells"), ValueError),
    ],
)
def test_what_cannot_be_committed(
    table: pennon.LanceDataset, uri: str, operation: Callable[..., Any], error: type[Exception]
) -> None:
    new = write_fragments(numbers(1), table)[0]
    with pytest.raises(error):
        commit(uri, operation(table, new), read_version=1)
    assert table.latest_version == 1
    assert ids(pennon.dataset(uri)) == list(range(10))


def test_wrong_calls(table: pennon.LanceDataset, uri: str) -> None:
    new = write_fragments(numbers(1), table)
    for wrong in ("x", [1], tuple(new), iter(new), [*new, None]):
        with pytest.raises(TypeError, match="fragments must be list"):
            Operation.Append(wrong)
        with pytest.raises(TypeError, match="fragments must be list"):
            Operation.RewriteGroup(wrong, [])
    with pytest.raises(ValueError, match="read_version is required"):
        commit(uri, Operation.Append(new))
    with pytest.raises(pennon.NotFoundError):
        commit(uri, Operation.Append(new), read_version=99)
    with pytest.raises(pennon.NotFoundError):
        commit(uri + "2", Operation.Append(new), read_version=1)
    with pytest.raises(NotImplementedError):
        commit(uri, Operation.Append(new), read_version=1, namespace_client=object())
    with pytest.raises(TypeError, match=r"operation\.fragments\..*\bpath: .*str"):
        commit(uri, Operation.Append([changed_file(new[0], path=7)]), read_version=1)
    for wrong in (-1, "x", 2**64):
        with pytest.raises(pennon.InvalidTypeError, match=r"^operation\.version: "):
            commit(uri, Operation.Restore(wrong))
        with pytest.raises(pennon.InvalidInputError, match=r"^version must be"):
            table.read_transaction(wrong)
        with pytest.raises(pennon.InvalidInputError, match=r"^recent_transactions must be"):
            table.get_transactions(wrong)
    schema = pennon.LanceSchema(table.lance_schema._fields * 2)
    with pytest.raises(ValueError, match="schema"):
        commit(uri, Operation.Overwrite(schema, new))
    assert table.latest_version == 1


def test_writing_fragments(table: pennon.LanceDataset, uri: str) -> None:
    with pytest.raises(pennon.AlreadyExistsError):
        write_fragments(numbers(1), uri, mode="create")
    with pytest.raises(pennon.SchemaMismatchError):
        write_fragments({"b": [1]}, table)
    with pytest.raises(ValueError, match="Invalid mode"):
        write_fragments(numbers(1), uri, mode="bogus")
    with pytest.raises(ValueError, match="empty"):
        pennon.LanceFragment.create(uri, numbers(0))
    assert write_fragments(numbers(0), uri) == []
    one = pennon.LanceFragment.create(uri, numbers(9), fragment_id=7)
    assert (one.id, one.physical_rows, len(one.files)) == (7, 9, 1)
    assert [part.fragment_id for part in commit(uri, Operation.Append([one]), 1).get_fragments()] == [0, 1, 2, 7]


def test_metadata_in_json(table: pennon.LanceDataset) -> None:
    table.delete("id = 1")
    for part in (fragment.metadata for fragment in table.get_fragments()):
        assert pennon.FragmentMetadata.from_json(json.dumps(part.to_json())) == part
        assert pickle.loads(pickle.dumps(part)) == part
    first = table.get_fragment(0)
    parts = first.metadata.to_json()
    assert parts["deletion_file"]["num_deleted_rows"] == 1
    assert first.deletion_file() == first.metadata.deletion_file.path(0)
    assert os.path.exists(f"{table.uri}/{first.deletion_file()}")
    assert list(parts["row_id_meta"]) == ["Inline"]
    for wrong, error in (
        ("{}", KeyError),
        ("[1", ValueError),
        (json.dumps({**parts, "row_id_meta": {"Inline": "a"}}), ValueError),
        (json.dumps({**parts, "row_id_meta": {"inline": [1]}}), ValueError),
        (json.dumps({**parts, "row_id_meta": {"Inline": [300]}}), ValueError),
        (json.dumps({**parts, "created_at_version_meta": 7}), ValueError),
        (json.dumps({**parts, "deletion_file": {"id": 1}}), ValueError),
        (json.dumps({**parts, "deletion_file": {**parts["deletion_file"], "file_type": "zz"}}), ValueError),
    ):
        with pytest.raises(error):
            pennon.FragmentMetadata.from_json(wrong)


def test_a_file_that_is_in_two_fragments_already(table: pennon.LanceDataset, uri: str) -> None:
    """As an append of metadata that is there already leaves it: later changes do not refuse what they find."""
    first = table.get_fragment(0).metadata
    again = pennon.FragmentMetadata(0, list(first.files), first.physical_rows)
    table = commit(uri, Operation.Append([again]), read_version=1)
    made = [fragment.merge_columns({"b": "id + 1"}) for fragment in table.get_fragments()]
    table = commit(uri, Operation.Merge([one for one, _ in made], made[0][1]), read_version=2)
    found = table.to_table(columns=["id", "b"]).to_pylist()
    assert [row["b"] for row in found] == [row["id"] + 1 for row in found]
    assert len(found) == 10 + first.physical_rows


def test_schema_both_ways() -> None:
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("tags", pa.list_(pa.utf8()))])
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"k": "v"}), pa.field("s", inner)], {"m": "n"})
    found = pennon.LanceSchema.from_pyarrow(schema)
    assert found.to_pyarrow().equals(schema, check_metadata=True)
    assert [field.id for field in found.fields()] == [0, 1]
    assert found.field("s.tags").id == 3
    assert found.field("s").to_arrow() == schema.field("s")
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(TypeError):
        pennon.LanceSchema.from_pyarrow("x")


def test_base_paths_are_carried(uri: str) -> None:
    data = numbers(1)
    bases = [DatasetBasePath("/elsewhere", "other", id=3), DatasetBasePath("/root", is_dataset_root=True, id=4)]
    overwrite = Operation.Overwrite(data.schema, write_fragments(data, uri), initial_bases=bases)
    assert commit(uri, overwrite).read_transaction(1).operation.initial_bases == bases


def test_a_file_that_was_written_elsewhere(table: pennon.LanceDataset, uri: str) -> None:
    name = "elsewhere.lance"
    columns = numbers(5, 100).select(["text", "id"])
    with LanceFileWriter(Path(uri) / "data" / name) as writer:
        writer.write_batch(columns)
    file = pennon.DataFile.create(table, name)
    ids = [field.id for field in table.lance_schema.fields()]
    assert (file.path, file.fields, file.column_indices, file.base_id) == (name, ids[::-1], [0, 1], None)
    fragment = pennon.LanceFragment.create_from_file(name, table, 0)
    assert (fragment.files, fragment.physical_rows) == ([file], 5)
    append = pennon.LanceOperation.Append([fragment])
    found = pennon.LanceDataset.commit(uri, append, read_version=table.version).to_table(filter="id >= 100")
    assert found == numbers(5, 100)
    for wrong, error in (
        ("nowhere.lance", pennon.NotFoundError),
        (f"../data/{name}", pennon.InvalidInputError),
        ("", pennon.InvalidInputError),
    ):
        with pytest.raises(error):
            pennon.DataFile.create(table, wrong)
    with pytest.raises(pennon.InvalidInputError, match="base path 3"):
        pennon.DataFile.create(table, name, base_id=3)
    other = pennon.write_dataset(numbers(1).rename_columns(["id", "words"]), uri, mode="overwrite")
    with pytest.raises(pennon.InvalidInputError, match="no field `text`"):
        pennon.LanceFragment.create_from_file(name, other, 0)


def test_row_id_sequences(table: pennon.LanceDataset) -> None:
    meta = table.get_fragments()[1].metadata.row_id_meta
    sequence = RowIdSequence.from_inline_metadata(meta)
    assert (sequence.to_pyarrow().to_pylist(), len(sequence)) == ([4, 5, 6, 7], 4)
    assert sequence == RowIdSequence(range(4, 8)) == RowIdSequence(pa.array([4, 5, 6, 7]))
    assert sequence != RowIdSequence([4, 5, 7, 6])
    assert sequence.to_inline_metadata() == meta
    for wrong, error in (([1, 1], ValueError), ([-1], OverflowError), (["a"], TypeError)):
        with pytest.raises(error):
            RowIdSequence(wrong)
    with pytest.raises(ValueError, match="null"):
        RowIdSequence(pa.array([1, None]))
    with pytest.raises(NotImplementedError):
        RowIdSequence.from_inline_metadata(pennon.fragment.RowIdMeta(None))
    with pytest.raises(pennon.CorruptError):
        RowIdSequence.from_inline_metadata(pennon.fragment.RowIdMeta(b"\xff"))


def test_settings_of_a_dataset_hold_for_its_changes(uri: str) -> None:
    lost: list[int] = []

    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        """Somebody else is quicker each time."""
        lost.append(version)
        pennon.write_dataset(numbers(1), uri, mode="append")
        yield

    pennon.write_dataset(numbers(2), uri)
    settings = {"max_retries": 2, "commit_timeout": timedelta(minutes=1), "durability": "os"}
    table = pennon.dataset(uri, commit_lock=lock, **settings)
    before = all_files(uri)
    with pytest.raises(pennon.CommitConflictError, match="Attempted 2 retries") as raised:
        table.insert(numbers(3))
    assert raised.value.retryable
    assert lost == [2, 3]
    # What was staged for the change is gone; what the others wrote is there.
    assert len([path for path in all_files(uri) - before if path.endswith(".lance")]) == 2
    for kept in (pickle.loads(pickle.dumps(table)), table.checkout_version(1)):
        assert kept._native.commit_settings == ("os", 2, timedelta(minutes=1))


def test_status_of_a_transaction(table: pennon.LanceDataset) -> None:
    table.insert(numbers(1, 50))
    uuid = table.read_transaction(2).uuid
    assert table.commit_status(uuid) == (True, 2)
    assert table.commit_status("5a2b7d3e-0000-4000-8000-000000000000") == (False, None)
    table.cleanup_old_versions(timedelta(0), retain_versions=1)
    assert table.commit_status("5a2b7d3e-0000-4000-8000-000000000000") == (None, None)
    error = pennon.CommitUnknownError("the answer was lost", uuid)
    assert (error.uuid, isinstance(error, OSError)) == (uuid, True)


@pytest.mark.parametrize("wrong", [-1, 2**64, "x", 1.5])
def test_numbers_that_are_none(table: pennon.LanceDataset, wrong: Any) -> None:
    """The error names the part, and no struct of the core."""
    error = pennon.InvalidTypeError if isinstance(wrong, str | float) else PositionError
    transaction = pennon.Transaction(wrong, Operation.Append([]))
    with pytest.raises(error, match=r"^read_version must be "):
        commit(table, Operation.Append([]), read_version=wrong)
    with pytest.raises(error, match=r"^read_version must be "):
        commit(table, transaction)
    with pytest.raises(error, match=r"^read_version must be "):
        pennon.LanceDataset.commit_batch(table, [transaction])
    with pytest.raises(pennon.InvalidTypeError, match=r"^max_retries: [^:]*$"):
        commit(table, Operation.Append([]), read_version=1, max_retries=wrong)
    assert table.latest_version == 1
