"""Writing: modes, one commit, retries, casts, errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.jobs import JobPlan
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StructField, StructType
from pyspark_pennon import DefaultSource, LanceTable, read, write
from pyspark_pennon.options.source import WriteOptions
from pyspark_pennon.writes.plan import WritePlan
from pyspark_pennon.writes.writer import Writer

SCHEMA = StructType([StructField("id", LongType())])


def ids(uri: str) -> list[int]:
    """The ids, by the reference, which must find the table sound and row ids unique."""
    dataset = lance.dataset(uri)
    dataset.validate()
    rows = dataset.to_table(with_row_id=True)
    assert len(set(rows["_rowid"].to_pylist())) == rows.num_rows
    return sorted(rows["id"].to_pylist())


def test_modes_make_one_commit_each(spark: SparkSession, uri: str) -> None:
    frame = spark.range(0, 100, 1, 4)
    frame.write.format("pennon").mode("append").save(uri)
    assert (ids(uri), pennon.dataset(uri).version) == (list(range(100)), 1)
    assert len(pennon.dataset(uri).get_fragments()) == 4
    assert pennon.dataset(uri).has_stable_row_ids
    for mode in ("create", "error", "errorifexists"):
        with pytest.raises(pennon.AlreadyExistsError, match="already exists"):
            write(frame, uri, mode=mode)
    with pytest.raises(AnalysisException, match="Dataset already exists"):
        frame.write.format("pennon").mode("append").option("create", True).save(uri)
    spark.range(100, 110).write.format("pennon").mode("append").option("max_rows_per_file", 3).save(uri)
    assert (ids(uri), pennon.dataset(uri).version) == (list(range(110)), 2)
    done = write(spark.range(3), uri, mode="overwrite", max_tasks=1)
    assert done == {"num_inserted_rows": 3, "num_deleted_rows": 0, "num_files": 1, "version": 3}
    assert (ids(uri), pennon.dataset(uri).version) == ([0, 1, 2], 3)
    assert write(frame, uri, mode="ignore") == {**done, "num_inserted_rows": 0, "num_files": 0}
    assert read(spark, uri, version=2).count() == 110


def test_each_mode_makes_a_table(spark: SparkSession, uri: str) -> None:
    for mode in ("create", "append", "overwrite", "ignore"):
        assert write(spark.range(9), f"{uri}-{mode}", mode=mode, max_tasks=1)["version"] == 1
        assert ids(f"{uri}-{mode}") == list(range(9))


BAD_ARGUMENTS = [
    ({"mode": "update"}, "Invalid mode 'update'"),
    ({"mode": "append", "replace_where": "id = 1"}, "expected mode 'overwrite', found 'append'"),
    ({"mode": "overwrite", "merge_schema": True}, "merge_schema is for mode 'append'"),
    ({"mode": "append", "schema": pa.schema({"id": pa.int64()})}, "schema is for a new table"),
    ({"mode": "overwrite", "schema": pa.schema({"other": pa.int64()})}, "the frame has id"),
    ({"mode": "overwrite", "schema": pa.schema({"id": pa.string()})}, "the Spark type bigint"),
    ({"mode": "append", "max_tasks": 0}, "max_tasks is 0"),
    ({"mode": "append", "durability": "none"}, "expected 'full' or 'os'"),
    ({"mode": "append", "storage_options": {"aws_regoin": "x"}}, "aws_region"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS, ids=lambda value: str(value)[:40])
def test_bad_arguments(spark: SparkSession, uri: str, arguments: dict[str, object], message: str) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    with pytest.raises(ValueError, match=message):
        write(spark.range(3), uri, **arguments)
    assert (ids(uri), pennon.dataset(uri).version) == ([1], 1)


def test_zero_rows(spark: SparkSession, uri: str) -> None:
    nothing = spark.range(0)
    nothing.write.format("pennon").mode("append").save(uri)
    assert (ids(uri), pennon.dataset(uri).version) == ([], 1)
    nothing.write.format("pennon").mode("append").save(uri)
    assert pennon.dataset(uri).version == 1
    spark.range(2).write.format("pennon").mode("append").save(uri)
    nothing.write.format("pennon").mode("overwrite").save(uri)
    assert (ids(uri), pennon.dataset(uri).version) == ([], 3)


def test_append_casts_to_the_table(spark: SparkSession, uri: str) -> None:
    schema = pa.schema(
        {
            "small": pa.uint8(),
            "vector": pa.list_(pa.float32(), 2),
            "text": pa.large_string(),
            "half": pa.float16(),
            "extra": pa.int64(),
        }
    )
    pennon.write_dataset(schema.empty_table(), uri)
    frame = spark.sql("SELECT float(1.5) half, 'x' text, smallint(200) small, array(float(1), float(2)) vector")
    frame.write.format("pennon").mode("append").save(uri)
    (row,) = lance.dataset(uri).to_table().to_pylist()
    assert row == {"small": 200, "vector": [1.0, 2.0], "text": "x", "half": 1.5, "extra": None}
    for expression, name in [("smallint(-1) small", "small"), ("array(float(1)) vector", "vector")]:
        with pytest.raises(PySparkException, match=f"column '{name}': cannot convert"):
            spark.sql(f"SELECT {expression}").write.format("pennon").mode("append").save(uri)
        with pytest.raises(pennon.SchemaMismatchError, match=f"column '{name}': cannot convert"):
            write(spark.sql(f"SELECT {expression}"), uri, mode="append")
    # What no value can be cast to is refused before a task runs.
    for expression, found in [("'1' small", "string"), ("true half", "boolean"), ("1 vector", "int")]:
        with pytest.raises(pennon.SchemaMismatchError, match=f"has the Spark type {found}, but the table has"):
            write(spark.sql(f"SELECT {expression}"), uri, mode="append")
    assert pennon.dataset(uri).version == 2
    # Spark takes names that differ by case only for one.
    write(spark.sql("SELECT 'y' TEXT"), uri, mode="append", merge_schema=True)
    assert lance.dataset(uri).to_table(columns=["text"]).to_pydict() == {"text": ["x", "y"]}
    assert lance.dataset(uri).schema.names == schema.names


NESTED = """
    SELECT id,
        array(id, id + 1) AS list,
        array(float(id), float(0.5)) AS embedding,
        IF(id % 3 = 0, NULL, array(CAST(NULL AS STRING), 'x')) AS nulls,
        named_struct('n', id, 'list', array(array('a'), array())) AS struct,
        array(named_struct('x', id, 'tags', array('t'))) AS structs,
        map('k', id, concat('k', id), NULL) AS map,
        map('m', array(map(id, array(named_struct('deep', 1))))) AS maps
    FROM range(0, 20, 1, 3)
