"""`LanceFileSession`: the same files, lists and errors as the reference's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import pennon.file
import pyarrow as pa
import pytest

MODULES = pytest.mark.parametrize("module", [pennon.file, lance.file])
DATA = pa.table({"a": range(100), "b": [f"row {i}" for i in range(100)]})


@MODULES
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_files_of_a_folder(module: Any, prefix: str, tmp_path: Path) -> None:
    session = module.LanceFileSession(f"{prefix}{tmp_path}/base")
    with session.open_writer("x/a.lance") as writer:
        writer.write_batch(DATA)
    with session.open_writer("b.lance", schema=DATA.schema, version="2.0", max_page_bytes=64) as writer:
        writer.write_batch(DATA)
    for path in ("x/a.lance", "b.lance"):
        assert session.open_reader(path).read_all().to_table().equals(DATA)
        assert session.open_reader(path, columns=["b"]).read_all().to_table().schema.names == ["b"]
        assert session.contains(path)
    assert len(session.open_reader("b.lance").metadata().columns[0].pages) > 1
    assert not session.contains("c.lance")
    assert not session.contains("x")
    assert sorted(session.list()) == ["b.lance", "x/a.lance"]
    assert session.list("x") == ["x/a.lance"]
    top = session.list_with_delimiter()
    assert (top.common_prefixes, top.objects) == (["x"], ["b.lance"])
    inner = session.list_with_delimiter("x")
    assert (inner.common_prefixes, inner.objects) == ([], ["x/a.lance"])


@MODULES
@pytest.mark.parametrize(
    "form",
    [
        "file://{}/my%20files",
        "file://localhost{}/my%20files",
        "file:{}/my%20files",
        "FILE://{}/my%20files",
        "FILE:{}/my%20files/",
        "file-object-store://{}/my%20files",
        "file://{}/my%20files?x=1",
        "file://{}/other/%2e%2e/my%20files",
    ],
)
def test_forms_of_file_uris(module: Any, form: str, tmp_path: Path) -> None:
    session = module.LanceFileSession(form.format(tmp_path))
    with session.open_writer("data/a b.lance") as writer:
        writer.write_batch(DATA)
    (tmp_path / "notes").write_bytes(b"0123")
    session.upload_file(tmp_path / "notes", "notes.txt")
    assert sorted(session.list()) == ["data/a b.lance", "notes.txt"]
    assert session.list("data") == ["data/a b.lance"]
    assert session.list_with_delimiter().common_prefixes == ["data"]
    assert session.contains("data/a b.lance")
    assert session.read_range("notes.txt", 1, 2) == b"12"
    assert session.open_reader("data/a b.lance").num_rows() == 100
    assert (tmp_path / "my files" / "notes.txt").is_file()
    assert not list(tmp_path.glob("**/*%20*"))


@MODULES
def test_a_plain_path_is_not_decoded(module: Any, tmp_path: Path) -> None:
    session = module.LanceFileSession(tmp_path / "my%20files")
    with session.open_writer("a.lance") as writer:
        writer.write_batch(DATA)
    assert session.list() == ["a.lance"]
    assert (tmp_path / "my%20files" / "a.lance").is_file()


@MODULES
def test_the_home_directory(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    session = module.LanceFileSession("~/base")
    with session.open_writer("a.lance") as writer:
        writer.write_batch(DATA)
    assert session.list() == ["a.lance"]
    assert (tmp_path / "base" / "a.lance").is_file()


@pytest.mark.parametrize("name", ["50%25.lance", "what?.lance", "h#1.lance", "~.lance", "sub/q%.lance"])
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_names_of_files_are_not_decoded(prefix: str, name: str, tmp_path: Path) -> None:
    session = pennon.file.LanceFileSession(f"{prefix}{tmp_path}")
    with session.open_writer(name) as writer:
        writer.write_batch(DATA)
    assert session.list() == [name]
    assert session.contains(name)
    assert session.open_reader(name).num_rows() == 100
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize("base", ["", ".", "./", "sub", "../here"])
@pytest.mark.parametrize("name", ["~/x.lance", "file:{}/x.lance", "~.lance", "x.lance"])
def test_names_of_files_below_a_relative_path(
    base: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    name = name.format(tmp_path)
    session = pennon.file.LanceFileSession(base)
    with session.open_writer(name) as writer:
        writer.write_batch(DATA)
    # The base path is that of the beginning.
    monkeypatch.chdir(tmp_path)
    assert session.list() == [name]
    assert session.open_reader(name).num_rows() == 100
    assert [path for path in tmp_path.rglob("*.lance") if path.is_file()] == [(here / base / name).resolve()]


@pytest.mark.parametrize("module", [pennon, lance])
def test_files_of_a_table(module: Any, tmp_path: Path) -> None:
    table = module.write_dataset(DATA, f"file://{tmp_path}/t%20t")
    files = table.new_file_session().list()
    assert {file.split("/")[0] for file in files} == {"data", "_versions", "_transactions"}
    written = {path.relative_to(tmp_path / "t t").as_posix() for path in (tmp_path / "t t").rglob("*.*")}
    assert set(files) == written


@MODULES
def test_other_files(module: Any, tmp_path: Path) -> None:
    session = module.LanceFileSession(tmp_path / "base")
    (tmp_path / "here").write_bytes(b"0123456789")
    session.upload_file(tmp_path / "here", "deep/down/there")
    assert session.read_range("deep/down/there", 3, 4) == b"3456"
    session.download_file("deep/down/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"0123456789"
    session.delete_file("deep/down/there")
    assert session.list() == []
    for call in (
        lambda: session.delete_file("deep/down/there"),
        lambda: session.read_range("deep/down/there", 0, 1),
        lambda: session.download_file("nothing", tmp_path / "x"),
        lambda: session.upload_file(tmp_path / "nothing", "x"),
    ):
        with pytest.raises(OSError):  # noqa: PT011
            call()


def test_what_is_refused(tmp_path: Path) -> None:
    session = pennon.file.LanceFileSession(tmp_path)
    (tmp_path / "file").write_bytes(b"123")
    for offset, length in ((0, 4), (3, 1)):
        with pytest.raises(pennon.InvalidInputError, match="file has 3 bytes"):
            session.read_range("file", offset, length)
    for offset, length in ((-1, 2), (0, -1)):
        with pytest.raises(pennon.errors.PositionError, match=r"must be non-negative, got -1"):
            session.read_range("file", offset, length)
    with pytest.raises(pennon.InvalidInputError, match="leads out of the base path"):
        session.read_range("../file", 0, 1)
    with pytest.raises(pennon.NotFoundError, match="There is no file absent below"):
        session.delete_file("absent")
    assert session.list("absent") == []
    assert session.list_with_delimiter("absent").objects == []
    remote = pennon.file.LanceFileSession("memory://file-session")
    with pytest.raises(pennon.UnsupportedError, match="memory://file-session is not local"):
        remote.list()
    with pytest.raises(pennon.UnsupportedError, match="file://elsewhere/x is not local"):
        pennon.file.LanceFileSession("file://elsewhere/x").list()
    with pytest.raises(pennon.UnsupportedError, match="namespace_client"):
        pennon.file.LanceFileSession(tmp_path, namespace_client=1)
