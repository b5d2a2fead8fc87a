"""Names of columns by Spark's rule: case does not matter by default, and the table keeps its spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, apply_changes, nearest, read, read_changes, upsert_batches, write
from pyspark_pennon.streams.upserts import _keys_of
from pyspark_pennon.types.column_names import assigned_name, stored_name, stored_names
from support.spark_frames import frame_of

NAMES = ["id", "Name", "a.b", "`q`", "x", "X"]


@pytest.fixture
def table(spark: SparkSession, uri: str) -> LanceTable:
    write(frame_of(spark, [(1, 10), (2, 20), (3, 30)], "id long, v int"), uri, max_tasks=1)
    return LanceTable.forPath(spark, uri)


def content(table: LanceTable) -> list[dict[str, Any]]:
    return sorted(lance.dataset(table.uri).to_table().to_pylist(), key=lambda row: row["id"])


def test_one_rule() -> None:
    assert [stored_name(NAMES, name, is_sensitive=False) for name in ("ID", "name", "x", "X", "y")] == [
        "id",
        "Name",
        "x",
        "X",
        None,
    ]
    assert stored_name(NAMES, "ID", is_sensitive=True) is None
    assert stored_names(NAMES, ["NAME", "y"], is_sensitive=False) == ["Name", "y"]
    with pytest.raises(pennon.InvalidInputError, match="'vV' may be each of the columns vv, VV"):
        stored_name(["vv", "VV"], "vV", is_sensitive=False)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("`id`", "id"),
        ("t.id", "id"),
        ("T.`ID`", "id"),
        ("`t`.name", "Name"),
        ("a.b", "a.b"),
        ("`a.b`", "a.b"),
        ("t.`a.b`", "a.b"),
        ("`q`", "`q`"),
        ("```q```", "`q`"),
        ("s.id", None),
        ("t.t.id", None),
        ("t.a.b", None),
        ("``", None),
        ("", None),
    ],
)
def test_keys_of_assignments(key: str, name: str | None) -> None:
    assert assigned_name(NAMES, key, "t", is_sensitive=False) == name
    if "t" in key.lower():
        assert assigned_name(NAMES, key, None, is_sensitive=False) is None or name == key


def test_assignments(spark: SparkSession, table: LanceTable) -> None:
    table.update("id = 1", {"V": "ID + 1"})
    table.alias("t").update("t.id = 2", {"T.`v`": "t.v + 1"})
    table.alias("t").update({"`v`": "v * 10"})
    assert [row["v"] for row in content(table)] == [20, 210, 300]
    source = frame_of(spark, [(3, 7), (4, 8)], "ID long, V int").alias("s")
    clauses = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    clauses.withSchemaEvolution().execute()
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate("s.id = 3", {"t.V": "s.v + 1"})
    merge.whenNotMatchedBySourceUpdate("t.id = 1", {"V": fn.lit(0)}).execute()
    assert [row["v"] for row in content(table)] == [0, 210, 8, 8]
    table.updateColumnsFrom(frame_of(spark, [(1, 11)], "ID long, V int"), "iD")
    rows = table.toDF(with_row_id=True, where="id = 2").select("_rowid", fn.lit(22).alias("V"))
    table.updateRows(rows)
    assert [row["v"] for row in content(table)] == [11, 22, 8, 8]
    assert lance.dataset(table.uri).schema.names == ["id", "v"]
    with pytest.raises(pennon.InvalidInputError, match="'v' gets two values: one of them by the name 'V'"):
        table.update(set={"v": "1", "V": "2"})
    with pytest.raises(pennon.InvalidInputError, match=r"There is no column 't\.v'"):
        table.update(set={"t.v": "1"})
    with pytest.raises(pennon.InvalidInputError, match="There is no column 'w'"):
        table.update(set={"w": "1"})


def test_writes(spark: SparkSession, table: LanceTable) -> None:
    uri = table.uri
    write(frame_of(spark, [(40, 4)], "V int, ID long"), uri, mode="append")
    frame_of(spark, [(50, 5)], "V int, ID long").write.format("pennon").mode("append").save(uri)
    frame = frame_of(spark, [(60, 6, "n")], "V int, ID long, new string")
    write(frame, uri, mode="append", merge_schema=True)
    write(frame.withColumn("V", fn.lit(61)), uri, mode="overwrite", replace_where="id = 6")
    found = [(row["id"], row["v"], row["new"]) for row in content(table)]
    assert found == [(1, 10, None), (2, 20, None), (3, 30, None), (4, 40, None), (5, 50, None), (6, 61, "n")]
    assert lance.dataset(uri).schema.names == ["id", "v", "new"]


def test_a_sink(spark: SparkSession, table: LanceTable, tmp_path: Path) -> None:
    rows = spark.readStream.format("pennon").load(table.uri).toDF("ID", "V")
    target = str(tmp_path / "second")
    pennon.write_dataset(pa.table({"v": pa.array([], pa.int32()), "id": pa.array([], pa.int64())}), target)
    writer = rows.writeStream.format("pennon").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start(target).awaitTermination(120)
    assert sorted(lance.dataset(target).to_table(columns=["id", "v"]).to_pydict()["v"]) == [10, 20, 30]


def test_reads_and_feeds(spark: SparkSession, table: LanceTable) -> None:
    uri = table.uri
    assert read(spark, uri, columns=["V", "ID"], where="ID = 2").collect() == [(20, 2)]
    assert read(spark, uri, columns=["V"], where="upper(id) = '3'").columns == ["v"]
    frame = spark.read.format("pennon").option("columns", "V,Id").load(uri)
    assert (frame.columns, frame.where("id = 1").collect()) == (["v", "id"], [(10, 1)])
    ids = read(spark, uri, columns=[], where="id = 3", with_row_id=True)
    assert table.takeRows(ids, ["V"]).columns == ["v", "_rowid"]
    changes = read_changes(spark, uri, starting_version=1, columns=["V"])
    assert (changes.columns[0], changes.count()) == ("v", 3)
    feed = spark.read.format("pennon").option("readChangeFeed", True).option("startingVersion", 1)
    assert sorted(row.id for row in feed.option("columns", "ID").load(uri).collect()) == [1, 2, 3]
    with pytest.raises(pennon.InvalidInputError, match="The column 'id' is named twice"):
        read(spark, uri, columns=["V", "ID", "id"])
    with pytest.raises(pennon.InvalidInputError, match="The column 'v' is named twice"):
        table.takeRows(ids, ["V", "v"])
    with pytest.raises(pennon.InvalidInputError, match="The column 'id' is named twice"):
        read_changes(spark, uri, starting_version=1, columns=["id", "ID"])
    with pytest.raises(Exception, match="The column 'id' is named twice"):
        feed.option("columns", "id,id").load(uri)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 1.0, 1.0, 0.0], pa.float32()), 2)
    pennon.write_dataset(pa.table({"word": ["a", "b"], "e": vectors}), f"{uri}-2")
    questions = frame_of(spark, [([0.0, 1.0],)], "e array<float>")
    assert nearest(spark, f"{uri}-2", questions, 1, column="e", columns=["WORD"]).first()["word"] == "a"


def test_columns_that_a_function_reads(table: LanceTable) -> None:
    def doubled(batch: pa.RecordBatch) -> dict[str, Any]:
        assert batch.schema.names == ["v", "_rowid"]
        return {"w": [2 * value for value in batch["v"].to_pylist()]}

    table.addColumns(doubled, "w int", readColumns=["V", "_ROWID", "v"])
    assert [row["w"] for row in content(table)] == [20, 40, 60]
    with pytest.raises(pennon.InvalidInputError, match="There is no column 'W2' to read"):
        table.addColumns(doubled, "x int", readColumns=["W2"])


def test_a_given_schema(spark: SparkSession, table: LanceTable, tmp_path: Path, pushdown: None) -> None:
    """The frame has the spelling of the schema, as with Spark's own sources."""
    rows = spark.read.format("pennon").schema("V int, ID long").load(table.uri)
    assert rows.columns == ["V", "ID"]
    assert sorted(rows.collect()) == [(10, 1), (20, 2), (30, 3)]
    pushed = spark.read.format("pennon").option("push_filters", True).schema("V int, ID long").load(table.uri)
    assert pushed.where("id >= 2 AND V < 30").collect() == [(20, 2)]
    with pytest.raises(Exception, match="column 'V' was asked for as bigint, but the table has int"):
        spark.read.format("pennon").schema("V long").load(table.uri).collect()
    described = "_change_type string, _commit_version long, _commit_timestamp timestamp, _rowid long"
    options = {"readChangeFeed": True, "startingVersion": 1}
    reader = spark.read.format("pennon").options(**options).schema(f"V int, {described}")
    assert sorted(row.V for row in reader.load(table.uri).collect()) == [10, 20, 30]
    wrong = spark.read.format("pennon").options(**options).schema(f"V long, {described}")
    with pytest.raises(Exception, match="column 'V' was asked for as bigint, but the feed has int"):
        wrong.load(table.uri).collect()
    stream = spark.readStream.format("pennon").schema("V int, ID long").load(table.uri)
    writer = stream.writeStream.format("memory").queryName("spelled").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.start().awaitTermination(120)
    assert sorted(spark.table("spelled").collect()) == [(10, 1), (20, 2), (30, 3)]


