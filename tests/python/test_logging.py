"""What goes wrong without failing a call is in Python's `logging`, with path, version and reason."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def messages(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    """What was logged below `pennon` that contains a text."""
    found = [record for record in caplog.records if record.name.split(".")[0] == "pennon"]
    return [record.getMessage() for record in found if part in record.getMessage()]


def test_a_torn_manifest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    table = pennon.write_dataset(rows(1), uri)
    table.insert(rows(2))
    newest = min((tmp_path / "t" / "_versions").glob("*.manifest"))
    newest.write_bytes(b"")
    with caplog.at_level(logging.WARNING, "pennon"), pytest.warns(RuntimeWarning):
        assert pennon.dataset(uri).version == 1
    (text,) = messages(caplog, "a torn manifest was passed over")
    assert str(newest) in text
    assert "version=2 opened=1" in text
    assert "error=" in text


def test_a_cleanup_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    options = {"interval": 1, "older_than_seconds": 0}
    table = pennon.write_dataset(rows(1), uri, auto_cleanup_options=options)
    # Every file of a cleanup is listed: a folder that cannot be read makes it fail.
    tags = tmp_path / "t" / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "broken.json").write_text("{")
    with caplog.at_level(logging.WARNING, "pennon"):
        table.insert(rows(2))
    (text,) = messages(caplog, "the automatic cleanup after a commit failed")
    assert uri in text
    assert "version=2" in text
    assert "broken.json" in text


def test_a_cleanup_with_settings_of_another_writer(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    table = pennon.write_dataset(rows(1), uri)
    # The reference checks nothing.
    lance.dataset(uri).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "soon"})
    table.checkout_latest()
    with caplog.at_level(logging.WARNING, "pennon"):
        table.insert(rows(2))
    (text,) = messages(caplog, "the automatic cleanup after a commit failed")
    assert "lance.auto_cleanup.older_than" in text
    assert "soon" in text
    assert table.count_rows() == 2


def test_a_note_about_a_clone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    table = pennon.write_dataset(rows(1), uri)
    # Notes are files of this folder.
    notes = tmp_path / "t" / "_refs"
    notes.write_text("in the way")
    with caplog.at_level(logging.WARNING, "pennon"):
        clone = table.shallow_clone(str(tmp_path / "clone"), 1)
    assert clone.count_rows() == 1
    (text,) = messages(caplog, "the note about a clone was not written")
    assert uri in text
    assert "version=1" in text
    assert str(tmp_path / "clone") in text


def test_levels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pennon"):
        pennon.write_dataset(rows(1), str(tmp_path / "t")).insert(rows(2))
    assert messages(caplog, "commit table=")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "pennon"):
        pennon.write_dataset(rows(1), str(tmp_path / "u")).insert(rows(2))
    assert caplog.records == []


def test_environment(tmp_path: Path) -> None:
    program = "import pennon, sys; pennon.write_dataset({'a': [1]}, sys.argv[1]).delete('a = 1')"

    def run(table: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(tmp_path / table)]
        return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)

    assert run("silent").stderr == ""
    shown = run("shown", PENNON_LOG="info").stderr
    assert "INFO pennon.commit: commit table=" in shown
    wrong = run("wrong", PENNON_LOG="loud")
    assert wrong.returncode == 1
    assert "PENNON_LOG is 'loud', expected one of trace, debug, info, warning, error" in wrong.stderr


def test_operations_and_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    table = pennon.write_dataset(rows(1, 2, 3), uri)
    with caplog.at_level(logging.DEBUG, "pennon"):
        table.delete("id = 2")
        table.take([0])
        assert table.to_table().num_rows == 2
    # A delete scans for its rows.
    for verb, count in (("delete", 1), ("take", 1), ("scan", 2)):
        texts = messages(caplog, f"{verb} table={uri} ")
        assert len(texts) == count
        for text in texts:
            assert re.search(r"version=\d+ took [\d.]+ ms$", text), text
    assert messages(caplog, "read path=") == []
    caplog.clear()
    # Python knows no level below DEBUG by name; the core's requests are on 5.
    with caplog.at_level(5, "pennon"):
        table.insert(rows(4))
        assert table.to_table().num_rows == 3
    (text,) = messages(caplog, "put_if_absent path=")
    assert f"path={uri}/_versions/" in text
    assert "bytes=" in text
    assert any(f"path={uri}/data/" in text for text in messages(caplog, "read path="))


def test_checksums_of_a_newer_release(tmp_path: Path) -> None:
    """They are passed over, which is said once in a process."""
    for name in "ab":
        pennon.write_dataset(rows(1, 2, 3), str(tmp_path / name))
        (file,) = (tmp_path / name / "data").iterdir()
        written = file.read_bytes()
        kind = written.rindex(b"PENNHASH") + len(b"PENNHASH")
        file.write_bytes(written[:kind] + (6).to_bytes(4, "little") + written[kind + 4 :])
    program = "import sys, pennon\nfor uri in sys.argv[1:]: print(pennon.dataset(uri).to_table()['id'].to_pylist())"
    uris = [str(tmp_path / name) for name in "ab"]
    environment = {**os.environ, "PENNON_LOG": "warning"}
    command = [sys.executable, "-c", program, *uris]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[1, 2, 3]"] * 2
    assert done.stderr.count("checksums of an unknown kind are passed over") == 1
    assert "kind=6" in done.stderr


def test_a_file_of_records(tmp_path: Path) -> None:
    """What `set_logger` writes has the records of the core; without it there is none."""
    program = f"""
import {{}} as lance
lance.set_logger({str(tmp_path / "log.txt")!r}, "pennon", "DEBUG", "%(levelname)s %(name)s %(message)s")
import logging, pennon
pennon.write_dataset({{{{"a": [1]}}}}, {str(tmp_path)!r} + "/{{}}")
logging.getLogger("pennon").info("the last one")
"""
    for package in ("pennon", "lance"):
        (tmp_path / "log.txt").unlink(missing_ok=True)
        text = program.format(package, package)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "log.txt").read_text().splitlines()
        assert lines[-1] == "INFO pennon the last one"
        assert any(line.startswith("DEBUG pennon") for line in lines)
