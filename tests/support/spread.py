"""Fewer cases of a test with many: `make test` takes a choice that covers, `make nightly` runs every case."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from typing import Any

import pytest

from support.long import LONG


def spread(*, of: int = 2, times: int = 1) -> pytest.MarkDecorator:
    """Without `PENNON_LONG_TESTS=1` only so many cases that each combination of values of `of` parameters is in
    `times` of them, or in all that there are."""
    return pytest.mark.spread(of=of, times=times)


def covering(cases: Sequence[tuple[int, ...]], of: int, times: int) -> list[int]:
    """The positions of such cases. Always that one is next which adds most, of values that are rarest so far."""
    combined = [list(itertools.combinations(enumerate(case), min(of, len(case)))) for case in cases]
    available = Counter(itertools.chain.from_iterable(combined))
    missing = {combination: min(times, count) for combination, count in available.items()}
    used: Counter[tuple[int, int]] = Counter()
    left, found = list(range(len(cases))), []

    def worth(position: int) -> tuple[int, int]:
        adds = sum(missing[combination] > 0 for combination in combined[position])
        return adds, -sum(used[value] for value in enumerate(cases[position]))

    while any(missing.values()):
        best = max(left, key=worth)
        left.remove(best)
        found.append(best)
        used.update(enumerate(cases[best]))
        for combination in combined[best]:
            missing[combination] -= missing[combination] > 0
    return sorted(found)


def left_out(items: Sequence[pytest.Item], named: Container[str] = ()) -> set[pytest.Item]:
    """The cases of marked tests that do not run; those that are named do."""
    tests: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("spread") is not None and item.nodeid not in named:
            tests[item.nodeid.partition("[")[0]].append(item)
    out: set[pytest.Item] = set()
    for test, cases in () if LONG else tests.items():
        mark = cases[0].get_closest_marker("spread")
        if not hasattr(cases[0], "callspec"):
            raise pytest.UsageError(f"{test} is marked spread and has no parameters")
        # Values are told apart by identity: not all can be hashed.
        values = [tuple(map(id, case.callspec.params.values())) for case in cases]
        kept = set(covering(values, **mark.kwargs))
        out.update(case for position, case in enumerate(cases) if position not in kept)
    return out
