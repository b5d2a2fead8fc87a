"""Versions that become a branch, a clone, a tag or the newest version while a cleanup removes them.

Either the cleanup sees what was made and keeps its files, or whoever makes it gets an error and leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon import fragment, jobs
from support.long import LONG

ROWS = [{"id": row} for row in range(10)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three versions, of which the second and the third have files of their own."""
    uri = str(tmp_path / "table.lance")
    table = pennon.write_dataset(pa.table({"id": range(10)}), uri)
    table.update({"id": "id + 100"})
    table.update({"id": "id + 1"})
    return uri


def rows(table: pennon.LanceDataset) -> list[dict[str, object]]:
    return sorted(table.to_table().to_pylist(), key=lambda row: row["id"])


def clean(uri: str, **options: object) -> pennon.CleanupStats:
    return pennon.dataset(uri).cleanup_old_versions(timedelta(0), **options)  # type: ignore[arg-type]


def cleaning(uri: str, removed: list[int]) -> Callable[[int], contextlib.AbstractContextManager[None]]:
    """A lock of commits: a cleanup runs while it is held for the first time, and removes so many versions."""

    @contextlib.contextmanager
    def lock(_: int) -> Iterator[None]:
        if not removed:
            removed.append(clean(uri).old_versions)
        yield

    return lock


def restore(table: pennon.LanceDataset) -> None:
    table.restore()


def clone(table: pennon.LanceDataset) -> None:
    table.shallow_clone(table.uri.replace("table", "clone"), 1)


def branch(table: pennon.LanceDataset) -> None:
    table.create_branch("dev", 1)


def detached(table: pennon.LanceDataset) -> None:
    change = pennon.LanceOperation.UpdateConfig(config_updates=pennon.LanceOperation.UpdateMap({"a": "b"}))
    pennon.LanceDataset.commit(table, change, read_version=1, detached=True)


MAKERS = [restore, clone, branch, detached]


def made(uri: str, make: Callable[[pennon.LanceDataset], None]) -> pennon.LanceDataset:
    """What was made of the first version, opened for this."""
    table = pennon.dataset(uri)
    if make is clone:
        return pennon.dataset(uri.replace("table", "clone"))
    if make is branch:
        return table.checkout_version(("dev", None))
    if make is detached:
        (name,) = (path.stem for path in Path(uri, "_versions").glob("d*.manifest"))
        return table.checkout_version(int(name[1:]))
    return table


@pytest.mark.parametrize("make", [clone, detached])
def test_a_version_that_is_removed_before_its_successor_is_published(
    uri: str, make: Callable[[pennon.LanceDataset], None]
) -> None:
    """The cleanup has ended when the version is published."""
    removed: list[int] = []
    folder = Path(uri.replace("table", "clone"))
    folder.mkdir()
    (folder / "mine.txt").touch()
    table = pennon.dataset(uri, version=1, commit_lock=cleaning(uri, removed))
    with pytest.raises(pennon.NotFoundError, match="version main:1 does not exist"):
        make(table)
    assert removed == [2]
    newest = pennon.dataset(uri)
    assert rows(newest) == [{"id": row + 101} for row in range(10)]
    assert newest.verify(data=True).ok
    assert newest.branches.list() == {}
    # What is in the folder besides stays.
    assert [path.name for path in folder.rglob("*")] == ["mine.txt"]
    assert list(Path(uri, "_refs").glob("clones/*")) == []
    assert list(Path(uri, "_versions").glob("d*.manifest")) == []


@pytest.mark.parametrize("make", [restore, branch])
def test_a_version_that_is_claimed_before_its_successor_is_published(
    uri: str, make: Callable[[pennon.LanceDataset], None]
) -> None:
    """By the name of a branch, or by a file that lasts as long as a restore, which a cleanup sees."""
    removed: list[int] = []
    make(pennon.dataset(uri, version=1, commit_lock=cleaning(uri, removed)))
    assert removed == [1]
    assert rows(made(uri, make)) == ROWS
    assert pennon.dataset(uri).verify(data=True).ok
    assert list(Path(uri, "_refs").glob("restores/*")) == []


