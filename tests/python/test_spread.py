"""Which cases of a test `make test` runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from support.spread import covering, left_out

SIZES = [(2, 2, 2, 2), (10, 2, 2, 3), (35, 7), (8, 3, 2, 2), (4,)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("of", "times"), [(1, 1), (1, 3), (2, 1), (3, 1)])
def test_each_combination_is_among_them(sizes: tuple[int, ...], of: int, times: int) -> None:
    cases = list(itertools.product(*map(range, sizes)))
    found = [cases[position] for position in covering(cases, of, times)]

    def combinations(cases: list[tuple[int, ...]]) -> Counter[tuple[tuple[int, int], ...]]:
        return Counter(chosen for case in cases for chosen in itertools.combinations(enumerate(case), of))

    every, of_found = combinations(cases), combinations(found)
    assert all(of_found[chosen] >= min(times, count) for chosen, count in every.items())
    fewest = times * math.prod(sorted(sizes)[-of:])
    assert min(fewest, len(cases)) <= len(found) <= fewest * 1.6
    assert set(found) <= set(cases)
    assert len(set(found)) == len(found)


class Case:
    """What pytest has of a case of a marked test."""

    def __init__(self, test: str, **params: object) -> None:
        self.nodeid = f"{test}[{'-'.join(map(str, params.values()))}]" if params else test
        if params:
            self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name: str) -> object:
        return SimpleNamespace(kwargs={"of": 1, "times": 1})


def test_a_case_that_is_named_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.spread.LONG", False)
    cases: Any = [Case("test", a=a, b=b) for a in range(3) for b in range(3)]
    out = left_out(cases)
    assert len(out) == 6
    names = {case.nodeid for case in out}
    assert left_out(cases, names) == set()
    with pytest.raises(pytest.UsageError, match="test is marked spread and has no parameters"):
        left_out([Case("test")])  # type: ignore[list-item]
    monkeypatch.setattr("support.spread.LONG", True)
    assert left_out(cases) == set()


def test_cases_that_are_left_out_by_others_are_not_missed() -> None:
    """Crosses may have holes."""
    assert covering([(0, 0), (1, 1), (1, 0)], 2, 1) == [0, 1, 2]
    assert covering([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], 1, 1) == [0, 3, 4]
