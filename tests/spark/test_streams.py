"""Streams out of tables and into tables, by Spark: restarts, crashes, two sinks, a task that fails once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pennon
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark_pennon import DefaultSource, LanceTable
from pyspark_pennon.streams.sink import BATCH, QUERY, StreamBatch
from pyspark_pennon.streams.sink_checkpoint import NOTE, check_table
from pyspark_pennon.tasks.executor import typed_error
from support.spark_frames import forget_last_batch, last_batch, stream


@pytest.fixture
def source(uri: str) -> pennon.LanceDataset:
    return pennon.write_dataset({"id": list(range(10))}, uri, max_rows_per_file=3)


def into(frame: DataFrame, target: Path, mode: str = "append", **options: Any) -> str:
    """Run a query until it has read what there is; gives its id."""
    writer = frame.writeStream.format("pennon").outputMode(mode).options(**options)
    writer = writer.option("checkpointLocation", f"{target}-checkpoint").trigger(availableNow=True)
    query = writer.start(str(target))
    assert query.awaitTermination(120)
    return str(query.id)


def ids(target: Path) -> list[int]:
    """The ids, by the reference, which must find the table sound."""
    dataset = lance.dataset(str(target))
    dataset.validate()
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def test_a_table_into_a_table_with_restarts_and_crashes(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path
) -> None:
    target, checkpoint = tmp_path / "copy", tmp_path / "copy-checkpoint"
    query = into(stream(spark, source.uri, maxRowsPerTrigger=5), target)
    assert ids(target) == list(range(10))
    made = pennon.dataset(str(target))
    # Made without rows, then two batches of the snapshot.
    assert [made.checkout_version(version).count_rows() for version in (1, 2, 3)] == [0, 6, 10]
    transaction = made.read_transaction(3)
    assert transaction.transaction_properties == {QUERY: query, BATCH: "1"}
    assert transaction.uuid == StreamBatch(query, 1).uuid
    shown = LanceTable.forPath(spark, str(target)).history(1).first()
    assert (shown.operation, shown.operationParameters) == ("Append", {QUERY: query, BATCH: "1"})
    # Nothing new: no version. Rows and an empty version between: one batch.
    assert into(stream(spark, source.uri), target) == query
    assert pennon.dataset(str(target)).version == 3
    source.insert({"id": [10, 11]})
    source.optimize.compact_files()
    assert into(stream(spark, source.uri), target) == query
    assert ids(target) == list(range(12))
    offset = json.loads(last_batch(checkpoint / "offsets").read_text().splitlines()[-1])
    assert offset["version"] == pennon.dataset(source.uri).version
    # A crash after the commit and before Spark noted it: the batch is run again and not committed again.
    before = pennon.dataset(str(target)).version
    files = set(Path(target, "data").iterdir())
    forget_last_batch(checkpoint)
    assert into(stream(spark, source.uri), target) == query
    assert ids(target) == list(range(12))
    assert pennon.dataset(str(target)).version == before
    assert set(Path(target, "data").iterdir()) > files  # orphans of the second run
    # The same in the middle of work of others: an append, a compaction.
    source.insert({"id": [12]})
    pennon.dataset(str(target)).insert({"id": [100]})
    pennon.dataset(str(target)).optimize.compact_files()
    into(stream(spark, source.uri), target)
    forget_last_batch(checkpoint)
    pennon.dataset(str(target)).optimize.compact_files()
    for number in range(20):  # more than are looked at first
        pennon.dataset(str(target)).update_config({"at": str(number)})
    into(stream(spark, source.uri), target)
    assert ids(target) == [*range(13), 100]


def test_a_change_that_is_no_append(spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    into(stream(spark, source.uri, startingVersion="latest"), target)
    source.delete("id = 1")
    with pytest.raises(StreamingQueryException) as caught:
        into(stream(spark, source.uri, startingVersion="latest"), target)
    found = typed_error(caught.value)
    assert type(found) is pennon.InvalidInputError
    assert str(found).startswith(f"Version 2 of {source.uri}, made by a Delete, deleted or updated rows")
    assert str(found).endswith("to see what they changed")
    source.insert({"id": [10]})
    into(stream(spark, source.uri, skipChangeCommits=True), target)
    assert ids(target) == [10]


def test_the_feed_as_a_stream(spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path) -> None:
    target = tmp_path / "log"
    for change in [
        lambda: source.update({"id": "id + 100"}, where="id > 7"),
        lambda: source.delete("id < 2"),
        lambda: source.insert({"id": [50]}),
    ]:
        change()
        frame = stream(spark, source.uri, readChangeFeed=True, startingVersion=1, maxVersionsPerTrigger=1)
        names = {"_rowid": "row", "_commit_timestamp": "made", "_commit_version": "version", "_change_type": "kind"}
        into(frame.withColumnsRenamed(names), target)
    columns = ["id", "kind", "version", "made", "row"]
    found = lance.dataset(str(target)).to_table(columns=columns).to_pylist()
    handle = LanceTable.forPath(spark, source.uri)
    wanted = [
        dict(zip(columns, row, strict=True))
        for row in handle.changes(1).toArrow().to_pylist()
        for row in [row.values()]
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert len(found) == 10 + 4 + 2 + 1
    # A batch for each version: one for each commit of the log, after the one that made it.
    assert pennon.dataset(str(target)).version == 1 + 4


def test_complete_mode_and_a_task_that_fails_once(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path
) -> None:
    target, marks = tmp_path / "counts", tmp_path / "marks"
    marks.mkdir()

    @F.udf("long")
    def kind(number: int) -> int:
        """Fails in the first attempt of the task that has the row 4."""
        import pathlib

        if number == 4 and not pathlib.Path(str(marks), "4").exists():
            pathlib.Path(str(marks), "4").touch()
            raise OSError("the executor is lost")
        return number % 3

    def run() -> dict[int, int]:
        counts = stream(spark, source.uri).groupBy(kind("id").alias("id")).agg(F.count("*").alias("n"))
        into(counts, target, "complete")
        rows = lance.dataset(str(target)).to_table().to_pylist()
        return {row["id"]: row["n"] for row in rows}

    assert run() == {0: 4, 1: 3, 2: 3}
    assert (marks / "4").exists()
    source.insert({"id": [10, 11, 12]})
    assert run() == {0: 5, 1: 4, 2: 4}
    transaction = pennon.dataset(str(target)).read_transaction(3)
    assert (type(transaction.operation).__name__, transaction.transaction_properties[BATCH]) == ("Overwrite", "1")
    # A crash before Spark noted the batch.
    forget_last_batch(tmp_path / "counts-checkpoint")
    assert run() == {0: 5, 1: 4, 2: 4}
    assert pennon.dataset(str(target)).version == 3


def test_complete_mode_replaces_what_others_wrote(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path
) -> None:
    """As in Delta: the table is the result of the query after each batch, whatever was in it before."""
    target = tmp_path / "counts"

    @F.udf("long")
    def slow(number: int) -> int:
        """Another writer appends and overwrites while the batch runs."""
        if number == 20:
            pennon.dataset(str(target)).insert({"id": [98], "n": [1]})
        if number == 21:
            pennon.write_dataset({"n": [1], "id": [99]}, str(target), mode="overwrite")
        return number

    def run() -> dict[int, int]:
        counts = stream(spark, source.uri).withColumn("id", slow("id")).groupBy(F.lit(7).cast("long").alias("id"))
        into(counts.agg(F.count("id").alias("n")), target, "complete")
        return {row["id"]: row["n"] for row in lance.dataset(str(target)).to_table().to_pylist()}

    assert run() == {7: 10}
    made = pennon.dataset(str(target))
    made.insert({"id": [96], "n": [1]})
    pennon.write_dataset({"id": [97], "n": [1]}, str(target), mode="overwrite")
    source.insert({"id": [20]})
    source.insert({"id": [21]})
    assert run() == {7: 12}
    operations = [
        made.read_transaction(version).operation for version in range(1, pennon.dataset(made.uri).version + 1)
    ]
    assert [type(operation).__name__ for operation in operations] == [
        *("Overwrite", "Overwrite"),
        *("Append", "Overwrite"),
        *("Append", "Overwrite", "Overwrite"),
    ]
    # Without news from the source there is no batch, and the table stays as others leave it.
    pennon.dataset(made.uri).insert({"id": [95], "n": [1]})
    assert run() == {7: 12, 95: 1}


def test_two_streams_into_one_table_next_to_a_compaction(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path
) -> None:
    target = tmp_path / "both"
    queries = []
    for number in range(2):
        frame = stream(spark, source.uri, maxRowsPerTrigger=1).selectExpr(f"id + {100 * number} AS id")
        writer = frame.writeStream.format("pennon").trigger(availableNow=True)
        queries.append(
            writer.option("checkpointLocation", str(tmp_path / f"checkpoint-{number}")).start(str(target))
        )
    while any(query.isActive for query in queries):
        if LanceTable.isLanceTable(spark, str(target)):
            LanceTable.forPath(spark, str(target)).optimize().executeCompaction()
    for query in queries:
        assert query.exception() is None
    assert ids(target) == [*range(10), *range(100, 110)]
    operations = [row.operation for row in LanceTable.forPath(spark, str(target)).history().collect()]
    assert operations.count("Append") == 8


def test_a_checkpoint_of_another_table(spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path) -> None:
    target, away = tmp_path / "copy", tmp_path / "away"
    into(stream(spark, source.uri), target)
    assert (tmp_path / "copy-checkpoint" / NOTE).exists()
    target.rename(away)
    source.insert({"id": [10]})
    with pytest.raises(StreamingQueryException, match=f"were written to .*copy, but there is no table at {target}"):
        into(stream(spark, source.uri), target)
    assert not target.exists()
    # A table at the same place is another one, even with as many versions.
    for _ in range(2):
        pennon.write_dataset({"id": [1]}, str(target), mode="overwrite")
    with pytest.raises(
        StreamingQueryException, match="it is another table, so start the query with a new checkpoint"
    ):
        into(stream(spark, source.uri), target)
    assert pennon.dataset(str(target)).version == 2
    # The table as it was goes on, also after its first versions were vacuumed.
    target.rename(tmp_path / "other")
    away.rename(target)
    note = tmp_path / "copy-checkpoint" / NOTE
    whole = note.read_text()
    options, table = {"checkpointLocation": str(note.parent)}, pennon.dataset(str(target))
    for torn in ("", whole[:20], "{}"):
        note.write_text(torn)
        with pytest.raises(pennon.InvalidInputError, match=f"{note}, the note .* cannot be read"):
            check_table(options, str(target), table)
    note.write_text(whole)
    into(stream(spark, source.uri), target)
    LanceTable.forPath(spark, str(target)).vacuum(0)
    source.insert({"id": [11]})
    into(stream(spark, source.uri), target)
    assert ids(target) == list(range(12))


def test_what_a_sink_refuses(spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path) -> None:
    target = tmp_path / "target"
    pennon.write_dataset({"other": [1]}, str(target))
    with pytest.raises(StreamingQueryException, match="the table has no column 'id'"):
        into(stream(spark, source.uri), target)
    with pytest.raises(StreamingQueryException, match="Unknown Pennon option 'max_rows'"):
        into(stream(spark, source.uri), target, max_rows="1")
    assert pennon.dataset(str(target)).version == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ignoreChanges": "true"}, "with 'skipChangeCommits', and shows what they did with 'readChangeFeed'"),
        ({"ignoreDeletes": "true", "startingVersion": "1"}, "passes over versions that update or delete rows"),
        ({"maxFilesPerTrigger": "1"}, "limited by 'maxVersionsPerTrigger' or 'maxRowsPerTrigger'"),
        ({"maxBytesPerTrigger": "1g", "readChangeFeed": "true"}, "limited by 'maxVersionsPerTrigger'"),
        ({"failOnDataLoss": "false"}, "a stream always ends with an error when a version that it did not read"),
        (
            {"skipChangeCommit": "true"},
            "did you mean 'skipChangeCommits'.*; those of a stream: .*skipChangeCommits",
        ),
        ({"endingVersion": "1"}, "A stream has no end and no net form: leave out 'endingVersion' there"),
        ({"netChanges": "true", "readChangeFeed": "true"}, "leave out 'netChanges' there"),
    ],
)
def test_options_that_a_stream_does_not_have(
    source: pennon.LanceDataset, options: dict[str, str], message: str
) -> None:
    with pytest.raises(pennon.InvalidInputError, match=message):
        as_called(source, **options).schema()


def test_spark_shows_what_is_wrong_with_options(spark: SparkSession, source: pennon.LanceDataset) -> None:
    with pytest.raises(AnalysisException, match="did you mean 'skipChangeCommits'"):
        stream(spark, source.uri, skipChangeCommit="true")


@pytest.mark.parametrize("end", [{"endingVersion": "1"}, {"netChanges": "true"}])
def test_streams_have_no_end(source: pennon.LanceDataset, end: dict[str, str]) -> None:
    feed = {"readChangeFeed": "true", "startingVersion": "1", **end}
    called = as_called(source, **feed)
    schema = called.schema()
    with pytest.raises(pennon.InvalidInputError, match="in a stream: a stream has no end and no net form"):
        called.streamReader(schema)
    with pytest.raises(
        pennon.InvalidInputError, match="in a change feed: it belongs to a stream, which has no end"
    ):
        as_called(source, maxRowsPerTrigger="1", **feed).schema()


def as_called(source: pennon.LanceDataset, **options: str) -> DefaultSource:
    """The data source with options as Spark gives them, for which it starts a process."""
    return DefaultSource(CaseInsensitiveDict({"path": source.uri, **options}))
