"""Versions, tags, restore, deletes and conflicts."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pennon
import pennon.commit
import pyarrow.compute as pc
import pytest
from pennon.fragment import write_fragments
from support.tables import ids, numbers


def test_delete(table: pennon.LanceDataset) -> None:
    assert table.delete("id < 2 OR id = 9") == {"num_deleted_rows": 3}
    assert (table.version, ids(table)) == (2, list(range(2, 9)))
    assert table.delete("id = 100") == {"num_deleted_rows": 0}
    assert table.version == 3
    assert table.delete("id >= 4 AND id <= 7") == {"num_deleted_rows": 4}
    assert [part.fragment_id for part in table.get_fragments()] == [0, 2]
    table.truncate_table()
    assert (table.count_rows(), table.schema.names) == (0, ["id", "text"])


def test_delete_by_expression(table: pennon.LanceDataset, uri: str) -> None:
    stale, staler = pennon.dataset(uri), pennon.dataset(uri)
    table.delete("id = 3")
    assert stale.delete((pc.field("id") < 5) | (pc.field("text") == "none")) == {"num_deleted_rows": 4}
    assert (stale.version, ids(stale)) == (3, [5, 6, 7, 8, 9])
    with pytest.raises(pennon.CommitConflictError):
        staler.delete(pc.field("id") == 3, conflict_retries=0)
    assert staler.delete(pc.field("id") > 100) == {"num_deleted_rows": 0}
    delete = staler.read_transaction(4)
    assert delete is not None
    assert isinstance(delete.operation, pennon.LanceOperation.Delete)
    assert delete.operation.predicate == "(`id` > 100)"
    for wrong, error in (
        (pc.field("none") > 1, ValueError),
        (pc.field("id"), ValueError),
        (5, TypeError),
    ):
        with pytest.raises(error):
            table.delete(wrong)


def test_ids_stay(table: pennon.LanceDataset) -> None:
    table.delete("id = 3")
    table.insert(numbers(2, 50))
    found = table.to_table(columns=["id", "_rowid", "_row_created_at_version"])
    assert found["_rowid"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert found["_row_created_at_version"].to_pylist() == [1] * 9 + [3] * 2


def test_versions(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 0")
    versions = table.versions()
    assert [entry["version"] for entry in versions] == [1, 2]
    stamp = versions[-1]["timestamp"]
    assert stamp.tzinfo is None
    assert abs(stamp - datetime.now()) < timedelta(minutes=5)
    assert versions[-1]["metadata"]["total_rows"] == "9"
    assert table.get_version() == versions[-1]
    for entry in versions:
        assert pennon.dataset(uri, asof=entry["timestamp"]).version == entry["version"]


def test_asof(table: pennon.LanceDataset, uri: str) -> None:
    time.sleep(0.01)
    between = datetime.now()
    time.sleep(0.01)
    table.delete("id = 0")
    assert pennon.dataset(uri, asof=between).version == 1
    assert pennon.dataset(uri, asof=between.isoformat()).version == 1
    assert pennon.dataset(uri, asof=between.astimezone(timezone.utc)).version == 1
    instant = between.astimezone(timezone.utc)
    for form in ("%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S.%f%z"):
        assert pennon.dataset(uri, asof=instant.strftime(form)).version == 1
    with pytest.raises(pennon.InvalidInputError, match="0001-01-01T00:00:00 is out of range"):
        pennon.dataset(uri, asof="0001-01-01")
    with pytest.raises(ValueError, match="earlier than the first version"):
        pennon.dataset(uri, asof=between - timedelta(days=1))
    with pytest.raises(ValueError, match=r"^\d{4}-\d\d-\d\d \d\d:00:00 is earlier than the first version"):
        pennon.dataset(uri, asof="2020-01-01T00:00:00+00:00")
    with pytest.raises(ValueError, match="yesterday"):
        pennon.dataset(uri, asof="yesterday")
    with pytest.raises(TypeError):
        pennon.dataset(uri, asof=17)  # type: ignore[arg-type]


def test_checkout(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 0")
    old = table.checkout_version(1)
    assert (old.version, old.count_rows(), old.latest_version) == (1, 10, 2)
    assert table.version == 2
    assert table.checkout_version((None, 1)).version == 1
    assert table.checkout_version(("main", None)).version == 2
    old.checkout_latest()
    assert old.version == 2
    for wrong in (99, "gold"):
        with pytest.raises(OSError, match=r"not found|gold"):
            table.checkout_version(wrong)
        with pytest.raises(ValueError, match=r"not found|gold"):
            pennon.dataset(uri, version=wrong)
    with pytest.raises(pennon.NotFoundError):
        table.checkout_version(("other", 1))
    with pytest.raises(TypeError):
        table.checkout_version(1.5)  # type: ignore[arg-type]


def test_missing_table(tmp_path) -> None:
    with pytest.raises(ValueError, match="was not found") as caught:
        pennon.dataset(tmp_path / "none")
    assert isinstance(caught.value, pennon.NotFoundError)


def test_restore(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id < 5")
    old = table.checkout_version(1)
    old.restore()
    assert (old.version, old.count_rows()) == (3, 10)
    assert pennon.dataset(uri).count_rows() == 10


def test_tags(table: pennon.LanceDataset, uri: str) -> None:
    table.tags.create("gold")
    table.delete("id = 0")
    table.tags.create("silver", 2)
    assert list(table.tags.list()) == ["gold", "silver"]
    assert [name for name, _ in table.tags.list_ordered()] == ["silver", "gold"]
    assert [name for name, _ in table.tags.list_ordered("asc")] == ["gold", "silver"]
    gold = table.tags.list()["gold"]
    assert set(gold) == {"branch", "version", "created_at", "updated_at", "manifest_size", "metadata"}
    assert gold["created_at"] is not None
    assert gold["created_at"].tzinfo is timezone.utc
    assert pennon.dataset(uri, version="gold").version == 1
    table.tags.update("gold", "silver")
    assert table.tags.get_version("gold") == 2
    table.tags.replace_metadata("gold", {"why": "test"})
    assert table.tags.list()["gold"]["metadata"] == {"why": "test"}
    table.tags.delete("gold")
    assert list(table.tags.list()) == ["silver"]


def test_wrong_tags(table: pennon.LanceDataset) -> None:
    table.tags.create("gold", 1)
    with pytest.raises(ValueError, match="already exists"):
        table.tags.create("gold", 1)
    with pytest.raises(ValueError, match="main:9"):
        table.tags.create("other", 9)
    with pytest.raises(OSError, match="Ref is invalid"):
        table.tags.create("a/b", 1)
    for call in (table.tags.delete, table.tags.get_version, table.tags.update):
        with pytest.raises(ValueError, match="Ref not found"):
            call("none")
    with pytest.raises(ValueError, match="sort order"):
        table.tags.list_ordered("up")


def test_transactions(table: pennon.LanceDataset) -> None:
    table.insert(numbers(1, 10))
    table.delete("id = 10")
    table.checkout_version(1).restore()
    table.checkout_latest()
    found = [type(entry.operation).__name__ for entry in table.get_transactions() if entry is not None]
    assert found == ["Restore", "Delete", "Append", "Overwrite"]
    delete = table.read_transaction(3)
    assert delete is not None
    assert isinstance(delete.operation, pennon.LanceOperation.Delete)
    assert delete.operation.predicate == "id = 10"
    assert len(table.get_transactions(2)) == 2


def test_rebase_of_deletes(table: pennon.LanceDataset, uri: str) -> None:
    other = pennon.dataset(uri)
    table.delete("id = 1")
    other.delete("id = 2")
    assert (other.version, ids(other)) == (3, [0, *range(3, 10)])


def test_commit_on_a_stale_handle_below_holes(table: pennon.LanceDataset, uri: str) -> None:
    """Versions were cleaned up above a tagged one and the hint is gone: the free number is not the next version."""
    table.tags.create("keep", 1)
    for start in range(10, 14):
        table.insert(numbers(1, start))
    versions = Path(uri) / "_versions"
    for version in (2, 3, 4):
        (versions / f"{2**64 - 1 - version:020}.manifest").unlink()
    (versions / "latest_version_hint.json").unlink()
    stale = pennon.dataset(uri, version="keep")
    with pytest.raises(pennon.CommitConflictError):
        stale.insert(numbers(1, 50))
    table.insert(numbers(1, 50))
    assert (table.version, pennon.dataset(uri).version) == (6, 6)


def test_truncate_a_stale_handle(table: pennon.LanceDataset, uri: str) -> None:
    stale = pennon.dataset(uri)
    table.delete("id = 1")
    table.insert(numbers(1, 50))
    stale.truncate_table()
    assert (stale.version, stale.count_rows()) == (4, 0)


def test_conflict(table: pennon.LanceDataset, uri: str) -> None:
    stale = pennon.dataset(uri)
    table.insert(numbers(1), mode="overwrite")
    with pytest.raises(pennon.CommitConflictError) as caught:
        stale.delete("id = 2", conflict_retries=0)
    assert isinstance(caught.value, OSError)
    assert pennon.commit.CommitConflictError is pennon.CommitConflictError
    assert caught.value.retryable is False
    assert stale.version == 1


def test_negative_retry_timeout(table: pennon.LanceDataset) -> None:
    with pytest.raises(ValueError, match="negative"):
        table.delete("id = 1", retry_timeout=timedelta(seconds=-1))


def test_validate(table: pennon.LanceDataset) -> None:
    table.validate()
    (fragment, *_) = table.get_fragments()
    fragment.validate()
    name = fragment.metadata.files[0].path
    (Path(table.uri) / "data" / name).unlink()
    for damaged in (table, fragment):
        with pytest.raises(pennon.CorruptError, match=f"{name}: the file is not there"):
            damaged.validate()


def many_fragments(uri: str, count: int = 1_500) -> Path:
    """A table whose fragments share a data file; where its manifest is."""
    (part,) = write_fragments(numbers(4), uri)
    parts = [copy.copy(part) for _ in range(count)]
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Overwrite(numbers(1).schema, parts))
    return Path(uri, "_versions", f"{2**64 - 2}.manifest")


def test_large_manifests_are_what_is_in_their_files(uri: str) -> None:
    """The process keeps some, and gives them to whoever opens the table again; but never what has changed."""
    path = many_fragments(uri)
    assert path.stat().st_size > 1 << 16
    first = pennon.dataset(uri)
    assert len(first.get_fragments()) == len(pennon.dataset(uri).get_fragments()) == 1_500
    content, before = path.read_bytes(), path.stat()
    path.write_bytes(content[:50_000] + b"\xff" * 200 + content[50_200:])
    with pytest.raises(pennon.CorruptError):
        pennon.dataset(uri)
    # The manifest of another table, with the size, the time and the inode of this one.
    while len(other := many_fragments(uri + "-other").read_bytes()) != len(content):
        pennon.LanceDataset.drop(uri + "-other")
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert pennon.dataset(uri).get_fragments()[0].metadata == first.get_fragments()[0].metadata
    path.write_bytes(other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert pennon.dataset(uri).get_fragments()[0].metadata != first.get_fragments()[0].metadata
    with pytest.raises(pennon.CommitConflictError, match="made again"):
        first.insert(numbers(1, 50))
    # Without a cache nothing is taken from there; with one, a version that was just made need not be read.
    assert pennon.dataset(uri, metadata_cache_size_bytes=0).version == 1
    pennon.dataset(uri).insert(numbers(1, 50))
    assert len(pennon.dataset(uri).get_fragments()) == 1_501


ABSENT = ("nobranch", 1)
NAMING: dict[str, Callable[[pennon.LanceDataset], object]] = {
    "dataset": lambda table: pennon.dataset(table.uri, version=ABSENT),
    "dataset newest": lambda table: pennon.dataset(table.uri, version=("nobranch", None)),
    "checkout_version": lambda table: table.checkout_version(ABSENT),
    "changes begin": lambda table: table.changes(ABSENT),
    "changes end": lambda table: table.changes(1, ABSENT),
    "restore_rows": lambda table: table.restore_rows([1], ABSENT),
    "create_branch": lambda table: table.create_branch("other", ABSENT),
    "shallow_clone": lambda table: table.shallow_clone(table.uri + "-clone", ABSENT),
    "tags.create": lambda table: table.tags.create("gold", ABSENT),
    "tags.update": lambda table: table.tags.update("first", ABSENT),
}


@pytest.mark.parametrize("name", NAMING)
def test_a_branch_that_does_not_exist(table: pennon.LanceDataset, name: str) -> None:
    table.tags.create("first", 1)
    with pytest.raises(pennon.NotFoundError, match="branch nobranch does not exist; the table has none"):
        NAMING[name](table)
    dev = table.create_branch("dev")
    for handle in (table, dev):
        with pytest.raises(pennon.NotFoundError, match=r"branch nobranch .*; the branches are \['dev'\]") as found:
            NAMING[name](handle)
        assert found.value.path == handle.uri


def test_a_version_that_a_branch_does_not_have(table: pennon.LanceDataset) -> None:
    table.create_branch("dev")
    for version in (("dev", 99), ("main", 99), (None, 99)):
        with pytest.raises(pennon.NotFoundError, match="There is no version 99"):
            table.checkout_version(version)
        with pytest.raises(pennon.NotFoundError, match="There is no version 99"):
            pennon.dataset(table.uri, version=version)
    with pytest.raises(pennon.NotFoundError, match="not found"):
        pennon.dataset(table.uri + "-none", version=("dev", 1))