def test_keys_of_batches(spark: SparkSession, table: LanceTable, tmp_path: Path) -> None:
    uri = table.uri
    rows = spark.readStream.format("pennon").load(uri).toDF("Id", "V")
    targets = [str(tmp_path / "upserted"), str(tmp_path / "applied")]
    pennon.write_dataset(pa.table({"id": [2], "v": pa.array([0], pa.int32())}), targets[0])
    pennon.write_dataset(pa.table({"iD": [2], "v": pa.array([0], pa.int32())}), targets[1])
    feed = spark.readStream.format("pennon").option("readChangeFeed", True).load(uri)
    sinks = [
        (rows, upsert_batches(targets[0], "ID", order_by="v")),
        (feed, apply_changes(targets[1], ["ID"])),
    ]
    for at, (frame, sink) in enumerate(sinks):
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / f"c{at}"))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        found = lance.dataset(targets[at]).to_table()
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(1, 10), (2, 20), (3, 30)]
        assert found.schema.names == [["id", "v"], ["iD", "v"]][at]
    assert _keys_of(spark.range(1).toDF("Id"), ["Id", "_rowid"], ["ID"]) == ["Id"]
    with pytest.raises(pennon.InvalidInputError, match="The key is '_rowid', which rows of another table"):
        _keys_of(rows, ["Id", "_rowid"], ["_ROWID"])
    with pytest.raises(pennon.InvalidInputError, match="The batch lacks the key 'w': its columns are Id, V"):
        _keys_of(rows, rows.columns, ["w"])


