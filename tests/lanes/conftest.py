"""A session of the installed PySpark: of its own process, or of a server of Spark Connect.

These tests run in environments of their own, see `make lanes`: only the wheel, the package and PySpark are there.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark_pennon
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable

# Tests end before the optimizing compiler pays off; the processes that they start inherit this.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

CONNECT = os.environ.get("PENNON_LANE") == "connect"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.remote("local[2]") if CONNECT else SparkSession.builder.master("local[2]")
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
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
