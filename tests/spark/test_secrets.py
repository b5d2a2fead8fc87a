"""Credentials stay out of plans, representations and exceptions; every worker has the wheel of the driver."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import pennon
import pyarrow as pa
import pyspark_pennon
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import read, write
from pyspark_pennon.options.source import REDACTION, ReadOptions, WriteOptions, session_storage_options
from pyspark_pennon.tasks import plans, releases
from pyspark_pennon.writes.writer import Writer
from support.spark_frames import plan_texts

SECRET = "FAKE5ECRET"
STORAGE = {"aws_secret_access_key": SECRET, "azure_storage_account_key": SECRET, "aws_session_token": SECRET}
OPTIONS = {f"storage.{key}": value for key, value in STORAGE.items()}


def test_plans_have_no_credentials(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"id": [1, 2, 3]}), uri)
    frame = read(spark, uri, storage_options=STORAGE, where="id > 1")
    loaded = spark.read.format("pennon").options(**OPTIONS).load(uri)
    for found in (frame, loaded.where("id > 1"), frame.join(loaded, "id")):
        texts = plan_texts(found)
        assert "id" in texts
        assert SECRET not in texts
        assert found.count() == 2
    done = write(frame, uri, mode="append", storage_options=STORAGE)
    frame.write.format("pennon").mode("append").options(**OPTIONS).save(uri)
    assert SECRET not in str(done)
    options = ReadOptions.parse({"path": uri, **OPTIONS}), WriteOptions.parse({"path": uri, **OPTIONS})
    assert options[0].storage_options == STORAGE
    writer = Writer.of(options[1], frame.schema, overwrite=False)
    assert SECRET not in repr((*options, writer, writer.plan.plan.task(0)))


@pytest.mark.parametrize("api", ["functions", "data source"])
def test_exceptions_have_no_credentials(spark: SparkSession, uri: str, api: str) -> None:
    def loaded(path: str, **more: str) -> Callable[[], object]:
        if api == "functions":
            return lambda: read(spark, path, storage_options=STORAGE, **more)
        return lambda: spark.read.format("pennon").options(**OPTIONS, **more).load(path)

    def saved(frame: DataFrame, mode: str) -> Callable[[], object]:
        if api == "functions":
            return lambda: write(frame, uri, mode=mode, storage_options=STORAGE)
        return lambda: frame.write.format("pennon").mode(mode).options(**OPTIONS).save(uri)

    broken = spark.range(2).selectExpr("IF(id = 1, raise_error('no'), id) AS id")
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    for call in [
        loaded(f"{uri}-not"),
        loaded(uri, filter_sql="id >"),
        saved(spark.sql("SELECT 'x' AS id"), "append"),
        saved(broken, "append"),
    ]:
        with pytest.raises((PySparkException, ValueError)) as caught:
            call()
        assert SECRET not in str(caught.value) + repr(caught.value) + str(caught.value.__cause__)


class Started:
    """The settings that a session was started with."""

    def __init__(self, **settings: str) -> None:
        self._settings = {name.replace("__", "."): value for name, value in settings.items()}

    def get(self, name: str, default: str | None) -> str | None:
        return self._settings.get(name, default)

    def contains(self, name: str) -> bool:
        return name in self._settings


def test_options_of_the_session(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    region, key = "spark.pennon.storage.aws_regoin", "spark.pennon.storage.account_key"
    spark.conf.set(region, "x")
    try:
        with pytest.raises(pennon.InvalidInputError, match="aws_region"):
            read(spark, uri)
        with pytest.raises(pennon.InvalidInputError, match="aws_region"):
            write(spark.range(1), uri, mode="append")
        spark.conf.set(region.replace("regoin", "region"), "from the session")
        spark.conf.unset(region)
        assert session_storage_options(spark, None) == {"aws_region": "from the session"}
        assert session_storage_options(spark, {"aws_region": "y"}) == {"aws_region": "y"}
        assert read(spark, uri).count() == 1
        # Spark would write this to its event log.
        spark.conf.set(key, SECRET)
        with pytest.raises(pennon.InvalidInputError, match="event log: set it when the session is made") as caught:
            read(spark, uri)
        assert SECRET not in str(caught.value)
        started = {key.replace(".", "__"): SECRET}
        for settings, is_fine in [(started, False), ({**started, "spark__redaction__regex": REDACTION}, True)]:
            monkeypatch.setattr(type(spark.sparkContext), "getConf", lambda _self, found=settings: Started(**found))
            if is_fine:
                assert session_storage_options(spark, None)["account_key"] == SECRET
            else:
                with pytest.raises(pennon.InvalidInputError, match=r"spark\.redaction\.regex"):
                    session_storage_options(spark, None)
    finally:
        for name in (region, region.replace("regoin", "region"), key):
            spark.conf.unset(name)


def test_executors_have_the_release_of_the_driver(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    wheel, own = pennon.__version__, pyspark_pennon.__version__
    monkeypatch.setattr(pennon, "__version__", "9.8.7")
    here = f"this executor has pennon {wheel} and pyspark-pennon {own}"
    expected = re.escape(f"has pennon 9.8.7 and pyspark-pennon {own}, but {here}: ")
    with pytest.raises(PySparkException, match=expected):
        read(spark, uri).collect()
    with pytest.raises(pennon.UnsupportedError, match=expected):
        write(spark.range(0, 2, 1, 1), uri, mode="append")
    with pytest.raises(pennon.UnsupportedError, match=r"9\.8\.7"):
        releases.check_release(wheel)
    assert TaskContext.get() is None
    assert pickle.loads(pickle.dumps(plans.ShippedPlan(("{}",), True, "9.8.7"))).release == "9.8.7"
    assert pennon.dataset(uri).version == 1
