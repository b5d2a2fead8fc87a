"""Progress of writes, next to the classes of pylance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import lance.progress as theirs
import pennon
import pennon.progress as ours
import pyarrow as pa
import pytest
from lance.fragment import FragmentMetadata


def files(directory: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted(directory.iterdir())}


@pytest.fixture
def fragments(tmp_path: Path) -> tuple[pennon.FragmentMetadata, FragmentMetadata]:
    """The same fragment in both, with a deletion file."""
    table = lance.write_dataset(pa.table({"i": range(5)}), tmp_path / "table")
    table.delete("i = 2")
    (fragment,) = pennon.dataset(table.uri).get_fragments()
    return fragment.metadata, table.get_fragments()[0].metadata


@pytest.mark.parametrize("as_uri", [False, True])
@pytest.mark.parametrize("metadata", [None, {"worker": "1"}])
def test_files_are_those_of_the_reference(
    fragments: Any, tmp_path: Path, as_uri: bool, metadata: dict[str, str] | None
) -> None:
    seen = []
    for module, fragment in zip((ours, theirs), fragments, strict=True):
        directory = tmp_path / module.__name__ / "deep" / "directory"
        progress = module.FileSystemFragmentWriteProgress(
            directory.as_uri() if as_uri else str(directory), metadata
        )
        progress.begin(fragment)
        seen.append([files(directory)])
        progress.begin(fragment, multipart_id="x")
        progress.complete(fragment)
        seen[-1].append(files(directory))
        with pytest.raises(OSError, match="in_progress"):
            progress.complete(fragment)
    assert seen[0] == seen[1]
    assert list(seen[0][0]) == ["fragment_0.in_progress", "fragment_0.json"]
    assert list(seen[0][1]) == ["fragment_0.json"]


def test_what_writers_call(fragments: Any) -> None:
    for module, fragment in zip((ours, theirs), fragments, strict=True):
        calls: list[Any] = []

        class Recorder(module.FragmentWriteProgress):
            def begin(self, fragment: Any, calls: list[Any] = calls, **kwargs: Any) -> None:
                calls.append(("begin", fragment, kwargs))

            def complete(self, fragment: Any, calls: list[Any] = calls, **kwargs: Any) -> None:
                calls.append(("complete", fragment, kwargs))

        text = json.dumps(fragment.to_json())
        Recorder()._do_begin(text, a=1)
        Recorder()._do_complete(text)
        assert calls == [("begin", fragment, {"a": 1}), ("complete", fragment, {})]


def test_nothing_to_do(fragments: Any) -> None:
    for module, fragment in zip((ours, theirs), fragments, strict=True):
        progress = module.NoopFragmentWriteProgress()
        assert progress.begin(fragment, a=1) is None
        assert progress.complete(fragment, a=1) is None
        with pytest.raises(TypeError, match="abstract"):
            module.FragmentWriteProgress()


def test_wrong_input(fragments: Any, tmp_path: Path) -> None:
    progress = ours.FileSystemFragmentWriteProgress(str(tmp_path / "p"))
    for call, message in (
        (lambda: ours.FileSystemFragmentWriteProgress(5), "a int, expected a path"),  # type: ignore[arg-type]
        (lambda: ours.FileSystemFragmentWriteProgress("nope://x"), "nope://x"),
        (lambda: ours.FileSystemFragmentWriteProgress("/p", {"a": object()}), "expected texts"),  # type: ignore
        (lambda: progress.begin(5), "a int, expected a FragmentMetadata"),  # type: ignore[arg-type]
        (lambda: progress._do_begin("{}"), "expected the JSON"),
        (lambda: progress._do_complete("nope"), "expected the JSON"),
    ):
        with pytest.raises(pennon.InvalidInputError, match=message):
            call()
    with pytest.raises(pennon.NotFoundError, match="was not begun"):
        progress.complete(fragments[0])
    (tmp_path / "file").write_text("")
    with pytest.raises(pennon.StoreError, match="cannot be written"):
        ours.FileSystemFragmentWriteProgress(str(tmp_path / "file" / "below")).begin(fragments[0])


def test_relative_directories(fragments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reference takes absolute ones only.
    monkeypatch.chdir(tmp_path)
    ours.FileSystemFragmentWriteProgress("here").begin(fragments[0])
    assert list(files(tmp_path / "here")) == ["fragment_0.in_progress", "fragment_0.json"]
