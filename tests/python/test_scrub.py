"""Scrubbing: rate, state, findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pennon
import pytest
from support.files import flip
from support.long import LONG


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    pennon.write_dataset({"a": list(range(200_000)), "b": list(range(200_000))}, uri)
    table = pennon.write_dataset({"a": [1], "b": [1]}, uri, mode="append")
    table.delete("a = 7")
    return uri


def largest(uri: str) -> Path:
    return max(Path(uri, "data").iterdir(), key=lambda path: path.stat().st_size)


def test_findings_name_pages_and_rows(uri: str) -> None:
    clean = pennon.scrub(uri)
    assert clean.ok
    assert clean.files == len([p for p in Path(uri).rglob("*") if p.is_file() and p.suffix != ".json"])
    assert clean.without_checksums == 0
    path = largest(uri)
    flip(path, 100_000)
    report = pennon.scrub(uri)
    [finding] = report.findings
    assert (finding.kind, finding.path, finding.fragment) == ("damaged_file", str(path), 0)
    assert {(page.column, page.rows) for page in finding.pages} == {("a", (0, 200_000))}
    assert "page 0 of column `a`, rows 0 to 200000" in str(report)


def test_a_rate_bounds_the_time(uri: str) -> None:
    size = largest(uri).stat().st_size
    start = time.monotonic()
    pennon.scrub(uri, bytes_per_second=2 * size)
    assert time.monotonic() - start > 0.4


def test_it_goes_on_where_it_was_interrupted(uri: str, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    path = largest(uri)
    flip(path, 100_000)
    seen = []

    def stop(progress: object) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pennon.scrub(uri, state=state, progress=stop)
    assert len(json.loads(state.read_text())["done"]) == 3
    report = pennon.scrub(uri, state=state)
    # The damaged file is looked at again: it may have been repaired.
    assert report.resumed == 2
    assert [finding.path for finding in report.findings] == [str(path)]
    # A complete pass is not gone on with.
    assert pennon.scrub(uri, state=state).resumed == 0


def test_another_scrub_saves_its_state(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process does from its start to its end while this one has written its state and not renamed it."""
    state = tmp_path / "state.json"
    sync, others = os.fsync, []

    def sync_later(file: int) -> None:
        if not others:
            command = [sys.executable, "-m", "pennon", "scrub", uri, "--state", str(state)]
            others.append(subprocess.run(command, check=False).returncode)
            assert json.loads(state.read_text())["complete"]
        sync(file)

    monkeypatch.setattr(os, "fsync", sync_later)
    assert pennon.scrub(uri, state=state).ok
    assert others == [0]
    assert json.loads(state.read_text())["complete"]
    assert [path.name for path in tmp_path.iterdir() if "state" in path.name] == [state.name]


def test_versions_that_are_cleaned_up_meanwhile(uri: str) -> None:
    pennon.dataset(uri).optimize.compact_files()
    cleaned = []

    def clean(progress: object) -> None:
        if not cleaned:
            cleaned.append(pennon.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True))

    report = pennon.scrub(uri, progress=clean)
    assert report.ok, str(report)
    assert report.gone > 3
    assert "removed meanwhile, with their versions" in str(report)


def test_a_file_that_is_missing(uri: str) -> None:
    path = largest(uri)
    removed = []

    def remove(progress: object) -> None:
        if not removed:
            other = min(Path(uri, "data").iterdir(), key=lambda path: path.stat().st_size)
            removed.append(other)
            other.unlink()

    assert largest(uri) == path
    report = pennon.scrub(uri, progress=remove)
    assert [(finding.kind, finding.path) for finding in report.findings] == [("missing_file", str(removed[0]))]


def test_bad_input(uri: str, tmp_path: Path) -> None:
    with pytest.raises(pennon.InvalidInputError, match=r"bytes_per_second must be between 1 and .*, got 0"):
        pennon.scrub(uri, bytes_per_second=0)
    state = tmp_path / "state.json"
    state.write_text("[]")
    with pytest.raises(pennon.CorruptError, match="is not the state of a scrub"):
        pennon.scrub(uri, state=state)
    state.write_text(json.dumps({"uri": "elsewhere", "complete": False, "done": {}}))
    with pytest.raises(pennon.InvalidInputError, match="is the state of a scrub of elsewhere"):
        pennon.scrub(uri, state=state)
    state.write_text(json.dumps({"uri": uri, "complete": False, "done": {"x": {}}}))
    with pytest.raises(pennon.CorruptError, match="is not the state of a scrub"):
        pennon.scrub(uri, state=state)
    with pytest.raises(pennon.StoreError, match="cannot be written to"):
        pennon.scrub(uri, state=tmp_path / "nowhere" / "state.json")
    with pytest.raises(pennon.NotFoundError):
        pennon.scrub(tmp_path / "nothing")


def test_commands(uri: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pennon", *arguments], capture_output=True, text=True, check=False
        )

    done = run("scrub", uri, "--rate", "100M", "--state", str(tmp_path / "state.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing is wrong" in done.stdout
    assert run("scrub", uri, "--rate", "fast").returncode == 2
    assert run("seal", uri).returncode == 0
    assert run("repair", uri).returncode == 0
    flip(largest(uri), 100_000)
    assert run("scrub", uri).returncode == 1
    planned = run("repair", uri)
    assert planned.returncode == 1
    assert "nothing was changed: --yes does this" in planned.stdout
    assert json.loads(run("repair", uri, "--format", "json").stdout)["actions"][0]["kind"] == "quarantine_fragment"
    assert run("seal", str(tmp_path / "nothing")).returncode == 3


WRITER = """
import os, random, sys
from datetime import timedelta
import pennon
uri, stop, seed = sys.argv[1:]
dice, steps = random.Random(seed), 0
while not os.path.exists(stop):
    table = pennon.dataset(uri, durability="os")
    step = dice.randrange(5)
    try:
        if step < 2:
            pennon.write_dataset({"a": [1] * 500, "b": [2] * 500}, uri, mode="append", durability="os")
        elif step == 2:
            table.update({"b": "b + 1"}, where=f"a = {dice.randrange(200_000)}")
        elif step == 3:
            table.optimize.compact_files()
        else:
            table.cleanup_old_versions(timedelta(seconds=dice.choice([1, 3])))
    except pennon.CommitConflictError:
        continue
    steps += 1
print(steps)
"""


@pytest.mark.slow
def test_a_table_that_is_written_meanwhile(uri: str, tmp_path: Path) -> None:
    """Appends, updates, compactions and cleanups by two processes are no damage; a flipped bit is."""
    stop, state = tmp_path / "stop", tmp_path / "state.json"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, uri, stop, str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(2)
    ]
    first = pennon.dataset(uri).version
    try:
        end, reports = time.monotonic() + (6 if LONG else 3), []
        while time.monotonic() < end or pennon.dataset(uri).version < first + 20:
            reports.append(pennon.scrub(uri, state=state, bytes_per_second=20_000_000))
    finally:
        stop.touch()
        steps = [int(writer.communicate()[0] or 0) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert min(steps) > 0
    assert all(report.ok for report in reports), [str(report) for report in reports if not report.ok]
    assert sum(report.files for report in reports) > 20
    assert pennon.verify(uri, data=True).ok
    flip(largest(uri), 100_000)
    assert [finding.kind for finding in pennon.scrub(uri).findings] == ["damaged_file"]
