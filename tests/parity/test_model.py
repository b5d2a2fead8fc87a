"""Random programs of which Pennon and the reference each run some steps, against a dictionary."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import lance
import pennon
import pytest
from support.long import LONG
from support.model import Machine, Program, failure, program, report
from support.seeds import seeds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = int(os.environ.get("PENNON_MODEL_PARITY_PROGRAMS", "20" if LONG else "6"))
STEPS = int(os.environ.get("PENNON_MODEL_STEPS", "30"))


def run(steps: Program, seed: int, uri: str) -> None:
    dice = random.Random(seed)
    modules = (lance, pennon)

    def create(rows: object) -> None:
        table = dice.choice(modules).write_dataset(rows, uri, max_rows_per_file=4, enable_stable_row_ids=True)
        # The reference does not look at it unless it has to spill as well.
        if dice.random() < 0.5:
            table.update_config({"lance.row_lineage.inline_max_bytes": str(dice.choice([0, 12, 30]))})

    machine = Machine(
        create,
        lambda number: modules[number // 64 % 2].dataset(uri),
        lambda: pennon.dataset(uri),
    )
    for step in steps:
        machine.run(step)
        theirs = lance.dataset(uri)
        theirs.validate()
        machine.check(dice, [pennon.dataset(uri), theirs])
    pennon.dataset(uri).validate()


@pytest.mark.parametrize("seed", seeds(PROGRAMS))
def test_taking_turns(seed: int, tmp_path: Path) -> None:
    attempts = itertools.count()

    def attempt(steps: Program) -> None:
        run(steps, seed, str(tmp_path / str(next(attempts))))

    steps = program(seed, STEPS)
    error = failure(lambda: attempt(steps))
    if error is not None:
        pytest.fail(report(error, seed, steps, attempt))
