"""Filters: whatever a scan takes over must give exactly the rows that Spark would keep."""

from __future__ import annotations

import datetime
import math
import re
import time
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNull, Not, StringStartsWith
from pyspark_pennon import LanceTable, read, spark_api, write
from pyspark_pennon.catalyst import conditions, needed_columns, plans
from pyspark_pennon.catalyst.conditions import analysed
from pyspark_pennon.catalyst.filters import Translator
from pyspark_pennon.merge import plan
from pyspark_pennon.types.schema import spark_schema

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
        "w": pa.array([0, 2**32 - 1, None, 7, 1, 2], pa.uint32()),
        "h": pa.array([0.0, -0.0, math.nan, None, 1.5, -math.inf], pa.float16()),
        "long": pa.array(["now", "", None, "ab", "\ufffd", "a"], pa.large_string()),
        "code": pa.array(["ab", None, "b", "ab", "", "a"]).dictionary_encode(),
        "ms": pa.array([STAMP, None, STAMP + datetime.timedelta(seconds=1)] * 2, pa.timestamp("ms", "Asia/Tokyo")),
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
    "w = 4294967295",
    "w > -1",
    "not (w < 2)",
    "h > 1.0F",
    "h = 1.5F",
    "not (h < 1.0F)",
    "long >= 'now'",
    "long like 'a%'",
    "code = 'ab'",
    "code <> ''",
    "ms = timestamp'2024-03-31 01:30:00'",
    "ms > timestamp'2024-03-31 01:30:00'",
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


def verdicts(spark: SparkSession, table: str, predicates: list[str]) -> list[list[int]]:
    """The ids that each predicate keeps: Spark's own evaluation, of rows that came from no source, in one job."""
    frame = read(spark, table)
    # (Not cached: statistics of the cache leave out NaN.)
    local = spark.createDataFrame(frame.collect(), frame.schema)
    rows = local.select("id", *(fn.expr(predicate) for predicate in predicates)).collect()
    return [sorted(row.id for row in rows if row[at]) for at in range(1, len(predicates) + 1)]