def test_columns_of_vectors(spark: SparkSession, uri: str) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 1.0, 1.0, 0.0], pa.float32()), 2)
    nested = pa.StructArray.from_arrays([vectors], ["Inner"])
    pennon.write_dataset(pa.table({"word": ["a", "b"], "e": vectors, "s": nested}), uri)
    asked = frame_of(spark, [([1.0, 0.0],)], "Question array<float>")
    for column in ("E", "S.inner", "s.Inner"):
        found = nearest(spark, uri, asked, 1, column=column, query_column="QUESTION", columns=["word"])
        assert found.columns == ["word", "_distance"]
        assert found.first()["word"] == "b"
    same = nearest(spark, uri, asked.toDF("e"), 1, column="E")
    assert same.columns == ["word", "s", "_distance"]
    with pytest.raises(pennon.InvalidInputError, match=r"no column of vectors 's\.x'"):
        nearest(spark, uri, asked, 1, column="s.x", query_column="question")


def test_names_that_differ_by_case_only(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"id": [1], "ab": [1], "AB": [2]}), uri)
    table = LanceTable.forPath(spark, uri)
    assert read(spark, uri, columns=["AB"]).collect() == [(2,)]
    for act in (lambda: read(spark, uri, columns=["Ab"]), lambda: table.update(set={"aB": "3"})):
        with pytest.raises(pennon.InvalidInputError, match="may be each of the columns ab, AB"):
            act()


