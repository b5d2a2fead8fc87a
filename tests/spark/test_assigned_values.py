"""Values that verbs assign: members by name, values and types that do not fit, vectors of Spark ML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, upsert_batches, write
from pyspark_pennon.merge.builder import MergeBuilder

POINT = pa.struct([("a", pa.int32()), ("b", pa.int32())])
TYPES = pa.schema(
    {
        "id": pa.int32(),
        "n": pa.int32(),
        "point": POINT,
        "points": pa.list_(POINT),
        "named": pa.map_(pa.string(), POINT),
        "deep": pa.struct([("points", pa.list_(POINT)), ("label", pa.string())]),
    }
)
OTHER_ORDER = {
    "point": "named_struct('b', 20, 'a', 10)",
    "points": "array(named_struct('B', 20L, 'a', 10), NULL)",
    "named": "map('k', named_struct('b', 20, 'a', 10), 'none', NULL)",
    "deep": "named_struct('label', 'x', 'points', array(named_struct('b', 20, 'a', 10)))",
}
EXPECTED = {
    "point": {"a": 10, "b": 20},
    "points": [{"a": 10, "b": 20}, None],
    "named": [("k", {"a": 10, "b": 20}), ("none", None)],
    "deep": {"points": [{"a": 10, "b": 20}], "label": "x"},
}


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    """Rows 1 and 2."""
    point = {"a": 1, "b": 2}
    values = {
        "n": 5,
        "point": point,
        "points": [point],
        "named": [("k", point)],
        "deep": {"points": [point], "label": "old"},
    }
    rows = [{"id": at, **values} for at in (1, 2)]
    pennon.write_dataset(pa.Table.from_pylist(rows, schema=TYPES), uri)
    return LanceTable.forPath(spark, uri).alias("t")


@pytest.fixture
def lax(spark: SparkSession) -> Iterator[None]:
    """Spark's own casts make a null or another number of a value that does not fit."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.unset("spark.sql.ansi.enabled")


