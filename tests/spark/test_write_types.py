"""Writing: the types of tables that come from frames, and of frames that came from tables."""

from __future__ import annotations

import datetime
from decimal import Decimal

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType, LongType, StructField, StructType
from pyspark_pennon import read, write

NOON = datetime.datetime(2024, 2, 29, 12)


def types_without_a_counterpart() -> pa.Table:
    """A table of which Spark alone could not tell the types, nulls included."""
    members = pa.struct([("half", pa.float16()), pa.field("vector", pa.list_(pa.float32(), 2))])
    columns = {
        "embedding": pa.array([[1.0, 2.0], None], pa.list_(pa.float16(), 2)),
        "u8": pa.array([255, None], pa.uint8()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "large": pa.array(["x", None], pa.large_string()),
        "bytes": pa.array([b"abc", None], pa.binary(3)),
        "word": pa.array(["y", None]).dictionary_encode(),
        "ns": pa.array([NOON, None], pa.timestamp("ns")),
        "zoned": pa.array([NOON, None], pa.timestamp("ms", "Europe/Warsaw")),
        "day": pa.array([NOON.date(), None], pa.date64()),
        "list": pa.array([[1, None], None], pa.large_list(pa.uint32())),
        "struct": pa.array([{"half": 0.5, "vector": [1.0, 2.0]}, None], members),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.uint8())),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
    }
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    fields[3] = fields[3].with_metadata({"lance-encoding:compression": "zstd", "note": "kept"})
    return pa.table(list(columns.values()), schema=pa.schema(fields))


@pytest.mark.parametrize("source", ["read", "load"])
def test_a_copy_has_the_types_of_the_table(spark: SparkSession, uri: str, source: str) -> None:
    data = types_without_a_counterpart()
    pennon.write_dataset(data, uri)
    frame = read(spark, uri) if source == "read" else spark.read.format("pennon").load(uri)
    assert frame.schema["embedding"].metadata["fixed_size_list"] == 2
    # Names and order may change, and rows come and go; what is computed has the type that Spark gives it.
    changed = (
        frame.where("u8 IS NOT NULL")
        .union(frame.where("u8 IS NULL"))
        .select(*reversed(frame.columns[1:]), fn.col("embedding").alias("v"), (fn.col("u8") + 1).alias("u9"))
    )
    if source == "read":
        write(changed, f"{uri}-copy", max_tasks=1)
    else:
        changed.coalesce(1).write.format("pennon").mode("append").save(f"{uri}-copy")
    copy = pennon.dataset(f"{uri}-copy")
    expected = data.rename_columns(["v", *data.column_names[1:]]).select([*reversed(data.column_names[1:]), "v"])
    assert copy.schema.field("u9").type == pa.int32()
    found = copy.to_table(columns=expected.column_names)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pydict() == expected.to_pydict()
    # An append goes through the same casts.
    write(read(spark, uri, columns=["u8", "word"]), f"{uri}-copy", mode="append")
    assert pennon.dataset(f"{uri}-copy").to_table(columns=["word"])["word"].to_pylist() == ["y", None] * 2


def test_facts_that_do_not_fit_any_more_are_passed_over(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"u": pa.array([1], pa.uint8())}), uri)
    kept = read(spark, uri).schema["u"].metadata
    frame = spark.sql("SELECT 1000L AS u").withMetadata("u", kept)
    write(frame, f"{uri}-copy")
    assert pennon.dataset(f"{uri}-copy").schema.field("u").type == pa.int64()
    broken = spark.sql("SELECT 1L AS u").withMetadata("u", {"pennon.arrow": "!"})
    write(broken, f"{uri}-copy", mode="overwrite")
    assert pennon.dataset(f"{uri}-copy").schema.field("u").type == pa.int64()


def test_blobs(spark: SparkSession, uri: str) -> None:
    values = [b"a" * 11, None, b""]
    field = pennon.blob_field("b", inline_size_threshold=10)
    pennon.write_dataset(pa.table([pennon.blob_array(values)], schema=pa.schema([field])), uri)
    write(read(spark, uri), f"{uri}-copy")
    write(spark.sql("SELECT binary('abc') AS b"), f"{uri}-copy", mode="append")
    copy = pennon.dataset(f"{uri}-copy")
    assert copy.to_table(blob_handling="all_binary")["b"].to_pylist() == [*values, b"abc"]
    assert copy.schema.equals(pennon.dataset(uri).schema, check_metadata=True)
    with pytest.raises(pennon.SchemaMismatchError, match="column 'b' has the Spark type string"):
        write(spark.sql("SELECT 'abc' AS b"), f"{uri}-copy", mode="append")