"""


def nested(start: int, end: int) -> list[dict[str, object]]:
    return [
        {
            "id": i,
            "list": [i, i + 1],
            "embedding": [float(i), 0.5],
            "nulls": None if i % 3 == 0 else [None, "x"],
            "struct": {"n": i, "list": [["a"], []]},
            "structs": [{"x": i, "tags": ["t"]}],
            "map": [("k", i), (f"k{i}", None)],
            "maps": [("m", [[(i, [{"deep": 1}])]])],
        }
        for i in range(start, end)
    ]


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_arrays_and_maps_make_a_table(spark: SparkSession, uri: str, mode: str) -> None:
    write(spark.sql(NESTED), uri, mode=mode)
    found = lance.dataset(uri).to_table().sort_by("id")
    assert found.to_pylist() == nested(0, 20)
    kind = found.schema.field("list").type
    assert (kind.value_field.name, kind.value_field.nullable) == ("item", True)
    spark.sql(NESTED.replace("range(0, 20", "range(20, 30")).write.format("pennon").mode("append").save(uri)
    assert lance.dataset(uri).to_table().sort_by("id").to_pylist() == nested(0, 30)
    # What pyarrow makes of the same rows may be appended too, and Spark reads all of it.
    more = pa.Table.from_pylist(nested(30, 40), schema=pennon.dataset(uri).schema)
    pennon.write_dataset(more, uri, mode="append")
    frame = read(spark, uri)
    assert frame.count() == 40
    assert frame.selectExpr("sum(list[1])", "sum(map['k'])", "sum(size(structs))").first()[:] == (820, 780, 40)


def test_arrays_go_into_tables_that_name_and_allow_otherwise(spark: SparkSession, uri: str) -> None:
    """Made by pyarrow: members have other names, and some may not be null."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("list", pa.list_(pa.field("element", pa.int64(), nullable=False))),
            pa.field("nulls", pa.large_list(pa.field("entry", pa.string()))),
            pa.field("map", pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64()))),
        ]
    )
    pennon.write_dataset(schema.empty_table(), uri)
    columns = "id, array(id, nullif(id, -1)) list, array('x', NULL) nulls, map('k', id) map"
    frame = spark.sql(f"SELECT {columns} FROM range(5)")
    frame.write.format("pennon").mode("append").save(uri)
    assert lance.dataset(uri).to_table().to_pylist() == [
        {"id": i, "list": [i, i], "nulls": ["x", None], "map": [("k", i)]} for i in range(5)
    ]
    null = spark.sql("SELECT id, array(id, CAST(NULL AS BIGINT)) list FROM range(5)")
    with pytest.raises(PySparkException, match="list"):
        null.write.format("pennon").mode("append").save(uri)
    assert pennon.dataset(uri).version == 2


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("id long, more int", {}, "the table has no column 'more'"),
        ("other int", {}, "the table has no column 'other'"),
        ("id long", {"max_rows_per_fiel": "1"}, "did you mean 'max_rows_per_file'"),
        ("id long", {"version": "1"}, "belongs to a read, not to a write"),
        (
            "id long",
            {"replaceWhere": "id = 1"},
            "use pyspark_pennon.write(df, uri, mode='overwrite', replace_where",
        ),
        ("id long", {"maxTasks": "1"}, "max_tasks"),
        ("id long", {"overwriteSchema": "true"}, "an overwrite always replaces the schema"),
        ("id long", {"partitionOverwriteMode": "dynamic"}, "tables have no partitions: replace rows with"),
        ("id long", {"maxRecordsPerFile": "9"}, "the option is called 'max_rows_per_file'"),
        ("id long", {"path": ""}, "tables of Spark's catalog (saveAsTable, CREATE TABLE) cannot be of this source"),
        ("id long", {"durability": "none"}, "expected 'full' or 'os'"),
    ],
)
def test_bad_appends(spark: SparkSession, uri: str, schema: str, options: dict[str, str], message: str) -> None:
    """As Spark calls the data source, for which it starts a process."""
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    source = DefaultSource(CaseInsensitiveDict({"path": uri, **options}))
    with pytest.raises(pennon.PennonError) as caught:
        source.writer(StructType.fromDDL(schema), overwrite=False)
    assert message in str(caught.value)


