"""Random programs against a dictionary.

After each step: rows, ids, versions, point lookups, time travel, histories, and the feed between any versions.

`PENNON_MODEL_PROGRAMS` programs of `PENNON_MODEL_STEPS` steps are run: 6, or 300 with `PENNON_LONG_TESTS`.
"""

from __future__ import annotations

import itertools
import os
import random
from functools import partial

import pennon
import pytest
from support.long import LONG
from support.model import Machine, Program, failure, program, report
from support.seeds import seeds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = int(os.environ.get("PENNON_MODEL_PROGRAMS", "300" if LONG else "6"))
STEPS = int(os.environ.get("PENNON_MODEL_STEPS", "30"))
GROUPS = min(PROGRAMS, 10)
NAMES = itertools.count()


def run(steps: Program, seed: int) -> None:
    uri = f"memory://model-{next(NAMES)}"
    dice = random.Random(seed)

    def reader() -> pennon.LanceDataset:
        return pennon.dataset(uri)

    def create(rows: object) -> None:
        table = pennon.write_dataset(rows, uri, max_rows_per_file=dice.choice([4, 1000]))
        if dice.random() < 0.5:
            table.update_config({"lance.row_lineage.inline_max_bytes": str(dice.choice([0, 12, 30]))})

    try:
        machine = Machine(create, lambda _: reader(), reader)
        kept = reader()
        for step in steps:
            machine.run(step)
            kept.checkout_latest()
            machine.check(dice, [reader(), kept])
        reader().validate()
    finally:
        pennon.LanceDataset.drop(uri, ignore_not_found=True)


@pytest.mark.parametrize("group", range(GROUPS))
def test_programs(group: int) -> None:
    for seed in seeds(PROGRAMS)[group::GROUPS]:
        steps = program(seed, STEPS)
        error = failure(partial(run, steps, seed))
        if error is not None:
            pytest.fail(report(error, seed, steps, partial(run, seed=seed)))