def by_id(uri: str) -> dict[int, dict[str, Any]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    return {row["id"]: row for row in dataset.to_table().to_pylist()}


def new_rows(spark: SparkSession, *ids: int) -> DataFrame:
    values = ", ".join(f"{value} {name}" for name, value in OTHER_ORDER.items())
    return spark.sql(f"SELECT id, {values} FROM VALUES {', '.join(f'({at})' for at in ids)} AS t(id)").alias("s")


def merge(table: LanceTable, frame: DataFrame) -> Any:
    return table.merge(frame, "t.id = s.id")


VERBS: dict[str, Callable[[SparkSession, LanceTable], Any]] = {
    "update": lambda _spark, table: table.update("id = 1", OTHER_ORDER),
    "updateRows": lambda spark, table: table.updateRows(
        new_rows(spark, 1).withColumn("_rowid", fn.lit(0)).drop("id")
    ),
    "updateColumnsFrom": lambda spark, table: table.updateColumnsFrom(new_rows(spark, 1), "id"),
    "updateAll": lambda spark, table: merge(table, new_rows(spark, 1)).whenMatchedUpdateAll().execute(),
    "update of columns of the table": lambda spark, table: (
        merge(table, new_rows(spark, 1)).whenMatchedUpdate("t.n = 5", {**OTHER_ORDER, "n": "t.n"}).execute()
    ),
    "by source": lambda spark, table: (
        merge(table, new_rows(spark, 2)).whenNotMatchedBySourceUpdate(set=OTHER_ORDER).execute()
    ),
    "insert": lambda spark, table: (
        merge(table, new_rows(spark, 9)).whenNotMatchedInsertAll().whenMatchedDelete().execute()
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_members_are_matched_by_name(spark: SparkSession, table: LanceTable, verb: str) -> None:
    before = by_id(table.uri)
    VERBS[verb](spark, table)
    found = by_id(table.uri)
    row = found[9 if verb == "insert" else 1]
    assert {name: row[name] for name in EXPECTED} == EXPECTED
    assert found[2] == before[2]


def test_members_of_upserts(spark: SparkSession, table: LanceTable, tmp_path: Path) -> None:
    write(new_rows(spark, 1, 9), f"{table.uri}-new")
    rows = spark.readStream.format("pennon").load(f"{table.uri}-new")
    writer = rows.writeStream.foreachBatch(upsert_batches(table.uri, "id"))
    writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    assert writer.start().awaitTermination(120)
    found = by_id(table.uri)
    assert all({name: found[at][name] for name in EXPECTED} == EXPECTED for at in (1, 9))


def test_members_that_a_value_lacks_are_null(spark: SparkSession, table: LanceTable) -> None:
    values = {
        "point": "if(id = 1, NULL, named_struct('b', 3))",
        "points": "array(named_struct('a', id))",
        "named": "map()",
        "deep": "named_struct('points', array())",
    }
    table.update(None, values)
    found = by_id(table.uri)
    assert [found[at]["point"] for at in (1, 2)] == [None, {"a": None, "b": 3}]
    assert found[2]["points"] == [{"a": 2, "b": None}]
    assert (found[2]["named"], found[2]["deep"]) == ([], {"points": [], "label": None})
    strict = pa.schema(
        [("id", pa.int32()), ("p", pa.struct([pa.field("a", pa.int32(), False), ("b", pa.int32())]))]
    )
    uri = f"{table.uri}-strict"
    pennon.write_dataset(pa.Table.from_pylist([{"id": 1, "p": {"a": 1, "b": 2}}], schema=strict), uri)
    other = LanceTable.forPath(spark, uri)
    with pytest.raises(pennon.SchemaMismatchError, match="column 'p': a value of the Spark type struct<b:int>"):
        other.update(None, {"p": "named_struct('b', 3)"})
    other.update(None, {"p": "named_struct('b', 3, 'a', nullif(id, 7))"})
    assert by_id(uri)[1]["p"] == {"a": 1, "b": 3}


def test_types_that_do_not_fit(spark: SparkSession, table: LanceTable) -> None:
    wrong = [
        ("point", "named_struct('a', 1, 'c', 2)", "struct<a:int,c:int> does not fit struct<a:int,b:int>"),
        ("point", "1", "int does not fit struct"),
        ("points", "named_struct('a', 1)", "struct<a:int> does not fit array"),
        ("points", "array(named_struct('a', array(1)))", r"'points\.element\.a'.* array<int> does not fit int"),
        ("named", "map('k', named_struct('x', 1))", r"'named\.value'.* struct<x:int> does not fit"),
        ("n", "DATE '2024-02-29'", "date does not fit int"),
        ("n", "array(1)", "array<int> does not fit int"),
    ]
    for name, value, message in wrong:
        with pytest.raises(pennon.SchemaMismatchError, match=message):
            table.update(None, {name: value})
        source = spark.sql(f"SELECT 1 id, {value} {name}").alias("s")
        with pytest.raises(pennon.SchemaMismatchError, match=message):
            merge(table, source).whenMatchedUpdateAll().execute()
    more = spark.sql("SELECT 1 id, named_struct('a', 1, 'b', 2, 'c', 3) point").alias("s")
    with pytest.raises(pennon.SchemaMismatchError, match="struct<a:int,b:int,c:int> does not fit"):
        merge(table, more).whenMatchedUpdateAll().withSchemaEvolution().execute()
    with pytest.raises(pennon.InvalidInputError, match=r"There is no column 'point\.a'"):
        table.update(None, {"point.a": "5"})
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(pennon.SchemaMismatchError, match="struct<A:int,b:int>"):
            table.update(None, {"point": "named_struct('A', 1, 'b', 2)"})
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert table.version == 1
    table.update("id = 1", {"point": fn.col("point").withField("a", fn.lit(5))})
    assert by_id(table.uri)[1]["point"] == {"a": 5, "b": 2}


@pytest.mark.usefixtures("lax")
def test_values_that_do_not_fit(spark: SparkSession, table: LanceTable) -> None:
    source = spark.sql("SELECT * FROM VALUES (4294967299L, 1L), (1L, 3000000000L) AS s(id, n)").alias("s")
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: table.update(None, {"n": "'abc'"}), "column 'n': the value abc of the Spark type string"),
        (
            lambda: table.update(None, {"points": "array(named_struct('b', 1, 'a', 3000000000))"}),
            r"column 'points\.element\.a': the value 3000000000 of the Spark type bigint does not fit int",
        ),
        (lambda: merge(table, source).whenNotMatchedInsertAll().execute(), "column 'id': the value 4294967299"),
        (lambda: merge(table, source).whenMatchedUpdateAll().execute(), "column 'n': the value 3000000000"),
        (lambda: table.updateColumnsFrom(source, "id"), "column 'n': the value 3000000000"),
    ]
    for change, message in wrong:
        with pytest.raises(pennon.SchemaMismatchError, match=message):
            change()
    assert table.version == 1
    # Values that fit are cast, those of clauses that take no row are not.
    unused = {"n": "s.n"}
    merge(table, source).whenMatchedUpdate("s.n < 0", unused).whenMatchedUpdate(set={"n": "'7'"}).execute()
    table.update("id = 2", {"n": fn.lit(2.5)})
    assert {at: row["n"] for at, row in by_id(table.uri).items()} == {1: 7, 2: 2}


def test_values_that_do_not_fit_where_spark_says_so(table: LanceTable) -> None:
    with pytest.raises(pennon.SchemaMismatchError, match="column 'n': the value NaN of the Spark type double"):
        table.update(None, {"n": "double('NaN')"})
    assert table.version == 1


def test_a_value_is_computed_once(spark: SparkSession, table: LanceTable) -> None:
    calls = spark.sparkContext.accumulator(0)

    def made(at: int) -> tuple[int, int]:
        calls.add(1)
        return (at, 3 * at)

    value = fn.udf(made, "b long, a long").asNondeterministic()
    table.update(None, {"point": value("id")})
    assert calls.value == 2
    assert [by_id(table.uri)[at]["point"] for at in (1, 2)] == [{"a": 3, "b": 1}, {"a": 6, "b": 2}]


def test_vectors_of_spark_ml(spark: SparkSession, uri: str) -> None:
    def frame(**vectors: Any) -> DataFrame:
        return spark.createDataFrame([(int(name[1:]), value) for name, value in vectors.items()], ["id", "v"])

    single = pa.schema({"id": pa.int64(), "v": pa.list_(pa.float32(), 2)})
    write(frame(v1=Vectors.dense(1, 2), v2=Vectors.dense(3, 4)), uri, schema=single)
    table = LanceTable.forPath(spark, uri).alias("t")
    new = frame(v1=Vectors.dense(5, 6), v9=Vectors.sparse(2, [1], [8.0])).alias("s")
    merge(table, new).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert {at: row["v"] for at, row in by_id(uri).items()} == {1: [5, 6], 2: [3, 4], 9: [0, 8]}
    table.updateColumnsFrom(frame(v2=Vectors.dense(7, 7)), "id")
    table.updateRows(frame(v0=Vectors.dense(0, 1)).withColumnRenamed("id", "_rowid"))
    assert {at: row["v"] for at, row in by_id(uri).items()} == {1: [0, 1], 2: [7, 7], 9: [0, 8]}
    with pytest.raises(pennon.SchemaMismatchError, match=r"column 'v'.*expected 2"):
        table.updateColumnsFrom(frame(v2=Vectors.dense(7, 7, 7)), "id")


def test_an_asterisk_is_refused(spark: SparkSession, uri: str) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, text string")
    write(frame, uri)
    table = LanceTable.forPath(spark, uri).alias("t")
    wanted = frame.select(fn.expr("hash(*)")).first()[0]
    source = frame.withColumn("id", fn.col("id") + 1).alias("s")

    def merge() -> MergeBuilder:
        return table.merge(source, "t.id = s.id")

    value = {"text": "to_json(struct(*))"}
    verbs = [
        lambda: table.delete(f"hash(*) = {wanted}"),
        lambda: table.delete("array(*)[2] = 0"),
        lambda: table.delete(fn.hash("*") == wanted),
        lambda: table.delete(f"hash(* except (text)) = {wanted}"),
        lambda: table.update("id = 1", value),
        lambda: table.update(f"hash(t.*) = {wanted}", {"text": "'new'"}),
        lambda: table.addColumns({"whole": "struct(*)"}),
        lambda: merge().whenMatchedUpdate(set={"text": "to_json(struct(t.*))"}).execute(),
        lambda: merge().whenNotMatchedInsert(values=value).execute(),
        lambda: merge().whenNotMatchedInsertAll("hash(*) > 0").execute(),
        lambda: write(frame, uri, mode="overwrite", replace_where=f"hash(*) <= {wanted}"),
    ]
    for verb in verbs:
        with pytest.raises(pennon.InvalidInputError, match="asterisk"):
            verb()
    assert table.version == 1
    # Those of the source are its own, and a frame has the columns that were asked for.
    of_source = {"text": "to_json(struct(s.*))"}
    again = merge().whenMatchedUpdate(set=of_source)
    again.whenNotMatchedInsert(values={"id": "s.id", **of_source}).execute()
    found = {row.id: row.text for row in read(spark, uri).collect()}
    assert found == {1: "a", 2: '{"id":2,"text":"a"}', 3: '{"id":3,"text":"b"}'}
    for columns in (None, ["text"], []):
        assert read(spark, uri, columns=columns, where=f"hash(*) = {wanted}").count() == 1
    # Spark takes all columns along for a value that is computed from another one.
    table.addColumns({"n": "id", "more": "n + 1"})
    assert [row.more for row in read(spark, uri, columns=["more"]).orderBy("more").collect()] == [2, 3, 4]


def test_all_columns_of_the_system_may_be_named(spark: SparkSession, uri: str) -> None:
    write(spark.range(3), uri, max_tasks=1)
    table = LanceTable.forPath(spark, uri).alias("t")
    system = "_rowid, _rowaddr, _row_created_at_version, _row_last_updated_at_version"
    table.addColumns({"text": f"concat_ws('-', {system})"})
    assert {row.id: row.text for row in read(spark, uri).collect()} == {n: f"{n}-{n}-1-1" for n in range(3)}
    spark.range(9).createOrReplaceTempView("known")
    table.delete(f"exists (select * from known k where k.id = t.id) and greatest({system}) > 1 and _rowid = 2")
    merge = table.merge(spark.range(1).alias("s"), "t.id = s.id").whenMatchedDelete("t._rowid = 100")
    merge = merge.whenMatchedDelete("t._rowaddr = 100").whenMatchedDelete("t._row_created_at_version = 100")
    merge.whenMatchedUpdate("t._row_last_updated_at_version >= 1", {"text": "to_json(struct(s.*))"}).execute()
    assert {row.id: row.text for row in read(spark, uri).collect()} == {0: '{"id":0}', 1: "1-1-1-1"}
    with pytest.raises(AnalysisException, match="_rowid"):
        write(spark.range(3), uri, mode="overwrite", replace_where="_rowid % 2 = 0")