def test_spark_shows_what_is_wrong_with_an_append(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    writer = spark.range(1).write.format("pennon").mode("append").option("maxRowsPerFiel", 1)
    with pytest.raises(AnalysisException, match="did you mean 'max_rows_per_file'"):
        writer.save(uri)
    assert pennon.dataset(uri).version == 1


def test_a_missing_not_null_column_is_named(spark: SparkSession, uri: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("must", pa.int64(), nullable=False)])
    pennon.write_dataset(schema.empty_table(), uri)
    with pytest.raises(AnalysisException, match="column 'must' is missing and may not be null"):
        spark.range(1).write.format("pennon").mode("append").save(uri)


EMPTY = [("array()", "array<void>"), ("map()", "map<void,void>"), ("array(map())", "array<map<void,void>>")]


def test_a_type_no_table_holds(spark: SparkSession, uri: str) -> None:
    for expression, kind in [
        ("parse_json('1')", "variant"),
        ("array(INTERVAL '1' YEAR)", "array<interval year"),
        *EMPTY,
    ]:
        with pytest.raises(pennon.InvalidInputError, match=f"column 'v' has the Spark type {kind}"):
            write(spark.sql(f"SELECT {expression} v"), uri)
    assert not LanceTable.isLanceTable(spark, uri)


