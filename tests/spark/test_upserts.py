"""Streams that merge, upserts and change feeds, with restarts and crashes: the tables are read by the reference."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, append_batches, apply_changes, read, read_changes, upsert_batches
from pyspark_pennon.streams.batch_calls import numbered_call
from pyspark_pennon.streams.sink import BATCH, PART, QUERY, QUERY_PROPERTY, StreamBatch
from pyspark_pennon.tasks.executor import typed_error
from support.spark_frames import forget_last_batch, stream


@pytest.fixture
def source(uri: str) -> pennon.LanceDataset:
    rows = pa.table({"id": pa.array(range(10)), "name": [f"n{at}" for at in range(10)], "at": pa.array([0] * 10)})
    return pennon.write_dataset(rows, uri, max_rows_per_file=4)


def through(frame: DataFrame, function: Callable[[DataFrame, int], None], checkpoint: Path) -> str:
    """Run a query until it has read what there is; gives its id."""
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return str(query.id)


@pytest.fixture
def called(spark: SparkSession) -> Callable[[Callable[[DataFrame, int], None], DataFrame, int], None]:
    """Calls a function with a batch, each time as in another run of one query, without a stream."""
    context, query = spark.sparkContext, str(uuid.uuid4())

    def call(function: Callable[[DataFrame, int], None], batch: DataFrame, number: int) -> None:
        description = f"id = {query}\nrunId = {uuid.uuid4()}\nbatch = {number}"
        for name, value in ((QUERY_PROPERTY, query), ("spark.job.description", description)):
            context.setLocalProperty(name, value)
        try:
            function(batch, number)
        finally:
            for name in (QUERY_PROPERTY, "spark.job.description"):
                context.setLocalProperty(name, None)  # type: ignore[arg-type]

    return call


def content(uri: str | Path) -> list[dict[str, Any]]:
    dataset = lance.dataset(str(uri))
    dataset.validate()
    return sorted(dataset.to_table().to_pylist(), key=lambda row: (row["id"], str(row)))


def test_a_second_table_is_kept_in_step(spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path) -> None:
    target, checkpoint = tmp_path / "second", tmp_path / "checkpoint"

    def step() -> None:
        feed = stream(spark, source.uri, readChangeFeed=True)
        through(feed, apply_changes(str(target), "id"), checkpoint)
        assert content(target) == content(source.uri)

    step()
    copy = pennon.dataset(str(target))
    properties = copy.read_transaction(copy.version).transaction_properties
    assert properties[BATCH] == "0"
    assert QUERY in properties
    # Several changes of one key in a batch, a key that moves, a key that is given again, and all of one.
    source.update({"name": "'twice'"}, "id = 1")
    source.update({"name": "'three times'"}, "id = 1")
    source.delete("id IN (2, 3)")
    source.insert({"id": [3, 20], "name": ["again", "new"], "at": [1, 1]})
    source.update({"id": "id + 100"}, "id = 4")
    source.insert({"id": [30], "name": ["short"], "at": [2]})
    source.delete("id = 30")
    source.optimize.compact_files()
    step()
    assert {row["id"] for row in content(target)} == {0, 1, 3, 104, 5, 6, 7, 8, 9, 20}
    # A crash after the commit: the batch runs again and makes no version.
    version = pennon.dataset(str(target)).version
    forget_last_batch(checkpoint)
    step()
    assert pennon.dataset(str(target)).version == version
    # The same, with other writers in between.
    source.delete("id = 5")
    step()
    forget_last_batch(checkpoint)
    pennon.dataset(str(target)).optimize.compact_files()
    pennon.dataset(str(target)).delete("id = 6")
    source.update({"at": "7"}, "id = 6")
    version = pennon.dataset(str(target)).version
    step()
    assert pennon.dataset(str(target)).version == version + 1
    # Nothing happened: no version.
    step()
    assert pennon.dataset(str(target)).version == version + 1


def test_columns_that_the_first_table_gets(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, called: Any
) -> None:
    target, begins = tmp_path / "second", [1]

    def step(*, merge_schema: bool = True) -> int:
        """Apply what happened since the last batch, whose number is that of its first version."""
        feed = read_changes(spark, source.uri, starting_version=begins[-1])
        called(apply_changes(str(target), "id", merge_schema=merge_schema), feed, begins[-1])
        begins.append(pennon.dataset(source.uri).version + 1)
        return pennon.dataset(str(target)).version

    version = step()
    source.add_columns({"half": "id / 2.0"})
    source.delete("id = 3")
    with pytest.raises(pennon.InvalidInputError) as caught:
        step(merge_schema=False)
    assert str(caught.value) == (
        f"The batch has the column 'half', which {target} lacks: set merge_schema to add it, or leave it out of "
        "the stream"
    )
    # Rows and column are one commit; the batch runs again after a crash, and makes none.
    assert step() == version + 1
    assert content(target) == content(source.uri)
    begins.pop()
    assert step(merge_schema=False) == version + 1
    # A column for the rows to come, and one for the nulls of a batch that only deletes.
    source.add_columns(pa.schema([("note", pa.string())]))
    source.insert({"id": [30], "name": ["new"], "at": [1], "half": [15.0], "note": ["x"]})
    source.update({"note": "'y'", "id": "40"}, "id = 4")
    assert step() == version + 2
    assert content(target) == content(source.uri)
    source.add_columns(pa.schema([("last", pa.int32())]))
    source.delete("id = 5")
    assert step() == version + 3
    assert content(target) == content(source.uri)
    assert pennon.verify(str(target)).findings == []


def test_columns_of_later_batches(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, called: Any
) -> None:
    target = tmp_path / "second"
    upsert = upsert_batches(str(target), "id", order_by="at", merge_schema=True)
    called(upsert, read(spark, source.uri), 0)
    later = {"id": [1, 1, 20], "name": list("abc"), "at": [1, 2, 1], "note": list("xyz")}
    batch = spark.createDataFrame(pa.table(later))
    with pytest.raises(pennon.InvalidInputError, match=r"'note', which .* lacks: set merge_schema"):
        called(upsert_batches(str(target), "id", order_by="at"), batch, 1)
    called(upsert, batch, 1)
    found = {row["id"]: (row["name"], row["note"]) for row in content(target)}
    assert (found[1], found[20], found[2], len(found)) == (("b", "y"), ("c", "z"), ("n2", None), 11)


def test_rows_keep_their_ids_in_upserts(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, called: Any
) -> None:
    target = tmp_path / "second"
    pennon.write_dataset(source.to_table().slice(0, 3), str(target))
    upsert = upsert_batches(str(target), ["id"], order_by="at", update_when="s.at >= t.at")

    def ids() -> dict[int, int]:
        rows = pennon.dataset(str(target)).to_table(with_row_id=True).to_pylist()
        return {row["id"]: row["_rowid"] for row in rows}

    before = ids()
    called(upsert, read(spark, source.uri), 0)
    assert content(target) == content(source.uri)
    assert before.items() <= ids().items()
    kept = ids()
    rows = {"id": [1, 1, 1, 50, 50, 2], "name": list("abcdef"), "at": [3, 5, 4, 1, 2, -1]}
    batch = spark.createDataFrame(pa.table(rows))
    called(upsert, batch, 1)
    found = {row["id"]: row["name"] for row in content(target)}
    assert (found[1], found[50], found[2]) == ("b", "e", "n2")
    assert kept.items() <= ids().items()
    version = pennon.dataset(str(target)).version
    called(upsert, batch, 1)
    assert pennon.dataset(str(target)).version == version
    # A new table from all of it; rows without a key are all inserted.
    other = tmp_path / "other"
    source.insert(rows)
    source.insert(pa.table({"id": [None, None], "name": ["x", "y"], "at": [1, 2]}, source.schema))
    called(upsert_batches(str(other), "id", order_by="at"), read(spark, source.uri), 0)
    found = [(row["id"], row["name"]) for row in lance.dataset(str(other)).to_table().to_pylist()]
    assert {(1, "b"), (None, "x"), (None, "y")} <= set(found)
    assert len(found) == 11 + 2


def test_the_twin_of_a_batch_is_quicker(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes merge one batch: the second meets a conflict, looks again, and finds it."""
    target, commit, done = tmp_path / "second", pennon.jobs.JobPlan.commit, []

    def late(self: Any, results: Any, **options: Any) -> Any:
        if not done:
            done.append(True)
            twin = pennon.dataset(str(target)).merge_insert("id").when_matched_update_all()
            plan = pennon.jobs.plan_merge(
                twin.when_not_matched_insert_all(), source.schema, tasks=1, storage_options=None
            )
            result = plan.task(0).run(source=source.to_table())
            commit(plan, [result], **options)
        return commit(self, results, **options)

    monkeypatch.setattr(pennon.jobs.JobPlan, "commit", late)
    through(stream(spark, source.uri), upsert_batches(str(target), "id"), tmp_path / "checkpoint")
    assert done == [True]
    assert content(target) == content(source.uri)
    assert pennon.dataset(str(target)).version == 2