@pytest.mark.usefixtures("sensitive")
def test_where_case_matters(spark: SparkSession, table: LanceTable) -> None:
    source = frame_of(spark, [(3, 7)], "id long, V int").alias("s")
    with pytest.raises(pennon.InvalidInputError, match="There is no column 'V'; The columns are id, v"):
        table.update(set={"V": "1"})
    with pytest.raises(pennon.InvalidInputError, match="The source has the column 'V', which the table lacks"):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().execute()
    with pytest.raises(pennon.SchemaMismatchError, match="differs from it by case only"):
        write(source, table.uri, mode="append")
    with pytest.raises(pennon.InvalidInputError, match="The frame lacks the key 'ID'"):
        table.updateColumnsFrom(source, "ID")
    with pytest.raises(pennon.PennonError, match="ID"):
        read(spark, table.uri, columns=["ID"])
    with pytest.raises(pennon.InvalidInputError, match="no column 'ID'"):
        read_changes(spark, table.uri, starting_version=1, columns=["ID"])
    with pytest.raises(pennon.InvalidInputError, match="There is no column 'V' to read"):
        table.addColumns(lambda batch: batch, "w int", readColumns=["V"])
    with pytest.raises(pennon.InvalidInputError, match="The batch lacks the key 'ID': its columns are id, V"):
        _keys_of(source, source.columns, ["ID"])
    asked = frame_of(spark, [([1.0, 0.0],)], "e array<float>")
    with pytest.raises(pennon.InvalidInputError, match="the queries have no column 'E'"):
        nearest(spark, table.uri, asked, 1, column="E")
    with pytest.raises(pennon.InvalidInputError, match="no column of vectors 'V'"):
        nearest(spark, table.uri, asked, 1, column="V", query_column="e")
    assert [row["v"] for row in content(table)] == [10, 20, 30]


def test_names_with_back_ticks(spark: SparkSession, uri: str) -> None:
    frame = spark.sql("SELECT 1L, 10, 'x'").toDF("id", "v`w", "`")
    write(frame, uri)
    write(spark.range(3).toDF("*"), f"{uri}-star")
    assert read(spark, f"{uri}-star", where="`*` > 1").collect() == [(2,)]
    write(frame.selectExpr("id + 1 id", "`v``w`", "````"), uri, mode="append")
    write(frame.selectExpr("id + 8 id", "`v``w`", "````"), uri, mode="overwrite", replace_where="id >= 2")
    table = LanceTable.forPath(spark, uri).alias("t")
    table.update("id = 1", {"v`w": "`v``w` + 1", "t.````": "concat(````, 'y')"})
    source = frame.selectExpr("id + 8 id", "20 `v``w`", "````").alias("s")
    table.merge(source, "t.id = s.id").whenMatchedUpdate("t.`v``w` < s.`v``w`", {"v`w": "s.`v``w`"}).execute()
    table.updateColumnsFrom(frame.select("id", fn.lit("z").alias("`")), "id")
    # The reference reads no such names.
    found = pennon.dataset(uri).to_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "v`w": 11, "`": "z"}, {"id": 9, "v`w": 20, "`": "x"}]


def test_keys_with_dots_and_back_ticks(spark: SparkSession, table: LanceTable, uri: str) -> None:
    """Bounds of the keys are those of the column, and not of a member of a struct."""
    named = table.alias("my.`table`")
    rows = frame_of(spark, [(2, 7), (9, 8)], "id long, v int")
    member = fn.struct(fn.lit(100).cast("long").alias("k")).alias("a")
    source = rows.select(fn.col("id").alias("a.k"), member, fn.col("v").alias("c`d")).alias("s")
    merge = named.merge(source, "`my.``table```.id = s.`a.k`")
    merge = merge.whenMatchedUpdate("`my.``table```.v > s.a.k - 99", {"v": "s.`c``d`"})
    merge = merge.whenNotMatchedBySourceUpdate("`my.``table```.id = 1", {"v": "v + 1"})
    merge.whenNotMatchedInsert(values={"id": "s.`a.k`", "v": "s.`c``d`"}).execute()
    assert [(row["id"], row["v"]) for row in content(table)] == [(1, 11), (2, 7), (3, 30), (9, 8)]
    other = f"{uri}-2"
    write(rows.toDF("c`d", "v"), other)
    second = LanceTable.forPath(spark, other).alias("t")
    source = rows.selectExpr("id + 7 `C``D`", "v + 1 v").alias("s")
    merge = second.merge(source, "t.`c``d` = s.`C``D`").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert merge.execute().first()[1:] == (1, 0, 1)
    second.updateColumnsFrom(frame_of(spark, [(16, 5)], "`c``d` long, v int"), "c`d")
    assert sorted(read(spark, other, where="`c``d` > 2").collect()) == [(9, 8), (16, 5)]


def test_keys_of_a_source_that_differ_by_case_only(spark: SparkSession, table: LanceTable) -> None:
    first, second = spark.range(2, 4).toDF("ID"), spark.range(2, 3).toDF("id")
    source = first.join(second, first["ID"] == second["id"] + 1)
    merge = table.alias("t").merge(source, fn.col("t.id") == second["id"])
    assert merge.whenMatchedDelete().execute().first().num_deleted_rows == 1
    assert [row["id"] for row in content(table)] == [1, 3]


