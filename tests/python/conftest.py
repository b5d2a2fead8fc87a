"""Fixtures of the tests of the public API."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pennon
import pytest
from support.tables import numbers


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table.lance")


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Ten rows in fragments of four."""
    return pennon.write_dataset(numbers(10), uri, max_rows_per_file=4, durability="os")


def processes() -> ProcessPoolExecutor:
    """Two that share nothing with this one."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