def test_vectors_of_spark_ml(spark: SparkSession, uri: str) -> None:
    frame = spark.createDataFrame(
        [(0, Vectors.dense(1.0, 2.0)), (1, None), (2, Vectors.dense(3.0, 4.0))], ["id", "v"]
    )
    write(frame, uri)
    assert pennon.dataset(uri).schema.field("v").type == pa.list_(pa.float64(), 2)
    assert lance.dataset(uri).to_table().sort_by("id")["v"].to_pylist() == [[1.0, 2.0], None, [3.0, 4.0]]
    frame.write.format("pennon").mode("append").save(uri)
    assert pennon.dataset(uri).count_rows() == 6
    bad = {
        "expected 2": Vectors.dense(1.0, 2.0, 3.0),
        "sparse vector": Vectors.sparse(2, [0], [1.0]),
    }
    for message, vector in bad.items():
        with pytest.raises(pennon.SchemaMismatchError, match=f"column 'v'.*{message}"):
            write(spark.createDataFrame([(0, vector)], ["id", "v"]), uri, mode="append")
    with pytest.raises(AnalysisException, match=r"vectors of unknown size: write it with pyspark_pennon\.write"):
        frame.write.format("pennon").mode("append").save(f"{uri}-load")
    with pytest.raises(pennon.InvalidInputError, match="vectors of unknown size"):
        write(frame.where("id = 1"), f"{uri}-null")
    sized = frame.withMetadata("v", {"fixed_size_list": 2})
    sized.write.format("pennon").mode("append").save(f"{uri}-load")
    large = pa.schema({"id": pa.int64(), "v": pa.large_list(pa.float64())})
    pennon.write_dataset(large.empty_table(), f"{uri}-large")
    write(frame, f"{uri}-large", mode="append")
    assert lance.dataset(f"{uri}-large").to_table().sort_by("id")["v"].to_pylist() == [[1.0, 2.0], None, [3.0, 4.0]]
    single = pa.schema({"v": pa.list_(pa.float32(), 2), "id": pa.int64()})
    write(frame, f"{uri}-single", schema=single)
    assert pennon.dataset(f"{uri}-single").schema == single
    assert read(spark, f"{uri}-single", where="v[1] = 4").select("id").collect() == [(2,)]


def test_what_a_frame_makes_may_be_null(spark: SparkSession, uri: str) -> None:
    columns = "id, 'crm' src, array(id) list, named_struct('x', id) st, map('k', array(id)) map"
    frame = spark.sql(f"SELECT {columns} FROM range(2)")
    frame.write.format("pennon").mode("append").save(f"{uri}-load")
    write(frame, uri)
    write(read(spark, uri, where="id = 0"), f"{uri}-copy")
    nulls = "NULL src, array(NULL) list, named_struct('x', NULL) st, map('k', array(NULL)) map"
    for table in (uri, f"{uri}-load", f"{uri}-copy"):
        write(spark.sql(f"SELECT 7L id, {nulls}"), table, mode="append")
        row = lance.dataset(table).to_table(filter="id = 7").drop_columns(["id"]).to_pylist()
        assert row == [{"src": None, "list": [None], "st": {"x": None}, "map": [("k", [None])]}]
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("src", pa.string())])
    write(frame.select("id", "src"), f"{uri}-strict", schema=strict)
    assert pennon.dataset(f"{uri}-strict").schema == strict
    # A table that says so is left as it is, and a copy of it may have nulls again.
    with pytest.raises(pennon.PennonError, match="null"):
        write(spark.sql("SELECT CAST(NULL AS BIGINT) id, 'x' src"), f"{uri}-strict", mode="append")
    write(read(spark, f"{uri}-strict"), f"{uri}-lax")
    assert pennon.dataset(f"{uri}-lax").schema.field("id").nullable


