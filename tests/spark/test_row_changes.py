"""Deletes and updates by Spark's conditions, against Spark itself as the model, and their conflicts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.errors import PositionError
from pennon.jobs import JobPlan
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType, LongType
from pyspark_pennon import LanceTable, row_changes, tables, typed_error, write
from pyspark_pennon.tasks import retries
from support.spark_frames import counts, frame_of
from support.spread import spread


@pytest.fixture
def dataset(uri: str) -> pennon.LanceDataset:
    """60 rows in six fragments, with nulls and a vector."""
    rows = pa.table(
        {
            "id": pa.array(range(60)),
            "part": pa.array([at % 7 if at % 4 else None for at in range(60)], pa.int32()),
            "name": pa.array([f"Name {at}" for at in range(60)]),
            "vector": pa.array([[float(at), 0.5] for at in range(60)], pa.list_(pa.float32(), 2)),
        }
    )
    return pennon.write_dataset(rows, uri, max_rows_per_file=10)


def rows(uri: str) -> dict[int, tuple[Any, ...]]:
    """The rows by their ids, by the reference."""
    dataset = lance.dataset(uri)
    dataset.validate()
    found = dataset.to_table(with_row_id=True).to_pylist()
    return {row.pop("_rowid"): tuple(row.values()) for row in found}


@fn.udf(returnType=BooleanType())
def is_even(value: int | None) -> bool | None:
    return None if value is None else value % 2 == 0


@fn.udf(returnType=LongType())
def squared(value: int) -> int:
    return value * value


def conditions() -> list[Any]:
    """Made when there is a session."""
    return [
        "id % 5 = 0 AND part <> 3",
        "part / 2 = 1.5 OR name LIKE '%9'",
        "part NOT IN (1, 2, NULL)",
        is_even("part"),
        fn.col("id").between(20, 29) & fn.lower("name").startswith("name"),
        "_rowid = 7 OR array_contains(vector, 12.0F)",
        "id IN (SELECT max(value) FROM VALUES (58), (59) AS t(value))",
        "NULL = id",
    ]


def test_deletes_are_those_of_spark(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, dataset.uri)
    for condition in conditions():
        before, version = rows(dataset.uri), handle.version
        frame = handle.toDF(with_row_id=True)
        column = fn.expr(condition) if isinstance(condition, str) else condition
        gone = {row._rowid for row in frame.where(column).select("_rowid").collect()}
        assert counts(handle.delete(condition)) == (0, len(gone), 0)
        assert rows(dataset.uri) == {key: row for key, row in before.items() if key not in gone}
        assert handle.version == version + bool(gone)
    left = len(rows(dataset.uri))
    assert 0 < left < 40
    transaction = pennon.dataset(dataset.uri, version=2).read_transaction(2)
    assert transaction is not None
    operation: Any = transaction.operation
    assert (type(operation).__name__, operation.predicate) == ("Delete", conditions()[0])
    assert counts(handle.delete()) == (0, left, 0)
    assert counts(handle.delete()) == (0, 0, 0)
    assert rows(dataset.uri) == {}


def test_updates_are_those_of_spark(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, dataset.uri).alias("t")
    before = rows(dataset.uri)
    done = handle.update("t.part >= 3 AND t.id < 50", {"part": "part * 10 + length(name)", "name": fn.lit("new")})
    touched = {key for key, (at, part, *_) in before.items() if part is not None and part >= 3 and at < 50}
    assert counts(done) == (len(touched), 0, 0)
    expected = dict(before)
    for key in touched:
        at, part, name, vector = before[key]
        expected[key] = (at, part * 10 + len(name), "new", vector)
    assert rows(dataset.uri) == expected
    # Every row, by a function of Python's and one that makes vectors; rows keep their ids.
    values = {"id": squared("id"), "vector": "transform(vector, x -> x + 1)"}
    assert counts(handle.update(set=values)) == (60, 0, 0)
    assert rows(dataset.uri) == {
        key: (at * at, part, name, [vector[0] + 1, vector[1] + 1])
        for key, (at, part, name, vector) in expected.items()
    }
    assert lance.dataset(dataset.uri).schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert counts(handle.update("id = -1", {"part": "1"})) == (0, 0, 0)
    assert handle.version == 3
    feed = pennon.dataset(dataset.uri).changes(1, 2, images="both").read_all()["_change_type"].to_pylist()
    assert sorted(set(feed)) == ["update_postimage", "update_preimage"]
    assert len(feed) == 2 * len(touched)


def test_tasks_share_the_rows_of_one_fragment(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pennon.write_dataset({"id": list(range(64)), "n": [0] * 64}, uri)
    handle = LanceTable.forPath(spark, uri)
    monkeypatch.setattr(row_changes, "ROWS_PER_TASK", 16)
    monkeypatch.setattr(row_changes, "LEAST_ROWS_PER_TASK", 1)
    monkeypatch.setattr("pyspark_pennon.reads.addressed_rows.BLOCK_BITS", 2)
    spark.range(48).createOrReplaceTempView("chosen")
    new = handle.toDF(with_row_id=True).where("id < 48").selectExpr("_rowid", "id * 2 AS n")
    for change, value in (
        (lambda: handle.updateRows(new), 2),
        (lambda: handle.update("id IN (SELECT id FROM chosen)", {"n": "id * 3"}), 3),
    ):
        before = {part.fragment_id for part in pennon.dataset(uri).get_fragments()}
        assert counts(change()) == (48, 0, 0)
        assert len({part.fragment_id for part in pennon.dataset(uri).get_fragments()} - before) == 3
        found = pennon.dataset(uri).to_table().to_pylist()
        assert sorted(row["n"] for row in found) == [0] * 16 + [at * value for at in range(48)]


def test_rows_by_id(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    handle = LanceTable.forPath(spark, dataset.uri)
    handle.delete("id = 5")
    ids = frame_of(spark, [(7,), (59,), (5,), (7,)], "_rowid long").coalesce(1)
    taken = handle.takeRows(ids, ["name"])
    decimals = handle.takeRows(ids.selectExpr("CAST(_rowid AS DECIMAL(20, 0)) _rowid"), ["_rowid", "name"])
    assert decimals.collect() == taken.collect()
    handle.update("id = 7", {"name": "'later'"})
    assert [tuple(row) for row in taken.collect()] == [("Name 7", 7), ("Name 59", 59), ("Name 7", 7)]
    new = frame_of(spark, [(59, "x", 1), (0, "y", 2)], "_rowid long, name string, part long")
    assert counts(handle.updateRows(new)) == (2, 0, 0)
    found = rows(dataset.uri)
    assert (found[59][1:3], found[0][1:3], found[7][2]) == ((1, "x"), (2, "y"), "later")
    with pytest.raises(pennon.NotFoundError, match="1000"):
        handle.updateRows(frame_of(spark, [(1000, "x")], "_rowid long, name string"))
    with pytest.raises(pennon.InvalidInputError, match="2 rows of the frame have the _rowid 1"):
        handle.updateRows(frame_of(spark, [(1, "x"), (1, "y")], "_rowid long, name string"))
    with pytest.raises(pennon.InvalidInputError, match="expected _rowid"):
        handle.updateRows(frame_of(spark, [(1, "x")], "id long, name string"))
    for kind in ("double", "decimal(4,1)"):
        fractions = ids.selectExpr(f"cast(_rowid + 0.5 as {kind}) _rowid", "'x' name")
        with pytest.raises(
            pennon.InvalidInputError, match=rf"_rowid has the type {re.escape(kind)}; expected long"
        ):
            handle.updateRows(fractions)
        with pytest.raises(
            pennon.InvalidInputError, match=rf"_rowid has the type {re.escape(kind)}; expected long"
        ):
            handle.takeRows(fractions.select("_rowid"))
    wrong = frame_of(spark, [(None, "x"), (-1, "x"), (1000, "x")], "_rowid long, name string")
    for condition, kind in (("_rowid IS NULL", pennon.InvalidInputError), ("_rowid < 0", PositionError)):
        with pytest.raises(PythonException) as caught:
            handle.takeRows(wrong.where(condition).select("_rowid")).collect()
        assert type(typed_error(caught.value)) is kind
    assert counts(handle.updateColumnsFrom(wrong, on="_rowid")) == (0, 0, 0)
    assert rows(dataset.uri) == found


@pytest.mark.parametrize("version", ["2.0", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_values_of_blobs(spark: SparkSession, uri: str, stable: bool, version: str) -> None:
    values = [None if at == 2 else bytes([at]) * at for at in range(6)]
    # Blob v2 from file version 2.2 on, legacy blobs before.
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    structs = pa.array([{"b": value} for value in values], pa.struct([blob]))
    columns = [pa.array(range(6)), pa.array(values, pa.large_binary()), structs]
    data = pa.table(columns, schema=pa.schema([("id", pa.int64()), blob, ("s", structs.type)]))
    options: Any = {"enable_stable_row_ids": stable, "data_storage_version": version}
    pennon.write_dataset(data, uri, max_rows_per_file=4, **options)
    handle = LanceTable.forPath(spark, uri)
    ids = handle.toDF(with_row_id=True).where("id in (1, 2, 5)").select("_rowid").coalesce(1)
    taken = handle.takeRows(ids.unionAll(ids).coalesce(1), ["b", "id", "s"])
    expected = [(values[at], at, (values[at],)) for at in (1, 2, 5)] * 2
    assert [(row.b, row.id, tuple(row.s)) for row in taken.collect()] == expected
    assert counts(handle.delete("length(b) = 4")) == (0, 1, 0)
    assert counts(handle.update("b = X'0505050505'", {"id": "length(b) + 20"})) == (1, 0, 0)
    assert counts(handle.update("id = 3", {"b": "concat(b, b)"})) == (1, 0, 0)
    found = {row.id: row.b for row in handle.toDF().collect()}
    assert found == {0: b"", 1: values[1], 2: None, 3: bytes([3]) * 6, 25: values[5]}
    if not stable:
        with pytest.raises(PythonException, match="belongs to non-existent fragment: 9"):
            handle.takeRows(frame_of(spark, [(9 << 32,)], "_rowid long")).collect()


def between(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> list[int]:
    """Make `change` once, after the rows of the first attempt were found; gives a mark per attempt."""
    attempts: list[int] = []
    commit = JobPlan.commit

    def later(plan: JobPlan, results: Any, **more: Any) -> object:
        if not attempts:
            change()
        attempts.append(0 if plan.num_tasks is None else len(plan.tasks))
        return commit(plan, results, **more)

    monkeypatch.setattr(JobPlan, "commit", later)
    return attempts


@pytest.fixture(params=["delete on the driver", "delete by tasks", "delete by Spark", "update"])
def verb(request: pytest.FixtureRequest) -> Iterator[str]:
    """What finds the rows of a delete, or an update."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "delete by tasks":
            patch.setattr(row_changes, "DRIVER_BYTES", 1)
            patch.setattr(tables, "LEAST_TASK_BYTES", 1)
        yield request.param


