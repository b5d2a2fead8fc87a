"""A table of somebody else names files outside of itself: nothing there is read, written or removed.

Base paths are the exception that the format makes: files below one are read, and never removed.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import timedelta
from pathlib import Path

import pennon
import pytest
from support import forge
from support.tables import numbers

FOLDERS = ["data", "_deletions", "_versions", "_transactions", "_indices"]
HINT = "_versions/latest_version_hint.json"


def make(uri: Path) -> Path:
    """Three versions, files of every folder, of which all but those of the last version can go."""
    table = pennon.write_dataset(numbers(6), uri)
    table.create_scalar_index("id", "BTREE")
    table.delete("id = 3")
    table.insert(numbers(3, 50), mode="overwrite")
    return uri


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def clean(uri: Path) -> pennon.CleanupStats:
    return pennon.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    return make(tmp_path / "victim")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return make(tmp_path / "hostile")


OUTSIDE = [
    "../../victim/data/{name}",
    "part/../../../victim/data/{name}",
    "{victim}/data/{name}",
    "file://{victim}/data/{name}",
    "s3://bucket/x.lance",
    "..\\..\\victim\\data\\{name}",
    "C:\\x.lance",
    "..",
    ".",
    "",
    "a\0b",
]


@pytest.mark.parametrize("base", ["none", "directory", "table"])
@pytest.mark.parametrize("path", OUTSIDE)
def test_data_files(tmp_path: Path, hostile: Path, victim: Path, path: str, base: str) -> None:
    name = next((victim / "data").glob("*.lance")).name
    path = path.format(name=name, victim=victim)
    fields = [forge.text(1, path)]
    if base != "none":
        declared = forge.base_path(7, str(tmp_path / "base" / "below"), is_dataset_root=base == "table")
        forge.forge(hostile, lambda message: [*message, declared])
        (tmp_path / "base" / "below" / "data").mkdir(parents=True)
        fields.append(forge.number(7, 7))
    manifest = forge.forge_data_files(hostile, lambda file: forge.without(file, 1) + fields)
    before = files(victim)
    for call in (pennon.dataset, clean, lambda uri: pennon.dataset(uri).to_table()):
        with pytest.raises(pennon.CorruptError, match="is not inside the table") as caught:
            call(hostile)
        assert manifest.name in str(caught.value)
        assert json.dumps(path)[1:-1].replace("\\u0000", "\\0") in str(caught.value)
    assert files(victim) == before


def test_percent_encodings_are_letters_of_a_name(hostile: Path) -> None:
    path = "%2e%2e/%2e%2e/victim/x.lance"
    forge.forge_data_files(hostile, lambda file: [*forge.without(file, 1), forge.text(1, path)])
    with pytest.raises(pennon.CorruptError, match=f"Not found: {hostile}/data/{path}"):
        pennon.dataset(hostile).to_table()


@pytest.mark.parametrize("name", ["../x.txn", "/x.txn", "..\\x.txn", "..", ".", "a\0b"])
def test_transaction_files(hostile: Path, name: str) -> None:
    manifest = forge.forge(hostile, lambda message: [*forge.without(message, 12), forge.text(12, name)])
    with pytest.raises(pennon.CorruptError, match=f"{manifest.name}.*transaction file"):
        pennon.dataset(hostile)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_base_paths_that_are_none(hostile: Path, path: str) -> None:
    forge.forge(hostile, lambda message: [*message, forge.base_path(7, path, is_dataset_root=True)])
    with pytest.raises(pennon.CorruptError, match="base path"):
        pennon.dataset(hostile)


def test_base_paths_are_read_and_never_cleaned(tmp_path: Path, victim: Path) -> None:
    shallow = tmp_path / "shallow"
    pennon.dataset(victim).shallow_clone(str(shallow), 4)
    before = files(victim)
    table = pennon.dataset(shallow)
    assert table.to_table().num_rows == 3
    table.delete("id = 51")
    table.insert(numbers(1), mode="overwrite")
    assert clean(shallow).old_versions == 2
    pennon.LanceDataset.drop(str(shallow))
    assert not shallow.exists()
    assert files(victim) == before


def test_a_base_path_that_is_no_table_gets_no_note(tmp_path: Path, hostile: Path) -> None:
    directory = tmp_path / "documents"
    directory.mkdir()
    forge.forge(hostile, lambda message: [*message, forge.base_path(7, str(directory), is_dataset_root=True)])
    pennon.dataset(hostile).shallow_clone(str(tmp_path / "shallow"), 4)
    assert list(directory.iterdir()) == []
    assert list((hostile / "_refs" / "clones").iterdir()) != []


def test_a_table_below_itself(tmp_path: Path, hostile: Path) -> None:
    """A base path and a clone that are the table, branches that are each other's parents: every walk ends."""
    forge.forge(hostile, lambda message: [*message, forge.base_path(7, str(hostile), is_dataset_root=True)])
    forge.forge_data_files(hostile, lambda file: [*file, forge.number(7, 7)])
    notes = hostile / "_refs" / "clones"
    notes.mkdir(parents=True)
    (notes / "note.json").write_text(json.dumps({"path": str(hostile)}))
    table = pennon.dataset(hostile)
    for name, parent in (("one", "two"), ("two", "one")):
        table.create_branch(name)
        note = hostile / "_refs" / "branches" / f"{name}.json"
        content = json.loads(note.read_text())
        note.write_text(json.dumps({**content, "parentBranch": parent}))
    (hostile / "_refs" / "tags").mkdir()
    (hostile / "_refs" / "tags" / "tag.json").write_text(json.dumps({"branch": "one", "version": 4}))
    assert table.to_table().num_rows == 3
    assert pennon.dataset(hostile, version="tag").version == 4
    assert set(table.branches.list()) == {"one", "two"}
    with pytest.raises(pennon.AlreadyExistsError, match="branches were made from it"):
        table.branches.delete("two")
    assert clean(hostile).old_versions == 3
    assert table.to_table().num_rows == 3


