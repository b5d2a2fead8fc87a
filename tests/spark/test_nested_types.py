"""Writing of nested values: what fits is the same in structs, arrays and maps as in a column."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark_pennon import LanceTable, write
from pyspark_pennon.types.storable import append_schema

NUMBERS = {"int": "7", "bigint": "7L", "double": "7D", "decimal(9,2)": "7BD"}
OTHERS = {
    "boolean": "true",
    "string": "'7'",
    "binary": "binary('7')",
    "date": "DATE '2024-06-01'",
    "timestamp": "TIMESTAMP '2024-06-01 00:00:00'",
    "timestamp_ntz": "TIMESTAMP_NTZ '2024-06-01 00:00:00'",
}
KINDS = {**NUMBERS, **OTHERS}
NESTED = {
    "t": ("{}", "{}", ""),
    "s": ("struct<x: {}>", "named_struct('x', {})", ".x"),
    "a": ("array<{}>", "array({})", "[]"),
    "k": ("map<{}, int>", "map({}, 1)", ".key"),
    "v": ("map<string, {}>", "map('k', {})", ".value"),
    "d": ("array<struct<x: map<string, {}>>>", "array(named_struct('x', map('k', {})))", "[].x.value"),
}
NUMBER = {kind: f"c{at}" for at, kind in enumerate(KINDS)}


@pytest.fixture
def every_kind(spark: SparkSession, uri: str) -> str:
    """A table with a column of each kind in each position."""
    columns = [f"{at}_{NUMBER[kind]} {NESTED[at][0].format(kind)}" for kind in KINDS for at in NESTED]
    LanceTable.create(spark).location(uri).addColumns(", ".join(columns)).execute()
    return uri


def test_what_is_refused(spark: SparkSession, every_kind: str) -> None:
    stored = pennon.dataset(every_kind).schema
    for given, value in KINDS.items():
        wrong = [kind for kind in KINDS if kind != given and not (kind in NUMBERS and given in NUMBERS)]
        columns = {f"{at}_{NUMBER[kind]}": NESTED[at][1].format(value) for kind in wrong for at in NESTED}
        frame = spark.sql(f"SELECT {', '.join(f'{value} {name}' for name, value in columns.items())}")
        for column in frame.schema.fields:
            with pytest.raises(pennon.SchemaMismatchError) as error:
                append_schema(stored, StructType([column]))
            assert str(error.value).startswith(
                f"column '{column.name}{NESTED[column.name[0]][2]}' has the Spark type "
            )
        with pytest.raises(pennon.SchemaMismatchError):
            write(frame.select(frame.columns[-1]), every_kind, mode="append")
    assert pennon.dataset(every_kind).version == 1


def test_what_is_converted(spark: SparkSession, every_kind: str) -> None:
    for given, value in KINDS.items():
        fitting = [kind for kind in KINDS if kind == given or (kind in NUMBERS and given in NUMBERS)]
        columns = [f"{NESTED[at][1].format(value)} {at}_{NUMBER[kind]}" for kind in fitting for at in NESTED]
        write(spark.sql(f"SELECT {', '.join(columns)}"), every_kind, mode="append")
        found = (
            lance.dataset(every_kind).to_table(columns=[column.split()[-1] for column in columns]).to_pylist()[-1]
        )
        for kind in fitting:
            top = found[f"t_{NUMBER[kind]}"]
            if given in NUMBERS:
                assert top == 7
            assert found[f"s_{NUMBER[kind]}"] == {"x": top}
            assert found[f"a_{NUMBER[kind]}"] == [top]
            assert found[f"k_{NUMBER[kind]}"] == [(top, 1)]
            assert found[f"v_{NUMBER[kind]}"] == [("k", top)]
            assert found[f"d_{NUMBER[kind]}"] == [{"x": [("k", top)]}]
    rows = lance.dataset(every_kind).to_table(columns=["s_c8"])["s_c8"].to_pylist()
    assert rows[-2] == {"x": datetime.datetime(2024, 6, 1, tzinfo=datetime.timezone.utc)}


def appended(frame: DataFrame, uri: str) -> None:
    write(frame, uri, mode="append")


def replacing(frame: DataFrame, uri: str) -> None:
    write(frame, uri, mode="overwrite", replace_where="true")


def widening(frame: DataFrame, uri: str) -> None:
    write(frame.selectExpr("*", "1 AS more"), uri, mode="append", merge_schema=True)


def with_schema(frame: DataFrame, uri: str) -> None:
    write(frame, f"{uri}-new", schema=pennon.dataset(uri).schema)


def by_the_source(frame: DataFrame, uri: str) -> None:
    frame.write.format("pennon").mode("append").save(uri)


def by_a_stream(frame: DataFrame, uri: str) -> None:
    write(frame, f"{uri}-source")
    rows = frame.sparkSession.readStream.format("pennon").load(f"{uri}-source")
    writer = rows.writeStream.format("pennon").option("checkpointLocation", f"{uri}-checkpoint")
    writer.trigger(availableNow=True).start(uri).awaitTermination(120)


@pytest.mark.parametrize("way", [appended, replacing, widening, with_schema, by_the_source, by_a_stream])
def test_ways_of_writing(spark: SparkSession, uri: str, way: Callable[[DataFrame, str], None]) -> None:
    columns = "s struct<x: timestamp>, a array<int>, v map<string, string>"
    LanceTable.create(spark).location(uri).addColumns(columns).execute()
    good = "named_struct('x', TIMESTAMP '2024-06-01 00:00:00') s, array(7S) a, map('k', 'v') v"
    bad = {
        "s.x": good.replace("TIMESTAMP", "TIMESTAMP_NTZ"),
        "a[]": good.replace("7S", "'7'"),
        "v.value": good.replace("'v'", "7"),
    }
    # A query costs as much as ten writes.
    tried = bad if way is not by_a_stream else {"v.value": bad["v.value"]}
    for at, (path, values) in enumerate(tried.items()):
        with pytest.raises((pennon.SchemaMismatchError, AnalysisException, StreamingQueryException)) as error:
            way(spark.sql(f"SELECT {values}"), uri if way is not by_a_stream else linked(uri, at))
        assert f"column '{path}' has the Spark type" in str(error.value)
    assert pennon.dataset(uri).count_rows() == 0
    way(spark.sql(f"SELECT {good}"), uri)
    written = f"{uri}-new" if way is with_schema else uri
    rows = lance.dataset(written).to_table(columns=["s", "a", "v"]).to_pylist()
    noon = datetime.datetime(2024, 6, 1, tzinfo=datetime.timezone.utc)
    assert rows == [{"s": {"x": noon}, "a": [7], "v": [("k", "v")]}]


def linked(uri: str, at: int) -> str:
    """An empty copy of a table, for a query of its own."""
    pennon.write_dataset(pennon.dataset(uri).schema.empty_table(), f"{uri}-{at}")
    return f"{uri}-{at}"


MEMBERS = "s struct<a: int, b: array<struct<x: int, y: string>>>"


def test_members(spark: SparkSession, uri: str) -> None:
    LanceTable.create(spark).location(uri).addColumns(MEMBERS).execute()
    wrong = {
        "column 's' has the member 'c', which the table lacks: there are a, b": "named_struct('a', 1, 'c', 2)",
        r"column 's\.b\[\]' has the member 'z'": "named_struct('b', array(named_struct('z', 1)))",
        "column 's': two members of the frame are 'a' of the table": "named_struct('a', 1, 'A', 2)",
        r"column 's\.b\[\]\.y' has the Spark type int": "named_struct('B', array(named_struct('Y', 1)))",
    }
    for message, value in wrong.items():
        with pytest.raises(pennon.SchemaMismatchError, match=message):
            write(spark.sql(f"SELECT {value} s"), uri, mode="append")
    write(
        spark.sql("SELECT named_struct('B', array(named_struct('Y', 'u', 'x', 1)), 'A', 2) S"), uri, mode="append"
    )
    source = spark.sql("SELECT named_struct('A', 3) s")
    source.write.format("pennon").mode("append").save(uri)
    write(spark.sql("SELECT named_struct('A', 4) s"), uri, mode="append")
    found = [row["s"] for row in lance.dataset(uri).to_table().to_pylist()]
    assert found == [{"a": 2, "b": [{"x": 1, "y": "u"}]}, {"a": 3, "b": None}, {"a": 4, "b": None}]


def test_members_where_case_matters(spark: SparkSession, uri: str, sensitive: None) -> None:
    pennon.write_dataset(pa.table({"s": pa.array([], pa.struct({"a": pa.int32(), "A": pa.int32()}))}), uri)
    with pytest.raises(pennon.SchemaMismatchError, match="column 's' has the member 'B'"):
        write(spark.sql("SELECT named_struct('B', 1) s"), uri, mode="append")
    write(spark.sql("SELECT named_struct('A', 1) s"), uri, mode="append")
    write(spark.sql("SELECT named_struct('A', 2, 'a', 3) s"), uri, mode="append")
    assert pennon.dataset(uri).to_table()["s"].to_pylist() == [{"a": None, "A": 1}, {"a": 3, "A": 2}]


def test_a_member_that_may_not_be_null(spark: SparkSession, uri: str) -> None:
    member = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())])
    pennon.write_dataset(pa.table({"s": pa.array([], member)}), uri)
    with pytest.raises(
        pennon.SchemaMismatchError, match="column 's': the member 'a' is missing and may not be null"
    ):
        write(spark.sql("SELECT named_struct('b', 1) s"), uri, mode="append")
    write(spark.sql("SELECT named_struct('a', 1) s"), uri, mode="append")
    assert lance.dataset(uri).to_table()["s"].to_pylist() == [{"a": 1, "b": None}]


def test_nulls_without_a_type(spark: SparkSession, uri: str) -> None:
    columns = "t int, s struct<x: array<int>, y: struct<z: int>>, a array<map<string, int>>, v map<string, binary>"
    LanceTable.create(spark).location(uri).addColumns(columns).execute()
    nulls = "NULL t, named_struct('x', NULL, 'y', NULL) s, array(NULL) a, map('k', NULL) v"
    write(spark.sql(f"SELECT {nulls}"), uri, mode="append")
    write(spark.sql("SELECT NULL t, NULL s, NULL a, NULL v"), uri, mode="append")
    found: list[Any] = lance.dataset(uri).to_table().to_pylist()
    assert found == [
        {"t": None, "s": {"x": None, "y": None}, "a": [None], "v": [("k", None)]},
        {"t": None, "s": None, "a": None, "v": None},
    ]
