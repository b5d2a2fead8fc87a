"""The soak for some seconds, so that it runs when it is wanted; and it finds an answer that is wrong."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pennon
import pytest
from soak.answers import WrongAnswerError
from soak.indices import Round

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parents[1]


def test_it_runs(tmp_path: Path) -> None:
    asked = ["--seconds", "3", "--round", "1.5", "--seed", os.environ.get("PENNON_SEED", "0")]
    command = [sys.executable, "-m", "soak.indices", *asked, "--directory", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert ran.returncode == 0, ran.stdout
    assert "soak: 2 rounds" in ran.stdout
    assert not any(tmp_path.iterdir())


def test_a_wrong_answer_is_found_and_told(tmp_path: Path, stable: bool) -> None:
    """An index that claims fragments whose rows it does not have."""
    round = Round(tmp_path, 0 if stable else 1, seed=0, writers=0, libraries=["pennon"])
    table = pennon.dataset(round.uri)
    every = {fragment.fragment_id for fragment in table.get_fragments()}
    table.drop_index("k_idx")
    part = table.create_index_uncommitted("k", "BITMAP", name="k_idx", fragment_ids=[0])
    operation = pennon.LanceOperation.CreateIndex([dataclasses.replace(part, fragment_ids=every)], [])
    pennon.LanceDataset.commit(round.uri, operation, read_version=table.version)
    with pytest.raises(
        WrongAnswerError, match=r"by pennon: k .* use_scalar_index=True\n .*\n  missing: \["
    ) as found:
        round.run(60)
    assert f"version {table.version + 1}" in str(found.value)
    report = round.report()
    assert f"k_idx Bitmap {part.uuid}" in report
    assert "CreateIndex" in report
