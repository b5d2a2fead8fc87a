"""New columns of merges, appends, replacements and streams: none after a failure or where nothing changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, write

ROWS = 12


@pytest.fixture
def dataset(uri: str) -> pennon.LanceDataset:
    """Two versions: a column that was dropped had an id of its own."""
    n = pa.array([0] * ROWS, pa.int32())
    table = pennon.write_dataset({"gone": [0] * ROWS, "id": list(range(ROWS)), "n": n}, uri, max_rows_per_file=4)
    table.drop_columns(["gone"])
    return table


@pytest.fixture
def wider(spark: SparkSession) -> DataFrame:
    """Id 1 is in the table; `more`, `parts` and `list` are new."""
    return spark.sql(
        "SELECT id, int(n) n, more, named_struct('a', n, 'b', more) parts, array(n) list "
        "FROM VALUES (1L, 5, 'x'), (50L, 6, 'y') AS t(id, n, more)"
    )


def rows(uri: str) -> dict[int, dict[str, Any]]:
    """By the reference; Pennon and the reference must find the table sound, its data as well."""
    dataset = lance.dataset(uri)
    dataset.validate()
    table = pennon.dataset(uri)
    assert table.verify(data=True).ok
    assert table.to_table().to_pylist() == dataset.to_table().to_pylist()
    return {row["id"]: row for row in dataset.to_table().to_pylist()}


def new(n: int, more: str) -> dict[str, Any]:
    return {"n": n, "more": more, "parts": {"a": n, "b": more}, "list": [n]}


OLD = {"n": 0, "more": None, "parts": None, "list": None}


def failing(column: str) -> Column:
    """A function that gives no value for id 50."""

    def value(given: Any, at: int) -> Any:
        if at == 50:
            raise ValueError("no value for 50")
        return given

    return fn.udf(value, "string")(fn.col(column), fn.col("s.id" if column.startswith("s.") else "id"))


def test_an_append(spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str) -> None:
    bad = wider.withColumn("more", failing("more")).repartition(2, "id")
    with pytest.raises(Exception, match="no value for 50"):
        write(bad, uri, mode="append", merge_schema=True)
    with pytest.raises(Exception, match="no value for 50"):
        bad.write.format("pennon").mode("append").option("mergeSchema", True).save(uri)
    # A value that does not fit is found by a task, too.
    with pytest.raises(pennon.PennonError, match="3000000000"):
        write(wider.withColumn("n", fn.lit(3_000_000_000)), uri, mode="append", merge_schema=True)
    assert write(wider.where("id < 0"), uri, mode="append", merge_schema=True)["version"] == 2
    assert (pennon.dataset(uri).version, pennon.dataset(uri).schema.names) == (2, ["id", "n"])
    done = write(wider.where("id = 50"), uri, mode="append", merge_schema=True)
    assert (done["version"], done["num_inserted_rows"], done["num_files"]) == (3, 1, 1)
    expected = {at: {"id": at, **OLD} for at in range(ROWS)}
    assert rows(uri) == {**expected, 50: {"id": 50, **new(6, "y")}}
    last = wider.where("id = 1").selectExpr("id + 50 id", "parts", "list", "true seen")
    last.write.format("pennon").mode("append").option("mergeSchema", True).save(uri)
    found = rows(uri)
    assert found[51] == {
        "id": 51,
        "n": None,
        "more": None,
        "parts": new(5, "x")["parts"],
        "list": [5],
        "seen": True,
    }
    # Statistics of files that were written before the columns were there are those of their columns.
    table = pennon.dataset(uri)
    assert (table.count_rows("parts.a = 6"), table.count_rows("parts.b = 'x'"), table.count_rows("seen")) == (
        1,
        1,
        1,
    )


def test_a_column_that_another_writer_adds_meanwhile(
    spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extend = pennon.LanceDataset.with_new_columns
    others = [pa.schema({"other": pa.int8(), "more": pa.string()}), pa.schema({"late": pa.binary()})]

    def later(table: pennon.LanceDataset, columns: Any) -> Any:
        if others:
            pennon.dataset(uri).add_columns(others.pop(0))
        return extend(table, columns)

    monkeypatch.setattr(pennon.LanceDataset, "with_new_columns", later)
    assert write(wider.where("id = 50"), uri, mode="append", merge_schema=True)["num_inserted_rows"] == 1
    assert rows(uri)[50] == {"id": 50, "other": None, "late": None, **new(6, "y")}
    others.append(pa.schema({"last": pa.binary()}))
    message = "columns of .* meanwhile: 'last' is of type binary, the rows have int32: write again"
    with pytest.raises(pennon.SchemaMismatchError, match=message):
        write(spark.sql("SELECT 60L id, 1 last"), uri, mode="append", merge_schema=True)

    def drop(table: pennon.LanceDataset, columns: Any) -> Any:
        if "n" in pennon.dataset(uri).schema.names:
            pennon.dataset(uri).drop_columns(["n"])
        return extend(table, columns)

    monkeypatch.setattr(pennon.LanceDataset, "with_new_columns", drop)
    with pytest.raises(
        pennon.SchemaMismatchError, match="meanwhile: 'n' is missing, the rows have int32: write again"
    ):
        write(spark.sql("SELECT 60L id, 1 n, 1 fresh"), uri, mode="append", merge_schema=True)
    assert 60 not in rows(uri)


def merge(spark: SparkSession, uri: str, source: DataFrame, condition: str = "t.id = s.id") -> Any:
    builder = LanceTable.forPath(spark, uri).alias("t").merge(source.alias("s"), condition)
    return builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().withSchemaEvolution()


def test_a_merge(spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str) -> None:
    with pytest.raises(AnalysisException, match="nope"):
        merge(spark, uri, wider, "t.nope = s.id").execute()
    with pytest.raises(pennon.InvalidInputError, match="rows of the source match one row of the table"):
        merge(spark, uri, wider.union(wider)).execute()
    with pytest.raises(pennon.SchemaMismatchError, match=r"column 'n': the value . of the Spark type string"):
        merge(spark, uri, wider.withColumn("n", fn.col("more"))).execute()
    builder = LanceTable.forPath(spark, uri).alias("t").merge(wider.alias("s"), "t.id = s.id").withSchemaEvolution()
    with pytest.raises(AnalysisException, match="nope"):
        builder.whenNotMatchedInsertAll("s.nope").execute()
    builder = LanceTable.forPath(spark, uri).alias("t").merge(wider.alias("s"), "t.id = s.id").withSchemaEvolution()
    with pytest.raises(Exception, match="no value for 50"):
        builder.whenNotMatchedInsertAll(failing("s.more") == "y").execute()
    # Nothing matches and nothing is inserted.
    builder = LanceTable.forPath(spark, uri).alias("t").merge(wider.alias("s"), "t.id = s.id").withSchemaEvolution()
    done = builder.whenMatchedUpdateAll("s.more = 'q'").whenNotMatchedInsertAll("s.more = 'q'").execute().first()
    assert done is not None
    assert tuple(done) == (0, 0, 0, 0)
    assert merge(spark, uri, wider.where("false")).execute().first().num_affected_rows == 0
    assert (pennon.dataset(uri).version, pennon.dataset(uri).schema.names) == (2, ["id", "n"])
    assert tuple(merge(spark, uri, wider).execute().first()) == (2, 1, 0, 1)
    assert pennon.dataset(uri).version == 3
    expected = {at: {"id": at, **OLD} for at in range(ROWS)}
    assert rows(uri) == {**expected, 1: {"id": 1, **new(5, "x")}, 50: {"id": 50, **new(6, "y")}}


def test_a_merge_in_which_clauses_assign_different_columns(
    spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str
) -> None:
    builder = LanceTable.forPath(spark, uri).alias("t").merge(wider.alias("s"), "t.id = s.id OR t.id = s.id - 48")
    builder = builder.whenMatchedUpdate("t.id = 1", {"n": "t.n + s.n"}).whenMatchedUpdateAll().withSchemaEvolution()
    builder.whenNotMatchedBySourceUpdate("t.id = 4", {"n": "7"}).whenNotMatchedBySourceDelete("t.id > 4").execute()
    expected = {at: {"id": at, **OLD} for at in (0, 1, 3, 4)}
    expected[1]["n"], expected[4]["n"] = 5, 7
    assert rows(uri) == {**expected, 50: {"id": 50, **new(6, "y")}}


def test_a_merge_adds_what_clauses_give_values(
    spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str
) -> None:
    table = LanceTable.forPath(spark, uri).alias("t")
    evolving = table.merge(wider.alias("s"), "t.id = s.id").withSchemaEvolution()
    assert evolving.whenMatchedUpdate(set={"n": "s.n"}).execute().first().num_updated_rows == 1
    assert pennon.dataset(uri).schema.names == ["id", "n"]
    evolving = table.merge(wider.alias("s"), "t.id = s.id").withSchemaEvolution()
    evolving.whenMatchedDelete("s.n = 9").whenNotMatchedInsert(values={"id": "s.id", "`MORE`": "s.more"}).execute()
    assert pennon.dataset(uri).schema.names == ["id", "n", "more"]
    # Values of columns that the table has are cast as in other merges.
    texts = wider.withColumn("n", fn.lit("8"))
    merge(spark, uri, texts.drop("parts")).execute()
    assert pennon.dataset(uri).schema.names == ["id", "n", "more", "list"]
    assert rows(uri)[50] == {"id": 50, "n": 8, "more": "y", "list": [6]}


def test_a_merge_while_another_writer_changes_rows(
    spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extend, calls = pennon.LanceDataset.with_new_columns, list[int]()

    def later(table: pennon.LanceDataset, columns: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            other = pennon.dataset(uri)
            other.delete("id = 1")
            other.insert({"id": [50], "n": pa.array([3], pa.int32())})
        return extend(table, columns)

    monkeypatch.setattr(pennon.LanceDataset, "with_new_columns", later)
    assert tuple(merge(spark, uri, wider).execute().first()) == (2, 1, 0, 1)
    expected = {at: {"id": at, **OLD} for at in range(ROWS)}
    assert rows(uri) == {**expected, 1: {"id": 1, **new(5, "x")}, 50: {"id": 50, **new(6, "y")}}
    assert len(pennon.dataset(uri).to_table()) == ROWS + 1


def test_a_replacement(spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str) -> None:
    def replace(frame: DataFrame, condition: str) -> dict[str, int]:
        return write(frame, uri, mode="overwrite", replace_where=condition, merge_schema=True)

    with pytest.raises(AnalysisException, match="PARSE_SYNTAX_ERROR"):
        replace(wider, "id = = 1")
    with pytest.raises(AnalysisException, match="nope"):
        replace(wider, "nope = 1")
    with pytest.raises(pennon.InvalidInputError, match="1 rows of a batch do not satisfy replace_where"):
        replace(wider, "id = 1")
    with pytest.raises(Exception, match="no value for 50"):
        replace(wider.withColumn("more", failing("more")), "id IN (1, 50)")
    assert replace(wider.where("false"), "id = 77")["version"] == 2
    assert pennon.dataset(uri).schema.names == ["id", "n"]
    done = replace(wider, "id IN (1, 2, 50)")
    assert (done["num_deleted_rows"], done["num_inserted_rows"], done["version"]) == (2, 2, 3)
    expected = {at: {"id": at, **OLD} for at in range(ROWS) if at != 2}
    assert rows(uri) == {**expected, 1: {"id": 1, **new(5, "x")}, 50: {"id": 50, **new(6, "y")}}


def test_a_stream(
    spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    write(wider.where("id = 50"), source)
    stream = spark.readStream.format("pennon").load(source)

    def into(frame: DataFrame) -> None:
        writer = frame.writeStream.format("pennon").option("checkpointLocation", f"{tmp_path}/checkpoint")
        query = writer.option("mergeSchema", True).trigger(availableNow=True).start(uri)
        query.awaitTermination(120)

    with pytest.raises(StreamingQueryException, match="no value for 50"):
        into(stream.withColumn("more", failing("more")))
    assert (pennon.dataset(uri).version, pennon.dataset(uri).schema.names) == (2, ["id", "n"])
    into(stream)
    expected = {at: {"id": at, **OLD} for at in range(ROWS)}
    assert rows(uri) == {**expected, 50: {"id": 50, **new(6, "y")}}
    assert pennon.dataset(uri).version == 3
    write(wider.where("id = 1").withColumn("id", fn.lit(51).cast("long")), source, mode="append")
    into(spark.readStream.format("pennon").load(source))
    assert rows(uri)[51] == {"id": 51, **new(5, "x")}
    assert pennon.dataset(uri).version == 4


def test_what_a_stream_and_the_feed_show(
    spark: SparkSession, dataset: pennon.LanceDataset, wider: DataFrame, uri: str, tmp_path: Path
) -> None:
    """Of versions that add columns together with rows, and of one that adds columns alone."""
    write(wider.where("id = 50").select("id", "n", "more"), uri, mode="append", merge_schema=True)
    dataset.checkout_latest()
    dataset.add_columns({"double": "n * 2"})
    write(wider.where("id = 50").selectExpr("id + 1 id", "n", "n fresh"), uri, mode="append", merge_schema=True)
    assert pennon.dataset(uri).version == 5
    options = {"startingVersion": "3", "columns": "id, n, more, fresh"}
    stream = spark.readStream.format("pennon").options(**options).load(uri)
    sink = stream.writeStream.format("memory").queryName("new_columns").trigger(availableNow=True)
    sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    appended = sorted(tuple(row) for row in spark.table("new_columns").collect())
    assert appended == [(50, 6, "y", None), (51, 6, None, 6)]

    # A merge that updates a row is not an append.
    merge(spark, uri, wider.where("id = 1").select("id", "n", fn.lit(1).alias("late"))).execute()
    sink = stream.writeStream.format("memory").queryName("new_columns_2").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"Version 6 .* made by a Merge, deleted or updated rows"):
        sink.option("checkpointLocation", str(tmp_path / "checkpoint2")).start().awaitTermination(120)
    changes = LanceTable.forPath(spark, uri).changes(6).select("_change_type", "id", "n", "late").collect()
    assert sorted(tuple(row) for row in changes) == [
        ("update_postimage", 1, 5, 1),
        ("update_preimage", 1, 0, None),
    ]
    changes = LanceTable.forPath(spark, uri).changes(3, 3).select("_change_type", "id", "more").collect()
    assert [tuple(row) for row in changes] == [("insert", 50, "y")]