@pytest.mark.parametrize("branch", ["../../victim", "/etc", "a//b", "..", "a\\b", "x\0"])
def test_tags_of_branches_elsewhere(hostile: Path, branch: str) -> None:
    tags = hostile / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "tag.json").write_text(json.dumps({"branch": branch, "version": 1}))
    with pytest.raises(pennon.CorruptError, match="tag tag: Ref is invalid"):
        pennon.dataset(hostile, version="tag")


@pytest.mark.parametrize(
    "hint", ["", "{}", '{"version": 18446744073709551615}', '{"version": -1}', '{"version": "../x"}']
)
def test_hints_are_hints(hostile: Path, hint: str) -> None:
    (hostile / HINT).write_text(hint)
    assert pennon.dataset(hostile).version == 4


@pytest.mark.parametrize("uuid", ["../../../escaped", "a/b", "a\\b", "a\0b"])
def test_uuids_of_transactions(tmp_path: Path, hostile: Path, uuid: str) -> None:
    """The uuid is a part of the name of a file."""
    before = files(tmp_path)
    fragments = pennon.fragment.write_fragments(numbers(1), str(hostile))
    written = files(tmp_path).keys() - before.keys()
    transaction = pennon.Transaction(read_version=4, operation=pennon.LanceOperation.Append(fragments), uuid=uuid)
    with pytest.raises(pennon.InvalidInputError, match="the uuid of the transaction"):
        pennon.LanceDataset.commit(str(hostile), transaction)
    assert files(tmp_path).keys() == before.keys() | written
    assert pennon.dataset(hostile).version == 4


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_that_are_links(tmp_path: Path, hostile: Path, victim: Path, folder: str) -> None:
    """Cleanup refuses the whole table, before it has removed anything."""
    (hostile / folder).rename(tmp_path / "moved")
    (hostile / folder).symlink_to(victim / folder)
    before, own = files(victim), files(hostile)
    for call in (clean, lambda uri: pennon.dataset(uri).explain_cleanup_old_versions(timedelta(0))):
        with pytest.raises(pennon.UnsupportedError, match=f"{hostile / folder}: a symbolic link"):
            call(hostile)
    assert (files(victim), files(hostile)) == (before, own)
    # Reads follow links: whoever has a table on two disks can use it.
    if folder == "data":
        shutil.rmtree(victim)
        (tmp_path / "moved").rename(tmp_path / "elsewhere")
        (hostile / folder).unlink()
        (hostile / folder).symlink_to(tmp_path / "elsewhere")
        assert pennon.dataset(hostile).to_table().num_rows == 3