def put(condition: str, verb: str) -> str:
    """A condition, put so that only Spark can tell what it means if the rows shall be found by Spark."""
    return f"({condition}) AND id % 1 = 0" if verb == "delete by Spark" else condition


def jobs_of(spark: SparkSession, run: Callable[[], object]) -> int:
    """How many jobs Spark runs for something."""
    group = f"jobs-{time.monotonic_ns()}"
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        run()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_spark_runs_a_job_where_that_pays(spark: SparkSession, dataset: pennon.LanceDataset, verb: str) -> None:
    handle = LanceTable.forPath(spark, dataset.uri)
    condition = put("id BETWEEN 20 AND 29 AND part > 3 OR name = 'Name 5'", verb)
    if verb == "update":
        assert jobs_of(spark, lambda: handle.update(condition, {"part": "100"})) == 1
        assert sum(part == 100 for _, part, *_ in rows(dataset.uri).values()) == 4
    else:
        assert jobs_of(spark, lambda: handle.delete(condition).first()) == (verb != "delete on the driver")
        assert {at for at, *_ in rows(dataset.uri).values()} == set(range(60)) - {5, 25, 26, 27}
    transaction = pennon.dataset(dataset.uri).read_transaction(2)
    assert transaction is not None
    assert getattr(transaction.operation, "predicate", condition) == condition


