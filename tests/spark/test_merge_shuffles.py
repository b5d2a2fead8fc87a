"""What a merge shuffles of its table, and that clauses over columns that tasks fetch mean what they say."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable
from pyspark_pennon.merge import attempt as merge_attempt
from pyspark_pennon.merge import key_filter
from pyspark_pennon.merge.builder import MergeBuilder
from pyspark_pennon.reads import addressed_rows
from support.spark_frames import frame_of, rows_by_id
from support.spread import spread

ROWS = 200
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


def stored_rows() -> pa.Table:
    """Rows with a column of each kind that a clause may name; keys 0, 3, 6 ... and one that is null."""
    numbers = range(ROWS)
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
    return pa.table(
        {
            "id": pa.array([3 * at if at != 50 else None for at in numbers], pa.int64()),
            "score": pa.array([at % 11 if at % 7 else None for at in numbers], pa.int32()),
            "price": pa.array([decimal.Decimal(at) / 4 for at in numbers], pa.decimal128(12, 2)),
            "made": pa.array([moment + datetime.timedelta(hours=at) for at in numbers], pa.timestamp("us", "UTC")),
            "note": pa.array([f"note {at}" if at % 5 else None for at in numbers]),
            "tags": pa.array([[f"t{at % 3}", None] if at % 4 else None for at in numbers], pa.list_(pa.string())),
            "vector": pa.array([[float(at), 0.5] for at in numbers], pa.list_(pa.float32(), 2)),
            "size": pa.array(numbers, pa.uint8()),
        }
    )


@pytest.fixture
def dataset(uri: str) -> pennon.LanceDataset:
    table = pennon.write_dataset(stored_rows(), uri, max_rows_per_file=40)
    table.delete("id IN (33, 36, 300)")
    return pennon.dataset(uri)


@pytest.fixture
def shuffled_joins(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(BROADCAST, "-1")
    yield
    spark.conf.unset(BROADCAST)


def source(spark: SparkSession) -> DataFrame:
    """Every second key of the table, and others."""
    return spark.range(0, 3 * ROWS + 60, 2).selectExpr(
        "id",
        "cast(id % 13 as int) AS points",
        "if(id % 10 = 0, null, concat('new ', id)) AS text",
        "timestamp_seconds(id) AS seen",
        "array(id, null) AS list",
    )


def exchanged(plan: Any) -> Iterator[list[str]]:
    """The columns of each exchange in a physical plan."""
    name = str(plan.getClass().getSimpleName())
    if name in ("ShuffleExchangeExec", "BroadcastExchangeExec"):
        output = plan.output()
        yield [output.apply(at).name() for at in range(output.size())]
    inner = []
    if name == "AdaptiveSparkPlanExec":
        inner.append(plan.initialPlan())
    if name == "InMemoryTableScanExec":
        inner.append(plan.relation().cachedPlan())
    children = plan.children()
    for child in [*inner, *(children.apply(at) for at in range(children.size()))]:
        yield from exchanged(child)


class PlannedError(Exception):
    """Raised instead of running a merge whose plan is what a test looks at."""


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of all exchanges of the merge in a test, which is planned only."""
    found: list[list[str]] = []

    def recorded(frame: DataFrame, *_arguments: Any, **_more: Any) -> Any:
        found.extend(exchanged(frame._jdf.queryExecution().executedPlan()))
        raise PlannedError

    monkeypatch.setattr(merge_attempt, "run_partitions", recorded)
    return found


def started(spark: SparkSession, uri: str, condition: Any = "t.id = s.id") -> MergeBuilder:
    return LanceTable.forPath(spark, uri).alias("t").merge(source(spark).alias("s"), condition)


def matched_update(merge: MergeBuilder) -> MergeBuilder:
    values = {"score": "t.score + s.points", "note": "concat(t.note, '+', s.text)", "price": "t.price * 2"}
    return merge.whenMatchedUpdate("size(t.tags) = 2 OR t.score > s.points", values)