def test_restores_that_were_cut_short_keep_a_version_for_an_hour(uri: str) -> None:
    left = Path(uri, "_refs", "restores", "1-5f0c3a52-6a0b-4a51-8e3c-0f6b7b1f2a11")
    left.parent.mkdir(parents=True)
    left.touch()
    assert clean(uri).old_versions == 1
    assert rows(pennon.dataset(uri, version=1)) == ROWS
    os.utime(left, (time.time() - 3_700,) * 2)
    assert clean(uri).old_versions == 1
    assert not left.exists()


def test_a_restore_that_begins_while_manifests_are_removed(uri: str) -> None:
    """Its version is gone then, and maybe it was read before: no file is removed."""
    left = Path(uri, "_refs", "restores", "1-5f0c3a52-6a0b-4a51-8e3c-0f6b7b1f2a11")
    seen = []

    def observe(progress: pennon.Progress) -> None:
        seen.append(progress)
        if not Path(uri, "_versions", f"{2**64 - 2}.manifest").exists() and not left.exists():
            left.parent.mkdir(parents=True, exist_ok=True)
            left.touch()

    stats = clean(uri, progress=observe)
    assert (stats.old_versions, left.exists()) == (2, True)
    assert (stats.data_files_removed, len(list(Path(uri, "data").iterdir()))) == (0, 3)


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_made_of_a_version_before_its_manifest_is_removed(
    uri: str, make: Callable[[pennon.LanceDataset], None]
) -> None:
    """The cleanup has read versions, branches and clones, and begins to remove manifests."""
    done = []

    def observe(_: pennon.Progress) -> None:
        if not done:
            done.append(make(pennon.dataset(uri, version=1)))

    clean(uri, progress=observe)
    assert len(done) == 1
    assert rows(made(uri, make)) == ROWS
    assert pennon.dataset(uri).verify(data=True).ok


def test_a_tag_that_comes_while_manifests_are_removed(uri: str) -> None:
    """With a limit names are looked for every second."""
    pennon.dataset(uri).update({"id": "id + 1"})

    def observe(progress: pennon.Progress) -> None:
        if progress.tasks == 1:
            oldest = pennon.dataset(uri).versions()[0]["version"]
            pennon.dataset(uri).tags.create("gold", oldest)

    assert clean(uri, progress=observe, delete_rate_limit=1).old_versions == 2
    assert len(rows(pennon.dataset(uri, version="gold"))) == 10


def test_a_tag_that_comes_while_a_cleanup_reads_versions(uri: str) -> None:
    def observe(_: pennon.Progress) -> None:
        tags = pennon.dataset(uri).tags
        if "gold" not in tags.list():
            tags.create("gold", 1)

    assert clean(uri, progress=observe).old_versions == 1
    assert rows(pennon.dataset(uri, version="gold")) == ROWS
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri, version=2)
    assert clean(uri, error_if_tagged_old_versions=False).old_versions == 0
    assert pennon.dataset(uri).verify(data=True).ok


def test_a_tag_for_a_version_that_is_about_to_be_removed(uri: str) -> None:
    """The cleanup has looked for tags, and the manifest is still there: who makes one waits."""
    tags = pennon.dataset(uri).tags
    tags.create("moves", 3)
    made: list[Future[None]] = []

    def observe(_: pennon.Progress) -> None:
        left = [version["version"] for version in pennon.dataset(uri).versions()]
        if len(left) == 2 and not made:
            made.extend(threads.submit(change, *named, left[0]) for change, *named in changes)
            while sorted(tags.get_version(name) for name in tags.list()) != [left[0]] * 2:
                time.sleep(0.01)
            assert not any(making.done() for making in made)

    changes = [(tags.create, "gold"), (tags.update, "moves")]
    with ThreadPoolExecutor(2) as threads:
        assert clean(uri, progress=observe, delete_concurrency=1).old_versions == 2
        assert len(made) == 2
        for making in made:
            with pytest.raises(pennon.NotFoundError, match=r"version main:[12] does not exist"):
                making.result()
    assert {name: tag["version"] for name, tag in tags.list().items()} == {"moves": 3}
    assert list(Path(uri, "_refs").glob("removals/*")) == []


