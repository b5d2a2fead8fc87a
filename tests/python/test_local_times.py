"""Naive local times of versions: each names one moment, also in the hour that comes a second time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from pennon._time import instant, local

MOMENT = 1_761_438_600
"""02:30 of summer time on 2025-10-26, when the clocks of Berlin are set back an hour at 03:00."""


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("seconds", [MOMENT, MOMENT + 3600, MOMENT + 7200])
def test_an_hour_that_comes_again(seconds: int) -> None:
    shown = local((seconds, 5_000))
    assert shown.tzinfo is None
    assert shown.astimezone(timezone.utc) == datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=5)
    assert instant(shown)[0] == seconds
    assert local((MOMENT, 0)) == local((MOMENT + 3600, 0))  # they look the same
