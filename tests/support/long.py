"""What takes minutes is tested with `PENNON_LONG_TESTS=1`, as `make nightly` sets it."""

from __future__ import annotations

import os

import pytest

LONG = os.environ.get("PENNON_LONG_TESTS") == "1"

ATTEMPTS = 4 if LONG else 2
"""How often Spark runs a task at most in the session of the tests: a worker that fails is started again."""

long = pytest.mark.skipif(not LONG, reason="minutes: PENNON_LONG_TESTS=1")
