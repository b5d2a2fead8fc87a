"""`LanceTable` as Delta's: builders, figures, history, restore, vacuum, names of versions, clones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampNTZType, TimestampType
from pyspark_pennon import LanceTable, administration, local_frames, write
from pyspark_pennon.administration import replaced_before
from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.transactions import transactions


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Four versions: made, appended, deleted from, updated."""
    table = pennon.write_dataset({"id": list(range(20))}, uri, max_rows_per_file=10, commit_message="first")
    table.insert({"id": [20]})
    table.delete("id = 1")
    table.update({"id": "id + 100"}, where="id = 2")
    return table


def test_builders_for_older_readers(spark: SparkSession, uri: str) -> None:
    builder = LanceTable.createOrReplace(spark).location(uri).addColumn("id", "BIGINT")
    builder.compatibleWith("pylance 1.0").execute()
    made = pennon.dataset(uri)
    assert made.data_storage_version == "2.1"
    assert not made.has_stable_row_ids
    assert made.config()["pennon.compatible_with"] == "pylance 1.0"
    write(spark.range(3), uri, mode="append")
    assert pennon.dataset(uri).data_storage_version == "2.1"
    with pytest.raises(pennon.InvalidInputError, match="expected a release from"):
        builder.compatibleWith("delta 4").execute()
    stable = pennon.write_dataset({"id": [1]}, f"{uri}-2")
    replacing = LanceTable.replace(spark).location(stable.uri).addColumn("id", "BIGINT")
    with pytest.raises(pennon.InvalidInputError, match="contradicts the table, which has stable row ids"):
        replacing.compatibleWith("pylance 0.24").execute()
    assert pennon.dataset(stable.uri).version == 1


