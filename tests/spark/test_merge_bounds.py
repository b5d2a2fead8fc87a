"""The bounds of a merge's keys: which rows of the table are read at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable, read
from pyspark_pennon.merge import attempt as merge_attempt

MOMENT = datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)


KINDS: list[tuple[pa.DataType, Callable[[int], Any], str]] = [
    (pa.int8(), lambda at: at, "<= 13"),
    (pa.uint8(), lambda at: at, "<= 13"),
    (pa.uint32(), lambda at: at + (1 << 31), "<= 2147483661"),
    (pa.uint64(), lambda at: at + (1 << 63), "<= 9223372036854775821"),
    (pa.string(), lambda at: f"key {at:02}", "<= 'key 13'"),
    (pa.large_string(), lambda at: f"key {at:02}", "<= 'key 13'"),
    (pa.date32(), lambda at: date(2026, 2, 1) + timedelta(at), "<= DATE '2026-02-14'"),
    (pa.date32(), lambda at: date(1, 1, 1) + timedelta(at), "<= DATE '0001-01-14'"),
    (pa.decimal128(12, 3), lambda at: Decimal(at) / 8, "<= CAST('1.625' AS DECIMAL(12, 3))"),
    # In the night in which clocks are turned back: an hour of local time comes again.
    (pa.timestamp("us", "UTC"), lambda at: MOMENT + timedelta(minutes=10 * at), "2026-10-25T02:40:00Z"),
    (pa.timestamp("s", "UTC"), lambda at: MOMENT + timedelta(minutes=10 * at), "2026-10-25T02:40:00Z"),
    (
        pa.timestamp("us"),
        lambda at: MOMENT.replace(tzinfo=None) + timedelta(microseconds=at),
        "2026-10-25T00:30:00.000013",
    ),
]


def test_bounds_of_keys_reach_the_scan(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of the source's keys, of each kind, skip rows of the table, and none that match."""
    keys = {f"key{at}": pa.array([value(n) for n in range(40)], kind) for at, (kind, value, _) in enumerate(KINDS)}
    table = pennon.write_dataset({**keys, "n": list(range(40))}, uri, max_rows_per_file=10)
    scans, make = [], merge_attempt.table_frame
    bounds, find = list[str](), merge_attempt.bounds_of

    def recorded(spark: SparkSession, table: Any, options: Any, fragments: Any = None) -> DataFrame:
        frame = make(spark, table, options, fragments)
        scans.append((options.filter_sql, frame))
        return frame

    def found(*given: Any) -> tuple[int, list[str]]:
        count, predicates = find(*given)
        bounds.extend(predicates)
        return count, predicates

    monkeypatch.setattr(merge_attempt, "table_frame", recorded)
    monkeypatch.setattr(merge_attempt, "bounds_of", found)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        source = read(spark, uri, where="n BETWEEN 8 AND 13").selectExpr(*keys, "n + 100 n").alias("s")
        merge = (
            LanceTable.forPath(spark, uri).alias("t").merge(source, " AND ".join(f"t.{k} = s.{k}" for k in keys))
        )
        assert merge.whenMatchedUpdateAll().execute().first().num_updated_rows == 6
        ((predicate, frame),) = scans
        assert frame.count() == 6
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert sorted(lance.dataset(uri).to_table(columns=["n"])["n"].to_pylist()) == [
        *range(8),
        *range(14, 40),
        *range(108, 114),
    ]
    assert predicate == " AND ".join(f"({bound})" for bound in bounds)
    for key, (kind, _, expected) in zip(keys, KINDS, strict=True):
        own = [bound for bound in bounds if f"`{key}`" in bound]
        assert len(own) == 2, kind
        assert expected in own[1], kind
        kept = table.to_table(columns=["n"], filter=" AND ".join(own), scan_in_order=True)
        assert kept["n"].to_pylist() == list(range(8, 14)), kind


def test_bounds_that_python_has_no_value_for(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = pa.array([-800_000, 0, 5_000_000], pa.int32()).cast(pa.date32())
    pennon.write_dataset({"key": days, "n": [1, 2, 3]}, uri)
    source = spark.sql("SELECT date_from_unix_date(n) key FROM VALUES (-800000), (5000000) AS v(n)").alias("s")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(source, "t.key = s.key")
    assert merge.whenMatchedUpdate(set={"n": "7"}).execute().first().num_updated_rows == 2
    assert sorted(lance.dataset(uri).to_table(columns=["n"])["n"].to_pylist()) == [2, 7, 7]
    nanoseconds = pa.array([1_000_000_001], pa.timestamp("ns", "UTC"))
    pennon.write_dataset({"key": nanoseconds, "n": [1]}, f"{uri}-ns")
    source = read(spark, f"{uri}-ns").select("key").alias("s")
    merge = LanceTable.forPath(spark, f"{uri}-ns").alias("t").merge(source, "t.key = s.key")
    assert merge.whenMatchedUpdate(set={"n": "7"}).execute().first().num_updated_rows == 1
