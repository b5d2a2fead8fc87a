"""What long steps tell of themselves: to the classes of pylance, to functions, and to people by a bar."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import lance.progress
import pennon
import pennon.progress
import pyarrow as pa
import pytest
from pennon import _progress, jobs
from pennon.jobs import Progress

from .conftest import numbers


class Recorder(pennon.progress.FragmentWriteProgress):
    """Keeps what it is told; raises at one of the calls if it shall."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self.fails_at = fails_at

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        self.note("begin", fragment, kwargs)

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        self.note("complete", fragment, kwargs)

    def note(self, name: str, fragment: Any, kwargs: dict[str, Any]) -> None:
        # Files have random names, and the core knows them only afterwards.
        parts = {**fragment.to_json(), "files": []}
        self.calls.append((name, parts, kwargs))
        if len(self.calls) == self.fails_at:
            raise KeyError("stop here")


class Theirs(Recorder, lance.progress.FragmentWriteProgress):  # type: ignore[misc]
    pass


WRITERS: dict[str, Callable[[Any, Any, str, Any], object]] = {
    "write_dataset": lambda module, data, uri, progress: module.write_dataset(
        data, uri, max_rows_per_file=4, progress=progress
    ),
    "write_fragments": lambda module, data, uri, progress: module.fragment.write_fragments(
        data, uri, mode="create", max_rows_per_file=4, progress=progress
    ),
    "create": lambda module, data, uri, progress: module.LanceFragment.create(
        uri, data, fragment_id=7, progress=progress
    ),
}


def streamed(table: pa.Table, size: int) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))


def files(uri: str) -> list[Path]:
    return [path for path in Path(uri).rglob("*") if path.is_file()]


@pytest.mark.parametrize("size", [1, 3, 4, 100])
@pytest.mark.parametrize("rows", [1, 4, 10, 12])
@pytest.mark.parametrize("writer", WRITERS)
def test_calls_are_those_of_the_reference(tmp_path: Path, writer: str, rows: int, size: int) -> None:
    write, data = WRITERS[writer], numbers(rows)
    mine, other = Recorder(), Theirs()
    write(pennon, streamed(data, size), str(tmp_path / "mine"), mine)
    write(lance, streamed(data, size), str(tmp_path / "other"), other)
    # The reference does not complete the last fragment of a write: it is said here that it is written.
    missing = [] if writer == "create" or rows % 4 == 0 else [mine.calls[-1]]
    assert mine.calls == [*other.calls, *missing]
    assert [name for name, *_ in mine.calls] == ["begin", "complete"] * (len(mine.calls) // 2)
    assert sum(parts["physical_rows"] or 0 for _, parts, _ in mine.calls) == rows


@pytest.mark.parametrize("writer", WRITERS)
def test_subclasses_of_the_reference_and_tables(tmp_path: Path, writer: str) -> None:
    for number, progress in enumerate([Recorder(), Theirs(), lance.progress.NoopFragmentWriteProgress()]):
        uri = str(tmp_path / str(number))
        WRITERS[writer](pennon, numbers(10), uri, progress)
        calls = getattr(progress, "calls", [])
        assert [name for name, *_ in calls] in ([], ["begin", "complete"] * (1 if writer == "create" else 3))
        assert files(uri)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("fails_at", [1, 2, 3, 6])
def test_a_callback_that_raises_commits_nothing(tmp_path: Path, writer: str, fails_at: int) -> None:
    if writer == "create" and fails_at > 2:
        return
    uri = str(tmp_path / "new")
    with pytest.raises(KeyError, match="stop here"):
        WRITERS[writer](pennon, numbers(10), uri, Recorder(fails_at))
    # Fragments without a commit are reported when all of them are written.
    written = {"write_dataset": 0, "create": 1}.get(writer, 3)
    assert len(files(uri)) == (0 if fails_at == 1 else written)
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)


class Files(pennon.progress.FragmentWriteProgress):
    """Keeps the fragments that are completed, and the order of the calls."""

    def __init__(self) -> None:
        self.completed: list[pennon.FragmentMetadata] = []
        self.calls = ""

    def begin(self, fragment: pennon.FragmentMetadata, **kwargs: Any) -> None:
        assert fragment.files == []
        self.calls += "b"

    def complete(self, fragment: pennon.FragmentMetadata, **kwargs: Any) -> None:
        self.completed.append(fragment)
        self.calls += "c"