def test_writes_for_older_readers(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    write(spark.range(3), uri, compatible_with="pylance 1.0")
    made = pennon.dataset(uri)
    assert (made.version, made.data_storage_version, made.has_stable_row_ids) == (1, "2.1", False)
    assert made.config()["pennon.compatible_with"] == "pylance 1.0"
    write(spark.range(3), uri, mode="append", compatible_with="pylance 1.0")
    with pytest.raises(pennon.InvalidInputError, match="an older reader"):
        write(spark.range(3), uri, mode="append", compatible_with="pylance 14.0")
    # An overwrite keeps the version of the files.
    write(spark.range(4), uri, mode="overwrite")
    frame = spark.range(5).write.format("pennon").option("compatibleWith", "pylance 1.0")
    frame.mode("overwrite").save(uri)
    assert (pennon.dataset(uri).data_storage_version, lance.dataset(uri).count_rows()) == ("2.1", 5)

    source = str(tmp_path / "source")
    write(spark.range(3), source)
    counts = spark.readStream.format("pennon").load(source).groupBy().count()
    sink = counts.writeStream.format("pennon").outputMode("complete").trigger(availableNow=True)
    sink = sink.option("compatibleWith", "pylance 1.0").option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.start(f"{uri}-counts").awaitTermination(120)
    made = pennon.dataset(f"{uri}-counts")
    assert (made.data_storage_version, made.has_stable_row_ids) == ("2.1", False)
    assert made.config()["pennon.compatible_with"] == "pylance 1.0"
    assert made.to_table().to_pylist() == [{"count": 3}]


def test_builders(spark: SparkSession, uri: str) -> None:
    builder = LanceTable.create(spark).location(uri).addColumn("id", "BIGINT", nullable=False)
    builder.addColumn("vector", "array<float>").addColumn("text", StringType(), comment="as it is")
    made = builder.property("owner", "flights").execute()
    schema = lance.dataset(uri).schema
    assert schema.names == ["id", "vector", "text"]
    assert schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert schema.field("text").metadata == {b"comment": b"as it is"}
    assert (made.count(), made.properties(), pennon.dataset(uri).has_stable_row_ids) == (
        0,
        {"owner": "flights"},
        True,
    )
    with pytest.raises(pennon.AlreadyExistsError, match="Dataset already exists"):
        builder.execute()
    spark.sql("SELECT 1L id, array(float(1)) vector, 'x' text").write.format("pennon").mode("append").save(uri)
    assert (pennon.dataset(uri).version, pennon.dataset(uri, version=1).config()) == (2, {"owner": "flights"})
    version = made.version
    kept = LanceTable.createIfNotExists(spark).location(uri).addColumn("other", "int").execute()
    assert (kept.version, kept.count()) == (version, 1)
    by_text = LanceTable.create(spark).location(f"{uri}-text").addColumns("a long, b array<float>").execute()
    assert by_text.toDF().schema.simpleString() == "struct<a:bigint,b:array<float>>"
    columns = StructType([StructField("n", LongType()), StructField("m", LongType())])
    LanceTable.replace(spark).location(uri).addColumns(columns).property("stage", "raw").execute()
    assert (lance.dataset(uri).schema.names, made.count(), made.properties()) == (["n", "m"], 0, {"stage": "raw"})
    # Properties that the table had go in a version of their own, new ones come with the table.
    replaced = pennon.dataset(uri, version=3)
    assert (replaced.config(), pennon.dataset(uri).version) == ({"owner": "flights", "stage": "raw"}, 4)
    LanceTable.replace(spark).location(uri).addColumns(columns).property("stage", "clean").execute()
    assert (pennon.dataset(uri).version, made.properties()) == (5, {"stage": "clean"})
    assert made.toDF(version=version).count() == 1
    LanceTable.createOrReplace(spark).location(uri).addColumn("k", "int").execute()
    assert (lance.dataset(uri).schema.names, made.properties()) == (["k"], {})
    other = LanceTable.createOrReplace(spark).location(f"{uri}-2").addColumn("k", "date").execute()
    assert (other.version, other.count()) == (1, 0)
    with pytest.raises(pennon.NotFoundError):
        LanceTable.replace(spark).location(f"{uri}-3").addColumn("k", "int").execute()
    for wrong, message in [
        (lambda: LanceTable.create(spark).addColumn("k", "int").execute(), "has no location"),
        (lambda: LanceTable.create(spark).location(f"{uri}-4").execute(), "has no columns"),
        (lambda: LanceTable.create(spark).addColumn("k", "number"), "'number', which is not a type of Spark"),
        (lambda: LanceTable.create(spark).addColumns("k number"), "'k number', which is none of Spark"),
        (lambda: LanceTable.create(spark).addColumns(["k"]), "A column is 'k'"),
        *(
            (
                lambda text=text: LanceTable.create(spark).location(f"{uri}-6").addColumn("k", text).execute(),
                r"column 'k' has the Spark type .*char.5.*, and a Lance table keeps no length of text: use STRING",
            )
            for text in ("CHAR(5)", "array<varchar(5)>")
        ),
    ]:
        with pytest.raises(pennon.InvalidInputError, match=message):
            wrong()
    with pytest.raises(pennon.SchemaMismatchError, match="column 'k', and the new column 'K'"):
        LanceTable.create(spark).location(f"{uri}-5").addColumns("k int, K int").execute()


def test_figures_and_history(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    assert handle.count() == 20
    assert scheduler.numTotalJobs() == before
    assert handle.toDF().count() == 20
    assert scheduler.numTotalJobs() > before
    handle.setProperties({"owner": "flights"})
    detail = handle.detail().first()
    assert detail is not None
    files = list(Path(table.uri, "data").iterdir())
    assert (detail.location, detail.version, detail.numRows, detail.numFiles) == (table.uri, 5, 20, 4)
    assert detail.sizeInBytes == sum(file.stat().st_size for file in files)
    assert detail.properties == {"owner": "flights"}
    history = handle.history().collect()
    assert [(row.version, row.operation, row.readVersion) for row in history] == [
        (5, "UpdateConfig", 4),
        (4, "Update", 3),
        (3, "Delete", 2),
        (2, "Append", 1),
        (1, "Overwrite", 0),
    ]
    assert history[2].operationParameters == {"predicate": "id = 1"}
    assert [row.operationMetrics["numRows"] for row in history] == [20, 20, 20, 21, 20]
    assert [row.operationMetrics["numRowsDifference"] for row in history] == [0, 0, -1, 1, 20]
    assert (history[4].userMetadata, history[3].userMetadata) == ("first", None)
    assert handle.history(2).collect() == history[:2]
    assert handle.history(99).collect() == history
    assert (detail.lastModified, detail.createdAt) == (history[0].timestamp, history[4].timestamp)
    with pytest.raises(pennon.InvalidInputError, match="limit of the history is 0"):
        handle.history(0)
    with pytest.raises(TypeError, match="limit is '1': expected a number"):
        handle.history("1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="retentionHours is '1': expected a number"):
        handle.vacuum("1")  # type: ignore[arg-type]
    named = handle.alias("t")
    assert named.toDF(columns=["id"]).selectExpr("max(t.id)").first()[0] == 102
    assert handle._target.alias is None


def test_times_are_instants_in_any_session(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    handle.createTag("gold")
    handle.createBranch("dev")
    before = handle.history().collect()
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        frames = [
            handle.history(),
            handle.detail(),
            handle.tags(),
            handle.branches(),
            handle.vacuum(0, dryRun=True),
        ]
        assert frames[0].collect() == before
    finally:
        spark.conf.unset("spark.sql.timestampType")
    kinds = [field.dataType for frame in frames for field in frame.schema.fields]
    assert TimestampNTZType() not in kinds
    assert kinds.count(TimestampType()) == 6


def test_restore(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    sizes = {row.version: row.operationMetrics["sizeInBytes"] for row in handle.history().collect()}
    times = {row.version: row.timestamp for row in handle.history().collect()}
    metrics = handle.restoreToVersion(1).first()
    assert metrics is not None
    assert metrics.asDict() == {
        "table_size_after_restore": sizes[1],
        "num_of_files_after_restore": 2,
        "num_removed_files": 2,
        "num_restored_files": 0,
        "removed_files_size": sizes[4] - sizes[1],
        "restored_files_size": 0,
    }
    assert sorted(lance.dataset(table.uri).to_table()["id"].to_pylist()) == list(range(20))
    metrics = handle.restoreToTimestamp(times[2]).first()
    assert (metrics.num_restored_files, handle.count(), handle.version) == (1, 21, 6)
    handle.restoreToTimestamp(str(times[3] + timedelta(microseconds=1)))
    assert (handle.count(), handle.history(1).first().operationParameters) == (20, {"version": "3"})
    with pytest.raises(pennon.NotFoundError):
        handle.restoreToVersion(99)
    with pytest.raises(pennon.InvalidInputError):
        handle.restoreToTimestamp("2020-01-01")


def test_rows_of_the_driver_need_no_task(spark: SparkSession) -> None:
    schema = "n long, text string, made timestamp, said map<string,string>, l array<string>, s struct<a:int,b:long>"
    made = datetime(2026, 11, 29, 12, 30, 0, 5)
    rows = [
        (1, "it's", made, {"a": "b", "c": None}, ["x", None], (1, None)),
        (None, None, made.replace(tzinfo=timezone(timedelta(hours=2))), {}, [], (None, 2)),
        (None, None, None, None, None, None),
    ]
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    for given in (rows, []):
        expected = spark.createDataFrame(given, schema)
        before = scheduler.numTotalJobs()
        found = local_frame(spark, given, schema)
        collected = found.collect()
        assert scheduler.numTotalJobs() == before
        assert (found.schema, collected) == (expected.schema, expected.collect())


def test_metrics_need_no_task_in_old_releases(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_frames, "HAS_DATA_SOURCES", False)
    metrics = LanceTable.forPath(spark, table.uri).delete()
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    assert metrics.collect()[0].num_deleted_rows == 20
    assert scheduler.numTotalJobs() == before


def test_the_history_leaves_out_a_torn_version(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    before = [row.version for row in handle.history().collect()]
    torn = pennon.dataset(table.uri)
    torn.insert({"id": [50]})
    manifest = min(Path(table.uri, "_versions").glob("*.manifest"))
    manifest.write_bytes(manifest.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match="opened version"):
        handle.delete("id = 0")
    newest = handle.version
    assert newest == before[0] + 2
    assert [row.version for row in handle.history().collect()] == [newest, *before]

    def damaged(*_given: Any) -> Any:
        raise pennon.CorruptError("It does not decode")

    # A version that is not torn is not left out.
    monkeypatch.setattr(pennon.LanceDataset, "read_transaction", damaged)
    with pytest.raises(pennon.CorruptError, match="does not decode"):
        handle.history()


def test_a_vacuum_while_the_history_is_read(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = LanceTable.forPath(spark, table.uri)

    def races(dataset: pennon.LanceDataset, versions: list[int]) -> Any:
        pennon.dataset(table.uri).cleanup_old_versions(retain_versions=2)
        return transactions(dataset, versions)

    monkeypatch.setattr(administration, "transactions", races)
    for limit in (None, 3):
        pennon.dataset(table.uri).insert({"id": [50]})
        pennon.dataset(table.uri).delete("id = 50")
        newest = handle.version
        found = handle.history(limit).collect()
        assert [row.version for row in found] == [newest, newest - 1]
        assert [row.operation for row in found] == ["Delete", "Append"]


def test_what_a_vacuum_keeps() -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    times = [(version, start + timedelta(hours=hours)) for version, hours in [(1, 0), (2, 1), (5, 10), (6, 11)]]
    # A version that was the newest one until after the cutoff is kept, however old it is.
    for hours, expected in [(0.5, []), (1, []), (2, [1]), (10, [1]), (10.5, [1, 2]), (12, [1, 2, 5])]:
        assert replaced_before(times, start + timedelta(hours=hours)) == expected


def test_vacuum(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    orphan = Path(table.uri, "data", "00000000-0000-4000-8000-000000000000.lance")
    orphan.write_bytes(b"of a write in flight")
    assert handle.vacuum().first().num_removed_versions == 0
    time.sleep(1.1)
    table.tags.create("kept", 2)
    table.insert({"id": [7]})
    replaced = handle.history(1).first().timestamp

    def retention() -> float:
        """Hours since half a second before version 5 replaced version 4."""
        return (datetime.now() - replaced + timedelta(seconds=0.5)) / timedelta(hours=1)

    # Version 4 was the newest one within the retention, and so it is kept, although it is older.
    files = {row.path for row in handle.vacuum(retention(), dryRun=True).collect()}
    assert {Path(path).parts[0] for path in files} == {"_versions", "_transactions", "_deletions"}
    assert handle.version == 5
    assert len(handle.history().collect()) == 5
    done = handle.vacuum(retention()).first()
    assert (done.num_removed_versions, done.num_removed_files, done.num_failed_files) == (2, len(files), 0)
    history = [(row.version, row.operation, row.operationMetrics["numRows"]) for row in handle.history().collect()]
    assert history == [(5, "Append", 21), (4, "Update", 20), (2, "Append", 21)]
    known = [row.operationMetrics.get("numRowsDifference") for row in handle.history().collect()]
    assert known == [1, None, None]
    assert not any(Path(table.uri, path).exists() for path in files)
    assert handle.vacuum(0).first().num_removed_versions == 1
    assert handle.detail().first().createdAt is None
    assert orphan.exists()
    assert handle.verify().count() == 0
    (left,) = handle.verify(leftovers=True).collect()
    assert (left.severity, left.kind, left.files, left.size_bytes) == ("leftover", "unverified", 1, 20)
    assert left.message == "1 files of the kind data that no version needs"
    month_ago = time.time() - 30 * 86400
    os.utime(orphan, (month_ago, month_ago))
    (left,) = handle.verify(data=True, leftovers=True).collect()
    assert (left.severity, left.kind, left.files, left.path) == ("leftover", "orphan", 1, None)
    assert [row.path for row in handle.vacuum(0, dryRun=True).collect()] == [f"data/{orphan.name}"]
    handle.vacuum(0)
    assert handle.verify(leftovers=True).count() == 0
    lance.dataset(table.uri).validate()
    with pytest.raises(pennon.InvalidInputError, match="retention is -1 hours"):
        handle.vacuum(-1)


def test_tags_branches_and_clones(spark: SparkSession, table: pennon.LanceDataset, tmp_path: Path) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    handle.createTag("gold", 2)
    handle.createTag("newest")
    assert [(row.tag, row.version, row.branch) for row in handle.tags().collect()] == [
        ("gold", 2, None),
        ("newest", 4, None),
    ]
    assert lance.dataset(table.uri, version="gold").count_rows() == 21
    handle.updateTag("gold", "newest")
    handle.updateTag("gold", 3)
    handle.createTag("same", "gold")
    assert {row.tag: row.version for row in handle.tags().collect()} == {"gold": 3, "newest": 4, "same": 3}
    handle.deleteTag("same")
    handle.deleteTag("newest")
    assert [(row.tag, row.version) for row in handle.tags().collect()] == [("gold", 3)]
    assert handle.toDF(version="gold").count() == handle.toDF(tag="gold").count() == 20
    with pytest.raises(pennon.InvalidInputError, match="both given"):
        handle.toDF(version=3, tag="gold")
    with pytest.raises(pennon.AlreadyExistsError):
        handle.createTag("gold")
    dev = handle.createBranch("dev", 2)
    spark.range(50, 55).write.format("pennon").mode("append").save(dev.uri)
    assert (dev.count(), handle.count()) == (26, 20)
    (row,) = handle.branches().collect()
    assert (row.branch, row.location, row.parentBranch, row.parentVersion) == ("dev", dev.uri, None, 2)
    assert dev.changes(3).count() == 5
    pennon.dataset(table.uri).tags.create("trial", ("dev", 3))
    with pytest.raises(pennon.InvalidInputError, match=r"one of .*/tree/dev: versions of"):
        handle.restoreToVersion("trial")
    assert (dev.version, handle.version) == (3, 4)
    handle.deleteTag("trial")
    handle.deleteBranch("dev")
    assert handle.branches().count() == 0
    shallow = handle.clone(str(tmp_path / "shallow"))
    deep = handle.clone(str(tmp_path / "deep"), False, version="gold")
    assert (shallow.count(), deep.count(), type(deep)) == (20, 20, LanceTable)
    shallow.delete("id < 10")
    assert (shallow.count(), handle.count()) == (12, 20)
    assert not Path(shallow.uri, "data").exists()
    assert len(list(Path(deep.uri, "data").iterdir())) == 3
    with pytest.raises(pennon.AlreadyExistsError):
        handle.clone(deep.uri)


@pytest.mark.parametrize("wrong", [2.0, True, (None, 2), ["gold"], np.array([3])])
def test_a_version_is_a_number_or_a_tag(spark: SparkSession, table: pennon.LanceDataset, wrong: Any) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    calls: list[Callable[[], Any]] = [
        lambda: handle.toDF(version=wrong),
        lambda: handle.restoreToVersion(wrong),
        lambda: handle.createTag("gold", wrong),
        lambda: handle.updateTag("gold", wrong),
        lambda: handle.createBranch("dev", wrong),
        lambda: handle.clone(f"{table.uri}-clone", version=wrong),
    ]
    for call in calls:
        with pytest.raises(pennon.InvalidTypeError, match=r"^version is .*: expected a number or a tag"):
            call()
    assert (handle.version, handle.tags().count(), handle.branches().count()) == (4, 0, 0)


def test_properties_and_damage(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    assert handle.setProperties({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert handle.unsetProperties(["a", "missing"]) == {"b": "2"} == handle.properties()
    assert lance.dataset(table.uri).config() == {"b": "2"}
    with pytest.raises(pennon.InvalidInputError, match="not the string 'b'"):
        handle.unsetProperties("b")
    for wrong, message in [("b", "properties are 'b'"), ({"c": None}, "property 'c' is None")]:
        with pytest.raises(pennon.InvalidInputError, match=message):
            handle.setProperties(wrong)  # type: ignore[arg-type]
    next(iter(Path(table.uri, "data").iterdir())).unlink()
    found = handle.verify().collect()
    assert found
    assert {(row.severity, row.kind, row.files) for row in found} == {("error", "missing_file", None)}
    assert all(row.message for row in found)