def test_integers_in_decimals(spark: SparkSession, uri: str) -> None:
    types = pa.schema({"money": pa.decimal128(10, 2), "count": pa.decimal128(18, 0)})
    pennon.write_dataset(types.empty_table(), uri)
    write(spark.sql("SELECT 99999999 money, 999999999999999999L count"), uri, mode="append")
    (row,) = lance.dataset(uri).to_table().to_pylist()
    assert row == {"money": Decimal("99999999.00"), "count": Decimal(10**18 - 1)}
    for value, name in [("100000000", "money"), ("1000000000000000000L", "count")]:
        with pytest.raises(pennon.SchemaMismatchError, match=f"column '{name}'.*does not fit in precision"):
            write(spark.sql(f"SELECT {value} {name}"), uri, mode="append")


def test_a_size_for_arrays(spark: SparkSession, uri: str) -> None:
    frame = spark.sql("SELECT id, array(float(id), float(1)) AS v FROM range(4)")
    write(frame.withMetadata("v", {"fixed_size_list": 2}), uri)
    assert pennon.dataset(uri).schema.field("v").type.list_size == 2
    for metadata in ({"fixed_size_list": 0}, {"fixed_size_list": "2"}):
        with pytest.raises(pennon.InvalidInputError, match="expected a size of at least 1, and an array"):
            write(frame.withMetadata("v", metadata), f"{uri}-bad")
    with pytest.raises(pennon.InvalidInputError, match="and the type bigint"):
        write(frame.withMetadata("id", {"fixed_size_list": 2}), f"{uri}-bad")
    with pytest.raises(pennon.SchemaMismatchError, match="found a list of 2 values, expected 3"):
        write(frame.withMetadata("v", {"fixed_size_list": 3}), f"{uri}-bad")


def test_nulls_in_all_positions(spark: SparkSession, uri: str) -> None:
    rows = [
        {"l": None, "s": None, "m": None, "d": None},
        {"l": [None, [None, 1]], "s": {"a": None, "b": None}, "m": {"k": None}, "d": []},
        {"l": [], "s": {"a": 1, "b": [{"c": None}, None]}, "m": {}, "d": [{"x": {"y": None}}]},
    ]
    schema = (
        "l array<array<int>>, s struct<a:int, b:array<struct<c:string>>>, m map<string,array<int>>, "
        "d array<struct<x:map<string,string>>>"
    )
    write(spark.createDataFrame(rows, schema), uri, max_tasks=1)
    found = lance.dataset(uri).to_table().to_pylist(maps_as_pydicts="strict")
    assert found == rows
    write(read(spark, uri), uri, mode="append", max_tasks=1)
    assert lance.dataset(uri).to_table().to_pylist(maps_as_pydicts="strict") == rows * 2


def test_comments_of_columns(spark: SparkSession, uri: str) -> None:
    commented = StructField("id", LongType(), metadata={"comment": "of the ticket"})
    write(spark.createDataFrame([(1,)], StructType([commented])), uri)
    late = StructField("late", BooleanType(), metadata={"comment": "more than an hour"})
    write(spark.createDataFrame([(1, True)], StructType([commented, late])), uri, mode="append", merge_schema=True)
    fields = lance.dataset(uri).schema
    assert fields.field("id").metadata == {b"comment": b"of the ticket"}
    assert fields.field("late").metadata == {b"comment": b"more than an hour"}
    frame = read(spark, uri)
    assert [field.metadata["comment"] for field in frame.schema] == ["of the ticket", "more than an hour"]
    write(frame.withMetadata("late", {"comment": "two"}), f"{uri}-copy")
    copied = lance.dataset(f"{uri}-copy").schema
    assert [field.metadata for field in copied] == [{b"comment": b"of the ticket"}, {b"comment": b"two"}]
    write(frame.withMetadata("late", {"comment": ""}).withMetadata("id", {}), f"{uri}-plain")
    assert [field.metadata for field in lance.dataset(f"{uri}-plain").schema] == [None, None]
    other = StructField("id", LongType(), metadata={"comment": "another one"})
    write(spark.createDataFrame([(2,)], StructType([other])), uri, mode="append")
    assert lance.dataset(uri).schema == fields
