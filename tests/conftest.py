"""What holds for all tests in Python."""

from __future__ import annotations

import pytest

# Failed assertions of the helpers show their values, like those of the tests.
pytest.register_assert_rewrite("support")

# Scripts that write files; to look for examples in them would run them.
collect_ignore = ["golden"]


def pytest_report_header() -> str:
    from support.seeds import SEED

    return f"random tests begin at PENNON_SEED={SEED}"
