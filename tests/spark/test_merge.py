"""Merges of frames, against the wheel's own merges and against a model, and their conflicts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.jobs import JobPlan
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, tables
from pyspark_pennon.merge import attempt as merge_attempt
from support.spark_frames import counts, frame_of, rows_by_id

SCHEMA = "id long, n int, name string"


@pytest.fixture
def dataset(uri: str) -> pennon.LanceDataset:
    """40 rows in four fragments; one key is null."""
    ids = [at if at != 39 else None for at in range(40)]
    rows = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array(range(40), pa.int32()),
            "name": [f"old {at}" for at in range(40)],
            "vector": pa.array([[float(at), 1.0] for at in range(40)], pa.list_(pa.float32(), 2)),
        }
    )
    return pennon.write_dataset(rows, uri, max_rows_per_file=10)


def source(spark: SparkSession, values: list[tuple[Any, ...]]) -> DataFrame:
    return frame_of(spark, values, SCHEMA).alias("s")


def by_key(found: dict[int, dict[str, Any]]) -> list[tuple[Any, ...]]:
    key = [
        (row["id"] is None, row["id"] or 0, row["n"], row["name"], row["vector"] is None) for row in found.values()
    ]
    return sorted(key)


@pytest.mark.parametrize("broadcast", ["10MB", "-1"])
def test_an_upsert_is_that_of_the_wheel(
    spark: SparkSession, dataset: pennon.LanceDataset, uri: str, broadcast: str
) -> None:
    values = [(at, -at, f"new {at}") for at in range(30, 50)] + [(None, 7, "null")]
    alone = pennon.write_dataset(dataset.to_table(), f"{uri}-alone", max_rows_per_file=10)
    given = pa.Table.from_pylist([dict(zip(("id", "n", "name"), row, strict=True)) for row in values])
    given = given.cast(pa.schema({"id": pa.int64(), "n": pa.int32(), "name": pa.string()}))
    alone.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(given)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        merge = LanceTable.forPath(spark, uri).alias("t").merge(source(spark, values), "t.id = s.id")
        done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        assert counts(done) == (9, 0, 12)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    found, wanted = rows_by_id(uri), rows_by_id(alone.uri)
    assert {key: row for key, row in found.items() if key < 40} == {
        key: row for key, row in wanted.items() if key < 40
    }
    assert by_key(found) == by_key(wanted)
    transaction = pennon.dataset(uri).read_transaction(2)
    assert transaction is not None
    operation: Any = transaction.operation
    assert operation.inserted_rows is not None


def test_all_clauses_in_their_order(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    values = [(at, at * 10, f"new {at}") for at in range(20, 45)]
    table = LanceTable.forPath(spark, uri).alias("t")
    merge = table.merge(source(spark, values), fn.expr("t.id = s.id AND s.n >= 0"))
    done = (
        merge.whenMatchedDelete("s.id % 5 = 0")
        .whenMatchedUpdate("t.n % 2 = 0", {"n": "t.n + s.n", "name": fn.concat("s.name", fn.lit("!"))})
        .whenMatchedUpdate("s.id = 21", {"name": "t.name || '?'"})
        .whenNotMatchedInsert("s.id < 42", {"id": "s.id", "n": "-1"})
        .whenNotMatchedInsertAll("s.id = 43")
        .whenNotMatchedBySourceUpdate("t.id < 3", {"n": "t.n - 100"})
        .whenNotMatchedBySourceDelete("t.id BETWEEN 3 AND 5")
        .execute()
    )
    model = rows_by_id(uri)
    found = {row["id"]: row for row in model.values() if row["id"] is not None}
    assert sorted(set(range(45)) - set(found)) == [3, 4, 5, 20, 25, 30, 35, 42, 44]
    for at, row in found.items():
        if at == 43:
            assert (row["n"], row["name"], row["vector"]) == (430, "new 43", None)
        elif at in (39, 40, 41):
            assert (row["n"], row["name"], row["vector"]) == (-1, None, None)
        elif at >= 20 and at % 2 == 0:
            assert (row["n"], row["name"], row["vector"][0]) == (11 * at, f"new {at}!", at)
        elif at == 21:
            assert (row["n"], row["name"]) == (21, "old 21?")
        elif at < 3:
            assert (row["n"], row["name"]) == (at - 100, f"old {at}")
        else:
            assert (row["n"], row["name"]) == (at, f"old {at}")
    # 22, 24, 26, 28, 32, 34, 36, 38; 21; 0, 1, 2.
    assert counts(done) == (12, 7, 4)
    # Rows keep their ids, and the null key matched nothing.
    assert {key for key, row in model.items() if row["id"] == key} >= {0, 21, 22, 38}
    assert model[39]["id"] is None


def test_what_matches_twice(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    doubled = source(spark, [(1, 1, "a"), (1, 2, "b"), (100, 1, "c"), (100, 2, "d")])
    table = LanceTable.forPath(spark, uri).alias("t")
    with pytest.raises(pennon.InvalidInputError, match=r"2 rows of the source match one row.*'id': 1"):
        table.merge(doubled, "t.id = s.id").whenMatchedUpdateAll().execute()
    assert table.version == 1
    # Those that match nothing are all inserted, and a row is deleted once.
    assert counts(table.merge(doubled, "t.id = s.id").whenMatchedDelete().execute()) == (0, 1, 0)
    assert counts(table.merge(doubled, "t.id = s.id").whenNotMatchedInsertAll("s.id > 1").execute()) == (0, 0, 2)
    assert sorted(row["name"] for row in rows_by_id(uri).values() if row["id"] == 100) == ["c", "d"]
    nothing = source(spark, [(-5, 1, "x")])
    assert counts(table.merge(nothing, "t.id = s.id").whenMatchedUpdateAll().execute()) == (0, 0, 0)
    assert table.version == 3


def meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> list[int]:
    """Make `change` before the first commit; gives a mark per commit."""
    commits: list[int] = []
    commit = JobPlan.commit

    def later(plan: JobPlan, results: Any, **more: Any) -> object:
        commits.append(1)
        if len(commits) == 1:
            change()
        return commit(plan, results, **more)

    monkeypatch.setattr(JobPlan, "commit", later)
    return commits


def test_conflicts(
    spark: SparkSession, dataset: pennon.LanceDataset, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [(2, -2, "mine"), (77, 7, "mine")]
    schema = pa.schema({"id": pa.int64(), "n": pa.int32(), "name": pa.string()})
    given = pa.Table.from_pylist([{"id": 77, "n": 1, "name": "theirs"}], schema)

    def insert() -> None:
        pennon.dataset(uri).merge_insert("id").when_not_matched_insert_all().execute(given)

    commits = meanwhile(monkeypatch, insert)
    merge = LanceTable.forPath(spark, uri).alias("t").merge(source(spark, values), "t.id = s.id")
    assert counts(merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()) == (2, 0, 0)
    # Once by the merge of the other writer, twice by this one.
    assert len(commits) == 2
    assert [row["name"] for row in rows_by_id(uri).values() if row["id"] == 77] == ["mine"]


@pytest.mark.parametrize(
    ("key", "done", "attempts"), [(78, (1, 0, 1), 1), (None, (1, 0, 1), 1), (77, (2, 0, 0), 2)]
)
@pytest.mark.usefixtures("dataset")
def test_an_append_of_other_keys_is_no_conflict(
    spark: SparkSession,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    key: int | None,
    done: tuple[int, int, int],
    attempts: int,
) -> None:
    schema = pa.schema({"id": pa.int64(), "n": pa.int32(), "name": pa.string()})
    given = pa.Table.from_pylist([{"id": key, "n": 1, "name": "theirs"}], schema)
    commits = meanwhile(monkeypatch, lambda: lance.write_dataset(given, uri, mode="append"))
    values = source(spark, [(2, -2, "mine"), (77, 7, "mine")])
    merge = LanceTable.forPath(spark, uri).alias("t").merge(values, "t.id = s.id")
    metrics = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert (counts(metrics), len(commits)) == (done, attempts)
    found = [(row["id"], row["name"]) for row in rows_by_id(uri).values() if not row["name"].startswith("old")]
    expected = {(2, "mine"), (77, "mine")} | ({(key, "theirs")} if key != 77 else set())
    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.parametrize(
    ("condition", "values", "appended", "attempts"),
    [
        # The cast of another value may be equal, and null is where it is safe.
        ("CAST(t.at AS DATE) = CAST(s.at AS DATE)", None, {"at": "2024-05-05 01:00:00"}, 2),
        ("CAST(t.at AS DATE) = s.day", {"at": "s.day"}, {"at": "2024-05-05 01:00:00"}, 2),
        ("t.name = s.id", {"name": "s.id", "at": "s.at"}, {"name": "008"}, 2),
        ("CAST(t.id AS TINYINT) = s.id", None, {"id": 9}, 2),
        ("t.id <=> s.id", None, {"id": 5}, 2),
        # The key that is inserted is not the one that is compared.
        ("t.id = s.id", {"id": "s.id * 10", "at": "s.at"}, {"id": 8}, 2),
        ("t.id = s.other", {"id": "s.other", "at": "s.at"}, {"id": 9}, 1),
        # Zeros are equal.
        ("t.x = s.x", None, {"x": -0.0}, 2),
        ("t.x = s.x", None, {"x": 0.5}, 1),
        ("t.at = s.at", None, {"at": "2024-05-05 02:00:00"}, 2),
        ("t.at = s.at", None, {"at": "2024-05-05 01:00:00"}, 1),
        # One column tells that there is no match.
        ("t.id = s.id AND t.name <=> s.name", None, {"id": 5, "name": "x"}, 1),
        ("t.id = s.id AND t.name <=> s.name", None, {"id": 8}, 2),
    ],
)
def test_which_appends_are_conflicts(
    spark: SparkSession,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    values: dict[str, str] | None,
    appended: dict[str, Any],
    attempts: int,
) -> None:
    schema = pa.schema({"id": pa.int32(), "name": pa.string(), "x": pa.float64(), "at": pa.timestamp("us", "UTC")})

    def rows_of(row: dict[str, Any]) -> pa.Table:
        at = datetime.fromisoformat(f"{row.get('at', '2020-01-01 00:00:00')}+00:00")
        return pa.Table.from_pylist([{"id": 1, "name": "0", "x": 1.5, **row, "at": at}], schema)

    pennon.write_dataset(rows_of({}), uri)
    meanwhile(monkeypatch, lambda: lance.write_dataset(rows_of(appended), uri, mode="append"))
    run, runs = merge_attempt.MergeAttempt.run, list[int]()

    class AgainError(Exception):
        """Raised instead of a second attempt, which others of these tests let run."""

    def once(*given: Any) -> Any:
        runs.append(1)
        if len(runs) > 1:
            raise AgainError
        return run(*given)

    monkeypatch.setattr(merge_attempt.MergeAttempt, "run", once)
    # No row of the source matches.
    pairs = spark.sql(f"SELECT 0L {merge_attempt.ROW_ADDRESS}, 0L {merge_attempt._MATCH} WHERE false")
    monkeypatch.setattr(merge_attempt.MergeAttempt, "_pairs", lambda *_given: pairs)
    late = spark.sql(
        "SELECT 8L id, 'x' name, 0.0D x, TIMESTAMP '2024-05-05 02:00:00+00:00' at, 7L other, DATE '2024-05-05' day"
    )
    merge = LanceTable.forPath(spark, uri).alias("t").merge(late.alias("s"), condition)
    if values is None:
        merge = merge.whenNotMatchedInsert(values={name: f"s.{name}" for name in ("id", "name", "x", "at")})
    else:
        merge = merge.whenNotMatchedInsert(values=values)
    with suppress(AgainError):
        merge.execute()
    assert len(runs) == attempts


@pytest.mark.parametrize("other", ["delete", "update", "compact", "insert"])
def test_what_did_not_change_is_not_joined_again(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """A merge that is done again reads keys of fragments that another writer left alone once."""
    stored = {at: (at % 3, f"row {at}") for at in range(40)}
    schema = pa.schema({"id": pa.int64(), "n": pa.int32(), "name": pa.string()})

    def table_of(rows: dict[int, tuple[int, str]]) -> pa.Table:
        return pa.Table.from_pylist([{"id": at, "n": n, "name": name} for at, (n, name) in rows.items()], schema)

    pennon.write_dataset(table_of(stored), uri, max_rows_per_file=4)
    monkeypatch.setattr(tables, "LEAST_TASK_BYTES", 1)
    read, make = [], merge_attempt.table_frame

    def recorded(spark: SparkSession, table: Any, options: Any, fragments: Any = None) -> Any:
        read.append(None if fragments is None else set(fragments))
        return make(spark, table, options, fragments)

    monkeypatch.setattr(merge_attempt, "table_frame", recorded)

    def change() -> None:
        dataset = pennon.dataset(uri)
        if other == "delete":
            dataset.delete("id IN (1, 2, 30)")
        elif other == "update":
            dataset.update({"n": "n + 5"}, "id IN (1, 21)")
        elif other == "compact":
            dataset.delete("id = 1")
            dataset.optimize.compact_files(materialize_deletions_threshold=0.0, target_rows_per_fragment=4)
        else:
            dataset.delete("id = 1")
            late = dataset.merge_insert("id").when_not_matched_insert_all()
            late.execute(table_of({77: (0, "theirs"), 78: (0, "theirs")}))

    meanwhile(monkeypatch, change)
    values = [(at, -at, "mine") for at in (1, 2, 3, 21, 22, 30, 77, 90)]
    merge = LanceTable.forPath(spark, uri).alias("t").merge(source(spark, values), "t.id = s.id")
    merge = merge.whenMatchedUpdate("t.n < 6", {"n": "s.n + t.n", "name": "s.name"}).whenNotMatchedInsertAll()
    merge.execute()
    expected = dict(stored)
    if other == "update":
        expected.update({1: (6, "row 1"), 21: (5, "row 21")})
    elif other == "delete":
        expected = {at: row for at, row in expected.items() if at not in (1, 2, 30)}
    else:
        del expected[1]
        expected.update({77: (0, "theirs"), 78: (0, "theirs")} if other == "insert" else {})
    for at, n, name in values:
        if at not in expected:
            expected[at] = (n, name)
        elif expected[at][0] < 6:
            expected[at] = (n + expected[at][0], name)
    assert {row["id"]: (row["n"], row["name"]) for row in rows_by_id(uri).values()} == expected
    first, again = read
    assert first is None
    # Of ten fragments those that were changed or made by the other writer.
    assert again is not None
    assert 0 < len(again) < 10
    if other == "delete":
        assert again == {0, 7}


def test_new_columns_and_errors(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    table = LanceTable.forPath(spark, uri).alias("t")
    wider = frame_of(spark, [(1, 5, True), (90, 6, False)], "id long, n int, seen boolean").alias("s")
    merge = table.merge(wider, "t.id = s.id")
    with pytest.raises(pennon.InvalidInputError, match="column 'seen', which the table lacks"):
        table.merge(wider, "t.id = s.id").whenMatchedUpdateAll().execute()
    done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().withSchemaEvolution().execute()
    assert counts(done) == (1, 0, 1)
    seen = {row["id"]: row["seen"] for row in rows_by_id(uri).values()}
    assert (seen[1], seen[90], seen[0]) == (True, False, None)
    version = table.version
    values = source(spark, [(1, 1, "a")])
    with pytest.raises(pennon.InvalidInputError, match="no clause"):
        table.merge(values, "t.id = s.id").execute()
    with pytest.raises(pennon.InvalidInputError, match="Only the last whenMatched"):
        table.merge(values, "t.id = s.id").whenMatchedDelete().whenMatchedUpdateAll()
    with pytest.raises(pennon.InvalidInputError, match="did you mean 'name'"):
        table.merge(values, "t.id = s.id").whenMatchedUpdate(set={"nam": "s.name"}).execute()
    random = values.withColumn("n", (fn.rand() * 100).cast("int")).alias("s")
    with pytest.raises(pennon.InvalidInputError, match="not deterministic"):
        table.merge(random, "t.id = s.id").whenMatchedUpdateAll().execute()
    with pytest.raises(AnalysisException, match="nope"):
        table.merge(values, "t.id = s.nope").whenMatchedUpdateAll().execute()
    with pytest.raises(pennon.InvalidInputError, match="no set"):
        table.merge(values, "t.id = s.id").whenMatchedUpdate()
    assert table.version == version


def test_arguments_of_other_types(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    table: Any = LanceTable.forPath(spark, uri).alias("t")
    values = source(spark, [(1, 1, "a")])
    merge: Any = table.merge(values, "t.id = s.id")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: table.merge(values, ["id"]), "condition of a merge"),
        (lambda: table.delete(True), "A condition is True"),
        (lambda: merge.whenMatchedDelete(1), "condition of a whenMatched clause is 1"),
        (lambda: merge.whenMatchedUpdate({"n": "s.n"}), "expected set= before it"),
        (lambda: merge.whenMatchedUpdate("true", 1), "The set of a clause is 1"),
        (lambda: merge.whenNotMatchedInsert(values={"n": 1}), "The value of column 'n' is 1"),
        (lambda: merge.whenMatchedUpdate("true", fn.col("n")), "The set of a clause is Column"),
        (lambda: table.update("id = 1", "n = 2"), "The values are 'n = 2'"),
        (lambda: table.update("id = 1", fn.col("n")), "The values are Column"),
        (lambda: table.update(set={"n": 1}), "The value of column 'n' is 1"),
        (lambda: table.update(set={"n": pa.scalar(1)}), "The value of column 'n' is <pyarrow"),
    ]
    for call, message in calls:
        with pytest.raises(pennon.errors.InvalidTypeError, match=message):
            call()
    assert table.version == dataset.version


def test_each_call_gives_another_builder(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    values = frame_of(spark, [(1, 5, True), (90, 6, False)], "id long, n int, seen boolean").alias("s")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(values, "t.id = s.id")
    deleting, evolving = merge.whenMatchedDelete("s.n > 9"), merge.withSchemaEvolution()
    both = deleting.whenMatchedUpdate(set={"n": "s.n"})
    inserting = evolving.whenNotMatchedInsertAll()
    with pytest.raises(pennon.InvalidInputError, match="no clause"):
        merge.execute()
    with pytest.raises(pennon.InvalidInputError, match="no clause"):
        evolving.execute()
    assert counts(deleting.execute()) == (0, 0, 0)
    assert counts(both.execute()) == (1, 0, 0)
    assert counts(inserting.execute()) == (0, 0, 1)
    assert counts(inserting.execute()) == (0, 0, 0)


def test_columns_of_another_frame(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    table = LanceTable.forPath(spark, uri)
    rows, values = table.toDF(), frame_of(spark, [(1, 5)], "key long, n int")
    done = table.merge(values, fn.col("id") == values["key"]).whenMatchedUpdate(set={"n": values["n"]}).execute()
    assert counts(done) == (1, 0, 0)
    merge = table.merge(values, rows["id"] == values["key"]).whenMatchedDelete()
    for call in (lambda: table.delete(rows["id"] == 1), merge.execute):
        with pytest.raises(AnalysisException) as error:
            call()
        assert "is of that frame, and the verb reads the table itself" in error.value.__notes__[0]


def test_columns_of_a_source_that_is_made_from_the_table(
    spark: SparkSession, dataset: pennon.LanceDataset, uri: str
) -> None:
    table = LanceTable.forPath(spark, uri)
    rows = table.toDF()
    values = rows.where("id = 1").withColumn("n", fn.col("n") + 1)
    equal = rows["id"] == values["id"]
    alone, itself = "names no column of the table", "of the source with itself"
    conditions: list[tuple[Column | str, str]] = [
        (equal, alone),
        (equal & (values["n"] > 0), alone),
        (equal | (rows["name"] == values["name"]), alone),
        (fn.trim(rows["name"]) == values["name"], alone),
        (~(rows["id"] != values["id"]), alone),
        (rows["id"].eqNullSafe(values["id"]), alone),
        ("s.id = s.id", alone),
        (equal & fn.expr("t.n < s.n"), itself),
    ]
    for condition, message in conditions:
        merge = table.alias("t").merge(values.alias("s"), condition).whenMatchedDelete()
        with pytest.raises(pennon.InvalidInputError, match=message):
            merge.execute()
    assert table.version == dataset.version
    # A column of the table with itself, and conditions without any column, are what they say.
    for condition in ("t.id = s.id AND t.n = t.n AND false", "1 = 2"):
        assert counts(table.alias("t").merge(values.alias("s"), condition).whenMatchedDelete().execute()) == (
            0,
            0,
            0,
        )
    done = table.alias("t").merge(values.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert counts(done) == (1, 0, 0)


def test_clauses_are_of_one_row(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    table = LanceTable.forPath(spark, uri).alias("t")
    values = source(spark, [(1, 1, "a"), (90, 2, "b")])
    window, of_table = "row_number() OVER (ORDER BY s.id)", "row_number() OVER (ORDER BY t.id)"
    value, condition = "The value of column 'n' .* found", "The condition of {} clause {} .* found"
    for clause, message in [
        (lambda merge: merge.whenMatchedUpdate(set={"n": window}), f"{value} Window"),
        (
            lambda merge: merge.whenNotMatchedInsert(values={"id": "s.id", "n": "explode(array(1))"}),
            f"{value} Generate",
        ),
        (lambda merge: merge.whenNotMatchedInsert(values={"n": "max(s.n)"}), f"{value} Aggregate"),
        (lambda merge: merge.whenNotMatchedBySourceUpdate("t.id < 3", {"n": of_table}), f"{value} Window"),
        (
            lambda merge: merge.whenMatchedDelete("s.n = 7").whenMatchedUpdateAll(f"{window} = 1"),
            f"{condition.format('update', 2)} Window",
        ),
        (lambda merge: merge.whenMatchedDelete("max(s.n) > 1"), f"{condition.format('delete', 1)} Aggregate"),
        (
            lambda merge: merge.whenNotMatchedInsertAll("explode(array(true))"),
            f"{condition.format('insert', 1)} Generate",
        ),
        (
            lambda merge: merge.whenNotMatchedBySourceDelete(f"{of_table} = 1"),
            f"{condition.format('delete', 1)} Window",
        ),
    ]:
        with pytest.raises(pennon.InvalidInputError, match=message):
            clause(table.merge(values, "t.id = s.id")).execute()
    assert table.version == 1
    # The source itself may be of anything.
    counted = spark.range(5).groupBy("id").agg(fn.max(fn.col("id").cast("int")).alias("n")).alias("s")
    assert counts(table.merge(counted, "t.id = s.id").whenMatchedUpdateAll("s.n > 1").execute()) == (3, 0, 0)


def test_a_condition_decides_once_about_a_row(spark: SparkSession, dataset: pennon.LanceDataset, uri: str) -> None:
    values = spark.range(20, 60).alias("s")
    new = {"n": "-1", "name": "'new'"}
    merge = LanceTable.forPath(spark, uri).alias("t").merge(values, "t.id = s.id")
    merge = merge.whenMatchedUpdate("rand() < 0.2", new).whenMatchedUpdate("rand() < 0.2", new)
    merge = merge.whenNotMatchedInsert("rand() < 0.5", {"id": "s.id", **new})
    updated, _, inserted = counts(merge.whenNotMatchedBySourceUpdate("rand() < 0.5", new).execute())
    found = rows_by_id(uri).values()
    assert len(found) == 40 + inserted
    assert sum(row["name"] == "new" for row in found) == updated + inserted
    assert {row["n"] == -1 for row in found if row["name"] == "new"} == {True}
    assert None not in {row["id"] for row in found if row["vector"] is None}


def test_what_spark_reads_with_fewer_digits_is_assigned_by_all_updates(spark: SparkSession, uri: str) -> None:
    nanoseconds = pa.array([1001, 2002, 3003], pa.timestamp("ns"))
    pennon.write_dataset(pa.table({"id": [1, 2, 3], "v": [0, 0, 0], "at": nanoseconds}), uri)
    merge = LanceTable.forPath(spark, uri).alias("t").merge(spark.range(1, 3).alias("s"), "t.id = s.id")
    merge = merge.whenMatchedUpdate(set={"v": "5"}).whenNotMatchedBySourceUpdate(set={"at": "NULL"})
    with pytest.raises(pennon.InvalidInputError, match="Not all update clauses assign the column 'at'"):
        merge.execute()
    assert pennon.dataset(uri).version == 1


@pytest.mark.parametrize("broadcast", ["10MB", "-1"])
def test_a_source_that_has_a_name_twice(
    spark: SparkSession, dataset: pennon.LanceDataset, uri: str, broadcast: str
) -> None:
    first = frame_of(spark, [(1, 5), (50, 6)], "id long, n int").alias("a")
    second = frame_of(spark, [(1, 7), (50, 8)], "id long, w int").alias("b")
    both = first.join(second, fn.col("a.id") == fn.col("b.id"))
    merge = LanceTable.forPath(spark, uri).alias("t").merge(both, "t.id = a.id")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        merge = merge.whenMatchedUpdate("t.n = 1", {"n": "b.w"})
        assert counts(merge.whenNotMatchedInsert(values={"id": "b.id", "n": "a.n"}).execute()) == (1, 0, 1)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    found = {row["id"]: row["n"] for row in rows_by_id(uri).values()}
    assert (found[1], found[50], found[2]) == (7, 6, 2)
    merge = LanceTable.forPath(spark, uri).alias("t").merge(both, "t.id = a.id")
    with pytest.raises(pennon.InvalidInputError, match="column 'id' occurs more than once"):
        merge.whenMatchedUpdateAll().execute()


def test_delete_by_a_column_and_keys_of_another_type(
    spark: SparkSession, dataset: pennon.LanceDataset, uri: str
) -> None:
    # `n` is an int in the table and a bigint in the source: Spark casts it, and it is a key all the same.
    values = frame_of(spark, [(1, True), (50, False), (51, True)], "n long, gone boolean").alias("s")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(values, fn.col("t.n") == fn.col("s.n"))
    done = (
        merge.whenMatchedDelete(fn.col("s.gone"))
        .whenNotMatchedInsert(~fn.col("s.gone"), {"n": "s.n", "id": "s.n"})
        .execute()
    )
    assert counts(done) == (0, 1, 1)
    assert sorted(set(range(40)) ^ {row["n"] for row in rows_by_id(uri).values()}) == [1, 50]
    transaction = pennon.dataset(uri).read_transaction(2)
    assert transaction is not None
    operation: Any = transaction.operation
    assert operation.inserted_rows is not None


def test_columns_of_the_system_in_a_source_are_for_the_condition(
    spark: SparkSession, dataset: pennon.LanceDataset, uri: str
) -> None:
    before = rows_by_id(uri)
    table = LanceTable.forPath(spark, uri).alias("t")
    values = table.toDF(with_row_id=True, with_row_versions=True).where("t.id IN (3, 4)")
    values = values.withColumn("name", fn.lit("mine")).drop("vector").alias("s")
    merge = table.merge(values, "t._rowid = s._rowid").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert counts(merge.execute()) == (2, 0, 0)
    changed = {number: {**row, "name": "mine"} for number, row in before.items() if row["id"] in (3, 4)}
    assert rows_by_id(uri) == {**before, **changed}
