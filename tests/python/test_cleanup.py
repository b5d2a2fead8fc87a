"""Cleanup of old versions: what goes, what stays, and why."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.files import all_files
from support.tables import numbers

NOW = timedelta(0)
UUID = "d53689f7-1b93-47ff-af8b-a0c13f8bdce1"
GENERATED = "10001101100111100011110100000000000000000000000000.lance"


@pytest.fixture
def history(uri: str) -> pennon.LanceDataset:
    """Five versions: two writes, a delete, an overwrite, an append."""
    table = pennon.write_dataset(numbers(6), uri)
    table.insert(numbers(6, 6))
    table.delete("id < 3")
    table.insert(numbers(4, 50), mode="overwrite")
    table.insert(numbers(2, 60))
    return table


def reasons(table: pennon.LanceDataset, **options: object) -> dict[str, str]:
    explained = table.explain_cleanup_old_versions(NOW, **options)  # type: ignore[arg-type]
    return {row["path"]: row["reason"] for row in explained.files.to_pylist()}


def test_everything_old_goes(history: pennon.LanceDataset, uri: str) -> None:
    before, expected = all_files(uri), history.to_table()
    explained = history.explain_cleanup_old_versions(NOW, include_files=True)
    assert all_files(uri) == before
    stats = history.cleanup_old_versions(NOW)
    assert stats == explained.stats
    assert (stats.old_versions, stats.data_files_removed, stats.deletion_files_removed) == (4, 2, 1)
    assert before - all_files(uri) == {file.path for file in explained.candidate_files}
    assert stats.bytes_removed == sum(file.size_bytes for file in explained.candidate_files)
    assert [version["version"] for version in history.versions()] == [5]
    assert pennon.dataset(uri).to_table() == expected
    with pytest.raises(pennon.NotFoundError):
        history.checkout_version(4)
    history.insert(numbers(1, 99))
    assert history.version == 6
    pennon.dataset(uri).validate()


@pytest.mark.parametrize("read", ["to_table", "count", "take", "changes", "delete"])
def test_a_version_that_is_removed_while_it_is_read(history: pennon.LanceDataset, uri: str, read: str) -> None:
    """The table is not damaged: the error says what would have kept the version."""
    old = history.checkout_version(3)
    del history
    fresh = pennon.dataset(uri, version=3, session=pennon.Session())
    pennon.dataset(uri).cleanup_old_versions(NOW)
    reads = {
        "to_table": lambda: fresh.to_table(),
        "count": lambda: fresh.count_rows("id > 1"),
        "take": lambda: fresh.take([0]),
        "changes": lambda: fresh.changes(0, 3).read_all(),
        "delete": lambda: fresh.delete("id = 4", conflict_retries=0),
    }
    with pytest.raises(pennon.NotFoundError, match=r"Version 3 was cleaned up .* longer older_than"):
        reads[read]()
    with pytest.raises(pennon.NotFoundError, match=r"Version 3 was cleaned up .* not found in"):
        old.checkout_version(3)


def test_blobs_of_a_version_that_is_removed() -> None:
    """In a file of several blobs, and in one of their own; a local file stays readable while it is open."""
    uri = "memory://cleanup-blobs"
    rows = [b"a" * 100_000, b"b" * 5_000_000, b"c"]
    old = pennon.write_dataset({"i": range(3), "b": pennon.blob_array(rows)}, uri)
    blobs = [old.take_blobs("b", indices=[row])[0] for row in (0, 1)]
    newest = pennon.dataset(uri)
    newest.delete("i = 2")
    newest.optimize.compact_files()
    newest.cleanup_old_versions(NOW)
    for blob in blobs:
        with pytest.raises(pennon.NotFoundError, match=r"Version 1 was cleaned up .* longer older_than"):
            blob.read()


def test_a_file_that_is_missing_is_damage(history: pennon.LanceDataset, uri: str) -> None:
    for path in Path(uri, "data").iterdir():
        path.unlink()
    with pytest.raises(pennon.CorruptError, match="the manifest refers to it"):
        pennon.dataset(uri, session=pennon.Session()).to_table()


def test_without_conditions_young_versions_stay(history: pennon.LanceDataset) -> None:
    assert history.cleanup_old_versions().old_versions == 0
    assert len(history.versions()) == 5


@pytest.mark.parametrize(
    ("conditions", "gone"),
    [
        ({"older_than": NOW}, [1, 2, 3, 4]),
        ({"retain_versions": 2}, [1, 2, 3]),
        ({"retain_versions": 9}, []),
        ({"older_than": timedelta(days=1), "retain_versions": 1}, []),
        ({"versions": [2, 5, 77]}, [2]),
        ({"older_than": NOW, "versions": [2, 3]}, [2, 3]),
        ({"retain_versions": 3, "versions": [1, 4]}, [1]),
    ],
)
def test_a_version_must_meet_every_condition(
    history: pennon.LanceDataset, conditions: dict[str, object], gone: list[int]
) -> None:
    stats = history.cleanup_old_versions(**conditions)  # type: ignore[arg-type]
    assert stats.old_versions == len(gone)
    assert {v["version"] for v in history.versions()} == {1, 2, 3, 4, 5} - set(gone)
    history.validate()


def test_a_handle_on_an_older_version_only_removes_what_is_before(history: pennon.LanceDataset) -> None:
    assert history.checkout_version(3).cleanup_old_versions(NOW).old_versions == 2
    assert [v["version"] for v in history.versions()] == [3, 4, 5]
    assert history.checkout_version(3).count_rows() == 9


def test_tagged_versions_stay(history: pennon.LanceDataset) -> None:
    history.tags.create("gold", 2)
    with pytest.raises(pennon.InvalidInputError, match=r"1 tagged version.*gold"):
        history.cleanup_old_versions(NOW)
    assert len(history.versions()) == 5
    assert history.cleanup_old_versions(retain_versions=4).old_versions == 1
    assert history.cleanup_old_versions(NOW, error_if_tagged_old_versions=False).old_versions == 2
    assert [v["version"] for v in history.versions()] == [2, 5]
    assert history.checkout_version("gold").count_rows() == 12


@pytest.mark.parametrize("name", ["delete_rate_limit", "delete_concurrency", "retain_versions"])
def test_limits_of_zero(history: pennon.LanceDataset, name: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=name):
        history.cleanup_old_versions(**{name: 0})  # type: ignore[arg-type]
    assert len(history.versions()) == 5


def test_deletions_in_a_second(history: pennon.LanceDataset) -> None:
    started = time.monotonic()
    stats = history.cleanup_old_versions(NOW, delete_rate_limit=20, delete_concurrency=2)
    # 4 manifests, 4 transactions, 2 data files, 1 deletion file: the first is at once.
    assert stats.old_versions == 4
    assert time.monotonic() - started >= 10 / 20


def leave_behind(uri: str, age: timedelta) -> list[str]:
    """Files as an interrupted writer leaves them."""
    left = [
        f"data/{GENERATED}",
        "_deletions/0-1-33.arrow",
        f"_transactions/1-{UUID}.txn",
        f"_indices/{UUID}/page_data.lance",
        "_versions/.tmp_18446744073709551609.manifest_0f",
        f"_versions/18446744073709551614.manifest-{UUID}",
    ]
    for name in left:
        write(Path(uri) / name, age)
    return left


def write(path: Path, age: timedelta) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left over")
    then = time.time() - age.total_seconds()
    os.utime(path, (then, then))


def test_what_no_version_mentions_goes_after_a_week(history: pennon.LanceDataset, uri: str) -> None:
    left = set(leave_behind(uri, timedelta(days=6, hours=23)))
    assert {path for path, reason in reasons(history).items() if reason == "unverified"} == left
    history.cleanup_old_versions(NOW)
    assert left <= all_files(uri)
    leave_behind(uri, timedelta(days=7, seconds=5))
    assert {path for path, reason in reasons(history).items() if reason == "orphan"} == left
    history.cleanup_old_versions(NOW)
    assert not left & all_files(uri)


def test_what_no_version_mentions_goes_at_once_if_asked(history: pennon.LanceDataset, uri: str) -> None:
    left = set(leave_behind(uri, NOW))
    history.cleanup_old_versions(timedelta(days=1), delete_unverified=True)
    assert not left & all_files(uri)
    assert len(history.versions()) == 5
    for version in range(1, 6):
        history.checkout_version(version).validate()


def test_names_of_others_are_not_touched(history: pennon.LanceDataset, uri: str) -> None:
    strange = [
        "notes.txt",
        GENERATED,
        "data/notes.txt",
        "data/mine.lance",
        f"data/part/{GENERATED}",
        f"elsewhere/{GENERATED}",
        "_versions/notes.json",
        f"_versions/{2**64 - 1 - 9}.manifest-{UUID}",
        "_transactions/notes.txn",
        f"_indices/{UUID}/notes.txt",
        "_deletions/notes.bin",
    ]
    for name in strange:
        write(Path(uri) / name, timedelta(days=99))
    history.cleanup_old_versions(NOW, delete_unverified=True)
    assert set(strange) <= all_files(uri)


def test_every_file_has_a_reason(history: pennon.LanceDataset, uri: str) -> None:
    history.tags.create("gold", 3)
    leave_behind(uri, NOW)
    explained = history.checkout_version(4).explain_cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    rows = {row["path"]: row for row in explained.files.to_pylist()}
    assert set(rows) == {path for path in all_files(uri) if not path.startswith("_refs")}
    by_version = {
        2**64 - 1 - int(path[10:30]): (row["reason"], row["by"])
        for path, row in rows.items()
        if row["kind"] == "manifest" and path.endswith(".manifest")
    }
    assert by_version == {
        1: ("old_version", None),
        2: ("old_version", None),
        3: ("tagged_version", "tag gold"),
        4: ("current_version", None),
        5: ("later_version", None),
    }
    owners = {row["by"] for row in rows.values() if row["kind"] == "data" and row["reason"] == "referenced"}
    assert owners == {"version 3", "version 4", "version 5"}
    assert explained.read_version == 4
    assert not explained.candidate_files_truncated
    some = history.explain_cleanup_old_versions(
        NOW, error_if_tagged_old_versions=False, include_files=True, max_files=2
    )
    assert (len(some.candidate_files), some.candidate_files_truncated) == (2, True)


def test_a_version_that_cannot_be_read_stops_everything(history: pennon.LanceDataset, uri: str) -> None:
    path = Path(uri) / "_versions" / f"{2**64 - 1 - 2}.manifest"
    path.write_bytes(path.read_bytes()[:-20])
    before = all_files(uri)
    with pytest.raises(pennon.CorruptError, match=path.name):
        history.cleanup_old_versions(NOW)
    assert all_files(uri) == before


def test_an_interrupted_cleanup_leaves_no_version_without_its_files(history: pennon.LanceDataset, uri: str) -> None:
    """Deleting fails from the first data file on: its directory is not writable."""
    if os.geteuid() == 0:
        data = Path(uri) / "data"
        # Root may write anywhere: a directory in the place of a file cannot be unlinked either.
        victim = next(p for p in data.iterdir() if str(p.relative_to(uri)) in old_files(history))
        victim.unlink()
        victim.mkdir()
        (victim / GENERATED).write_bytes(b"")
    stats = history.cleanup_old_versions(NOW)
    assert stats.old_versions == 4
    assert [v["version"] for v in history.versions()] == [5]
    history.validate()


def old_files(table: pennon.LanceDataset) -> set[str]:
    explained = table.explain_cleanup_old_versions(NOW, include_files=True)
    return {file.path for file in explained.candidate_files}


def test_detached_versions_stay(history: pennon.LanceDataset, uri: str) -> None:
    manifest = (Path(uri) / "_versions" / f"{2**64 - 1 - 1}.manifest").read_bytes()
    detached = Path(uri) / "_versions" / f"d{2**63 + 5}.manifest"
    detached.write_bytes(manifest)
    # Its content says version 1, so it cannot be read: nothing is known, nothing goes.
    with pytest.raises(pennon.CorruptError):
        history.cleanup_old_versions(NOW)


def test_in_memory() -> None:
    table = pennon.write_dataset(numbers(3), "memory://cleanup-test", mode="overwrite")
    table.insert(numbers(2), mode="overwrite")
    stats = table.cleanup_old_versions(NOW)
    assert (stats.old_versions, stats.data_files_removed) == (1, 1)
    assert table.count_rows() == 2


def test_after_commits(uri: str) -> None:
    options = {"interval": 3, "older_than_seconds": 0}
    table = pennon.write_dataset(numbers(1), uri, auto_cleanup_options=options)
    assert table.config() == {"lance.auto_cleanup.interval": "3", "lance.auto_cleanup.older_than": "0s"}
    table.tags.create("first", 1)
    seen = []
    for i in range(5):
        table.insert(numbers(1, i))
        seen.append([v["version"] for v in table.versions()])
    assert seen == [[1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 5, 6]]
    assert pennon.write_dataset(numbers(1), table, mode="append", auto_cleanup_options=options).version == 7
    partly = pennon.write_dataset(numbers(1), uri + "2", auto_cleanup_options={"interval": 7})
    assert partly.config()["lance.auto_cleanup.older_than"] == "1209600s"


@pytest.mark.parametrize("retained", ["1", "2", "3"])
@pytest.mark.parametrize("interval", ["1", "2"])
def test_versions_that_are_retained_after_commits(uri: str, interval: str, retained: str) -> None:
    versions = []
    for engine, name in ((pennon, uri), (lance, uri + "2")):
        table = engine.write_dataset(numbers(1), name)
        settings = {"lance.auto_cleanup.interval": interval, "lance.auto_cleanup.retain_versions": retained}
        table.update_config(settings)
        for i in range(7):
            table.insert(numbers(1, i))
        versions.append([version["version"] for version in table.versions()])
    assert versions[0] == versions[1]


def test_no_version_to_keep(uri: str) -> None:
    """The setting is refused; where another writer has made it, nothing is cleaned up."""
    table = pennon.write_dataset(numbers(1), uri)
    settings = {"lance.auto_cleanup.interval": "2", "lance.auto_cleanup.retain_versions": "0"}
    with pytest.raises(pennon.InvalidInputError, match=r"retain_versions is .0., expected .* at least 1"):
        table.update_config(settings)
    lance.dataset(uri).update_config(settings)
    for i in range(5):
        pennon.dataset(uri).insert(numbers(1, i))
    assert [version["version"] for version in table.versions()] == list(range(1, 8))


def test_options_that_are_not_known(uri: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match="intervall"):
        pennon.write_dataset(pa.table({"a": [1]}), uri, auto_cleanup_options={"intervall": 3})


@pytest.mark.parametrize("name", ["interval", "older_than_seconds"])
@pytest.mark.parametrize("value", [-1, 2**64, 1.5, "3"])
def test_options_that_are_no_whole_numbers(uri: str, name: str, value: object) -> None:
    options: Any = {name: value}
    with pytest.raises(pennon.InvalidInputError, match=name):
        pennon.write_dataset(numbers(1), uri, auto_cleanup_options=options)
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)
    options = {name: None}
    table = pennon.write_dataset(numbers(1), uri, auto_cleanup_options=options)
    assert table.config() == {"lance.auto_cleanup.interval": "20", "lance.auto_cleanup.older_than": "1209600s"}
    options = {name: value}
    with pytest.raises(pennon.InvalidInputError, match=name):
        table.optimize.enable_auto_cleanup(options)
    assert table.version == 1


def test_a_branch_spares_what_main_refers_to(uri: str) -> None:
    """A version of main that was copied from a branch, by hand or by a clone in place."""
    table = pennon.write_dataset(numbers(10), uri)
    branch = table.create_branch("dev")
    branch.insert(numbers(5, 10))
    new = branch.get_fragments()[-1].data_files()[0].path
    table.add_bases([pennon.DatasetBasePath(str(Path(uri).parent / "elsewhere"), "dev", is_dataset_root=True)])
    (fragment,) = (f.metadata for f in branch.get_fragments() if f.data_files()[0].path == new)
    fragment.id = 0
    fragment.row_id_meta = fragment.created_at_version_meta = fragment.last_updated_at_version_meta = None
    fragment.files[0].base_id = 1
    table = pennon.LanceDataset.commit(uri, pennon.LanceOperation.Append([fragment]), read_version=table.version)
    branch.truncate_table()
    branch.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert (Path(branch.uri) / "data" / new).exists()


def test_emptied_folders_of_indices_go(uri: str) -> None:
    table = pennon.write_dataset(numbers(3), uri)
    gone, kept = (Path(uri) / "_indices" / f"d53689f7-1b93-47ff-af8b-a0c13f8bdce{i}" for i in range(2))
    for folder in (gone, kept):
        folder.mkdir(parents=True)
        (folder / "page_data.lance").write_bytes(b"x")
    (kept / "notes.txt").write_bytes(b"x")
    stats = table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert (stats.index_files_removed, gone.exists(), kept.exists()) == (2, False, True)