def matched_kinds(merge: MergeBuilder) -> MergeBuilder:
    merge = merge.whenMatchedDelete("t.vector[0] < 20 AND s.points > 3")
    merge = merge.whenMatchedUpdate(
        "t.made < TIMESTAMP '2024-03-03 00:00:00'", {"note": "s.text", "made": "s.seen"}
    )
    return merge.whenMatchedUpdate("t.size % 2 = 0", {"tags": "array_append(t.tags, t.note)", "score": "NULL"})


def by_source(merge: MergeBuilder) -> MergeBuilder:
    merge = merge.whenNotMatchedBySourceDelete("t.note IS NULL")
    return merge.whenNotMatchedBySourceUpdate("t.score > 4", {"score": "t.score - 1", "note": "upper(t.note)"})


def everything(merge: MergeBuilder) -> MergeBuilder:
    merge = by_source(matched_kinds(merge))
    return merge.whenNotMatchedInsert("s.points <> 1", {"id": "s.id", "note": "s.text", "score": "s.points"})


CLAUSES = [matched_update, matched_kinds, by_source, everything]


@pytest.mark.parametrize("clauses", CLAUSES)
def test_no_column_of_the_table_is_shuffled_but_keys(
    spark: SparkSession,
    dataset: pennon.LanceDataset,
    uri: str,
    clauses: Callable[[MergeBuilder], MergeBuilder],
    exchanges: list[list[str]],
    shuffled_joins: None,
) -> None:
    with pytest.raises(PlannedError):
        clauses(started(spark, uri)).execute()
    assert len(exchanges) >= 2
    of_source = {"id", "points", "text", "seen", "list"}
    # Rows that are inserted are computed from the source before they are spread; those of the table have no values.
    of_inserts = {name for columns in exchanges if "_change_type" in columns for name in columns}
    for columns in exchanges:
        for name in columns:
            is_own = name in {*of_source, "_rowaddr"} or (name.startswith("_pennon_") and "table" not in name)
            assert is_own or name in of_inserts, (name, columns)
    assert bool(of_inserts) == (clauses is everything)


