"""The keys of a merge: named for those that insert the same at the same time, and bounding what is read."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from typing import Any

import pennon
import pyspark_pennon
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable
from pyspark_pennon.merge import attempt as merge_attempt
from support.long import long

CONNECT = os.environ.get("PENNON_LANE") == "connect"
BOUNDED = "(`id` >= 90) AND (`id` <= 109)"


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    rows = spark.range(0, 100, 1, 2).selectExpr("id", "concat('s', id) AS name", "0 AS number")
    pyspark_pennon.write(rows, uri)
    return LanceTable.forPath(spark, uri)


@pytest.fixture
def source(spark: SparkSession) -> DataFrame:
    rows = spark.range(90, 110).selectExpr("id", "id AS other", "concat('new', id) AS name", "0 AS zero")
    # `struct.id` is a part of a column, and so seems the name of another one.
    return rows.withColumn("struct", fn.struct("id")).withColumn("other id", fn.col("id") - 10)


# A condition, whether keys are named for it, and which rows are read.
Case = tuple[str | Callable[[], Column], bool, str]
CONDITIONS: list[Case] = [
    ("t.id = s.id", True, BOUNDED),
    ("(`t`.`id` = s.ID) AND ((t.number = s . zero))", True, f"{BOUNDED} AND (`number` >= 0) AND (`number` <= 0)"),
    ("t.id = struct.id", True, ""),
    ("t.id = s.id OR t.id = s.id", False, ""),
    (lambda: fn.col("t.id") == fn.col("s.id"), True, BOUNDED),
    (lambda: (fn.col("t.id") == fn.col("other")) & (fn.col("t.number") == 0), True, BOUNDED),
    (lambda: fn.col("t.id") == fn.col("other id"), True, "(`id` >= 80) AND (`id` <= 99)"),
]
MORE_CONDITIONS: list[Case] = [
    ("other = t.id", True, BOUNDED),
    ("t.id == s.id and t.number >= 0", True, BOUNDED),
    ("t.id <=> s.id", True, ""),
    ("t.number BETWEEN 0 AND 1 AND (CASE WHEN t.id IS NOT NULL THEN t.id = s.id END)", False, ""),
    ("NOT t.id = s.id AND t.id IS NULL", False, ""),
    (lambda: fn.col("s.id") == fn.col("t.id"), True, BOUNDED),
    (lambda: fn.col("t.id").eqNullSafe(fn.col("s.id")), True, ""),
    (lambda: (fn.col("t.id") == fn.col("s.id")) | (fn.col("t.id") == fn.col("other")), False, ""),
]


@pytest.mark.parametrize(
    ("condition", "is_named", "bounds"),
    [*CONDITIONS, *(pytest.param(*case, marks=long) for case in MORE_CONDITIONS)],
)
def test_keys_of_a_condition(
    table: LanceTable,
    source: DataFrame,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    condition: str | Callable[[], Column],
    is_named: bool,
    bounds: str,
) -> None:
    read: list[str] = []
    make = merge_attempt.table_frame

    def recorded(spark: SparkSession, table: Any, options: Any, fragments: Any = None) -> DataFrame:
        read.append(options.filter_sql or "")
        return make(spark, table, options, fragments)

    monkeypatch.setattr(merge_attempt, "table_frame", recorded)
    given = condition if isinstance(condition, str) else condition()
    merge = table.alias("t").merge(source.alias("s"), given).whenMatchedUpdate(set={"name": "s.name"})
    counts = (
        merge.whenNotMatchedInsert(values={"id": "s.id", "name": "s.name", "number": "s.zero"})
        .execute()
        .collect()[0]
    )
    if CONNECT and "struct" in str(condition):
        is_named = False
    if bounds.startswith("(`id` >= 80)"):
        # All rows match, so that no key is inserted.
        assert counts.num_updated_rows == 20
        is_named, bounds = False, "" if CONNECT else bounds
    assert read == [bounds]
    transaction = pennon.dataset(uri).read_transaction(2)
    assert transaction is not None
    operation: Any = transaction.operation
    assert (operation.inserted_rows is not None) == is_named
    rows = pennon.dataset(uri).to_table().to_pylist()
    matched = 0 if "NOT t.id" in str(condition) else 10
    assert len(rows) == 120 - max(matched, counts.num_updated_rows)
    assert sum(row["name"].startswith("new") for row in rows) == 20


@pytest.mark.skipif(not CONNECT, reason="The finalizers of other sessions make no requests")
@pytest.mark.parametrize("fails", [False, True])
def test_a_merge_leaves_no_checkpoint_to_the_garbage_collector(
    table: LanceTable, source: DataFrame, fails: bool
) -> None:
    """Its finalizer makes a request, and deadlocks if it is called while another request starts a thread."""
    given = source.unionByName(source) if fails else source
    gc.collect()
    gc.disable()
    logging.disable()  # records that pytest keeps have tracebacks
    try:
        merge = table.alias("t").merge(given.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"name": "s.name"})
        if fails:
            with pytest.raises(pennon.InvalidInputError, match="match one row"):
                merge.execute()
        else:
            assert merge.execute().collect()[0].num_updated_rows == 10
        left = [each for each in gc.get_objects() if type(each).__name__ == "CachedRemoteRelation"]
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()
    assert left == []
