"""A session of the installed PySpark: of its own process, or of a server of Spark Connect.

These tests run in environments of their own: only the wheel, the package and PySpark are there. `make test` runs
those of Spark Connect, `make lanes` all of them, the long ones too.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pyspark_pennon
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable
from support.spark_session import start_session

CONNECT = os.environ.get("PENNON_LANE") == "connect"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session(connect=CONNECT)
    # What is there now stays, and need not be looked at after each test.
    gc.freeze()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def finalized() -> Iterator[None]:
    """Frees here what pytest held by the tracebacks of log records.

    The finalizer of a checkpoint makes a request, and deadlocks if it is called while another one starts a thread.
    """
    yield
    if CONNECT:
        gc.collect()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def table(frame: DataFrame, uri: str) -> LanceTable:
    """The rows of the file's `frame`."""
    pyspark_pennon.write(frame, uri)
    return LanceTable.forPath(frame.sparkSession, uri)