class Model:
    """A merge by Spark's own joins of plain frames."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        frame = LanceTable.forPath(spark, uri).toDF(with_row_id=True)
        frame.write.mode("overwrite").parquet(f"{uri}-model")
        stored = spark.read.parquet(f"{uri}-model").alias("t")
        joined = source(spark).alias("s")
        self.both = stored.join(joined, fn.expr("t.id = s.id"), "inner")
        self.alone = stored.join(joined, fn.expr("t.id = s.id"), "left_anti")
        self.stored = stored

    def values(self, frame: DataFrame, assigned: dict[str, Any], where: str) -> dict[int, dict[str, Any]]:
        """Rows for which a condition is true, with new values, by id."""
        names = [name for name in self.stored.columns if name != "_rowid"]
        kinds = {field.name: field.dataType for field in self.stored.schema.fields}
        columns = [fn.expr(assigned.get(name, f"t.{name}")).cast(kinds[name]).alias(name) for name in names]
        found = frame.where(where).select(fn.col("t._rowid"), *columns)
        return {row["_rowid"]: row.asDict() for row in found.collect()}


def in_spark(spark: SparkSession, uri: str) -> dict[int, dict[str, Any]]:
    frame = LanceTable.forPath(spark, uri).toDF(with_row_id=True)
    return {row["_rowid"]: row.asDict() for row in frame.collect()}


@spread(of=1)
@pytest.mark.parametrize("broadcast", ["10MB", "-1"])
@pytest.mark.parametrize("sees_plans", [True, False])
def test_clauses_mean_what_joins_of_whole_rows_do(
    spark: SparkSession,
    dataset: pennon.LanceDataset,
    uri: str,
    broadcast: str,
    sees_plans: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fetched after the last exchange, and before it as without a JVM; blocks of a few rows."""
    monkeypatch.setattr(addressed_rows, "BLOCK_BITS", 4)
    monkeypatch.setattr(addressed_rows, "READ_ROWS", 7)
    if not sees_plans:
        monkeypatch.setattr(merge_attempt, "attributes", lambda _frame: None)
    model = Model(spark, uri)
    expected = in_spark(spark, uri)
    old = set(expected)
    first = "t.vector[0] < 20 AND s.points > 3"
    second = f"NOT coalesce({first}, false) AND t.made < TIMESTAMP '2024-03-03 00:00:00'"
    third = f"NOT coalesce({first}, false) AND NOT t.made < TIMESTAMP '2024-03-03 00:00:00' AND t.size % 2 = 0"
    gone = [*model.values(model.both, {}, first), *model.values(model.alone, {}, "t.note IS NULL")]
    expected |= model.values(model.both, {"note": "s.text", "made": "s.seen"}, second)
    expected |= model.values(model.both, {"tags": "array_append(t.tags, t.note)", "score": "NULL"}, third)
    lower = {"score": "t.score - 1", "note": "upper(t.note)"}
    expected |= model.values(model.alone, lower, "t.note IS NOT NULL AND t.score > 4")
    expected = {key: row for key, row in expected.items() if key not in gone}
    spark.conf.set(BROADCAST, broadcast)
    try:
        (done,) = everything(started(spark, uri)).execute().collect()
    finally:
        spark.conf.unset(BROADCAST)
    found = in_spark(spark, uri)
    assert {key: row for key, row in found.items() if key in old} == expected
    assert done.num_deleted_rows == len(gone)
    known = {3 * at for at in range(ROWS)} - {33, 36, 300, 150}
    new = sorted(at for at in range(0, 3 * ROWS + 60, 2) if at not in known and at % 13 != 1)
    assert sorted(row["id"] for key, row in found.items() if key not in old) == new
    assert done.num_inserted_rows == len(new)
    assert len(rows_by_id(uri)) == len(found)


def test_columns_are_named_in_every_way(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    """By alias, bare, by the frame of the source, and those of the system."""
    given = frame_of(spark, [(0, 1, "a"), (3, 2, "b"), (6, 3, "c")], "id long, points int, text string")
    merge = LanceTable.forPath(spark, uri).merge(
        given, "note IS NULL AND size < 9 AND size = points * 0 + 5 * (points - 1)"
    )
    merge.whenMatchedUpdate(given["points"] < 3, {"note": fn.concat(given.text, fn.col("tags")[0])}).execute()
    # Keys 0 and 15 have no note; the tags of the first are null.
    named = {row["id"]: row["note"] for row in rows_by_id(uri).values()}
    assert (named[0], named[15]) == (None, "bt2")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(given.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"note": "concat(t._rowid, '/', t._row_created_at_version, '/', s.text)"}).execute()
    named = {row["id"]: row["note"] for row in rows_by_id(uri).values()}
    assert [named[at] for at in (0, 3, 6)] == ["0/1/a", "1/1/b", "2/1/c"]


