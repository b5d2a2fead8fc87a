"""Starts Spark as tests need it: quickly, quietly and without a network."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def environment() -> dict[str, str]:
    """That of a process which starts Spark."""
    found = Path(sys.prefix, ".java")  # the Java runtime that `make` found or installed
    java = {"JAVA_HOME": found.read_text().strip()} if found.exists() else {}
    # Tests end before the optimizing compiler pays off.
    options = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**java, **options, "SPARK_LOCAL_IP": "127.0.0.1", **os.environ, **python}


def start_session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None, *, connect: bool = False
) -> SparkSession:
    """A session of this process, or of a server of Spark Connect that it starts."""
    os.environ.update(environment())
    builder = SparkSession.builder.remote(master) if connect else SparkSession.builder.master(master)
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not connect:
        session.sparkContext.setLogLevel("OFF")
    return session