@pytest.mark.parametrize("options", [{"max_rows_per_file": 30_000}, {"max_bytes_per_file": 200_000}, {}])
def test_fragments_are_completed_with_their_files(tmp_path: Path, options: dict[str, int]) -> None:
    listener = Files()
    data = pa.table({"x": range(100_000)})
    written = pennon.fragment.write_fragments(
        streamed(data, 7000), tmp_path / "t", mode="create", progress=listener, **options
    )
    assert listener.completed == written
    assert sum(fragment.physical_rows for fragment in written) == 100_000
    assert all((tmp_path / "t" / "data" / fragment.files[0].path).exists() for fragment in listener.completed)
    assert listener.calls == "bc" * len(written)
    assert len(written) > 1 or not options
    assert pennon.fragment.write_fragments(data.slice(0, 0), tmp_path / "u", mode="create", progress=listener) == []
    assert listener.calls == "bc" * len(written)


def test_a_fragment_is_completed_with_its_file(tmp_path: Path) -> None:
    listener = Files()
    created = pennon.LanceFragment.create(tmp_path / "t", numbers(5), fragment_id=7, progress=listener)
    assert listener.completed == [created]
    assert created.files[0].file_size_bytes == (tmp_path / "t" / "data" / created.files[0].path).stat().st_size


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_callback_that_raises_leaves_the_table_as_it_was(table: pennon.LanceDataset, uri: str, mode: str) -> None:
    before = sorted(files(uri))

    def stop(at: Progress) -> None:
        if at.rows >= 8:
            raise KeyError("stop here")

    for progress in (Recorder(6), stop):
        with pytest.raises(KeyError, match="stop here"):
            table.insert(numbers(10), mode=mode, max_rows_per_file=4, progress=progress)
    assert sorted(files(uri)) == before
    assert (table.version, pennon.dataset(uri).version, table.count_rows()) == (1, 1, 10)


def test_files_of_progress(tmp_path: Path) -> None:
    both = []
    for module in (pennon, lance):
        directory = tmp_path / module.__name__
        progress = module.progress.FileSystemFragmentWriteProgress(str(directory), {"worker": "1"})
        module.LanceFragment.create(tmp_path / f"{module.__name__}.lance", numbers(3), 5, progress=progress)
        both.append(sorted(path.name for path in directory.iterdir()))
    assert both[0] == both[1] == ["fragment_5.json"]


def test_data_is_the_same_with_progress(tmp_path: Path) -> None:
    data = pa.concat_tables([numbers(7), numbers(9, 7), numbers(1, 16)])
    layouts = []
    for name, progress in (("without", False), ("with", Recorder()), ("counted", [].append)):
        table = pennon.write_dataset(data, tmp_path / name, max_rows_per_file=5, progress=progress)
        assert table.to_table() == data
        layouts.append([(f.physical_rows, f.data_files()[0].file_size_bytes) for f in table.get_fragments()])
    assert layouts[0] == layouts[1] == layouts[2]
    empty = pennon.write_dataset(numbers(0), tmp_path / "empty", progress=Recorder(1))
    assert empty.count_rows() == 0