@pytest.mark.parametrize("path", ["late", "early"])
def test_functions_in_python_run_once_for_each_row(
    spark: SparkSession,
    dataset: pennon.LanceDataset,
    uri: str,
    tmp_path: Path,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if path == "early":
        monkeypatch.setattr(merge_attempt, "attributes", lambda _frame: None)
    log = tmp_path / "calls"
    log.mkdir()

    def noted(kind: str) -> Any:
        def call(key: int | None) -> int | None:
            with (log / f"{kind}-{key}").open("a") as file:
                file.write("x")
            return key

        return fn.udf(call, "long")

    values = {"score": noted("update")(fn.col("t.id") + fn.col("s.id") * 0).cast("int")}
    merge = started(spark, uri).whenMatchedUpdate(noted("matched")(fn.col("t.id")) >= 0, values)
    merge = merge.whenNotMatchedInsert(noted("insert")(fn.col("s.id")) >= 0, {"id": "s.id"})
    merge.whenNotMatchedBySourceUpdate(noted("alone")(fn.col("t.id")) > 100, {"note": "'alone'"}).execute()
    calls = {file.name: len(file.read_text()) for file in log.iterdir()}
    assert {name.partition("-")[0] for name in calls} == {"matched", "update", "insert", "alone"}
    assert set(calls.values()) == {1}, {name: n for name, n in calls.items() if n != 1}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_fetched(spark: SparkSession, uri: str, version: str) -> None:
    images = pa.array([b"zero", None, b"two", b"x" * 200_000], pa.large_binary())
    # Blob v2 from file version 2.2 on, legacy blobs before.
    blob = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("size", pa.int64()), blob])
    data = pa.table([pa.array(range(4)), pa.array([0] * 4), images], schema=schema)
    pennon.write_dataset(data, uri, data_storage_version=version)
    given = spark.range(3, -1, -1).alias("s")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(given, "t.id = s.id")
    merge.whenMatchedUpdate("t.image IS NOT NULL", {"size": "length(t.image)"}).execute()
    found = pennon.dataset(uri).to_table(columns=["id", "size"]).to_pylist()
    assert {row["id"]: row["size"] for row in found} == {0: 4, 1: 0, 2: 3, 3: 200_000}


STORED, GIVEN = 20_000, 400


def left(spark: SparkSession, uri: str, condition: Any, given: DataFrame) -> int:
    """How many rows of the table are left of all, without keys that the source does not have."""
    table = LanceTable.forPath(spark, uri).toDF().alias("t")
    sizes = (GIVEN, 10**9)
    kept = key_filter.without_other_keys(table, given.alias("s"), fn.expr(condition), sizes, ["t.half", "s.half"])
    return kept.count()


def test_keys_that_the_source_lacks_are_dropped(
    spark: SparkSession, uri: str, shuffled_joins: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(0, STORED).selectExpr(
        "if(id % 1000 = 7, null, id) AS id",
        "cast(id % 100 AS int) AS part",
        "concat('k', id) AS name",
        "id / 2 AS half",
    )
    from pyspark_pennon import write

    write(frame, uri)
    given = spark.range(0, 2 * STORED, 2 * STORED // GIVEN).selectExpr(
        "if(id = 500, null, id) AS id",
        "cast(id % 100 AS long) AS part",
        "concat('k', id) AS name",
        "id / 2 AS half",
    )
    # 200 keys, of which one is null: it matches nothing, or all 20 nulls of the table.
    for condition, matches in [
        ("t.id = s.id", 199),
        ("t.name = s.name", 200),
        ("t.id = s.id AND t.part = s.part", 199),
        ("t.id <=> s.id", 219),
    ]:
        # One in a hundred others passes by chance.
        assert matches <= left(spark, uri, condition, given) < matches + 600, condition
    # Casts: an int of the table with a bigint of the source.
    assert left(spark, uri, "t.part = s.part", given) in range(200, 500)
    # Floats are equal without being the same; without a key there is nothing to look for.
    for condition in ("t.half = s.half", "t.id < s.id"):
        assert left(spark, uri, condition, given) == STORED
    spark.conf.set(BROADCAST, "10MB")
    assert left(spark, uri, "t.id = s.id", given) == STORED
    spark.conf.set(BROADCAST, "-1")

    results = []
    for least in (0, 10**9):
        monkeypatch.setattr(key_filter, "LEAST_DROPPED", least)
        copy = f"{uri}-{least}"
        write(frame, copy)
        merge = (
            LanceTable.forPath(spark, copy).alias("t").merge(given.alias("s"), "t.id = s.id AND t.part = s.part")
        )
        (done,) = merge.whenMatchedUpdate(set={"half": "-1"}).whenNotMatchedInsertAll().execute().collect()
        results.append((done, sorted(map(str, pennon.dataset(copy).to_table().to_pylist()))))
    assert results[0] == results[1]
    # 200 keys but the null one, which matches nothing.
    assert results[0][0].num_updated_rows == 199