def test_changes_of_other_rows_meanwhile_are_kept(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = between(monkeypatch, lambda: pennon.dataset(dataset.uri).delete("id = 1"))
    assert counts(LanceTable.forPath(spark, dataset.uri).delete("id = 2")) == (0, 1, 0)
    assert len(attempts) == 1
    assert len(rows(dataset.uri)) == 58


def test_a_conflict_looks_again_at_what_changed(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    # The other writer moves row 2 and deletes row 3.
    def change() -> None:
        other = pennon.dataset(dataset.uri)
        other.update({"part": "100"}, where="id = 2")
        other.delete("id = 3")

    attempts = between(monkeypatch, change)
    handle = LanceTable.forPath(spark, dataset.uri)
    if verb != "update":
        assert counts(handle.delete(put("id < 4 OR id > 55", verb))) == (0, 7, 0)
        assert sorted(at for at, *_ in rows(dataset.uri).values()) == list(range(4, 56))
    else:
        assert counts(handle.update("id < 4 OR id > 55", {"part": "part + 1"})) == (7, 0, 0)
        found = {at: part for at, part, *_ in rows(dataset.uri).values()}
        assert (found[2], found[1], found[59], 3 in found) == (101, 2, 4, False)
    assert len(attempts) == 2


@pytest.mark.parametrize("others", ["id = 2", "id < 25"])
def test_another_writer_leaves_nothing_to_change(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch, verb: str, others: str
) -> None:
    """There is no version without a change, also if a fragment with rows that matched is gone."""
    handle = LanceTable.forPath(spark, dataset.uri)

    def change(condition: str) -> tuple[int, int, int]:
        if verb != "update":
            return counts(handle.delete(put(condition, verb)))
        return counts(handle.update(condition, {"part": "part + 1"}))

    attempts = between(monkeypatch, lambda: pennon.dataset(dataset.uri).delete(others))
    assert change("id = 2") == (0, 0, 0)
    assert len(attempts) == 1
    assert handle.version == 2
    # What was found in fragments that nobody changed is kept, and is a change.
    attempts.clear()
    monkeypatch.undo()
    attempts = between(monkeypatch, lambda: pennon.dataset(dataset.uri).delete("id = 30"))
    assert sum(change("id IN (30, 59)")) == 1
    assert len(attempts) == 2
    assert handle.version == 4
    assert len(rows(dataset.uri)) == 60 - (1 if others == "id = 2" else 25) - 1 - (verb != "update")


def test_all_rows_are_deleted_next_to_others(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        other = pennon.dataset(dataset.uri)
        other.update({"part": "100"}, where="id = 2")
        other.delete("id = 3")

    attempts = between(monkeypatch, change)
    handle = LanceTable.forPath(spark, dataset.uri)
    assert counts(handle.delete()) == (0, 59, 0)
    assert len(attempts) == 2
    assert rows(dataset.uri) == {}
    version = handle.version
    assert counts(handle.delete()) == (0, 0, 0)
    assert handle.version == version


def test_conflicts_without_end_are_reported(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def conflict(*_args: object, **_more: object) -> None:
        attempts.append(1)
        raise pennon.CommitConflictError("somebody was faster")

    monkeypatch.setattr(JobPlan, "commit", conflict)
    with pytest.raises(pennon.CommitConflictError, match="somebody was faster"):
        LanceTable.forPath(spark, dataset.uri).delete("id = 1")
    assert len(attempts) == retries.MAX_ATTEMPTS


@spread(of=1)
@pytest.mark.parametrize("other", ["overwrite", "restore"])
@pytest.mark.parametrize("verb", ["delete", "update", "merge", "updateColumnsFrom", "replace_where"])
def test_an_overwrite_or_restore_meanwhile_ends_a_verb(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch, verb: str, other: str
) -> None:
    dataset.delete("id = 59")

    def change() -> None:
        if other == "restore":
            pennon.dataset(dataset.uri, version=1).restore()
        else:
            pennon.write_dataset(dataset.to_table(limit=20), dataset.uri, mode="overwrite")

    attempts = between(monkeypatch, change)
    table = LanceTable.forPath(spark, dataset.uri).alias("t")
    values = spark.sql("SELECT 1L id, 5 part").alias("s")
    verbs: dict[str, Callable[[], object]] = {
        "delete": lambda: table.delete("id % 2 = 1"),
        "update": lambda: table.update("id % 2 = 1", {"part": "5"}),
        "merge": lambda: table.merge(values, "t.id = s.id").whenMatchedUpdateAll().execute(),
        "updateColumnsFrom": lambda: table.updateColumnsFrom(values, "id"),
        "replace_where": lambda: write(values, dataset.uri, mode="overwrite", replace_where="id = 1"),
    }
    with pytest.raises(pennon.CommitConflictError, match=rf"preempted by .*\({other.title()}\)") as error:
        verbs[verb]()
    assert (error.value.retryable, len(attempts)) == (False, 1)


def test_errors(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    handle = LanceTable.forPath(spark, uri)
    for condition, message in [("id >", "PARSE"), ("nope = 1", "nope"), ("id + 1", "BOOLEAN")]:
        with pytest.raises(AnalysisException, match=message):
            handle.delete(condition)
    with pytest.raises(pennon.InvalidInputError, match="did you mean 'part'"):
        handle.update("id = 1", {"prt": "1"})
    with pytest.raises(pennon.InvalidInputError, match=r"expected a Column.*functions\.lit"):
        handle.update("id = 1", {"part": 1})  # type: ignore[dict-item]
    with pytest.raises(pennon.InvalidInputError, match="No column gets a value"):
        handle.update("id = 1")
    with pytest.raises(pennon.SchemaMismatchError, match="column 'part': the value abc1"):
        handle.update("id = 1", {"part": "'abc' || id"})
    for value, found in [
        ("row_number() OVER (ORDER BY id)", "Window"),
        ("explode(array(1, 2))", "Generate"),
        ("explode(array('1'))", "Generate"),
        ("max(part)", "Aggregate"),
    ]:
        with pytest.raises(pennon.InvalidInputError) as error:
            handle.update(
                "id < 5", {"name": "'x'", "part": fn.expr(value)} if found != "Aggregate" else {"part": value}
            )
        assert str(error.value).startswith("The value of column 'part' is computed from its own row, and ")
        assert str(error.value).endswith(f" needs or makes others: found {found}")
        with pytest.raises(AnalysisException):
            handle.delete(f"{value} = 1")
        with pytest.raises(AnalysisException):
            handle.update(f"{value} = 1", {"part": "1"})
    assert handle.version == 1
    assert LanceTable.isLanceTable(spark, uri)
    assert not LanceTable.isLanceTable(spark, f"{uri}-not")
    with pytest.raises(ValueError, match="not found"):
        LanceTable.forPath(spark, f"{uri}-not")
