"""How many processors Pennon computes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pennon
import pytest
from support.tables import numbers


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = pennon.cpu_count()
    yield
    pennon.set_cpu_count(before)


def test_the_system_says_how_many() -> None:
    assert 1 <= pennon.cpu_count() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_answers_are_the_same_with_any_number(uri: str, count: int) -> None:
    pennon.set_cpu_count(count)
    assert pennon.cpu_count() == count
    table = pennon.write_dataset(numbers(10_000), uri, max_rows_per_file=1_000)
    table.update({"text": "'seven'"}, "id = 7")
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute(numbers(100, 9_950))["num_inserted_rows"] == 50
    assert table.count_rows("text = 'seven'") == 1
    assert sorted(table.to_table()["id"].to_pylist()) == list(range(10_050))
    assert table.changes(1).read_all().num_rows > 0
    assert table.optimize.compact_files().fragments_removed > 0


@pytest.mark.parametrize("count", [0, -1, 65_537, 10**30])
def test_a_count_that_cannot_be(count: int) -> None:
    before = pennon.cpu_count()
    with pytest.raises(pennon.InvalidInputError, match=f"The number of processors is {count}, expected 1 to 65536"):
        pennon.set_cpu_count(count)
    assert pennon.cpu_count() == before
    with pytest.raises(TypeError):
        pennon.set_cpu_count(1.5)  # type: ignore[arg-type]


def started(count: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import pennon; print(pennon.cpu_count())"]
    return subprocess.run(command, env={**os.environ, "PENNON_CPU_COUNT": count}, capture_output=True, text=True)


def test_the_environment_says_how_many() -> None:
    assert started("3").stdout.strip() == "3"


@pytest.mark.parametrize("count", ["0", "-1", "many", "", "1.5"])
def test_an_environment_that_cannot_be(count: str) -> None:
    done = started(count)
    assert done.returncode == 1
    assert f"PENNON_CPU_COUNT is '{count}', expected a whole number from 1 to 65536" in done.stderr
