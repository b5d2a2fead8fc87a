"""Pushed filters: whatever is taken over must give exactly the rows that Spark would keep."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pennon
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNull, Not, StringStartsWith
from pyspark_pennon import read
from pyspark_pennon.filters import Translator
from pyspark_pennon.schema import spark_schema

STAMP = datetime.datetime(2024, 3, 31, 1, 30, tzinfo=datetime.timezone.utc)
DATA = pa.table(
    {
        "i": pa.array([1, 2, None, -3, 2**31 - 1, 0], pa.int32()),
        "u": pa.array([0, 255, None, 7, 1, 2], pa.uint8()),
        "f": pa.array([0.0, -0.0, math.nan, None, 1.5, -math.inf], pa.float64()),
        "g": pa.array([0.5, math.nan, -math.nan, None, 0.10000000149011612, math.inf], pa.float32()),
        "s": pa.array(["it's", "", None, "ab", "aß", "a%b"]),
        "b": pa.array([True, False, None, True, False, None]),
        "d": pa.array([Decimal("1.10"), Decimal("-2.00"), None, Decimal("0.01"), None, Decimal("3.00")]),
        "day": pa.array([datetime.date(2024, 3, d) for d in (1, 2, 3)] + [None] * 3),
        "ts": pa.array([STAMP, None, STAMP + datetime.timedelta(microseconds=1)] * 2, pa.timestamp("us", "UTC")),
        "ntz": pa.array([STAMP.replace(tzinfo=None), None] * 3, pa.timestamp("us")),
        "st": pa.array([{"a": 1}, None, {"a": None}, {"a": 2}, {"a": 3}, None], pa.struct({"a": pa.int64()})),
    }
)

PREDICATES = [
    "i = 2",
    "i <> 2",
    "i < 1",
    "i >= 1",
    "i <=> 2",
    "i <=> null",
    "not (i <=> 2)",
    "i in (1, 0)",
    "i not in (1, 0)",
    "i in (1, null)",
    "i is null",
    "i is not null",
    "u = 255",
    "u > 1",
    "u > -1",
    "f = 0.0D",
    "f >= 0.0D",
    "f = 1.5D",
    "f > 1.0D",
    "f <= 1.0D",
    "not (f > 1.0D)",
    "f = double('nan')",
    "f < double('nan')",
    "f in (1.5D, 0.0D)",
    "f in (1.5D, 2.5D)",
    "g > 0.2F",
    "g < 0.2F",
    "g = 0.1F",
    "s = 'it\\'s'",
    "s = ''",
    "s > 'aa'",
    "s like 'a%'",
    "s like '%b'",
    "s like '%%%'",
    "startswith(s, 'a%')",
    "not startswith(s, 'a')",
    "contains(s, 'ß')",
    "s in ('ab', 'a%b')",
    "b",
    "not b",
    "b = true",
    "b <> true",
    "d = 1.10",
    "d > 0.015",
    "d <= 1",
    "day = date'2024-03-02'",
    "day > date'2024-03-01'",
    "ts = timestamp'2024-03-31 01:30:00'",
    "ts > timestamp'2024-03-31 01:30:00'",
    "ntz = timestamp_ntz'2024-03-31 01:30:00'",
    "ntz < timestamp_ntz'2024-03-31 01:30:00'",
    "st.a = 1",
    "st.a is null",
    "st is null",
    "i > 0 and s like 'a%' and f is not null",
    "i = 1 or s = 'ab'",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("filters") / "table.lance")
    ids = DATA.append_column("id", pa.array(range(DATA.num_rows)))
    pennon.write_dataset(ids, uri, max_rows_per_file=4)
    return uri


def kept(frame: DataFrame, predicate: str) -> list[int]:
    return sorted(row.id for row in frame.where(predicate).collect())


@pytest.mark.usefixtures("pushdown")
def test_pushed_filters_keep_what_spark_keeps(spark: SparkSession, table: str) -> None:
    frame = read(spark, table)
    # Spark's own evaluation, over rows that came from no source, of all predicates at once.
    # (Not cached: statistics of the cache leave out NaN.)
    local = spark.createDataFrame(frame.collect(), frame.schema)
    verdicts = local.select("id", *(fn.expr(predicate) for predicate in PREDICATES)).collect()
    for at, predicate in enumerate(PREDICATES, start=1):
        # A frame of its own for each: Spark keeps pushed filters with the frame.
        found = kept(read(spark, table, push_filters=True), predicate)
        assert found == sorted(row.id for row in verdicts if row[at]), predicate


@pytest.mark.usefixtures("pushdown")
def test_a_frame_can_be_used_again(spark: SparkSession, table: str) -> None:
    frame = read(spark, table)
    assert kept(frame, "i = 1") == [0]
    assert frame.count() == DATA.num_rows
    assert kept(frame.where("i = 1").union(frame.where("i = 2")), "true") == [0, 1]


def filters_in_plan(frame: DataFrame) -> str:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return "\n".join(line for line in plan.splitlines() if "Filter " in line)


@pytest.mark.usefixtures("pushdown")
def test_what_is_pushed(spark: SparkSession, table: str) -> None:
    pushing = read(spark, table, with_row_id=True, push_filters=True)
    assert filters_in_plan(pushing.where("i = 2 and s like 'a%' and _rowid = 1")) == ""
    nested = read(spark, table, push_filters=True)
    assert "st" in filters_in_plan(nested.where("st.a = 1 and i = 2"))
    assert "i#" in filters_in_plan(read(spark, table).where("i = 2"))
    both = read(spark, table, filter="u < 10", columns=["id", "i"], push_filters=True)
    assert kept(both, "i >= 0") == [0, 4, 5]


def test_filters_work_when_spark_offers_none(spark: SparkSession, table: str) -> None:
    assert kept(read(spark, table, push_filters=True), "i >= 1") == [0, 1, 4]


def test_translations() -> None:
    spark = {field.name: field.dataType for field in spark_schema(DATA.schema).fields}
    translate = Translator(DATA.schema, spark).translate
    assert translate(EqualTo(("i",), 5)) == "`i` = 5"
    assert translate(EqualTo(("s",), "it's")) == "`s` = 'it''s'"
    assert translate(Not(In(("i",), (1, 2)))) == "NOT (`i` IN (1, 2))"
    assert translate(GreaterThan(("f",), 1.5)) == "(`f` > 1.5 OR isnan(`f`))"
    assert translate(StringStartsWith(("s",), "a")) == "starts_with(`s`, 'a')"
    assert translate(IsNull(("st",))) == "`st` IS NULL"
    for refused in (
        EqualTo(("st", "a"), 1),
        EqualTo(("f",), 0.0),
        EqualTo(("f",), math.nan),
        EqualTo(("i",), True),
        EqualTo(("u",), -1),
        EqualTo(("d",), Decimal("0.015")),
        In(("i",), (1, None)),
        EqualTo(("unknown",), 1),
        StringStartsWith(("i",), "1"),
    ):
        assert translate(refused) is None, refused