def kept(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def many(literal: str, *others: str) -> str:
    """Fourteen constants of a type, and others: Spark holds more than ten as a set."""
    return ", ".join([*(literal.format(number) for number in range(1, 15)), *others])


LONG_LISTS = [
    f"i in ({many('{}', '0')})",
    f"i not in ({many('{}')})",
    f"u in ({many('{}', '255')})",
    f"f in ({many('{}.5D', '2.0D')})",
    f"not (f in ({many('{}.5D')}))",
    f"g in ({many('{}.5F', '0.1F')})",
    "s in (" + many("'a{}'", "''", "'null'", "'it\\'s'") + ")",
    f"d in ({many('{}', '1.10', '0.01')})",
    "day in (" + many("date'2024-03-{:02}'") + ")",
    "ts in (" + many("timestamp'2024-03-{:02} 01:30:00'", "timestamp'2024-03-31 01:30:00'") + ")",
    "ntz in (" + many("timestamp_ntz'2024-03-{:02} 01:30:00'", "timestamp_ntz'2024-03-31 01:30:00'") + ")",
]

ONLY_IN_SPARK = [
    "i % 2 = 0",
    "st.a > 1 or i = 0",
    "length(s) = 2 and i > 0",
    "i in (select 1)",
    "exists (select 1 where 1 = 2) or b",
    "not (i = 1 or f > 1.0D)",
    "coalesce(b, true)",
    "1 < i",
    "2.5 > i",
    "d between 0.01 and 1.5",
    "cast(day as string) like '2024-03-0%'",
    f"i in ({many('{}', 'null')})",
    f"f in ({many('{}.5D', '0.0D')})",
    "true",
    "i = 1 and false",
    "boolean(null)",
]


def test_where_keeps_what_spark_keeps(spark: SparkSession, table: str) -> None:
    predicates = PREDICATES + LONG_LISTS + ONLY_IN_SPARK
    dataset = pennon.dataset(table)
    schema = read(spark, table).schema
    skipping, exact = 0, []
    for predicate, expected in zip(predicates, verdicts(spark, table, predicates), strict=True):
        # What is skipped while scanning, without a job of Spark for each.
        implied = analysed(spark, dataset, schema, predicate)
        scanned = dataset.to_table(columns=["id"], filter=implied.predicate)["id"].to_pylist()
        assert set(expected) <= set(scanned), (predicate, implied)
        assert set(expected) == set(scanned) or not implied.is_exact, (predicate, implied)
        skipping += len(scanned) < DATA.num_rows
        exact += [predicate] * implied.is_exact
    assert skipping > 40
    assert len(exact) > 40
    assert set(LONG_LISTS) <= set(exact)
    assert {"i % 2 = 0", "coalesce(b, true)", "i in (select 1)"}.isdisjoint(exact)
    for predicate in ["not (f > 1.0D)", "g = 0.1F", "s > 'aa' or i is null", *ONLY_IN_SPARK[:5]]:
        (expected,) = verdicts(spark, table, [predicate])
        assert kept(read(spark, table, columns=["id"], where=predicate)) == expected, predicate


@pytest.mark.usefixtures("pushdown")
def test_days_that_the_gregorian_calendar_skipped(spark: SparkSession, uri: str) -> None:
    """Spark's filters have another day for these."""
    days = "date_add(date'1582-09-25', cast(id as int)) day"
    frame = spark.sql(
        f"SELECT id, {days}, cast(day as timestamp) at, cast(day as timestamp_ntz) local FROM range(40)"
    )
    write(frame, uri)
    for condition, count in [
        ("day < date'1582-10-08'", 13),
        ("day IN (date'1582-10-08', date'1582-10-20')", 2),
        ("at >= timestamp'1582-10-08 00:00:00'", 27),
        ("local < timestamp_ntz'1582-10-08 00:00:00'", 13),
        ("day <=> date'1582-10-15'", 1),
        ("day > date'1582-10-15'", 19),
    ]:
        rows = spark.read.format("pennon").option("push_filters", True).load(uri)
        assert rows.where(condition).count() == count, condition
        assert read(spark, uri, where=condition).count() == count, condition


def test_values_without_a_translation_leave_the_rest(spark: SparkSession, table: str) -> None:
    dataset, schema = pennon.dataset(table), read(spark, table).schema
    structs = ", ".join(f"named_struct('a', {number}L)" for number in range(12))
    for other in ["st = named_struct('a', 1L)", f"st in ({structs})", "i % 2 = 1"]:
        found = analysed(spark, dataset, schema, f"{other} and u = 255")
        assert found.predicate is not None
        assert "`u` = 255" in found.predicate, other
        assert not found.is_exact


def test_constants_of_the_moment_are_those_of_the_action(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "moments.lance")
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=8)
    pennon.write_dataset({"id": [1], "due": pa.array([soon], pa.timestamp("us", "UTC"))}, uri)
    # Only made before that time: on a busy machine a count may take longer.
    overdue, pending = (read(spark, uri, where=f"due {sign} now()") for sign in "<>")
    spark.sql("DECLARE OR REPLACE VARIABLE moment = TIMESTAMP '2026-01-01'")
    # Spark itself takes the value of a variable when a frame is made.
    made = [read(spark, uri, where="due < moment"), read(spark, uri).where("due < moment")]
    spark.sql("SET VAR moment = TIMESTAMP '9999-01-01'")
    assert [frame.count() for frame in made] == [0, 0]
    assert read(spark, uri, where="due < moment").count() == 1
    time.sleep(max(0.0, (soon - datetime.datetime.now(datetime.timezone.utc)).total_seconds()) + 0.1)
    assert (overdue.count(), pending.count()) == (1, 0)
    for of_now in [
        "due < current_timestamp()",
        "date(due) < current_date()",
        "due < cast('today' as timestamp)",
    ]:
        condition = analysed(spark, pennon.dataset(uri), read(spark, uri).schema, f"{of_now} and id = 1")
        assert condition.is_of_now
        assert condition.later() == conditions.Condition(references=frozenset({"id", "due"}))


