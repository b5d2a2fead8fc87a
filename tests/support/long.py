"""What takes minutes is tested with `PENNON_LONG_TESTS=1`, as `make nightly` sets it."""

from __future__ import annotations

import os

import pytest

LONG = os.environ.get("PENNON_LONG_TESTS") == "1"

long = pytest.mark.skipif(not LONG, reason="minutes: PENNON_LONG_TESTS=1")
