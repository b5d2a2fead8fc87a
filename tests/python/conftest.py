"""Fixtures of the tests of the public API."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
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
    """Two that share nothing with this one, for a test that ends them."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="session")
def workers() -> Iterator[ProcessPoolExecutor]:
    """The same for all tests: they take a second to start."""
    with processes() as executor:
        yield executor
