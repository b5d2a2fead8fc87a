"""One Spark session for all tests of a process: starting one costs more than any test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pennon
import pyspark
import pytest
from pennon.optimize import Compaction
from pyspark.sql import SparkSession
from pyspark_pennon import spark_api
from support.long import ATTEMPTS
from support.spark_session import environment, start_session

# The processes that tests start inherit it.
os.environ.update(environment())

# Of this release the plans are known: a failure to look into one is a fault, and not a slower query.
spark_api.raises_changes = pyspark.__version__.startswith("4.3.")

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    # With plain local[2] a failed task is not tried again.
    session = start_session(f"local[2,{ATTEMPTS}]", {"spark.sql.warehouse.dir": warehouse})
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
