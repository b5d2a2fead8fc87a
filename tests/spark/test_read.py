"""Reading: types, options, pinned versions, errors."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable, read

UTC = datetime.timezone.utc
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)

# Arrow type, values in the table, Spark's name of the type, values in Spark if they differ
TYPES = [
    (pa.bool_(), [True, None], "boolean", None),
    (pa.int8(), [-128, None], "tinyint", None),
    (pa.int16(), [-(2**15), None], "smallint", None),
    (pa.int32(), [-(2**31), None], "int", None),
    (pa.int64(), [-(2**63), None], "bigint", None),
    (pa.uint8(), [255, None], "smallint", None),
    (pa.uint16(), [65535, None], "int", None),
    (pa.uint32(), [2**32 - 1, None], "bigint", None),
    (pa.uint64(), [2**64 - 1, None], "decimal(20,0)", [Decimal(2**64 - 1), None]),
    (pa.float16(), [1.5, None], "float", None),
    (pa.float32(), [0.25, None], "float", None),
    (pa.float64(), [0.1, None], "double", None),
    (pa.string(), ["żółw", None], "string", None),
    (pa.large_string(), ["", None], "string", None),
    (pa.binary(), [b"\x00\xff", None], "binary", None),
    (pa.large_binary(), [b"", None], "binary", None),
    (pa.binary(3), [b"abc", None], "binary", None),
    (pa.date32(), [datetime.date(1969, 12, 31), None], "date", None),
    (pa.date64(), [datetime.date(2024, 2, 29), None], "date", None),
    (pa.timestamp("us"), [NOON, None], "timestamp_ntz", None),
    (pa.timestamp("ns"), [NOON, None], "timestamp_ntz", None),
    (pa.timestamp("ms", "Europe/Warsaw"), [NOON.replace(microsecond=0, tzinfo=UTC), None], "timestamp", None),
    (pa.duration("ms"), [datetime.timedelta(days=1, milliseconds=7), None], "interval day to second", None),
    (pa.decimal128(10, 2), [Decimal("-12345678.90"), None], "decimal(10,2)", None),
    (pa.decimal256(38, 3), [Decimal("1.125"), None], "decimal(38,3)", None),
    (pa.list_(pa.int32()), [[1, None, 3], None], "array<int>", None),
    (pa.large_list(pa.uint8()), [[], None], "array<smallint>", None),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0], None], "array<float>", None),
    (
        pa.list_(pa.struct({"a": pa.uint32(), "b": pa.list_(pa.string())})),
        [[{"a": 7, "b": ["x", None]}, {"a": None, "b": None}], None],
        "array<struct<a:bigint,b:array<string>>>",
        None,
    ),
]


def plain(value: object) -> object:
    """A Spark value as pyarrow gives it."""
    if hasattr(value, "asDict"):
        return {name: plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def test_every_type(spark: SparkSession, uri: str) -> None:
    columns = {f"c{at}": pa.array(values, kind) for at, (kind, values, _, _) in enumerate(TYPES)}
    pennon.write_dataset(pa.table(columns), uri)
    frame = spark.read.format("pennon").load(uri)
    assert [field.dataType.simpleString() for field in frame.schema] == [name for _, _, name, _ in TYPES]
    rows = frame.collect()
    for at, (kind, values, _, expected) in enumerate(TYPES):
        found = [plain(row[at]) for row in rows]
        wanted = values if expected is None else expected
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            # Spark gives local wall-clock time for these.
            found = [None if value is None else value.astimezone(UTC) for value in found]
        assert found == wanted, kind


def test_not_null_fields(spark: SparkSession, uri: str) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("st", inner, nullable=False),
            pa.field("li", pa.list_(pa.field("item", pa.uint8(), nullable=False))),
        ]
    )
    data = pa.table({"id": [1], "st": [{"x": 5}], "li": [[1, 2]]}, schema=schema)
    pennon.write_dataset(data, uri)
    frame = spark.read.format("pennon").load(uri)
    assert not frame.schema["id"].nullable
    assert not frame.schema["li"].dataType.containsNull
    assert [plain(row) for row in frame.collect()] == data.to_pylist()


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Three versions: 10 rows in two fragments, 10 more, rows 3 and 13 deleted; tag `two` on the second."""
    rows = pa.table({"id": pa.array(range(10)), "name": [f"n{at}" for at in range(10)]})
    pennon.write_dataset(rows, uri, max_rows_per_file=5)
    more = pa.table({"id": pa.array(range(10, 20)), "name": [f"n{at}" for at in range(10, 20)]})
    dataset = pennon.write_dataset(more, uri, mode="append")
    dataset.tags.create("two", 2)
    dataset.delete("id IN (3, 13)")
    return dataset


