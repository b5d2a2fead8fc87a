"""The script that flips bits of tables, for some tables; and it finds a flip that nobody noticed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pennon
import pytest
from soak.flip_tables import Made
from soak.flips import ERROR, FOUND, HARMLESS, METADATA, PAGES, WRONG, Flipped
from support.seeds import SEED

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parents[1]
TABLES = int(os.environ.get("PENNON_FLIP_TABLES", "10"))


def test_it_runs(tmp_path: Path) -> None:
    results = tmp_path / "counts.json"
    asked = ["--tables", str(TABLES), "--reference", str(TABLES // 3), "--seed", str(SEED)]
    kept = ["--results", str(results), "--directory", str(tmp_path)]
    command = [sys.executable, "-m", "soak.flips", *asked, *kept]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)
    assert ran.returncode == 0, ran.stdout
    counts = json.loads(results.read_text())
    assert counts["tables"] == {"pennon": TABLES, "pylance": TABLES // 3}
    assert counts["faults"] == []
    for kind in ("pennon", "pylance, sealed"):
        assert set(counts["outcomes"][kind]) <= {FOUND, HARMLESS}
        assert counts["outcomes"][kind][FOUND] >= TABLES // 3
    assert [path.name for path in tmp_path.iterdir()] == ["counts.json"]


class Plain(Made):
    """A table of one version without random steps."""

    def __init__(self, library: Any, uri: str) -> None:
        self.library, self.uri, self.dice = library, uri, random.Random(0)
        self.file_version, self.stable, self.shapes = "2.1", False, []
        self.has_vectors = self.has_blobs = False
        self.next = 0
        library.write_dataset(self.rows(3_000), uri, data_storage_version=self.file_version)


def test_flips_of_one_table(tmp_path: Path) -> None:
    """With checksums a flip of a value is found by reads that look at them, and without it gives another value."""
    for library, options, outcome in [
        (pennon, PAGES, FOUND),
        (pennon, METADATA, f"{WRONG}, found"),
        (lance, PAGES, WRONG),
    ]:
        table = Flipped(Plain(library, str(tmp_path / f"{library.__name__}-{options['verify_reads']}")))
        assert table.is_sound()
        [path] = Path(table.made.uri, "data").iterdir()
        keep = tmp_path / f"fault-{library.__name__}-{options['verify_reads']}"
        # The lowest bit of a number in the middle of the first column.
        assert table.outcome(path, 8 * 2_048, options, keep) == outcome
        assert keep.exists() == (outcome == WRONG)
        assert table.is_sound()


def test_an_error_that_verification_does_not_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Flipped(Plain(pennon, str(tmp_path / "table")))
    [path] = Path(table.made.uri, "data").iterdir()
    monkeypatch.setattr(table, "_verified", lambda path: HARMLESS)
    assert table.outcome(path, 8 * 2_048, PAGES) == ERROR
