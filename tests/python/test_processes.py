"""Pickles, forks, spawned processes, threads and Ctrl-C."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pennon
import pytest
from pennon import jobs
from support.tables import numbers


class OwnDataset(pennon.LanceDataset):
    """What a program derives."""


def total(table: pennon.LanceDataset) -> int:
    return sum(table.to_table()["id"].to_pylist())


def total_of_fragment(part: pennon.LanceFragment) -> int:
    return sum(part.to_table()["id"].to_pylist())


def test_pickle(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 9")
    old = pennon.dataset(uri, version=1, default_scan_options={"with_row_id": True})
    again = pickle.loads(pickle.dumps(old))
    assert (again.uri, again.version, again.count_rows()) == (uri, 1, 10)
    assert again.schema.names[-1] == "_rowid"
    own = pickle.loads(pickle.dumps(OwnDataset(uri, 1)))
    assert (type(own), own.count_rows()) == (OwnDataset, 10)
    part = pickle.loads(pickle.dumps(table.get_fragments()[1]))
    assert total_of_fragment(part) == 4 + 5 + 6 + 7
    assert pickle.loads(pickle.dumps(part.metadata)) == part.metadata
    assert pickle.loads(pickle.dumps(table.lance_schema)) == table.lance_schema


def test_what_is_gone_is_missed_where_it_is_used(table: pennon.LanceDataset, uri: str) -> None:
    pinned = pennon.dataset(uri)
    part = pinned.get_fragments()[0]
    table.delete("id = 0")
    table.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for task, unpickled in ((total, pinned), (total_of_fragment, part)):
            with pytest.raises(pennon.NotFoundError, match="Version 1 was cleaned up"):
                pool.apply_async(task, (unpickled,)).get(timeout=60)
        assert pool.apply_async(total, (table,)).get(timeout=60) == total(table)


def test_an_unpickled_fragment_is_of_its_version(table: pennon.LanceDataset) -> None:
    moved, (first, *_) = pickle.loads(pickle.dumps((table, table.get_fragments())))
    moved.delete("id < 4")
    assert (first.physical_rows, first.count_rows()) == (4, 4)


def test_copies_of_what_was_unpickled(table: pennon.LanceDataset) -> None:
    unopened = pickle.loads(pickle.dumps(table))
    table.delete("id = 9")
    assert (copy.copy(unopened).count_rows(), pickle.loads(pickle.dumps(unopened)).count_rows()) == (10, 10)
    assert unopened.checkout_version(2).count_rows() == 9
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        _ = pickle.loads(pickle.dumps(table)).x


@pytest.mark.parametrize("error", [pennon.NotFoundError("gone"), pennon.CommitConflictError("busy", False)])
def test_errors_pickle(error: pennon.PennonError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.retryable) == (type(error), str(error), error.retryable)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_processes(table: pennon.LanceDataset, method: str) -> None:
    expected = total(table)  # the runtime has threads now
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(total, [table] * 4) == [expected] * 4
        assert sum(pool.map(total_of_fragment, table.get_fragments())) == expected
    assert total(table) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_inherits_the_object(table: pennon.LanceDataset, uri: str) -> None:
    batches = table.to_batches(batch_size=1)
    next(batches)
    scanner = table.scanner(columns=["id"])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert total(table) == 45
            assert scanner.to_table().num_rows == 10
            with pytest.raises(pennon.UnsupportedError, match="fork"):
                next(batches)
            table.insert(numbers(1, 10))
            del batches
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while (waited := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if waited == (0, 0):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert waited == (pid, 0)
    assert pennon.dataset(uri).count_rows() == 11
    assert sum(batch.num_rows for batch in batches) == 9


def test_threads(table: pennon.LanceDataset) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: total(table), range(64))) == {45}


def test_the_gil_is_released(uri: str) -> None:
    """Another thread runs Python code while a write waits for its source."""
    ticks: list[int] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.005):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()

    def slow():
        for start in range(3):
            time.sleep(0.1)
            yield numbers(10, start).to_batches()[0]

    pennon.write_dataset(slow(), uri, schema=numbers(0).schema)
    done.set()
    thread.join()
    assert len(ticks) > 5


def test_ctrl_c(uri: str) -> None:
    """A source that never ends: SIGINT ends the call, and nothing was committed."""
    script = textwrap.dedent(
        """
        import sys, time, threading, pennon, pyarrow as pa
        batch = pa.record_batch({"a": pa.array(range(100))})

        class Endless:
            schema = batch.schema
            def read_next_batch(self):
                time.sleep(0.01)
                return batch

        from pennon._table.writing import native_options
        print("ready", flush=True)
        try:
            pennon._native.write(Endless(), sys.argv[1], native_options())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script, uri], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < 2
        assert process.wait(30) == 0
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)


@pytest.mark.parametrize("verb", ["append", "insert", "write_fragments"])
def test_ctrl_c_while_rows_in_memory_are_written(uri: str, verb: str) -> None:
    """The writing ends with the call, in the middle of a batch too, and its files are removed."""
    pennon.write_dataset(numbers(10), uri)
    script = textwrap.dedent(
        """
        import sys, threading, time, pennon, pyarrow as pa
        from pathlib import Path
        uri, verb = sys.argv[1:]
        table, data = pennon.dataset(uri), Path(uri, "data")
        rows = pa.table({name: range(2_000_000) for name in table.schema.names}).cast(table.schema)
        verbs = {
            "append": lambda: pennon.write_dataset(rows, uri, mode="append", max_rows_per_file=100),
            "insert": lambda: table.insert(rows, max_rows_per_file=100),
            "write_fragments": lambda: pennon.fragment.write_fragments(rows, uri, max_rows_per_file=100),
        }

        def watch():
            while len(list(data.iterdir())) < 20:
                time.sleep(0.01)
            print("writing", flush=True)

        threading.Thread(target=watch).start()
        try:
            verbs[verb]()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        deadline = time.monotonic() + 10
        while len(list(data.iterdir())) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        print(len(list(data.iterdir())), flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script, uri, verb], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "1\n"
        assert process.wait(30) == 0
    assert pennon.dataset(uri).version == 1


def test_a_relative_path_is_of_where_the_process_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        Path(tmp_path, name).mkdir()
    monkeypatch.chdir(tmp_path / "there")
    pennon.write_dataset(numbers(3), "t").create_branch("dev").insert(numbers(1, 50))
    monkeypatch.chdir(tmp_path / "here")
    table = pennon.write_dataset(numbers(2), "t")
    table.create_branch("dev")
    monkeypatch.chdir(tmp_path / "there")
    dev = table.checkout_version(("dev", None))
    dev.insert(numbers(1, 100))
    table.create_branch("new").insert(numbers(2, 200))
    assert pickle.loads(pickle.dumps(table)).count_rows() == 2
    assert {path.split("/")[0] for path in table.new_file_session().list()} > {"data", "_versions"}
    assert len(table.stats.data_stats().fields) == len(table.schema)
    task = pickle.loads(pickle.dumps(jobs.plan_delete(table, "id = 0").task(0)))
    assert task.run() is not None
    monkeypatch.chdir(tmp_path)
    found = {name: pennon.dataset("here/t").checkout_version((name, None)).count_rows() for name in ("dev", "new")}
    assert found == {"dev": 3, "new": 4}
    assert pennon.dataset("there/t").checkout_version(("dev", None)).count_rows() == 4
    assert list(pennon.dataset("there/t").branches.list()) == ["dev"]