def test_a_failed_task_is_tried_again_and_counts_once(spark: SparkSession, uri: str) -> None:
    def flaky(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("the first attempt fails after its rows are written")

    spark.range(0, 40, 1, 3).mapInArrow(flaky, "id long").write.format("pennon").mode("append").save(uri)
    assert (ids(uri), pennon.dataset(uri).version) == (list(range(40)), 1)


def test_a_failed_job_commits_nothing(spark: SparkSession, uri: str, caplog: pytest.LogCaptureFixture) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    data = Path(uri, "data")

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if TaskContext.get().partitionId() == 0:
            return
        while len(list(data.iterdir())) < 2:
            time.sleep(0.01)
        time.sleep(1)
        raise RuntimeError("always")

    frame = spark.range(0, 4, 1, 2).mapInArrow(broken, "id long")
    with pytest.raises(PySparkException, match="always") as caught:
        write(frame, uri, mode="append")
    files = {path.name for path in Path(uri, "data").iterdir()}
    orphan = files - {file.path for part in pennon.dataset(uri).get_fragments() for file in part.data_files()}
    assert len(orphan) == 1
    for message in (caught.value.__notes__[0], caplog.text):
        assert f"No version of {uri} refers to 1 file that finished tasks wrote" in message
        assert f"data/{next(iter(orphan))}" in message
    with pytest.raises(PySparkException, match="always"):
        frame.write.format("pennon").mode("append").save(uri)
    assert (ids(uri), pennon.dataset(uri).version) == ([1], 1)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_can_be_repeated(uri: str, overwrite: bool, caplog: pytest.LogCaptureFixture) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), uri)
    writer = Writer.of(WriteOptions.parse({"path": uri}), SCHEMA, overwrite=overwrite)
    messages = [writer.write_partition(at, iter([pa.record_batch({"id": [at]})])) for at in (2, 3)]
    writer.commit(messages)
    expected = [2, 3] if overwrite else [1, 2, 3]
    pennon.dataset(uri).insert(pa.table({"id": [9]}))
    writer.commit(messages)
    # Spark calls abort with complete messages after a commit that raised: these are no orphans.
    writer.abort(messages)
    assert not caplog.text
    assert (ids(uri), pennon.dataset(uri).version) == ([*expected, 9], 3)


def test_creating_can_be_repeated(uri: str) -> None:
    writer = Writer.of(WriteOptions.parse({"path": uri, "create": "true"}), SCHEMA, overwrite=False)
    messages = [writer.write_partition(0, iter([pa.record_batch({"id": [5]})]))]
    writer.commit(messages)
    writer.commit(messages)
    assert (ids(uri), pennon.dataset(uri).version) == ([5], 1)


@pytest.mark.parametrize("comment", [None, {"comment": "theirs"}])
def test_a_table_created_meanwhile_is_appended_to(uri: str, comment: dict[str, str] | None) -> None:
    """Comments of columns are those of the table, as in any append."""
    writer = Writer.of(WriteOptions.parse({"path": uri}), SCHEMA, overwrite=False)
    messages = [writer.write_partition(0, iter([pa.record_batch({"id": [5]})]))]
    schema = pa.schema([pa.field("id", pa.int64(), metadata=comment)])
    pennon.write_dataset(pa.table({"id": [1]}, schema=schema), uri)
    for _ in range(2):
        writer.commit(messages)
        assert (ids(uri), pennon.dataset(uri).version) == ([1, 5], 2)