def test_versions_columns_and_system_columns(spark: SparkSession, table: pennon.LanceDataset) -> None:
    everything = read(
        spark, table.uri, columns=["name", "id"], with_row_id=True, with_row_address=True, with_row_versions=True
    )
    lineage = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
    assert everything.columns == ["name", "id", *lineage]
    assert all(everything.schema[name].dataType.simpleString() == "bigint" for name in lineage)
    expected = table.to_table(columns=["name", "id", *lineage]).to_pylist()
    assert sorted((row.asDict() for row in everything.collect()), key=lambda row: row["id"]) == expected
    assert read(spark, table.uri, version=1, columns=["id"]).count() == 10
    assert read(spark, table.uri, tag="two", columns=["id"]).count() == 20
    filtered = read(spark, table.uri, columns=["id"], filter="id < 2 OR name = 'n19'")
    assert sorted(row.id for row in filtered.collect()) == [0, 1, 19]
    assert read(spark, table.uri, fragments_per_task=1).rdd.getNumPartitions() == 3
    assert read(spark, table.uri).rdd.getNumPartitions() == 1


def test_user_schema_prunes(spark: SparkSession, table: pennon.LanceDataset) -> None:
    frame = spark.read.format("pennon").schema("name string").load(table.uri)
    assert frame.columns == ["name"]
    assert frame.count() == 18
    with pytest.raises(AnalysisException, match="'id' was asked for as string, but the table has bigint"):
        spark.read.format("pennon").schema("id string").load(table.uri).collect()


def test_a_planned_frame_keeps_its_version(spark: SparkSession, table: pennon.LanceDataset) -> None:
    rows = read(spark, table.uri, columns=["id"], fragments_per_task=1).toLocalIterator()
    first = next(rows)
    # The other tasks start after this.
    table.delete("id % 2 = 0")
    table.insert(pa.table({"id": [100], "name": ["new"]}))
    table.optimize.compact_files()
    assert sorted([first.id, *(row.id for row in rows)]) == sorted(set(range(20)) - {3, 13})
    assert read(spark, table.uri).count() == 9


def test_a_view_of_a_version(spark: SparkSession, table: pennon.LanceDataset) -> None:
    view = LanceTable.forPath(spark, table.uri).toDF(columns=["id"])
    assert view.select((view.id * 2).alias("twice")).count() == 18
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t USING pennon OPTIONS (path '{table.uri}', version 1)")
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 10


def test_empty_table(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    assert spark.read.format("pennon").load(uri).collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verison": "1"}, "Unknown Pennon option 'verison' in a read; did you mean 'version'"),
        ({"with_rowid": "true"}, "did you mean 'with_row_id'"),
        ({"max_rows_per_file": "3"}, "belongs to a write, not to a read"),
        ({"version": "0"}, "option 'version' is '0': expected 1 or more"),
        ({"with_row_id": "yes"}, "option 'with_row_id' is 'yes': expected true or false"),
        ({"version": "1", "tag": "two"}, "'version' and 'tag' were both given"),
        ({"version": "99"}, "was not found"),
        ({"tag": "nine"}, "nine"),
        ({"columns": "id,nam"}, "nam"),
        ({"filter": "id >"}, "Error parsing"),
        ({"filter": "id + 1"}, "does not return a boolean"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_options(
    spark: SparkSession, table: pennon.LanceDataset, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("pennon").options(**options).load(table.uri)
    assert message in str(caught.value)


def test_missing_table_and_unsupported_type(spark: SparkSession, uri: str) -> None:
    with pytest.raises(AnalysisException, match="was not found"):
        spark.read.format("pennon").load(uri)
    data = pa.table({"id": [1], "wide": pa.array([Decimal(1)], pa.decimal256(50, 2))})
    pennon.write_dataset(data, uri)
    with pytest.raises(AnalysisException, match=r"column 'wide' has the type .*'columns'"):
        spark.read.format("pennon").load(uri)
    assert read(spark, uri, columns=["id"]).collect()[0].id == 1


def test_blobs_are_bytes(spark: SparkSession, uri: str) -> None:
    values = [b"a" * 11, None, b""]
    field = pennon.blob_field("b", inline_size_threshold=10)
    pennon.write_dataset(pa.table([pennon.blob_array(values)], schema=pa.schema([field])), uri)
    frame = spark.read.format("pennon").load(uri)
    assert frame.schema["b"].dataType.simpleString() == "binary"
    assert [plain(row.b) for row in frame.collect()] == values
