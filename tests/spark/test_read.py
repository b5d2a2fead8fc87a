"""Reading: types, options, pinned versions, errors."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from pyspark_pennon import DefaultSource, LanceTable, read, read_changes, tables, typed_error
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.reads import frames
from pyspark_pennon.reads.reader import Reader, pinned_schema
from pyspark_pennon.tasks.plans import numbered

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
    filtered = read(spark, table.uri, columns=["id"], filter_sql="id < 2 OR name = 'n19'")
    assert sorted(row.id for row in filtered.collect()) == [0, 1, 19]
    assert read(spark, table.uri, tasks=3).rdd.getNumPartitions() == 3
    assert read(spark, table.uri, bytes_per_task=1_000).count() == 18
    assert read(spark, table.uri).rdd.getNumPartitions() == 1
    assert read(spark, table.uri, tag="two", filter_sql="id < 5").count() == 5


def test_user_schema_prunes(spark: SparkSession, table: pennon.LanceDataset) -> None:
    frame = spark.read.format("pennon").schema("name string").load(table.uri)
    assert frame.columns == ["name"]
    assert frame.count() == 18
    with pytest.raises(AnalysisException, match="'id' was asked for as string, but the table has bigint"):
        spark.read.format("pennon").schema("id string").load(table.uri).collect()


def test_rows_without_columns(spark: SparkSession, table: pennon.LanceDataset, tmp_path: Path) -> None:
    nothing = read(spark, table.uri, columns=[])
    assert (nothing.columns, nothing.count(), nothing.collect()) == ([], 18, [()] * 18)
    assert nothing.crossJoin(spark.range(2)).count() == 36
    expected = table.count_rows("id < 7")
    for where in ("id < 7", "id % 1 = 0 AND id < 7", fn.rand() < fn.lit(-1)):
        assert read(spark, table.uri, columns=[], where=where).count() == (
            expected if isinstance(where, str) else 0
        )
    assert read(spark, table.uri, columns=[], filter_sql="id < 7", version=2).count() == 7
    assert LanceTable.forPath(spark, table.uri).toDF(columns=[]).count() == 18
    source = spark.read.format("pennon").schema(StructType([]))
    assert source.load(table.uri).count() == 18
    assert source.option("filterSql", "id < 7").load(table.uri).crossJoin(spark.range(2)).count() == 2 * expected
    counted: list[int] = []
    stream = spark.readStream.format("pennon").schema(StructType([])).load(table.uri)
    writer = stream.writeStream.foreachBatch(lambda batch, _: counted.append(batch.count()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination(120)
    assert counted == [18]
    assert read_changes(spark, table.uri, starting_version=1, net=True, columns=[]).count() == 18


def change(table: pennon.LanceDataset) -> None:
    """Rows, columns and files are others afterwards; 9 rows are left."""
    table.delete("id % 2 = 0")
    table.insert(pa.table({"id": [100], "name": ["new"]}))
    table.add_columns({"more": "id"})
    table.optimize.compact_files()


@pytest.mark.parametrize("source", ["read", "load"])
def test_a_frame_is_of_one_version(spark: SparkSession, table: pennon.LanceDataset, source: str) -> None:
    frame = read(spark, table.uri) if source == "read" else spark.read.format("pennon").load(table.uri)
    change(table)
    assert (frame.columns, frame.count()) == (["id", "name"], 18)
    assert frame.join(frame.selectExpr("id AS other"), frame.id == fn.col("other")).count() == 18
    table.truncate_table()
    assert sorted(row.id for row in frame.select("id").collect()) == sorted(set(range(20)) - {3, 13})
    assert read(spark, table.uri).count() == 0


def test_a_frame_in_use_keeps_its_version(spark: SparkSession, table: pennon.LanceDataset) -> None:
    rows = read(spark, table.uri, columns=["id"], tasks=3).toLocalIterator()
    first = next(rows)
    # The other tasks start after this.
    change(table)
    assert sorted([first.id, *(row.id for row in rows)]) == sorted(set(range(20)) - {3, 13})
    assert read(spark, table.uri).count() == 9


def test_branches_and_times(spark: SparkSession, table: pennon.LanceDataset) -> None:
    table.create_branch("dev", 2)
    branch = pennon.dataset(table.uri, version=("dev", None))
    branch.insert(pa.table({"id": [500], "name": ["dev"]}))
    # A version of the branch is numbered on from the version that it was made of.
    first = branch.version - 1
    assert read(spark, table.uri, branch="dev", where="id >= 19").select("id").collect() == [(19,), (500,)]
    assert read(spark, table.uri, branch="dev", version=first).count() == 20
    loaded = spark.read.format("pennon").option("branch", "dev").load(table.uri)
    assert loaded.where("name = 'dev'").count() == 1
    second = table.versions()[1]["timestamp"]
    assert read(spark, table.uri, timestamp=second).count() == 20
    frame = spark.read.format("pennon").option("timestamp", second.isoformat()).load(table.uri)
    assert frame.count() == 20
    with pytest.raises(ValueError, match=r"younger|2001"):
        read(spark, table.uri, timestamp="2001-01-01")
    # Between the two changes of the branch main has no row 500.
    branch.delete("id = 500")
    then = branch.versions()[-2]["timestamp"]
    assert branch.versions()[-1]["timestamp"] > then
    assert read(spark, table.uri, branch="dev", timestamp=then, where="id >= 19").count() == 2
    reader = spark.read.format("pennon").option("branch", "dev").option("timestamp", then.isoformat())
    assert reader.load(table.uri).where("id >= 19").count() == 2
    with pytest.raises(ValueError, match="2001"):
        read(spark, table.uri, branch="dev", timestamp="2001-01-01")


def test_a_tag_of_a_branch(spark: SparkSession, table: pennon.LanceDataset, pushdown: None) -> None:
    table.create_branch("dev", 1)
    branch = pennon.dataset(table.uri, version=("dev", None))
    branch.insert(pa.table({"id": [500], "name": ["dev"]}))
    # The main branch has a version of the same number.
    assert branch.version <= table.version
    table.tags.create("trial", ("dev", branch.version))
    expected = sorted(pennon.dataset(table.uri, version="trial").to_table()["id"].to_pylist())
    assert 500 in expected
    for push in (False, True):
        loaded = spark.read.format("pennon").option("tag", "trial").option("push_filters", push).load(table.uri)
        assert sorted(row.id for row in loaded.collect()) == expected
        found = spark.read.format("pennon").option("tag", "trial").option("push_filters", push).load(table.uri)
        assert [row.id for row in found.where("id >= 19").collect()] == [n for n in expected if n >= 19]
    assert sorted(row.id for row in read(spark, table.uri, version="trial").collect()) == expected


def test_a_schema_of_another_frame(spark: SparkSession, table: pennon.LanceDataset, tmp_path: Path) -> None:
    old = spark.read.format("pennon").option("version", 1).load(table.uri).schema
    newest = spark.read.format("pennon").schema(old).load(table.uri)
    assert newest.count() == 18  # the version was asked for by number, which this does not ask for
    pinned = spark.read.format("pennon").load(table.uri).schema
    table.delete("true")
    assert spark.read.format("pennon").schema(pinned).load(table.uri).count() == 18
    other = pennon.write_dataset(pa.table({"id": [1], "name": ["x"]}), str(tmp_path / "other"))
    assert spark.read.format("pennon").schema(pinned).load(other.uri).count() == 1


def test_a_table_that_was_made_again(spark: SparkSession, uri: str, pushdown: None) -> None:
    frames = {}
    pennon.write_dataset({"id": [1, 2]}, uri)
    for push in (False, True):
        frames[push] = spark.read.format("pennon").option("push_filters", push).load(uri)
    pennon.LanceDataset.drop(uri)
    pennon.write_dataset({"id": [100]}, uri)
    for frame in frames.values():
        for action in (frame.collect, frame.where("id > 1").collect):
            with pytest.raises(AnalysisException) as caught:
                action()
            error = typed_error(caught.value)
            assert isinstance(error, pennon.InvalidInputError)
            assert f"The frame is of another table: version 1 of {uri} was made " in str(error)
    assert spark.read.format("pennon").load(uri).collect()[0].id == 100


def test_times_of_a_day(spark: SparkSession, uri: str) -> None:
    times = [datetime.time(12, 30), None, datetime.time(0, 0, 0, 7)]
    data = pa.table({"id": range(3), "t": pa.array(times, pa.time64("us"))})
    pennon.write_dataset(data, uri)
    table = LanceTable.forPath(spark, uri)
    queries = [
        lambda: table.toDF().count(),
        lambda: spark.read.format("pennon").load(uri).groupBy("t").count().collect(),
        lambda: table.toDF().selectExpr("hour(t)").collect(),
        lambda: table.update("t > TIME '12:00:00'", {"id": "hour(t)"}),
    ]
    for query in queries:
        with pytest.raises(AnalysisException, match="UNSUPPORTED_TIME_TYPE"):
            query()
    assert [row.t for row in table.toDF().orderBy("id").collect()] == times
    assert read(spark, uri, columns=["id"], where="id > 0").count() == 2
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        assert table.toDF().count() == 3
        assert len(spark.read.format("pennon").load(uri).groupBy("t").count().collect()) == 3
        assert [row.id for row in table.toDF(where="t > TIME '12:00:00'").collect()] == [0]
        assert table.update("t > TIME '12:00:00'", {"id": "hour(t)"}).first().num_updated_rows == 1
        assert sorted(row.id for row in table.toDF().collect()) == [1, 2, 12]
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def test_spark_knows_how_large_a_frame_is(spark: SparkSession, uri: str) -> None:
    """Else Spark would broadcast every table, since the input of its tasks is a few numbers."""

    def estimate(columns: list[str]) -> int:
        plan = read(spark, uri, columns=columns)._jdf.queryExecution().optimizedPlan()
        return int(plan.stats().sizeInBytes())

    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0] * 64_000, pa.float32()), 64)
    pennon.write_dataset(pa.table({"id": list(range(1000)), "v": vectors}), uri)
    assert 16_000 <= estimate(["id"]) <= 32_000
    assert 250_000 <= estimate(["id", "v"]) <= 600_000
    assert read(spark, uri).count() == 1000


def test_each_core_reads_as_much(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(1).integers(0, 1 << 40, 1_000_000)
    pennon.write_dataset(pa.table({"id": ids}), uri, max_rows_per_file=300_000)
    size = sum(file.stat().st_size for file in Path(uri, "data").iterdir())
    cores = spark.sparkContext.defaultParallelism
    assert read(spark, uri).rdd.getNumPartitions() == cores
    assert read(spark, uri, bytes_per_task=size // 3 + 1).rdd.getNumPartitions() == 3
    assert read(spark, uri, filter_sql="id IS NULL").rdd.getNumPartitions() == 1
    monkeypatch.setattr(tables, "TASK_BYTES", size // 3 + 1)
    frame = read(spark, uri)
    assert frame.rdd.getNumPartitions() == -(-3 // cores) * cores
    parts = frame.groupBy(fn.spark_partition_id()).agg(fn.count("*"), fn.sum("id")).collect()
    assert sum(total for _, _, total in parts) == ids.sum()
    counts = [count for _, count, _ in parts]
    assert max(counts) - min(counts) < 2_500


def test_vectors_and_slices(spark: SparkSession, uri: str) -> None:
    """Lists of all kinds, with nulls, from batches that begin anywhere."""
    kinds = [pa.list_(pa.float32(), 3), pa.large_list(pa.uint16()), pa.list_(pa.list_(pa.int8(), 2))]
    pattern = [[[1, 2, 3], None, [4, 5, 6]], [[1], [], None], [[[1, 2], None], None, []]]
    columns = {
        f"c{at}": pa.array(values * 40, kind) for at, (values, kind) in enumerate(zip(pattern, kinds, strict=True))
    }
    columns["st"] = pa.array(
        [{"v": [1.0, 2.0]}, None, {"v": None}] * 40, pa.struct({"v": pa.list_(pa.float16(), 2)})
    )
    columns["m"] = pa.array([[("a", 200)], None, []] * 40, pa.map_(pa.string(), pa.uint8()))
    columns["d"] = pa.array(["x", None, "y"] * 40).dictionary_encode()
    data = pa.table(columns)
    pennon.write_dataset(data, uri).delete("c1 IS NOT NULL AND array_length(c1) = 0 AND false")
    for wrong in ("batch_size", "tasks", "bytes_per_task"):
        with pytest.raises(pennon.InvalidInputError, match=f"'{wrong}' is -1: expected 1 or more"):
            read(spark, uri, **{wrong: -1})
    for batch_size in (7, 65_536):
        rows = read(spark, uri, batch_size=batch_size).collect()
        expected = [{**row, "m": None if row["m"] is None else dict(row["m"])} for row in data.to_pylist()]
        assert [plain(row) for row in rows] == expected


def test_batches_are_bounded_by_bytes(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide rows: fewer than `batch_size` make a batch, both by `read` and by the data source."""
    wide = 256 << 10
    values = [bytes([at]) * wide for at in range(192)]
    pennon.write_dataset(pa.table({"id": list(range(192)), "v": pa.array(values, pa.binary())}), uri)
    planned: list[tuple[int, Callable[[int], Iterator[pa.RecordBatch]]]] = []

    def seen(session: SparkSession, count: int, run: Any, *given: Any, **options: Any) -> DataFrame:
        planned.append((count, run))
        return numbered(session, count, run, *given, **options)

    monkeypatch.setattr(frames, "numbered", seen)
    frame = read(spark, uri, tasks=1)
    ((count, rows),) = planned
    options = ReadOptions(uri=uri, tasks=1)
    reader = Reader(options, pinned_schema(options))
    (partition,) = reader.partitions()
    assert (count, options.batch_size) == (1, 65_536)
    for batches in (list(rows(0)), list(reader.read(partition))):
        assert [at for batch in batches for at in batch["id"].to_pylist()] == list(range(192))
        assert len(batches) > 1
        assert all(batch.num_rows * (wide + 8) <= tables.BATCH_BYTES + wide for batch in batches)
    assert tables.BATCH_BYTES == 32 << 20
    assert frame.selectExpr("sum(length(v))").first() == (192 * wide,)
    monkeypatch.setattr(tables, "BATCH_BYTES", 1 << 20)
    narrow = read(spark, uri, tasks=1, columns=["v"])
    assert max(batch.num_rows for batch in planned[1][1](0)) <= 4
    assert narrow.count() == 192


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
        ({"with_row_ids": "true"}, "did you mean 'with_row_id'"),
        ({"filter": "id > 3"}, "the option is called 'filter_sql'"),
        ({"versionAsOf": "1"}, "the option is called 'version'"),
        ({"owner": "root"}, "Spark's catalog gives it to its tables, which cannot be of this source"),
        (
            {"verison": "1"},
            "bytes_per_task, storage.<key>; those of a stream: columns, readChangeFeed, starting",
        ),
        ({"startingVersoin": "1"}, "in a read; did you mean 'startingVersion'"),
        ({"mergeSchema": "true"}, "belongs to a write, not to a read"),
        ({"version": "1", "timestamp": "2024-01-01"}, "together with a version or tag"),
        ({"tag": "two", "branch": "dev"}, "tag 'two' and branch 'dev' were both given"),
        ({"tasks": "2", "bytes_per_task": "9"}, "'tasks' and 'bytes_per_task' were both given"),
        ({"timestamp": "noon"}, "expected a time such as"),
        ({"max_rows_per_file": "3"}, "belongs to a write, not to a read"),
        ({"version": "0"}, "option 'version' is '0': expected 1 or more"),
        ({"with_row_id": "yes"}, "option 'with_row_id' is 'yes': expected true or false"),
        ({"version": "1", "tag": "two"}, "'version' and 'tag' were both given"),
        ({"version": "99"}, "was not found"),
        ({"tag": "nine"}, "nine"),
        ({"columns": "id,nam"}, "nam"),
        ({"columns": "id,id"}, "The column 'id' is named twice"),
        ({"columns": "[]"}, "option 'columns' is '[]': expected at least one name"),
        ({"columns": '["id", 1]'}, "expected a JSON list of names"),
        ({"filter_sql": "id >"}, "Error parsing"),
        ({"filter_sql": "id + 1"}, "does not return a boolean"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_options(table: pennon.LanceDataset, options: dict[str, str], message: str) -> None:
    with pytest.raises(pennon.PennonError) as caught:
        DefaultSource(CaseInsensitiveDict({"path": table.uri, **options})).schema()
    assert message in str(caught.value)


def test_spark_shows_what_is_wrong_with_options(spark: SparkSession, table: pennon.LanceDataset) -> None:
    for options, message in [
        ({"withRowIds": "true"}, "did you mean 'with_row_id'"),
        ({"version": "99"}, "was not found"),
    ]:
        with pytest.raises(AnalysisException) as caught:
            spark.read.format("pennon").options(**options).load(table.uri)
        assert message in str(caught.value)


def test_bad_arguments(spark: SparkSession, table: pennon.LanceDataset) -> None:
    for arguments, message in [
        ({"version": "two", "branch": "dev"}, "both given"),
        ({"columns": "id"}, "expected a list of names"),
        ({"columns": ["nam"]}, "nam"),
        ({"columns": ["id", "name", "ID"]}, "The column 'id' is named twice"),
        ({"version": True}, "version is True: expected a number or a tag"),
        ({"version": (None, 1)}, "expected a number or a tag"),
        ({"filter_sql": "id >"}, "parsing"),
        ({"version": 99}, "not found"),
        ({"branch": "nowhere"}, "nowhere"),
        ({"storage_options": 5}, "must be a dict of strings, found int"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(spark, table.uri, **arguments)
    with pytest.raises(pennon.NotFoundError, match="not found"):
        read(spark, f"{table.uri}-not")


def test_options_in_the_spelling_of_spark(spark: SparkSession, table: pennon.LanceDataset) -> None:
    frame = spark.read.format("pennon").option("withRowId", True).option("filterSql", "id = 4").load(table.uri)
    assert [tuple(row) for row in frame.collect()] == [(4, "n4", 4)]


def test_missing_table_and_unsupported_type(spark: SparkSession, uri: str) -> None:
    with pytest.raises(AnalysisException, match="was not found"):
        spark.read.format("pennon").load(uri)
    data = pa.table({"id": [1], "wide": pa.array([Decimal(1)], pa.decimal256(50, 2))})
    pennon.write_dataset(data, uri)
    with pytest.raises(AnalysisException, match=r"column 'wide' has the type .*'columns'"):
        spark.read.format("pennon").load(uri)
    assert read(spark, uri, columns=["id"]).collect()[0].id == 1
    assert read(spark, uri, columns=["id"], where="id = 1").count() == 1
    with pytest.raises(ValueError, match="column 'wide' has the type"):
        read(spark, uri, where="id = 1")


def test_blobs_are_bytes(spark: SparkSession, uri: str) -> None:
    values = [b"a" * 11, None, b""]
    field = pennon.blob_field("b", inline_size_threshold=10)
    pennon.write_dataset(pa.table([pennon.blob_array(values)], schema=pa.schema([field])), uri)
    frame = spark.read.format("pennon").load(uri)
    assert frame.schema["b"].dataType.simpleString() == "binary"
    assert [plain(row.b) for row in frame.collect()] == values