def test_system_columns_of_another_case(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(pa.table({"v": [1, 2], "_RowAddr": [3, 4]}), uri, enable_stable_row_ids=True)
    table = LanceTable.forPath(spark, uri).alias("t")
    values = frame_of(spark, [(1, 5)], "v long, _RowAddr long")
    ids = table.toDF(where="v = 1", with_row_id=True).select("_rowid")
    acts = (
        lambda: table.update("v = 1", {"v": "5"}),
        lambda: table.delete("v % 2 = 1"),
        lambda: table.merge(spark.range(3).alias("s"), "t.v = s.id").whenMatchedDelete().execute(),
        lambda: table.addColumns({"w": "v + 1"}),
        lambda: table.updateColumnsFrom(values, "v"),
        lambda: table.updateRows(ids.withColumn("_RowAddr", fn.lit(5))),
    )
    for act in acts:
        with pytest.raises(pennon.InvalidInputError, match="'_RowAddr', which differs from the system column"):
            act()
    assert table.takeRows(ids).collect() == [(1, 3, 0)]
    table.delete("v = 2")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table.update("v % 2 = 1 AND _RowAddr = 3", {"_RowAddr": "_RowAddr + 3"})
        table.merge(values.alias("s"), "t.v = s.v").whenMatchedUpdate(
            "s._RowAddr < t._RowAddr", {"v": "t._RowAddr"}
        ).execute()
        write(values, uri, mode="append")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert lance.dataset(uri).to_table().sort_by("v").to_pydict() == {"v": [1, 6], "_RowAddr": [5, 6]}


def test_a_column_that_says_what_becomes_of_a_row(spark: SparkSession, uri: str) -> None:
    """A table that keeps a change feed has one."""
    write(frame_of(spark, [(1, "insert"), (2, "insert")], "id long, _change_type string"), uri, max_tasks=1)
    table = LanceTable.forPath(spark, uri).alias("t")
    values = frame_of(spark, [(2, "delete"), (3, "delete")], "id long, _change_type string").alias("s")
    acts = (
        lambda: table.update("id = 2", {"_change_type": "'delete'"}),
        lambda: table.updateRows(frame_of(spark, [(1, "delete")], "_rowid long, _change_type string")),
        lambda: table.merge(values, "t.id = s.id").whenMatchedUpdateAll().execute(),
        lambda: table.merge(values, "t.id = s.id").whenNotMatchedInsertAll().execute(),
    )
    for act in acts:
        with pytest.raises(pennon.InvalidInputError, match="'_change_type' gets a value, and in tasks"):
            act()
    table.merge(values, "t.id = s.id").whenMatchedUpdate("s._change_type = 'delete'", {"id": "t.id * 10"}).execute()
    table.updateColumnsFrom(frame_of(spark, [(1, "delete")], "id long, _change_type string"), "id")
    assert content(table) == [{"id": 1, "_change_type": "delete"}, {"id": 20, "_change_type": "insert"}]


def test_the_source_of_a_merge_is_a_frame(table: LanceTable) -> None:
    with pytest.raises(pennon.errors.InvalidTypeError, match="The source of a merge is a str: expected"):
        table.merge("x", "t.id = s.id")  # type: ignore[arg-type]
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="a DataFrame: expected a DataFrame of Spark"):
        table.merge(pandas.DataFrame({"id": [1]}), "t.id = s.id")


def test_names_in_back_ticks_that_are_regular_expressions(
    spark: SparkSession, uri: str, request: pytest.FixtureRequest
) -> None:
    setting = "spark.sql.parser.quotedRegexColumnNames"
    spark.conf.set(setting, "true")
    request.addfinalizer(lambda: spark.conf.unset(setting))
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, text string")
    write(frame, uri)
    table = LanceTable.forPath(spark, uri).alias("t")
    merge = table.merge(frame.withColumn("text", fn.lit("merged")).alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll("s.id = 1").whenNotMatchedInsertAll().execute()
    table.updateColumnsFrom(spark.createDataFrame([(2, "by key")], "id long, text string"), on="id")
    assert {row.id: row.text for row in read(spark, uri).collect()} == {1: "merged", 2: "by key"}
    table.updateRows(spark.createDataFrame([(0, "by id")], "_rowid long, text string"))
    assert {row.id: row.text for row in read(spark, uri).collect()} == {1: "by id", 2: "by key"}
