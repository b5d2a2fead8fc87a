"""Writers are killed at random moments: no acknowledged commit is lost, and a checker that would miss one is found.

`PENNON_KILLS` sets how many are killed; `make nightly` kills 10,000.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pennon
import pytest
from soak.fold import LostError
from soak.journal import Journal, Tail, whole_lines
from soak.kills import ACKNOWLEDGED, WRITERS, Table, run
from soak.processes import WriterError
from soak.tags import Tags
from soak.zygote import Zygote
from support.long import LONG
from support.seeds import SEED
from support.tables import numbers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_000)]
KILLS = int(os.environ.get("PENNON_KILLS", "150" if LONG else "50"))


@pytest.fixture(autouse=True)
def path_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def test_no_acknowledged_commit_is_lost(disk_path: Path) -> None:
    counts = run(KILLS, SEED, WRITERS.split(","), disk_path)
    assert counts["kills"] == KILLS
    assert counts[ACKNOWLEDGED] > KILLS // 2, "the writers hardly got to write"
    for library in set(WRITERS.split(",")):
        assert counts[f"{ACKNOWLEDGED} by {library}"] > KILLS // 20, f"those of {library} hardly got to write"
    assert counts["killed during a change"] > KILLS // 10, "kills hit nothing"


def test_a_manifest_that_is_gone_is_found(tmp_path: Path, zygote: Zygote) -> None:
    """The newest acknowledged version and those after it."""
    table = Table(tmp_path, f"{SEED}", ["pennon"] * 3, zygote)
    table.kill(12)
    versions = acknowledged(tmp_path)
    lost = max(versions)
    for path in (tmp_path / "table" / "_versions").glob("*.manifest"):
        if version_of(path) >= lost:
            path.unlink()
    with pytest.raises(LostError, match=rf"acknowledged commits are missing: version {lost}: writer "):
        table.check()


def test_a_change_that_nobody_meant_is_found(tmp_path: Path, zygote: Zygote) -> None:
    table = Table(tmp_path, f"{SEED}", ["pennon"] * 3, zygote)
    table.kill(12)
    newest = pennon.dataset(table.uri)
    newest.delete("id = 7")
    with pytest.raises(LostError, match=rf"version {newest.version}, Delete: no open intent makes it"):
        table.check()


def test_a_writer_that_acknowledges_too_early_is_found(tmp_path: Path, zygote: Zygote) -> None:
    table = Table(tmp_path, f"{SEED}", ["hasty"], zygote)
    with pytest.raises(LostError):  # noqa: PT012 - which round it is depends on the moments of kills
        for _ in range(20):
            table.kill(10)
            table.check()


def test_a_writer_that_ends_by_itself_is_found(tmp_path: Path, zygote: Zygote) -> None:
    """As by an error that is no conflict: here there is no such library."""
    pid = Table(tmp_path, f"{SEED}", ["unknown"], zygote).start(0)
    while Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1][0] != "Z":
        time.sleep(0.01)
    assert "KeyError: 'unknown'" in (tmp_path / "writer-1.log").read_text()
    with pytest.raises(WriterError, match="a writer ended with status 1"):
        zygote.kill(pid)


@pytest.mark.parametrize("end", [1, None], ids=["acknowledged", "open"])
def test_a_tag_that_is_lost_is_found(tmp_path: Path, end: int | None) -> None:
    """One that was not acknowledged may be there or not."""
    table = pennon.write_dataset(numbers(3), str(tmp_path / "table"))
    journal = Journal(tmp_path / "tags")
    seq = journal.propose({"kind": "tag", "name": "w1-0", "version": 1})
    if end is None:
        Tags([tmp_path / "tags"]).check(table)
        table.tags.create("w1-0", 1)
        Tags([tmp_path / "tags"]).check(table)
        return
    journal.ended(seq, end)
    with pytest.raises(LostError, match=r"tag w1-0 should be of version \{1\}, found None"):
        Tags([tmp_path / "tags"]).check(table)
    table.tags.create("w1-0", 1)
    Tags([tmp_path / "tags"]).check(table)
    table.tags.create("w1-1", 1)
    with pytest.raises(LostError, match=r"tag w1-1 should be of version \{None\}, found 1"):
        Tags([tmp_path / "tags"]).check(table)


def acknowledged(home: Path) -> set[int]:
    tails = [Tail(path, number) for number, path in enumerate(sorted(home.glob("*.journal")), 1)]
    assert all(list(whole_lines(tail.path)) for tail in tails)
    return {proposal.version for tail in tails for proposal in tail.read() if proposal.version is not None}


def version_of(path: Path) -> int:
    """Names count down from the greatest number of 64 bits, or up."""
    number = int(path.name.split(".")[0])
    return number if number < 2**63 else 2**64 - 1 - number