def test_upserts_next_to_compactions(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread compacts the table all the time; each batch that is written meets a compaction before its commit."""
    target, commit = str(tmp_path / "second"), pennon.jobs.JobPlan.commit
    batches = [source.to_table().to_pylist()]
    for number in range(1, 3):
        # Some keys are known, others are new.
        rows = [{"id": at, "name": f"b{number}", "at": number} for at in range(number, 3 * number + 10, 2)]
        source.insert(pa.Table.from_pylist(rows, source.schema))
        batches.append(rows)
    met, attempts, compactions = list[str](), list[str](), list[int]()
    done = threading.Event()

    def compact() -> None:
        while not done.wait(0.01):
            with suppress(pennon.NotFoundError, pennon.CommitConflictError):
                table = pennon.dataset(target)
                if table.optimize.compact_files().fragments_removed:
                    compactions.append(table.version)

    def late(self: Any, results: Any, **options: Any) -> Any:
        batch = options["properties"][BATCH]
        if batch not in met:
            met.append(batch)
            other = {"id": [1000 + len(met)], "name": ["other"], "at": [0]}
            pennon.dataset(target).insert(pa.table(other, source.schema))
            ends = time.monotonic() + 60
            while len(pennon.dataset(target).get_fragments()) > 1:
                assert time.monotonic() < ends
                time.sleep(0.01)
        attempts.append(batch)
        return commit(self, results, **options)

    monkeypatch.setattr(pennon.jobs.JobPlan, "commit", late)
    with ThreadPoolExecutor(1) as executor:
        compactor = executor.submit(compact)
        try:
            frame = stream(spark, source.uri, startingVersion=1, maxVersionsPerTrigger=1)
            through(frame, upsert_batches(target, "id"), tmp_path / "checkpoint")
        finally:
            done.set()
        compactor.result()
    # Rows that a batch updates were moved before its commit, and others were appended: neither is a conflict.
    assert attempts == met == ["0", "1", "2"]
    assert len(compactions) >= 2
    expected = {row["id"]: row for rows in batches for row in rows}
    expected.update({1001 + at: {"id": 1001 + at, "name": "other", "at": 0} for at in range(3)})
    assert content(target) == sorted(expected.values(), key=lambda row: row["id"])
    assert pennon.verify(target).findings == []


def test_calls_of_one_batch_are_told_apart(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, called: Any
) -> None:
    """Several calls into one table, under two of its names; the second time the first is there already."""
    target, failures = tmp_path / "second", ["once", "twice"]
    upsert, renamed = upsert_batches(str(target), "id"), upsert_batches(f"{target}/", ["id", "at"])
    other, calls = upsert_batches(str(tmp_path / "other"), "id"), list[int]()

    def both(batch: DataFrame, number: int) -> None:
        upsert(batch.where("id < 5"), number)
        other(batch, number)
        calls.append(number)
        if failures:
            raise RuntimeError(failures.pop())
        renamed(batch.where("id >= 5"), number)
        upsert(batch.where("id = 9").selectExpr("id", "'last' AS name", "at"), number)

    batch = read(spark, source.uri)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"once|twice"):
            called(both, batch, 0)
        assert [row["id"] for row in content(target)] == [0, 1, 2, 3, 4]
    version = pennon.dataset(str(target)).version
    called(both, batch, 0)
    table = pennon.dataset(str(target))
    assert table.version == version + 2
    properties = [table.read_transaction(at).transaction_properties for at in range(2, table.version + 1)]
    query = properties[0][QUERY]
    assert properties == [
        {QUERY: query, BATCH: "0"},
        {QUERY: query, BATCH: "0", PART: "1"},
        {QUERY: query, BATCH: "0", PART: "2"},
    ]
    expected = [{**row, "name": "last"} if row["id"] == 9 else row for row in source.to_table().to_pylist()]
    assert content(target) == expected
    assert content(tmp_path / "other") == content(source.uri)
    # A crash after all of it: nothing is done again. The next batch begins with the first call again.
    called(both, batch, 0)
    assert pennon.dataset(str(target)).version == table.version
    called(both, spark.createDataFrame(pa.table({"id": [3, 12], "name": ["x", "y"], "at": [0, 1]})), 1)
    assert calls == [0, 0, 0, 0, 1]
    found = {row["id"]: row["name"] for row in content(target)}
    assert (found[3], found[12], len(found)) == ("x", "y", 11)


def test_appends_of_one_batch_to_two_tables(
    spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, called: Any
) -> None:
    """The first time the function fails after the first of three appends, which is not done again."""
    low, high, failures = str(tmp_path / "low"), str(tmp_path / "high"), ["stop"]
    append, wider = append_batches(low), append_batches(high, merge_schema=True)

    def divide(batch: DataFrame, number: int) -> None:
        append(batch.where("id < 4"), number)
        if failures:
            raise RuntimeError(failures.pop())
        wider(batch.where("id >= 4"), number)
        wider(batch.where("id > 7").withColumn("part", fn.lit(number)), number)

    checkpoint, rows = tmp_path / "checkpoint", stream(spark, source.uri)
    with pytest.raises(StreamingQueryException, match="stop"):
        through(rows, divide, checkpoint)
    query = through(rows, divide, checkpoint)
    assert [row["id"] for row in content(low)] == [0, 1, 2, 3]
    assert [(row["id"], row["part"]) for row in content(high)[-4:]] == [(8, 0), (8, None), (9, 0), (9, None)]
    table = pennon.dataset(high)
    found = [table.read_transaction(at).transaction_properties for at in range(2, table.version + 1)]
    assert found == [{QUERY: query, BATCH: "0"}, {QUERY: query, BATCH: "0", PART: "1"}]
    # A crash after all of it.
    forget_last_batch(checkpoint)
    through(rows, divide, checkpoint)
    assert (pennon.dataset(low).version, pennon.dataset(high).version) == (2, table.version)
    source.insert({"id": [1, 11], "name": ["x", "y"], "at": [0, 0]})
    through(rows, divide, checkpoint)
    assert [row["id"] for row in content(low)] == [0, 1, 1, 2, 3]
    assert [row["part"] for row in content(high) if row["id"] == 11] == [1, None]
    with pytest.raises(pennon.SchemaMismatchError, match="no column 'part'"):
        called(append, read(spark, source.uri).withColumn("part", fn.lit(1)), 7)
    with pytest.raises(pennon.InvalidInputError, match="streaming query"):
        append(read(spark, source.uri), 7)


def test_the_last_batch_of_a_query_is_found_among_many_versions(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pennon.write_dataset({"id": [0]}, uri)
    append = pennon.LanceOperation.Append([])
    batch = StreamBatch("query", 3)
    transaction = pennon.Transaction(1, append, batch.uuid, batch.properties)
    table = pennon.LanceDataset.commit(table, transaction)
    for at in range(60):
        table.update_config({"at": str(at)})
    find, read = pennon.LanceDataset.get_transactions, list[tuple[int, int]]()

    def counted(dataset: pennon.LanceDataset, count: int) -> Any:
        read.append((dataset.version, count))
        return find(dataset, count)

    monkeypatch.setattr(pennon.LanceDataset, "get_transactions", counted)
    assert [StreamBatch("query", number).is_committed(table) for number in (2, 3, 4)] == [True, True, False]
    read.clear()
    # Of another query all versions are looked at.
    assert not StreamBatch("other", 0).is_committed(table)
    assert read == [(62, 16), (62, 16), (46, 46)]


def test_numbers_of_calls() -> None:
    def number(run: str | None, batch: int, location: str = "a", error: bool = False) -> int:
        numbers = list[int]()
        with suppress(RuntimeError), numbered_call("query", run, batch, location) as part:
            numbers.append(part)
            if error:
                raise RuntimeError
        return numbers[0]

    assert [number("one", 0), number("one", 0), number("one", 0, "b"), number("one", 0)] == [0, 1, 0, 2]
    # A call that failed may be tried again under its number; a run that is not known is the one before.
    assert [number("one", 0, error=True), number(None, 0), number(None, 0)] == [3, 3, 4]
    assert [number("two", 0), number("two", 0), number(None, 1), number("two", 1)] == [0, 1, 0, 1]
    assert [number(None, 1), number("three", 1)] == [2, 0]
    assert StreamBatch("query", 1, 1).uuid != StreamBatch("query", 1).uuid
    names = ["/x/../t", "/t/", "file:///t", "s3://b/t", "s3://b/t/"]
    assert [number("four", 0, name) for name in names] == [0, 1, 2, 0, 1]


def test_what_is_refused(spark: SparkSession, source: pennon.LanceDataset, tmp_path: Path, called: Any) -> None:
    target = str(tmp_path / "second")
    wrong: list[tuple[Any, str]] = [
        (apply_changes(target, "id"), "The batch lacks _change_type"),
        (upsert_batches(target, ["id", "key"]), "The batch lacks the key 'key'"),
        (upsert_batches(target, "key", order_by="at"), "The batch lacks the key 'key'"),
    ]
    for function, message in wrong:
        with pytest.raises(pennon.InvalidInputError, match=f"^{message}"):
            called(function, read(spark, source.uri), 0)
    assert not LanceTable.isLanceTable(spark, target)
    with pytest.raises(pennon.InvalidInputError, match="The key is '_rowid'"):
        upsert_batches(target, "_rowid")
    with pytest.raises(pennon.InvalidInputError, match="No key"):
        apply_changes(target, [])
    with pytest.raises(pennon.InvalidInputError, match="runs in a streaming query"):
        upsert_batches(target, "id")(spark.range(3), 0)
    # Without an order, two rows for a known key are the merge's error.
    pennon.write_dataset(source.to_table(), target)
    source.insert({"id": [1, 1], "name": ["a", "b"], "at": [0, 1]})
    with pytest.raises(StreamingQueryException) as caught:
        through(stream(spark, source.uri), upsert_batches(target, "id"), tmp_path / "state")
    found = typed_error(caught.value)
    assert type(found) is pennon.errors.RepeatedRowError
    assert "rows of the source match one row" in str(found)
