"""Fixtures of the comparisons with the reference."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where a table is to be."""
    return str(tmp_path / "table")


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def file_version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[True, False], ids=["stable", "addresses"])
def stable(request: pytest.FixtureRequest) -> bool:
    return request.param