def test_deep_trees() -> None:
    """Chains of Columns are as deep as they are long; how deep, the stack of Java's threads says."""
    root = conditions.tree(
        [{"class": "x.Not", "num-children": 1}] * 5000 + [{"class": "x.Leaf", "num-children": 0}]
    )
    assert [node.number for node in root.all()] == list(range(5001))


@pytest.mark.parametrize("combined", [or_, and_])
def test_chains(spark: SparkSession, tmp_path: Path, combined: Callable[[Any, Any], Any]) -> None:
    uri = str(tmp_path / "chains.lance")
    pennon.write_dataset({"id": list(range(2000))}, uri)
    chain = reduce(combined, [fn.col("id") == at if combined is or_ else fn.col("id") != at for at in range(50)])
    condition = analysed(spark, pennon.dataset(uri), read(spark, uri).schema, chain)
    assert condition.is_exact
    assert condition.predicate is not None
    assert "((" not in condition.predicate
    assert read(spark, uri, where=chain).count() == (50 if combined is or_ else 1950)
    assert LanceTable.forPath(spark, uri).delete(chain).first().num_deleted_rows == (
        50 if combined is or_ else 1950
    )


def test_texts_that_are_not_utf8_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "texts.lance")
    pennon.write_dataset({"id": [0, 1, 2], "s": ["a", "\ufffd", "b"]}, uri)
    byte = "cast(x'ff' as string)"
    whole, letters = read(spark, uri), many("'k{}'")
    for condition in [f"s = {byte}", f"s < {byte}", f"startswith(s, {byte})", f"s in ({letters}, {byte})"]:
        assert kept(read(spark, uri, where=condition)) == kept(whole.where(condition)), condition