def test_a_table_created_meanwhile_is_not_replaced(uri: str) -> None:
    for options, rows in [({"create": "true"}, {"id": [1]}), ({}, {"other": [1]})]:
        path = f"{uri}-{len(options)}"
        writer = Writer.of(WriteOptions.parse({"path": path, **options}), SCHEMA, overwrite=False)
        messages = [writer.write_partition(0, iter([pa.record_batch({"id": [5]})]))]
        pennon.write_dataset(pa.table(rows), path)
        with pytest.raises(pennon.AlreadyExistsError):
            writer.commit(messages)
        assert lance.dataset(path).to_table().to_pydict() == rows


@pytest.mark.parametrize("first", [pa.table({"id": [100]}), pa.table({"other": ["x"], "id": [100]})])
def test_first_writers_race(
    spark: SparkSession, uri: str, first: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other table has nullable columns, in the second case also one that the frame lacks."""
    commit = WritePlan.commit

    def slower(plan: WritePlan, results: list[Any], properties: Any = None) -> dict[str, int]:
        if not LanceTable.isLanceTable(spark, plan.uri):
            pennon.write_dataset(first, plan.uri)
        return commit(plan, results, properties)

    monkeypatch.setattr(WritePlan, "commit", slower)
    done = write(spark.range(0, 4, 1, 2), f"{uri}-append", mode="append")
    assert (done["num_inserted_rows"], done["version"]) == (4, 2)
    assert sorted(lance.dataset(f"{uri}-append").to_table()["id"].to_pylist()) == [0, 1, 2, 3, 100]
    assert write(spark.range(4), f"{uri}-ignore", mode="ignore")["version"] == 1
    with pytest.raises(pennon.AlreadyExistsError):
        write(spark.range(4), f"{uri}-create")
    write(spark.range(4), f"{uri}-overwrite", mode="overwrite")
    assert ids(f"{uri}-overwrite") == [0, 1, 2, 3]
    assert lance.dataset(f"{uri}-create").to_table().to_pydict() == first.to_pydict()


def test_a_commit_that_nobody_knows_of_is_repeated(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, calls = JobPlan.commit, []

    def lost(plan: JobPlan, results: list[object], **_options: object) -> object:
        calls.append(commit(plan, results))
        if len(calls) < 3:
            raise pennon.CommitUnknownError("the response was lost")
        return calls[-1]

    monkeypatch.setattr(JobPlan, "commit", lost)
    assert write(spark.range(4), uri, mode="append")["version"] == 1
    assert (ids(uri), len(calls)) == ([0, 1, 2, 3], 3)


def test_new_columns_only_when_asked(spark: SparkSession, uri: str) -> None:
    write(spark.range(3), uri, max_tasks=1)
    more = spark.sql("SELECT id + 10 AS id, 'x' AS text, array(1L) AS list FROM range(2)").coalesce(1)
    with pytest.raises(pennon.SchemaMismatchError, match=r"no column 'text'.*merge_schema"):
        write(more, uri, mode="append")
    # A frame that does not fit for another reason adds no column either.
    with pytest.raises(pennon.SchemaMismatchError, match="has the Spark type string"):
        write(more.withColumn("id", more.text), uri, mode="append", merge_schema=True)
    assert pennon.dataset(uri).version == 1
    assert write(more, uri, mode="append", merge_schema=True)["version"] == 2
    again = more.withColumn("last", fn.lit(True))
    again.write.format("pennon").mode("append").option("mergeSchema", True).save(uri)
    assert lance.dataset(uri).to_table().to_pylist() == [
        *({"id": at, "text": None, "list": None, "last": None} for at in range(3)),
        *({"id": at, "text": "x", "list": [1], "last": None} for at in (10, 11)),
        *({"id": at, "text": "x", "list": [1], "last": True} for at in (10, 11)),
    ]


def test_system_columns_are_not_written(spark: SparkSession, uri: str) -> None:
    write(spark.range(3), uri)
    frame = read(spark, uri, with_row_id=True, with_row_versions=True)
    with pytest.raises(pennon.InvalidInputError, match=r"'_rowid' is a system column.*drop_system_columns"):
        write(frame, f"{uri}-copy")
    with pytest.raises(AnalysisException, match="'_rowid' is a system column"):
        frame.write.format("pennon").mode("append").save(f"{uri}-copy")
    spelled = spark.range(3).withColumn("_RowId", fn.lit(1))
    for drops in (False, True):
        with pytest.raises(pennon.SchemaMismatchError, match="'_RowId' differs from the system column '_rowid'"):
            write(spelled, f"{uri}-copy", drop_system_columns=drops)
    with pytest.raises(AnalysisException, match="'_RowId' differs from the system column"):
        spelled.write.format("pennon").mode("append").save(f"{uri}-copy")
    with pytest.raises(pennon.SchemaMismatchError, match="'_RowId' differs from the system column"):
        write(spelled, uri, mode="append", merge_schema=True)
    assert not Path(f"{uri}-copy").exists()
    write(frame, f"{uri}-copy", drop_system_columns=True)
    frame.write.format("pennon").mode("append").option("dropSystemColumns", True).save(f"{uri}-copy")
    assert ids(f"{uri}-copy") == [0, 0, 1, 1, 2, 2]
    with pytest.raises(pennon.InvalidInputError, match="no columns"):
        write(frame.select("_rowid"), f"{uri}-copy", mode="append", drop_system_columns=True)
    with pytest.raises(pennon.InvalidInputError, match="'id' occurs more than once"):
        write(frame.select("id", "id"), f"{uri}-copy", mode="append")


def test_missing_messages_commit_nothing(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer.of(WriteOptions.parse({"path": uri}), SCHEMA, overwrite=True)
    message = writer.write_partition(0, iter([pa.record_batch({"id": [5]})]))
    with pytest.raises(RuntimeError, match="1 of 2 write tasks reported nothing"):
        writer.commit([message, None])
    writer.abort([message, None])
    (file,) = Path(uri, "data").iterdir()
    assert f"No version of {uri} refers to 1 file that finished tasks wrote" in caplog.text
    assert file.name in caplog.text
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)


def test_partitions_with_one_number_are_not_taken_for_twins(uri: str) -> None:
    writer = Writer.of(WriteOptions.parse({"path": uri}), SCHEMA, overwrite=True)
    messages = [writer.write_partition(0, iter([pa.record_batch({"id": [at]})])) for at in (1, 2)]
    with pytest.raises(RuntimeError, match="one number"):
        writer.commit(messages)
    with pytest.raises(RuntimeError, match="a Spark task"):
        writer.write(iter([]))


def test_a_message_of_the_commit(spark: SparkSession, uri: str) -> None:
    rows = spark.createDataFrame([(1, "a")], "id long, name string")
    write(rows, uri, commit_message="new")
    write(rows, uri, mode="append", commit_message="more")
    write(rows.withColumn("seen", fn.lit(True)), uri, mode="append", merge_schema=True, commit_message="wider")
    write(rows, uri, mode="overwrite", replace_where="id = 1", commit_message="again")
    rows.write.format("pennon").mode("overwrite").option("commitMessage", "all").save(uri)
    rows.write.format("pennon").mode("append").save(uri)
    messages = [row.userMetadata for row in LanceTable.forPath(spark, uri).history().collect()]
    assert messages == [None, "all", "again", "wider", "more", "new"]
    for name, message in {"userMetadata": "called 'commit_message'", "txnVersion": "append_batches"}.items():
        with pytest.raises(AnalysisException, match=message):
            rows.write.format("pennon").mode("append").option(name, "1").save(uri)
    wrong: Any = 5
    with pytest.raises(pennon.errors.InvalidTypeError, match="commit_message must be text, found int"):
        write(rows, f"{uri}-new", commit_message=wrong)
    assert not Path(f"{uri}-new").exists()
