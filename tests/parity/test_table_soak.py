"""The soak of whole tables for some seconds; it finds lost changes, and files that are not named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pennon
import pytest
from soak.effects import SHARED, table_of
from soak.fold import Fold, LostError, first_state
from soak.journal import Journal
from soak.orphans import FilesError, check_files
from support.long import LONG

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]
TESTS = Path(__file__).parents[1]
SECONDS, KILL_EVERY = ("300", "2") if LONG else ("2", "1")
UPDATE = {"kind": "update", "change": "count", "low": 0, "high": 9, "every": 1, "rest": 0}


def test_it_runs(tmp_path: Path) -> None:
    asked = ["--seconds", SECONDS, "--kill-every", KILL_EVERY, "--seed", os.environ.get("PENNON_SEED", "0")]
    command = [sys.executable, "-m", "soak.tables", *asked, "--directory", str(tmp_path)]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)
    assert ran.returncode == 0, ran.stdout
    assert " versions compared, " in ran.stdout
    assert not any(tmp_path.iterdir())


class Setup:
    """A table of the soak, its journal and its model."""

    def __init__(self, home: Path) -> None:
        self.home, self.uri = home, str(home / "table")
        self.table = pennon.write_dataset(table_of(range(SHARED), 7), self.uri, enable_stable_row_ids=True)
        self.fold = Fold(self.uri, {}, [home / "journal"], "0")
        self.fold.begin(first_state(7, self.table), 1)
        self.journal = Journal(home / "journal")


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_a_change_that_is_not_acknowledged_is_found(setup: Setup) -> None:
    """Its intent was logged, and its writer was killed."""
    setup.journal.propose(UPDATE)
    setup.table.update({"n": "coalesce(n, 0) + 1"}, "id < 9")
    setup.fold.check()
    setup.fold.end()
    assert setup.fold.counts["found without acknowledgement"] == 1


def test_a_lost_row_is_found(setup: Setup) -> None:
    """A writer that updates fewer rows than it says."""
    seq = setup.journal.propose(UPDATE)
    setup.table.update({"n": "coalesce(n, 0) + 1"}, "id < 8")
    setup.journal.ended(seq, setup.table.version)
    with pytest.raises(LostError, match=r"version 2, Update: writer 1(.|\n)*not expected: \[\(8, Row"):
        setup.fold.check()


def test_a_lost_commit_is_found(setup: Setup) -> None:
    seq = setup.journal.propose(UPDATE)
    setup.journal.ended(seq, 2)
    setup.fold.check()
    with pytest.raises(LostError, match="acknowledged commits are missing: version 2: writer 1"):
        setup.fold.end()


def test_a_change_that_nobody_meant_is_found(setup: Setup) -> None:
    """As of a writer that was told that its commit failed."""
    seq = setup.journal.propose(UPDATE)
    setup.journal.ended(seq, None)
    setup.table.update({"n": "coalesce(n, 0) + 1"}, "id < 9")
    with pytest.raises(LostError, match="version 2, Update: no open intent makes it"):
        setup.fold.check()


def test_intents_that_make_the_same_are_told_apart(tmp_path: Path) -> None:
    """Two writers change no row; the checker takes the first one's intent for the second one's version."""
    setup = Setup(tmp_path)
    setup.fold = Fold(setup.uri, {}, [tmp_path / "journal", tmp_path / "other"], "0")
    setup.fold.begin(first_state(7, setup.table), 1)
    other, none = Journal(tmp_path / "other"), {**UPDATE, "low": 900, "high": 900}
    first, second = setup.journal.propose(none), other.propose({**none, "kind": "delete"})
    setup.table.delete("id >= 900 AND id < 900")
    setup.fold.check()
    setup.table.update({"n": "coalesce(n, 0) + 1"}, "false")
    setup.journal.ended(first, 3)
    other.ended(second, 2)
    setup.fold.check()
    setup.fold.end()


def test_a_file_that_is_not_named_is_found(setup: Setup) -> None:
    """A name that no writer gives is left alone by a cleanup."""
    assert check_files(setup.uri, {}, setup.home)["orphans"] == 0
    Path(setup.uri, "data", "notes.txt").write_text("mine")
    with pytest.raises(FilesError, match=r"only in the first \['data/notes.txt'\]"):
        check_files(setup.uri, {}, setup.home)