def test_some_lists_are_left_to_spark(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, schema = pennon.dataset(table), read(spark, table).schema
    zero = "s in (" + many("'a{}'", r"'a\0b'") + ")"
    assert analysed(spark, dataset, schema, zero).predicate is None
    monkeypatch.setattr(conditions, "MOST_VALUES", 14)
    assert analysed(spark, dataset, schema, f"i in ({many('{}')})").is_exact
    assert analysed(spark, dataset, schema, f"i in ({many('{}', '0')})").predicate is None


def test_where_takes_columns_functions_and_system_columns(spark: SparkSession, table: str) -> None:
    odd = fn.udf(lambda value: value is not None and value % 2 == 1, "boolean")
    found = read(spark, table, columns=["s", "id"], where=odd(fn.col("i")) & (fn.col("id") < 4))
    assert (found.columns, kept(found)) == (["s", "id"], [0, 3])
    found = read(spark, table, columns=["id"], where="_rowid >= 4", with_row_id=True, filter_sql="i IS NOT NULL")
    assert (found.columns, kept(found)) == (["id", "_rowid"], [4, 5])
    # Names are spelled as in the table, however the condition spells them.
    found = read(spark, table, columns=["id"], where="S = 'ab' AND I < 0")
    assert (found.columns, kept(found)) == (["id"], [3])
    # Only the columns that the condition names are read, and only if it is left to Spark.
    for where, is_read in [("i % 2 = 1", True), ("i = 1", False)]:
        plan = read(spark, table, columns=["id"], where=where)._jdf.queryExecution().optimizedPlan().toString()
        assert (re.search(r"\bi#", plan) is not None) == is_read
        assert "ntz#" not in plan
    with pytest.raises(AnalysisException, match="nope"):
        read(spark, table, where="nope = 1")
    with pytest.raises(AnalysisException, match="boolean"):
        read(spark, table, where="i + 1")


def test_an_unknown_plan_skips_nothing(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = conditions.Node
    monkeypatch.setattr(conditions, "Node", lambda _kind, *more: node("Unheard", *more))
    schema = read(spark, table).schema
    assert analysed(spark, pennon.dataset(table), schema, "i = 1") == conditions.Condition(is_of_now=True)
    assert kept(read(spark, table, columns=["id"], where="i = 1")) == [0]


def test_a_plan_of_another_release_skips_nothing(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conditions, "tree", lambda _text: {}["class"])
    monkeypatch.setattr(spark_api, "raises_changes", True)
    with pytest.raises(KeyError, match="class"):
        read(spark, table, where="i = 1")
    monkeypatch.setattr(spark_api, "raises_changes", False)
    with caplog.at_level("DEBUG", spark_api.__name__):
        assert kept(read(spark, table, columns=["id"], where="i = 1")) == [0]
    (record,) = (record for record in caplog.records if record.name == spark_api.__name__)
    assert "no rows are skipped by a condition" in record.getMessage()
    assert record.exc_info is not None


def pushing(spark: SparkSession, table: str, **options: object) -> DataFrame:
    return spark.read.format("pennon").option("push_filters", True).options(**options).load(table)


@pytest.mark.usefixtures("pushdown")
def test_the_data_source_takes_over_what_is_exact(spark: SparkSession, table: str) -> None:
    predicates = ["i <> 2 and f > 1.0D", "not (i <=> 2) and s not like 'a%'", "b <> true or i = 1"]
    for predicate, expected in zip(predicates, verdicts(spark, table, predicates), strict=True):
        # A frame of its own for each: Spark keeps pushed filters with the frame.
        assert kept(pushing(spark, table).where(predicate)) == expected, predicate
    frame = spark.read.format("pennon").load(table)
    assert kept(frame.where("i = 1")) == [0]
    assert frame.count() == DATA.num_rows


def filters_in_plan(frame: DataFrame) -> str:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return "\n".join(line for line in plan.splitlines() if "Filter " in line)


@pytest.mark.usefixtures("pushdown")
def test_what_is_pushed(spark: SparkSession, table: str) -> None:
    taken = pushing(spark, table, with_row_id=True).where("i = 2 and s like 'a%' and _rowid = 1")
    assert filters_in_plan(taken) == ""
    both = pushing(spark, table, filter_sql="u < 10", columns="id,i,st").where("st.a > 0 and i >= 0")
    assert "st" in filters_in_plan(both)
    assert "i#" in filters_in_plan(spark.read.format("pennon").load(table).where("i = 2"))
    assert kept(both) == [0, 4]


def test_filters_work_when_spark_offers_none(spark: SparkSession, table: str) -> None:
    assert kept(pushing(spark, table).where("i >= 1")) == [0, 1, 4]


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


def test_a_plan_of_another_release_is_not_looked_into(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(3).where("id > 0")
    source = spark.range(3).withColumnRenamed("id", "key")
    joined = frame.join(source, fn.expr("id = key"))

    def change(_node: Any) -> str:
        raise AttributeError("getSimpleName")

    for module in (needed_columns, plans, plan):
        monkeypatch.setattr(module, "kind_of", change)
    monkeypatch.setattr(plans, "items", change)
    monkeypatch.setattr(needed_columns, "items", change)
    monkeypatch.setattr(needed_columns, "references", change)
    with pytest.raises(AttributeError):
        needed_columns.has_subquery(frame)
    monkeypatch.setattr(spark_api, "raises_changes", False)
    assert needed_columns.has_subquery(frame)
    assert needed_columns.may_call_python(frame)
    assert needed_columns.other_rows(frame) is None
    assert needed_columns.other_rows_of(frame, spark.range(3)) is None
    assert needed_columns.needed_columns(frame, spark.range(3)) == ["id"]
    assert plan.keys_of(joined, fn.expr("id = key"), frame, source) == plan.Keys()