def test_files_that_are_links(hostile: Path, victim: Path) -> None:
    data = next((victim / "data").glob("*.lance"))
    (hostile / "data" / f"{'1' * 24}{'0' * 26}.lance").symlink_to(data)
    segment = next((victim / "_indices").iterdir())
    (hostile / "_indices" / segment.name).symlink_to(segment)
    before = files(victim)
    assert clean(hostile).old_versions == 3
    assert files(victim) == before


def test_a_hint_that_is_a_link(tmp_path: Path, hostile: Path) -> None:
    """The hint is written over the old one where it has as many bytes."""
    precious = tmp_path / "precious"
    precious.write_text("x" * len((hostile / HINT).read_text()))
    (hostile / HINT).unlink()
    (hostile / HINT).symlink_to(precious)
    pennon.dataset(hostile).insert(numbers(1, 90))
    assert set(precious.read_text()) == {"x"}
    assert not (hostile / HINT).is_symlink()


def test_drop_removes_links_and_nothing_behind_them(tmp_path: Path, hostile: Path, victim: Path) -> None:
    shutil.rmtree(hostile / "data")
    (hostile / "data").symlink_to(victim / "data")
    (hostile / "tree").symlink_to(tmp_path)
    before = files(victim)
    pennon.LanceDataset.drop(str(hostile))
    assert not hostile.exists()
    assert files(victim) == before


def test_branches_behind_links(tmp_path: Path, hostile: Path) -> None:
    victim = make(tmp_path / "others" / "dev")
    table = pennon.dataset(hostile)
    table.create_branch("dev")
    (hostile / "tree").rename(tmp_path / "moved")
    (hostile / "tree").symlink_to(tmp_path / "others")
    before = files(victim)
    with pytest.raises(pennon.UnsupportedError, match="tree: a symbolic link"):
        table.branches.delete("dev")
    assert files(victim) == before
    # A version of the other table that says that it is this branch.
    forge.forge(victim, lambda message: [*message, forge.text(20, "dev")])
    before = files(victim)
    with pytest.raises(pennon.UnsupportedError, match="tree: a symbolic link"):
        table.checkout_version(("dev", None)).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert files(victim) == before


@pytest.mark.parametrize("content", [b"", b"words", None], ids=["empty", "no-database", "database"])
def test_notes_of_clones_change_no_database(tmp_path: Path, hostile: Path, content: bytes | None) -> None:
    """A note names any address, also that of a manifest store."""
    database = tmp_path / "other.sqlite"
    if content is None:
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        database.write_bytes(content)
    before = database.read_bytes()
    notes = hostile / "_refs" / "clones"
    notes.mkdir(parents=True)
    address = f"file+sqlite://{tmp_path}/nothing?db={database}"
    (notes / "note.json").write_text(json.dumps({"path": address}))
    if content == b"words":
        with pytest.raises(pennon.CorruptError, match=r"other\.sqlite"):
            clean(hostile)
    else:
        assert clean(hostile).old_versions == 3
    assert database.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("other")] == ["other.sqlite"]


@pytest.mark.parametrize("address", ["", "ftp://x"])
def test_notes_of_clones_that_are_none(hostile: Path, address: str) -> None:
    notes = hostile / "_refs" / "clones"
    notes.mkdir(parents=True)
    (notes / "note.json").write_text(json.dumps({"path": address}))
    with pytest.raises(pennon.CorruptError, match=r"note\.json"):
        clean(hostile)