def test_tags_wait_for_a_cleanup_that_was_cut_short_for_five_minutes(uri: str) -> None:
    left = Path(uri, "_refs", "removals", "5f0c3a52-6a0b-4a51-8e3c-0f6b7b1f2a11")
    left.parent.mkdir(parents=True)
    left.write_text("[1]")
    # As another cleanup has it while it writes its own.
    written = left.with_name(".tmp_6a0b")
    written.touch()
    os.utime(left, (time.time() - 295,) * 2)
    tags = pennon.dataset(uri).tags
    tags.create("silver", 2)
    assert left.exists()
    begun = time.monotonic()
    tags.create("gold", 1)
    assert time.monotonic() - begun > 0.5
    assert (left.exists(), written.exists()) == (False, True)
    assert sorted(tags.list()) == ["gold", "silver"]


@pytest.mark.skipif(not LONG, reason="a minute or two: PENNON_LONG_TESTS=1")
def test_a_tag_that_waits_in_vain(uri: str) -> None:
    left = Path(uri, "_refs", "removals", "5f0c3a52-6a0b-4a51-8e3c-0f6b7b1f2a11")
    left.parent.mkdir(parents=True)
    left.write_text("[1]")
    tags = pennon.dataset(uri).tags
    with pytest.raises(pennon.CommitConflictError, match=r"Version 1 is being removed by a cleanup") as error:
        tags.create("gold", 1)
    assert (error.value.retryable, tags.list(), left.exists()) == (True, {}, True)


def test_the_old_version_of_a_tag_is_kept_while_it_gets_another(uri: str) -> None:
    """A cleanup removes the new version, and another one comes while the tag names that."""
    removal = Path(uri, "_refs", "removals", "5f0c3a52-6a0b-4a51-8e3c-0f6b7b1f2a11")
    removal.parent.mkdir(parents=True)
    removal.write_text("[2]")
    tags = pennon.dataset(uri).tags
    tags.create("moves", 1)
    with ThreadPoolExecutor(1) as threads:
        moving = threads.submit(tags.update, "moves", 2)
        while tags.get_version("moves") != 2:
            time.sleep(0.01)
        assert clean(uri, versions=[1]).old_versions == 0
        assert not moving.done()
        Path(uri, "_versions", f"{2**64 - 3}.manifest").unlink()
        removal.unlink()
        with pytest.raises(pennon.NotFoundError, match="version main:2 does not exist"):
            moving.result()
    assert tags.get_version("moves") == 1
    assert rows(pennon.dataset(uri, version="moves")) == ROWS
    assert list(Path(uri, "_refs").glob("restores/*")) == []


@pytest.mark.parametrize("protect", ["nothing", "tag", "branch"])
def test_a_version_whose_name_a_cleanup_made_free_again(uri: str, protect: str) -> None:
    """Between a look at the table and a put others made three versions, of which two are removed.

    The version before them may be kept.
    """
    if protect == "tag":
        pennon.dataset(uri).tags.create("gold", 3)
    if protect == "branch":
        pennon.dataset(uri).create_branch("dev", 3)
    kept = [] if protect == "nothing" else [3]
    waited = []

    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        if not waited:
            waited.append(version)
            for row in range(3):
                pennon.dataset(uri).insert(pa.table({"id": [row]}))
            assert clean(uri, error_if_tagged_old_versions=False).old_versions == 5 - len(kept)
            time.sleep(0.05)  # The times of files have ticks of up to 10 ms.
        yield

    change = pennon.LanceOperation.Append(fragment.write_fragments(pa.table({"id": [500]}), uri))
    with pytest.raises(pennon.CommitConflictError, match="is gone, what it changed is not known") as error:
        pennon.LanceDataset.commit(uri, change, read_version=3, commit_lock=lock)
    assert (error.value.retryable, waited) == (True, [4])
    table = pennon.dataset(uri)
    assert [version["version"] for version in table.versions()] == [*kept, 6]
    assert {"id": 500} not in rows(table)
    pennon.LanceDataset.commit(uri, change, read_version=6)
    assert {"id": 500} in rows(pennon.dataset(uri))


def test_an_overwrite_that_is_committed_again_after_a_cleanup(uri: str) -> None:
    plan = jobs.plan_overwrite(uri, pa.schema({"id": pa.int64()}))
    results = [plan.task(0).run({"id": [7, 8]})]
    plan.commit(results)
    pennon.dataset(uri).insert(pa.table({"id": [9]}))
    clean(uri)
    with pytest.raises(pennon.CommitConflictError, match="committed before, by a version that a cleanup removed"):
        plan.commit(results)
    assert rows(pennon.dataset(uri)) == [{"id": 7}, {"id": 8}, {"id": 9}]
