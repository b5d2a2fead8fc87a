"""One Spark session for all tests of a process: starting one costs more than any test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pennon
import pyspark
import pytest
from pennon.optimize import Compaction
from pyspark.sql import SparkSession
from pyspark_pennon import spark_api
from support.long import ATTEMPTS

# Tests end before the optimizing compiler pays off; the processes that they start inherit this.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Of this release the plans are known: a failure to look into one is a fault, and not a slower query.
spark_api.raises_changes = pyspark.__version__.startswith("4.3.")

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    found = Path(sys.prefix, ".java")  # the Java runtime that `make` found or installed
    if "JAVA_HOME" not in os.environ and found.exists():
        os.environ["JAVA_HOME"] = found.read_text().strip()
    session = (
        SparkSession.builder.master(f"local[2,{ATTEMPTS}]")  # with plain local[2] a failed task is not tried again
        .appName("pennon-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Filters are offered to the source in this test."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


@pytest.fixture
def sensitive(spark: SparkSession) -> Iterator[None]:
    """Case matters in this test."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.fixture
def uri(tmp_path: object) -> str:
    return f"{tmp_path}/table.lance"


@pytest.fixture
def lost_compaction(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The answer to the first commit of a compaction is lost. Has an item for each commit."""
    commit, calls = Compaction.commit, list[int]()

    def losing(*given: Any) -> Any:
        metrics = commit(*given)
        calls.append(1)
        if len(calls) == 1:
            raise pennon.CommitUnknownError("the answer was lost")
        return metrics

    monkeypatch.setattr(Compaction, "commit", staticmethod(losing))
    return calls