def test_a_producer_that_raises(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbers(10).to_batches()
        raise ZeroDivisionError("no more")

    recorder = Recorder()
    reader = pa.RecordBatchReader.from_batches(numbers(0).schema, batches())
    with pytest.raises(ZeroDivisionError, match="no more"):
        pennon.write_dataset(reader, tmp_path / "t", max_rows_per_file=4, progress=recorder)
    assert [name for name, *_ in recorder.calls] == ["begin", "complete", "begin", "complete", "begin"]
    assert files(str(tmp_path / "t")) == []


def test_a_function_is_told_how_many(tmp_path: Path) -> None:
    seen: list[Progress] = []
    data = numbers(10)
    pennon.write_dataset(data, tmp_path / "t", max_rows_per_file=4, progress=seen.append)
    assert [(at.fragments, at.of_fragments, at.rows, at.of_rows) for at in seen] == [
        (1, 3, 4, 10),
        (2, 3, 8, 10),
        (2, 3, 10, 10),
        (3, 3, 10, 10),
    ]
    assert seen[-1].bytes == pytest.approx(data.nbytes, rel=0.5)
    seen.clear()
    pennon.write_dataset(streamed(data, 10), tmp_path / "u", progress=seen.append)
    assert (seen[-1].rows, seen[-1].of_rows, seen[-1].of_fragments) == (10, None, None)


@pytest.mark.parametrize("execute", ["execute", "execute_uncommitted"])
def test_merges(table: pennon.LanceDataset, uri: str, execute: str) -> None:
    seen: list[Progress] = []
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    before = files(uri)

    def stop(at: Progress) -> None:
        if at.rows == 8:
            raise KeyError("stop here")

    with pytest.raises(KeyError, match="stop here"):
        getattr(merge.progress(stop), execute)(streamed(numbers(12, 5), 4))
    assert sorted(files(uri)) == sorted(before)
    getattr(merge.progress(seen.append), execute)(numbers(12, 5))
    assert (seen[-1].rows, seen[-1].of_rows, seen[-1].fragments) == (12, 12, 0)
    seen.clear()
    getattr(merge, execute)(streamed(numbers(12, 5), 4))
    assert [(at.rows, at.of_rows) for at in seen] == [(4, None), (8, None), (12, None)]
    if execute == "execute":
        assert table.count_rows() == 17
    for wrong in (5, Recorder()):
        with pytest.raises(pennon.InvalidTypeError, match="expected a function of a Progress"):
            merge.progress(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, "yes", [], object()])
def test_what_is_no_callback(table: pennon.LanceDataset, wrong: Any) -> None:
    kind = type(wrong).__name__
    with pytest.raises(pennon.InvalidInputError, match=f"progress is a {kind}, expected a function"):
        table.insert(numbers(1), progress=wrong)
    with pytest.raises(pennon.InvalidInputError, match=f"progress is a {kind}, expected a function"):
        jobs.run(jobs.plan_delete(table, "true", tasks=1), progress=wrong)
    assert table.version == pennon.dataset(table.uri).version == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes by a second at each look."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def stderr() -> Terminal:
    return Terminal()


def test_each_result_is_counted_once(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of many tasks reports each of them, without counting the others again."""
    rows, counted, seen = jobs.TaskResult.rows.fget, list[int](), list[Progress]()
    assert rows is not None
    monkeypatch.setattr(jobs.TaskResult, "rows", property(lambda result: (counted.append(1), rows(result))[1]))
    plan = jobs.plan_delete(table, "id < 9", tasks=8)
    jobs.run(plan, progress=seen.append)
    assert len(seen) == plan.num_tasks > 2
    assert len(counted) <= len(seen)
    last = seen[-1]
    assert (last.tasks, last.fragments, last.rows) == (len(seen), last.of_fragments, 9)
    assert [at.fragments for at in seen] == sorted(at.fragments for at in seen)


def steps(progress: Any, stderr: Terminal) -> None:
    """A write, and a job, of several seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_progress, "time", Clock())
        patch.setattr(sys, "stderr", stderr)
        table = pennon.write_dataset(
            numbers(40), "memory://bars", mode="overwrite", max_rows_per_file=4, progress=progress
        )
        jobs.run(jobs.plan_delete(table, "id < 9", tasks=8), progress=progress)


def test_bars_in_a_terminal(stderr: Terminal) -> None:
    steps(None, stderr)
    drawn = stderr.getvalue()
    assert "write:" in drawn
    assert "delete:" in drawn
    assert "/40.0" in drawn
    assert "/8.00" in drawn
    assert "fragments=" in drawn


def test_no_bar_where_nobody_looks(stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    steps(False, stderr)
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    steps(None, stderr)
    assert stderr.getvalue() == ""
    steps(True, stderr)
    assert "write:" in stderr.getvalue()


def test_bars_in_a_notebook(stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    steps(None, stderr)
    assert "write:" in stderr.getvalue()


def test_no_bar_for_short_steps(stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    for patience, is_drawn in ((600.0, False), (0.0, True)):
        monkeypatch.setattr(_progress, "PATIENCE", patience)
        pennon.write_dataset(numbers(40), "memory://short", mode="overwrite", max_rows_per_file=1, progress=True)
        assert bool(stderr.getvalue()) == is_drawn


def test_without_tqdm(stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(_progress, "find_spec", lambda name: None)
    steps(None, stderr)
    assert stderr.getvalue() == ""
    with pytest.raises(pennon.MissingPackageError, match="pip install tqdm"):
        steps(True, stderr)
