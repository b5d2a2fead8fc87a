"""The change feed as a frame: equal to the wheel's, divided however it is; windows by version and time; errors."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import lance
import pennon
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable, read_changes
from pyspark_pennon.feed import changes, history, partitions
from pyspark_pennon.options.feed import FeedOptions
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.tasks.executor import typed_error
from pyspark_pennon.transactions import transactions
from support.model import Machine, program
from support.seeds import seeds
from support.spark_frames import sorted_rows

PROGRAMS = 20


def collected(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame as Arrow gives them, by version, row and kind."""
    rows = frame.toArrow().to_pylist()
    return sorted(
        rows, key=lambda row: (row["_commit_version"], row["_rowid"], row["_change_type"] != "update_preimage")
    )


def committed(frame: Any) -> set[int]:
    return {row._commit_version for row in frame.collect()}


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Eight versions: made, appended, deleted from, updated, compacted (two), overwritten, restored."""
    table = pennon.write_dataset({"id": list(range(6)), "text": list("abcdef")}, uri, max_rows_per_file=3)
    table.insert({"id": [6], "text": ["g"]})
    table.delete("id = 1")
    table.update({"text": "text"}, where="id = 2")
    table.optimize.compact_files()
    pennon.write_dataset({"id": [100], "text": ["z"]}, table, mode="overwrite")
    older = pennon.dataset(uri, version=3)
    older.restore()
    return pennon.dataset(uri)


def test_any_division_is_the_feed_of_the_wheel(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    for seed in seeds(PROGRAMS):
        monkeypatch.setattr(partitions, "ROWS_PER_TASK", 3 + seed % 5)
        monkeypatch.setattr(partitions, "ROWS_PER_PART", 3 + seed % 5)
        monkeypatch.setattr(history, "ROWS_OF_A_CHANGE", 1 + seed % 3)
        kinds += compared(f"{uri}-{seed}", seed)
    for kind, least in {"FeedRange": 10, "parts": 10, "later columns": 1, "InsertedFragments": 1}.items():
        assert kinds.count(kind) > least * PROGRAMS, kind


def kinds_of(part: Any) -> list[str]:
    """What is special about a task."""
    if not isinstance(part, partitions.FeedRange):
        return [type(part).__name__]
    shown = "later columns" if part.shown_as is not None else "FeedRange"
    return [shown, "parts"] if part.part is not None else [shown]


def compared(uri: str, seed: int) -> list[str]:
    """Compare windows of a random program; gives the kinds of their parts."""
    steps = [step for step in program(seed, 16) if step[0] not in ("cleanup", "tag")]
    machine = Machine(
        lambda rows: pennon.write_dataset(rows, uri, max_rows_per_file=4),
        lambda _: pennon.dataset(uri),
        lambda: pennon.dataset(uri),
    )
    for step in steps:
        machine.run(step)
    newest = pennon.dataset(uri)
    kinds = []
    for begin in range(0, newest.version, 3):
        for end in {newest.version, (begin + newest.version) // 2 + 1}:
            for net, unchanged in [(False, False), (True, False), (False, True)]:
                options = FeedOptions(uri, net_changes=net, drop_unchanged=unchanged, read_change_feed=True)
                last = newest.checkout_version(end)
                schema = changes.feed_schema(last, None)
                parts = partitions.plan(last, options, last.schema.names, begin, end)
                kinds += [kind for part in parts for kind in kinds_of(part)]
                found = [batch for part in parts for batch in changes.read_partition(options, part, schema)]
                expected = last.changes(
                    begin, mode="net" if net else "each", images="both", drop_unchanged=unchanged
                ).read_all()
                assert sorted_rows(found) == sorted_rows(expected.to_batches()), (seed, begin, end, net, unchanged)
    return kinds


def test_what_happened_to_rows(spark: SparkSession, table: pennon.LanceDataset) -> None:
    frame = spark.read.format("pennon").option("readChangeFeed", True).option("startingVersion", 2).load(table.uri)
    assert frame.columns == ["id", "text", "_change_type", "_commit_version", "_commit_timestamp", "_rowid"]
    found = collected(frame)
    shown = [(row["_commit_version"], row["_change_type"], row["id"], row["text"]) for row in found]
    # An update that changes nothing shows, a compaction does not.
    assert shown[:4] == [
        (2, "insert", 6, "g"),
        (3, "delete", 1, "b"),
        (4, "update_preimage", 2, "c"),
        (4, "update_postimage", 2, "c"),
    ]
    overwritten = [change for change in shown if change[0] == 7]
    assert sorted(overwritten) == [(7, "delete", at, "abcdefg"[at]) for at in (0, 2, 3, 4, 5, 6)] + [
        (7, "insert", 100, "z")
    ]
    restored = [change for change in shown if change[0] == 8]
    assert sorted(restored) == [(8, "delete", 100, "z")] + [
        (8, "insert", at, "abcdefg"[at]) for at in (0, 2, 3, 4, 5, 6)
    ]
    assert {row["_commit_version"] for row in found} == {2, 3, 4, 7, 8}
    # The time of a change is that of its version in the history, and so it is for the reference.
    handle = LanceTable.forPath(spark, table.uri)
    times = dict(handle.history().select("version", "timestamp").toArrow().to_pandas().itertuples(index=False))
    assert {row["_commit_timestamp"] for row in found} == {times[at].to_pydatetime() for at in (2, 3, 4, 7, 8)}
    theirs = {entry["version"]: entry["timestamp"] for entry in lance.dataset(table.uri).versions()}
    for version, time in theirs.items():  # the reference computes in floating point
        assert abs(time.astimezone(timezone.utc) - times[version]) <= timedelta(microseconds=1)


def test_net_changes_columns_and_updates_of_other_columns(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    net = collected(handle.changes(4, 7, net=True))
    assert {(row["_change_type"], row["_commit_version"]) for row in net} == {("delete", 7), ("insert", 7)}
    assert len(net) == 7
    assert handle.changes(4, 4, dropUnchanged=True).count() == 0
    kinds = handle.changes(2, 4, columns=[]).drop("_commit_timestamp").toArrow()
    assert kinds.column_names == ["_change_type", "_commit_version", "_rowid"]
    assert kinds.num_rows == 4
    assert handle.changes(1, 1, columns=["text"]).count() == 6
    # The columns are those of the last version; a renamed column keeps its values.
    table.alter_columns({"path": "text", "name": "word"})
    table.add_columns({"twice": "id * 2"})
    found = collected(handle.changes(2, 3))
    assert set(found[0]) >= {"text"}
    assert "word" not in found[0]
    found = collected(handle.changes(2))
    assert (found[0]["word"], found[0]["twice"], found[0]["_commit_version"]) == ("g", None, 2)
    assert {row["_change_type"] for row in found if row["_commit_version"] == 10} == {
        "update_preimage",
        "update_postimage",
    }


def test_times_name_versions(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    times = {row.version: row.timestamp for row in handle.history().collect()}
    assert committed(handle.changes(startingTimestamp=times[3], endingTimestamp=times[4])) == {3, 4}
    between = times[2] + timedelta(microseconds=1)
    assert committed(handle.changes(startingTimestamp=between, endingTimestamp=str(times[3]))) == {3}
    aware = times[7].astimezone(timezone.utc).isoformat()
    reader = spark.read.format("pennon").option("readChangeFeed", True)
    assert committed(reader.option("startingTimestamp", aware).load(table.uri)) == {7, 8}
    with pytest.raises(pennon.InvalidInputError, match="the newest version, 8, is older"):
        handle.changes(startingTimestamp=datetime.now() + timedelta(days=1))
    with pytest.raises(pennon.InvalidInputError, match="the oldest version that is left, 1, is younger"):
        handle.changes(1, endingTimestamp="2020-01-01")
    # As other programs write times, also for Python 3.10; and times before all that are in a zone of their own.
    utc = times[7].astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds")
    expected = table.checkout_version(7).count_rows()
    for zone in ("Z", "+0000", "000+00:00"):
        assert committed(handle.changes(startingTimestamp=utc + zone)) == {7, 8}
        assert spark.read.format("pennon").option("timestamp", utc + zone).load(table.uri).count() == expected
    for wrong in ("yesterday", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(
            pennon.InvalidInputError, match=f"'startingTimestamp' is '{re.escape(wrong)}': expected"
        ):
            handle.changes(startingTimestamp=wrong)
        with pytest.raises(AnalysisException, match=f"'timestamp' is '{re.escape(wrong)}': expected a time"):
            spark.read.format("pennon").option("timestamp", wrong).load(table.uri)


def test_errors(spark: SparkSession, table: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, table.uri)
    for given, message in [
        ((9,), "starts at version 9, but the newest version is 8"),
        ((5, 3), "starts at version 5 and ends at version 3"),
        ((5, 9), "ends at version 9, but the newest version is 8"),
        ((), "needs a start: give the option startingVersion"),
    ]:
        with pytest.raises(pennon.InvalidInputError, match=message):
            handle.changes(*given)
    with pytest.raises(pennon.InvalidInputError, match="no column 'nope'; its columns are id, text"):
        handle.changes(1, columns=["nope"])
    with pytest.raises(pennon.InvalidInputError, match="were both given"):
        read_changes(spark, table.uri, starting_version=1, starting_timestamp="2026-01-01")
    with pytest.raises(pennon.InvalidInputError, match="'endingTimestamp' is 'tomorrow': expected a time"):
        read_changes(spark, table.uri, starting_version=1, ending_timestamp="tomorrow")
    with pytest.raises(pennon.InvalidInputError, match="columns is the text 'id'"):
        read_changes(spark, table.uri, starting_version=1, columns="id")
    with pytest.raises(pennon.InvalidInputError, match="columns is the text 'id'"):
        handle.takeRows(spark.sql("SELECT 1L _rowid"), "id")
    with pytest.raises(AnalysisException, match=r"'startingversoin' in a .*did you mean 'startingVersion'"):
        spark.read.format("pennon").option("readChangeFeed", True).option("startingVersoin", 1).load(table.uri)
    with pytest.raises(AnalysisException, match="Options of a change feed were given to a read of rows"):
        spark.read.format("pennon").option("startingVersion", 1).load(table.uri).count()
    assert spark.read.format("pennon").option("readChangeFeed", False).load(table.uri).count() == 6
    reader = spark.read.format("pennon").option("readChangeFeed", True).option("startingVersion", 2)
    with pytest.raises(AnalysisException) as caught:
        reader.option("endingVersion", 1).load(table.uri)
    found = typed_error(caught.value)
    assert type(found) is pennon.InvalidInputError
    assert str(found) == "The feed starts at version 2 and ends at version 1, which is before it"


def test_vacuumed_versions(spark: SparkSession, table: pennon.LanceDataset) -> None:
    table.tags.create("kept", 4)
    handle = LanceTable.forPath(spark, table.uri)
    frame = handle.changes(2)
    handle.vacuum(0)
    with pytest.raises(
        pennon.NotFoundError, match=r"Version 7 .* was removed by a vacuum, .* can start at version 9"
    ):
        handle.changes(4)
    with pytest.raises(PySparkException) as caught:
        frame.count()
    assert type(typed_error(caught.value)) is pennon.NotFoundError
    assert "was cleaned up and is needed" in str(typed_error(caught.value))
    # What differs between two versions that are left is known.
    table.insert({"id": [7], "text": ["h"]})
    assert handle.changes(9).count() == 1
    assert {row["id"] for row in collected(handle.changes(5, net=True))} == {2, 7}
    with pytest.raises(pennon.InvalidInputError, match="'startingVersion' is -1: expected a number from 0 on"):
        handle.changes(-1)
    unstable = pennon.write_dataset({"id": [1]}, f"{table.uri}-2", enable_stable_row_ids=False)
    with pytest.raises(Exception, match="needs stable row ids"):
        read_changes(spark, unstable.uri, starting_version=1).collect()
    LanceTable.forPath(spark, unstable.uri).migrateToStableRowIds()
    unstable.insert({"id": [2]})
    for start in (2, 3):
        assert [row["id"] for row in read_changes(spark, unstable.uri, starting_version=start).collect()] == [2]
    with pytest.raises(Exception, match=r"requires stable row ids, version 1 of"):
        read_changes(spark, unstable.uri, starting_version=1).collect()


def test_a_vacuum_while_a_feed_is_planned(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def races(dataset: pennon.LanceDataset, versions: list[int]) -> Any:
        pennon.dataset(table.uri).cleanup_old_versions(retain_versions=1)
        return transactions(dataset, versions)

    monkeypatch.setattr(history, "transactions", races)
    with pytest.raises(pennon.NotFoundError, match=r"Version 7 .* was removed by a vacuum, .* at version 9"):
        LanceTable.forPath(spark, table.uri).changes(2)


@pytest.mark.parametrize("is_shallow", [True, False])
def test_a_clone_begins_at_the_version_that_it_copies(
    spark: SparkSession, table: pennon.LanceDataset, is_shallow: bool
) -> None:
    clone = LanceTable.forPath(spark, table.uri).clone(f"{table.uri}-clone", is_shallow)
    clone.delete("id = 0")
    for start in (1, 8):
        with pytest.raises(pennon.NotFoundError, match=r"begins at version 8: .* can start at version 9$"):
            clone.changes(start)
    assert [row["id"] for row in collected(clone.changes(9))] == [0]


def test_credentials_do_not_show(spark: SparkSession, table: pennon.LanceDataset) -> None:
    storage = {"aws_secret_access_key": "FAKE5ECRET"}
    handle = LanceTable.forPath(spark, table.uri, storage)
    frame = handle.changes(2)
    execution = frame._jdf.queryExecution()
    plans = (execution.analyzed(), execution.optimizedPlan(), execution.executedPlan())
    shown = repr(handle) + repr(frame) + "".join(plan.treeString() + plan.toJSON() for plan in plans)
    given = {"path": table.uri, "Storage.AWS_secret_access_key": "FAKE5ECRET"}
    options = FeedOptions.parse(given, stream=True)
    assert options.storage_options == storage == ReadOptions.parse(given).storage_options
    assert "FAKE5ECRET" not in shown + repr(options)
    assert frame.count() == 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"with_row_idd": "true"}, r"in a change feed or stream; .*endingVersion, .*netChanges, maxVersionsPer"),
        ({"with_row_idd": "true", "endingVersion": "1"}, r"in a change feed; .*dropUnchanged, endingVersion"),
        ({"branch": "b"}, "'branch' belongs to a read of rows: read a branch's feed by its location"),
        (
            {"tag": "b", "endingVersion": "1"},
            "'tag' belongs to a read of rows: read a branch's feed by its location",
        ),
    ],
)
def test_options_that_a_feed_does_not_have(
    spark: SparkSession, uri: str, options: dict[str, str], message: str
) -> None:
    pennon.write_dataset({"id": [1]}, uri)
    reader = spark.read.format("pennon").option("readChangeFeed", True).option("startingVersion", 1)
    with pytest.raises(Exception, match=message):
        reader.options(**options).load(uri)
