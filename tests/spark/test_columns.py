"""New columns and new values of columns by Spark tasks, against the wheel's own verbs on a twin of the table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon import jobs
from pennon.jobs import JobPlan
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType
from pyspark_pennon import LanceTable
from pyspark_pennon.columns import add as columns
from pyspark_pennon.columns import function_identity, update
from support.long import long
from support.spark_frames import frame_of


def make(uri: str) -> pennon.LanceDataset:
    """60 rows in six fragments, of which every seventh is deleted."""
    rows = pa.table(
        {
            "id": pa.array(range(60)),
            "part": pa.array([at % 7 if at % 4 else None for at in range(60)], pa.int32()),
            "name": pa.array([f"Name {at}" for at in range(60)]),
            "vector": pa.array([[float(at), 0.5] for at in range(60)], pa.list_(pa.float32(), 2)),
        }
    )
    table = pennon.write_dataset(rows, uri, max_rows_per_file=10)
    table.delete("id % 7 = 3")
    return table


@pytest.fixture
def dataset(uri: str) -> pennon.LanceDataset:
    return make(uri)


def state(uri: str, *, since: int | None = None) -> Any:
    """Rows with ids and versions, by the reference; the feed since a version."""
    found = lance.dataset(uri)
    found.validate()
    versions = ["_row_created_at_version", "_row_last_updated_at_version"]
    rows = found.scanner(columns=[*found.schema.names, *versions], with_row_id=True).to_table()
    if since is None:
        return rows.sort_by("_rowid").to_pylist()
    changes = pennon.dataset(uri).changes(since).read_all()
    names = [name for name in changes.column_names if name != "_commit_timestamp"]
    order = [("_rowid", "ascending"), ("_change_type", "ascending")]
    return rows.sort_by("_rowid").to_pylist(), changes.select(names).sort_by(order).to_pylist()


@pytest.fixture
def twin(tmp_path: Path) -> pennon.LanceDataset:
    return make(str(tmp_path / "twin.lance"))


def test_expressions_equal_those_of_the_wheel(
    spark: SparkSession, dataset: pennon.LanceDataset, twin: pennon.LanceDataset
) -> None:
    files = {file.path for fragment in dataset.get_fragments() for file in fragment.metadata.files}
    values = {"double": "id * 2", "upper": fn.upper("name"), "first": "vector[0]", "none": "part IS NULL"}
    report = LanceTable.forPath(spark, dataset.uri).addColumns(values).first()
    assert report.asDict() == {"num_affected_rows": twin.count_rows(), "version": 3}
    twin.add_columns({"double": "id * 2", "upper": "upper(name)", "first": "vector[1]", "none": "part IS NULL"})
    assert state(dataset.uri, since=2) == state(twin.uri, since=2)
    assert pennon.dataset(dataset.uri).schema.types == twin.schema.types
    now = {file.path for part in pennon.dataset(dataset.uri).get_fragments() for file in part.metadata.files}
    assert files < now


@pytest.mark.parametrize("kind", ["arrow", "pandas", "dict", "pandas_udf"])
def test_functions(spark: SparkSession, dataset: pennon.LanceDataset, kind: str) -> None:
    def by_arrow(batch: pa.RecordBatch) -> Any:
        assert batch.num_rows <= 4
        assert batch.schema.names == ["id", "_rowid", "vector"]
        total = pa.array([sum(vector) for vector in batch["vector"].to_pylist()], pa.float64())
        found = {"total": total, "half": pa.array([[at / 2] * 2 for at in batch["id"].to_pylist()])}
        return found if kind == "dict" else pa.record_batch(found)

    def by_pandas(frame: Any) -> Any:
        import pandas as pd

        half = [[at / 2] * 2 for at in frame["id"]]
        return pd.DataFrame({"half": half, "total": frame["vector"].map(lambda vector: float(sum(vector)))})

    schema = pa.schema({"total": pa.float64(), "half": pa.list_(pa.float32(), 2)})
    table = LanceTable.forPath(spark, dataset.uri)
    if kind == "pandas_udf":
        total = fn.pandas_udf(lambda vectors: vectors.map(lambda vector: float(sum(vector))), "double")
        table.addColumns({"total": total("vector"), "half": "array(id / 2, id / 2)"}, schema)
    else:
        read = ["id", "_rowid", "vector"]
        form: Any = "pandas" if kind == "pandas" else "arrow"
        function = by_pandas if kind == "pandas" else by_arrow
        table.addColumns(function, schema, readColumns=read, batchFormat=form, batchSize=4)
    found = pennon.dataset(dataset.uri).to_table()
    assert found.schema.field("half").type == pa.list_(pa.float32(), 2)
    assert found["total"].to_pylist() == [at + 0.5 for at in found["id"].to_pylist()]
    assert found["half"].to_pylist() == [[at / 2] * 2 for at in found["id"].to_pylist()]
    state(dataset.uri)


def test_a_function_of_the_user_is_evaluated_once_for_each_row(
    spark: SparkSession, dataset: pennon.LanceDataset
) -> None:
    calls = spark.sparkContext.accumulator(0)

    @fn.udf(returnType=LongType())
    def counted(value: int) -> int:
        calls.add(1)
        return value + 1

    LanceTable.forPath(spark, dataset.uri).alias("t").addColumns({"next": counted(fn.col("t.id"))})
    assert calls.value == dataset.count_rows()
    found = pennon.dataset(dataset.uri).to_table()
    assert found["next"] == pc.add(found["id"], 1)


@pytest.mark.parametrize("change", ["delete", "append", "update", "compact", "column"])
def test_another_writer(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """What others do between the tasks and the commit is kept, and gets the column."""
    commit, plans = JobPlan.commit, []

    def late(self: JobPlan, results: Any, **options: Any) -> Any:
        results = list(results)
        if not plans:
            other = pennon.dataset(dataset.uri)
            {
                "delete": lambda: other.delete("id BETWEEN 12 AND 15"),
                "append": lambda: pennon.write_dataset(other.to_table().slice(0, 5), other.uri, mode="append"),
                "update": lambda: other.update({"id": "id + 1000"}, "id = 22"),
                "compact": lambda: other.optimize.compact_files(),
                "column": lambda: other.add_columns({"double": "id"}),
            }[change]()
        plans.append(len(results))
        return commit(self, results, **options)

    monkeypatch.setattr(JobPlan, "commit", late)
    table = LanceTable.forPath(spark, dataset.uri)
    if change == "column":
        with pytest.raises(pennon.InvalidInputError, match="The table has a column 'double'"):
            table.addColumns({"double": "id * 2"})
        return
    table.addColumns({"double": "id * 2"})
    found = pennon.dataset(dataset.uri).to_table()
    assert found["double"] == pc.multiply(found["id"], 2)
    expected = dataset.count_rows() + {"append": 5, "delete": -4}.get(change, 0)
    assert found.num_rows == expected
    state(dataset.uri)


class Stop(Exception):
    """The driver dies."""


def test_it_goes_on_where_it_was_interrupted(
    spark: SparkSession, dataset: pennon.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, table = tmp_path / "state" / "columns.json", LanceTable.forPath(spark, dataset.uri)
    monkeypatch.setattr(columns, "TASKS_PER_CORE", 3)
    save, runs = columns.Checkpoint.save, []

    def dies(self: Any, plan: Any, results: list[Any]) -> None:
        save(self, plan, results)
        runs.append(len(results))
        if len(results) >= 4:
            raise Stop

    monkeypatch.setattr(columns.Checkpoint, "save", dies)
    calls = spark.sparkContext.accumulator(0)

    @fn.udf(returnType=LongType())
    def counted(value: int) -> int:
        calls.add(1)
        return value * 3

    values = {"triple": counted("id")}
    with pytest.raises(Stop):
        table.addColumns(values, checkpoint=path)
    assert runs == [0, 4]
    first = calls.value
    assert "triple" not in pennon.dataset(dataset.uri).schema.names
    with pytest.raises(pennon.InvalidInputError, match=r"triple = .* expected 'other = id'"):
        table.addColumns({"other": "id"}, checkpoint=path)
    # A row of a fragment that is done is deleted, and there are new rows.
    dataset = pennon.dataset(dataset.uri)
    dataset.delete("id = 1")
    pennon.write_dataset(dataset.to_table().slice(0, 3), dataset.uri, mode="append")
    monkeypatch.setattr(columns.Checkpoint, "save", save)
    table.addColumns(values, checkpoint=path)
    found = pennon.dataset(dataset.uri).to_table()
    assert found["triple"] == pc.multiply(found["id"], 3)
    assert not path.exists()
    # The first fragment was computed again, the next three were not.
    untouched = sum(10 <= at < 40 and at % 7 != 3 for at in range(60))
    assert calls.value - first == found.num_rows - untouched
    assert list(path.parent.iterdir()) == []


def test_a_checkpoint_of_what_is_committed_and_of_files_that_are_gone(
    spark: SparkSession, dataset: pennon.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, table = tmp_path / "columns.json", LanceTable.forPath(spark, dataset.uri)
    remove = columns.Checkpoint.remove
    monkeypatch.setattr(columns.Checkpoint, "remove", lambda _self: None)
    version = table.addColumns({"a": "id"}, checkpoint=path).first().version
    monkeypatch.setattr(columns.Checkpoint, "remove", remove)
    assert "secret" not in path.read_text()
    kept = path.read_text()
    assert table.addColumns({"a": "id"}, checkpoint=path).first().version == version == table.version
    assert not path.exists()
    pennon.dataset(dataset.uri).drop_columns(["a"])
    # A run that died before its commit, long ago: its files were vacuumed.
    before = table.version
    monkeypatch.setattr(JobPlan, "commit", lambda *_args, **_options: (_ for _ in ()).throw(Stop))
    with pytest.raises(Stop):
        table.addColumns({"b": "id + 1"}, checkpoint=path)
    monkeypatch.undo()
    used = {file.path for part in pennon.dataset(dataset.uri).get_fragments() for file in part.metadata.files}
    for name in Path(dataset.uri, "data").iterdir():
        if name.name not in used:
            name.unlink()
    table.addColumns({"b": "id + 1"}, checkpoint=path)
    assert table.version == before + 1
    found = pennon.dataset(dataset.uri).to_table()
    assert found["b"] == pc.add(found["id"], 1)
    path.write_text(kept)
    with pytest.raises(pennon.InvalidInputError, match="expected 'a = id as a int32'"):
        table.addColumns({"a": "id"}, pa.schema({"a": pa.int32()}), checkpoint=path)
    path.write_text(json.dumps({**json.loads(kept), "format": "another"}))
    with pytest.raises(pennon.InvalidInputError, match="has the format 'another'"):
        table.addColumns({"c": "id"}, checkpoint=path)
    path.write_text("[]")
    with pytest.raises(pennon.InvalidInputError, match="is not a checkpoint"):
        table.addColumns({"c": "id"}, checkpoint=path)


@pytest.mark.parametrize(
    "change",
    ["none", "constant", "closure", *(pytest.param(name, marks=long) for name in ("global", "helper", "default"))],
)
def test_a_checkpoint_of_a_function_that_was_edited(
    spark: SparkSession,
    dataset: pennon.LanceDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    path, table = tmp_path / "columns.json", LanceTable.forPath(spark, dataset.uri)
    code = """
import pyarrow.compute as pc
SUMMAND = 1
def helper(values):
    return pc.add(values, 2)
def made(factor):
    def new(batch, more=3):
        return {"new": [factor * one + SUMMAND + more + 4 for one in helper(batch["id"]).to_pylist()]}
    return new
function = made(5)
"""
    edits = {
        "none": ("", ""),
        "constant": ("+ 4", "+ 6"),
        "global": ("SUMMAND = 1", "SUMMAND = 6"),
        "closure": ("made(5)", "made(6)"),
        "helper": ("values, 2", "values, 6"),
        "default": ("more=3", "more=6"),
    }

    def add(text: str) -> None:
        module = {"__name__": "__main__"}
        exec(text, module)
        table.addColumns(module["function"], "new long", readColumns=["id"], checkpoint=path)

    with monkeypatch.context() as patch:
        patch.setattr(JobPlan, "commit", lambda *_args, **_options: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            add(code)
    assert len(json.loads(path.read_text())["results"]) > 0
    if change == "none":
        add(code)
        found = pennon.dataset(dataset.uri).to_table()
        assert found["new"].to_pylist() == [5 * (id + 2) + 8 for id in found["id"].to_pylist()]
        return
    with pytest.raises(pennon.InvalidInputError, match="or remove the file"):
        add(code.replace(*edits[change]))
    assert "new" not in pennon.dataset(dataset.uri).schema.names


def test_what_tells_functions_apart() -> None:
    code = """
import functools, hashlib, threading
class Model:
    name = "small"
    def __init__(self, size):
        self.size, self.kinds = size, {"b", "a", "c"}
    @property
    def area(self):
        return self.size ** 2
    def __call__(self, batch):
        return self.again(batch) if batch is None else {"new": self.area}
    def again(self, batch):
        return [function(one) for one in batch]
@functools.lru_cache
def cached(value):
    return hashlib.sha256(value)
def wrapped(function):
    @functools.wraps(function)
    def run(batch):
        return cached(function(batch))
    return run
function = VALUE
"""
    values = """Model(1)
Model(2)
Model(1).again
functools.partial(Model(1))
functools.partial(Model(1), 1)
wrapped(lambda batch: 1)
wrapped(lambda batch: 2)
cached
lambda batch: batch in {'a', 'b', 'c'}
lambda batch: [one for one in batch if one > 1]
lambda batch: [one for one in batch if one > 1.0]""".splitlines()
    script = (
        "import json, sys\n"
        "from pyspark_pennon.columns.function_identity import digest\n"
        "code, values = json.load(sys.stdin)\n"
        "def of(value):\n"
        "    module = {'__name__': '__main__'}\n"
        "    exec(code.replace('VALUE', value), module)\n"
        "    return digest(module['function'])\n"
        "print(json.dumps([of(value) for value in values]))\n"
    )

    def digests(code: str, seed: int) -> list[str]:
        # In a process of its own, whose sets have another order.
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", script]
        given = json.dumps([code, values])
        done = subprocess.run(command, input=given, env=environment, check=True, capture_output=True, text=True)
        return list(json.loads(done.stdout))

    found = digests(code, 1)
    assert len(set(found)) == len(values)
    assert found == digests(code, 2)
    edited = digests(code.replace("size ** 2", "size ** 3"), 1)
    assert [at for at, value in enumerate(values) if edited[at] != found[at]] == [0, 1, 2, 3, 4]
    lock = threading.Lock()
    with pytest.raises(pennon.InvalidInputError, match=r"'lock', of the type lock, .* or give no checkpoint"):
        function_identity.digest(lambda batch: lock)


def test_wrong_new_columns(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    table = LanceTable.forPath(spark, dataset.uri)
    x = pa.schema({"x": pa.int64()})
    wrong: list[tuple[Any, type[Exception], str]] = [
        (({"id": "1"},), pennon.InvalidInputError, "The table has a column 'id'"),
        (
            ({"ID": "1"},),
            pennon.SchemaMismatchError,
            "column 'id', and the new column 'ID' differs from it by case",
        ),
        (({"x": "1", "X": "2"},), pennon.SchemaMismatchError, "column 'x', and the new column 'X'"),
        (({"_rowid": "1"},), pennon.InvalidInputError, "system column"),
        (({"_RowAddr": "1"},), pennon.SchemaMismatchError, "'_RowAddr' differs from the system column"),
        (({},), pennon.InvalidInputError, "expressions, or from a function"),
        (({"x": 3},), pennon.InvalidInputError, "The value of column 'x' is 3"),
        (({"x": "nope + 1"},), AnalysisException, "nope"),
        (({"x": "sum(id)"},), pennon.InvalidInputError, "Aggregate"),
        (({"x": "row_number() OVER (ORDER BY id)"},), pennon.InvalidInputError, "Window"),
        (({"x": "explode(vector)"},), pennon.InvalidInputError, "Generate"),
        (({"x": "(SELECT 1)"},), pennon.InvalidInputError, "subquery"),
        (({"x": "id"}, pa.schema({"y": pa.int64()})), pennon.InvalidInputError, "The schema has the columns y"),
        ((lambda batch: batch,), pennon.InvalidInputError, "without a schema"),
        ((lambda batch: batch, "x nothing"), pennon.InvalidInputError, "The schema is 'x nothing'"),
        ((lambda batch: batch, "long"), pennon.InvalidInputError, "expected names with types"),
        ((lambda batch: batch, 7), pennon.InvalidInputError, "The schema is a int"),
        ((lambda batch: {"y": batch["id"]}, x), pennon.SchemaMismatchError, "returned the columns y; expected x"),
        ((lambda batch: {"x": batch["id"][:2]}, x), pennon.SchemaMismatchError, "2 rows for a batch of"),
        ((lambda batch: {"x": batch["name"]}, x), pennon.SchemaMismatchError, "does not become x int64"),
        ((lambda _batch: 7, x), pennon.SchemaMismatchError, "returned int"),
        ((lambda _batch: {"x": 7}, x), pennon.SchemaMismatchError, "does not become x int64"),
        ((lambda batch: pa.table([batch["id"]] * 2, ["x", "x"]), x), pennon.SchemaMismatchError, "columns x, x"),
        ((lambda batch: batch, pa.schema([*x, *x])), pennon.InvalidInputError, "'x' is named twice"),
        ((lambda batch: batch, pa.schema([])), pennon.InvalidInputError, "The schema has no columns"),
    ]
    for given, error, message in wrong:
        with pytest.raises(error, match=message):
            table.addColumns(*given)
    with pytest.raises(pennon.InvalidInputError, match="There is no column 'nope' to read"):
        table.addColumns(lambda batch: batch, x, readColumns=["nope"])
    with pytest.raises(pennon.InvalidInputError, match="readColumns is for functions"):
        table.addColumns({"x": "id"}, readColumns=["id"])
    assert pennon.dataset(dataset.uri).version == dataset.version


def test_columns_that_may_not_be_null(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    table = LanceTable.forPath(spark, dataset.uri)
    for name, schema in (("x", pa.schema([pa.field("x", pa.int64(), nullable=False)])), ("y", "y long NOT NULL")):
        for form in ("arrow", "pandas"):
            with pytest.raises(pennon.SchemaMismatchError, match=f"nulls in the column {name}, which may not be"):
                table.addColumns(
                    lambda batch, name=name: (
                        batch.rename_columns({"part": name})
                        if isinstance(batch, pa.RecordBatch)
                        else batch.rename(columns={"part": name})
                    ),
                    schema,
                    readColumns=["part"],
                    batchFormat=form,
                )
        table.addColumns(lambda batch, name=name: {name: batch["id"]}, schema, readColumns=["id"])
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    item = pa.list_(pa.field("item", pa.int64(), nullable=False))
    for kind, value in ((inner, {"a": None}), (item, [None])):
        with pytest.raises(pennon.SchemaMismatchError, match="null"):
            table.addColumns(
                lambda batch, value=value: {"z": [value] * batch.num_rows},
                pa.schema({"z": kind}),
                readColumns=["id"],
            )
    table.addColumns({"void": fn.lit(None)})
    found = lance.dataset(dataset.uri)
    found.validate()
    assert not found.schema.field("x").nullable
    assert not found.schema.field("y").nullable
    for row in table.toDF().collect():
        assert (row.x, row.y, row.void) == (row.id, row.id, None)


def test_values_in_another_order_are_an_error(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the plan cannot be seen, the addresses tell."""
    monkeypatch.setattr(columns, "other_rows", lambda _frame: None)
    with pytest.raises(pennon.InvalidInputError, match="in another order than the rows"):
        LanceTable.forPath(spark, dataset.uri).addColumns({"x": "row_number() OVER (ORDER BY id DESC)"})
    assert pennon.dataset(dataset.uri).version == dataset.version


def test_a_table_that_was_made_again(uri: str) -> None:
    table = pennon.write_dataset({"id": [1, 2]}, uri, max_rows_per_file=1)
    plan = jobs.plan_add_columns(table, pa.schema({"x": pa.int64()}), tasks=1)
    shutil.rmtree(uri)
    pennon.write_dataset({"id": [1, 2]}, uri)
    with pytest.raises(pennon.NotFoundError, match=r"Version 1 of .* has no fragment 1 now: .* made again"):
        list(columns.fragment_batches(plan.tasks[0], ["id"], {}))


def test_columns_of_no_rows(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    table = LanceTable.forPath(spark, uri)
    assert table.addColumns({"x": "id + 1"}).first().num_affected_rows == 0
    table.addColumns(lambda batch: {"y": batch["id"]}, "y long")
    assert lance.dataset(uri).schema.names == ["id", "x", "y"]


@pytest.mark.parametrize("on", ["id", "_rowid", ["part", "name"]])
def test_new_values_equal_those_of_the_wheel(
    spark: SparkSession, dataset: pennon.LanceDataset, twin: pennon.LanceDataset, on: Any
) -> None:
    keys = [on] if isinstance(on, str) else on
    rows = dataset.to_table(with_row_id=True).take(list(range(5, 25, 2)))
    given = rows.select(keys).append_column(
        "vector", pa.array([[at, at] for at in range(10)], pa.list_(pa.float64()))
    )
    given = given.append_column("part", pa.array([None] * 10, pa.int32())) if "part" not in keys else given
    if on == "_rowid":
        given = given.set_column(0, "_rowid", given["_rowid"].cast(pa.int64()))
    frame = spark.createDataFrame(given)
    counts = LanceTable.forPath(spark, dataset.uri).updateColumnsFrom(frame, on=on).first()
    matched = [row["part"] is not None or "part" not in keys for row in rows.to_pylist()]
    assert (counts.num_updated_rows, counts.num_affected_rows) == (sum(matched), sum(matched))
    kept = rows.filter(pa.array(matched))
    values = given.filter(pa.array(matched)).select([name for name in given.column_names if name not in keys])
    values = values.append_column("_rowid", kept["_rowid"])
    vector = values["vector"].cast(pa.list_(pa.float32(), 2))
    values = values.set_column(values.column_names.index("vector"), "vector", vector)
    jobs.run(jobs.plan_update_columns(twin, values.schema, "_rowid"), source=values)
    assert state(dataset.uri, since=2) == state(twin.uri, since=2)


def refusing(*_given: Any, **_options: Any) -> Any:
    raise pennon.InvalidInputError("another mistake")


def test_wrong_new_values(
    spark: SparkSession, dataset: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LanceTable.forPath(spark, dataset.uri)
    frame = frame_of(spark, [(5, "x"), (5, "y"), (700, "z"), (700, "z")], "id long, name string")
    wrong: list[tuple[Any, Any, str]] = [
        (frame, "id", r"2 rows of the frame match one row of the table, whose key is \{'id': 5\}"),
        (frame, [], "No key was given"),
        (frame, "part", "The frame lacks the key 'part'"),
        (frame.withColumnRenamed("id", "key"), "key", "The table lacks the key 'key'"),
        (frame.withColumnRenamed("name", "nam"), "id", "the column 'nam', which the table lacks"),
        (frame.select("id"), "id", "No column gets a value"),
    ]
    for data, on, message in wrong:
        with pytest.raises(pennon.InvalidInputError, match=message):
            table.updateColumnsFrom(data, on=on)
    # Only for an error about such a row is it looked for, which takes as long as the join.
    monkeypatch.setattr(update, "_repeated", lambda *_given: pytest.fail("looked for a repeated row"))
    monkeypatch.setattr(update, "run_partitions", refusing)
    with pytest.raises(pennon.InvalidInputError, match="another mistake"):
        table.updateColumnsFrom(frame, on="id")
    monkeypatch.undo()
    assert table.updateColumnsFrom(frame.where("id = 700"), on="id").first().num_updated_rows == 0
    assert pennon.dataset(dataset.uri).version == dataset.version


def test_verification_by_tasks(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    table = LanceTable.forPath(spark, dataset.uri)
    assert table.verify(data=True).count() == 0
    file = Path(dataset.uri, "data", dataset.get_fragments()[3].metadata.files[0].path)
    content = bytearray(file.read_bytes())
    content[: len(content) // 2] = bytes(len(content) // 2)
    file.write_bytes(content)
    found = table.verify(data=True).collect()
    assert found
    assert {row.fragment for row in found} == {3}
    expected = dataset.verify(data=True).findings
    assert sorted(row.message for row in found) == sorted(fault.message for fault in expected)
    file.unlink()
    found = table.verify(data=True).collect()
    expected = dataset.verify(data=True).findings
    assert sorted(row.message for row in found) == sorted(fault.message for fault in expected)


def test_verification_of_all_versions(spark: SparkSession, dataset: pennon.LanceDataset) -> None:
    """A file that only an older version has is read by the driver, if it is asked to."""
    table = LanceTable.forPath(spark, dataset.uri)
    file = Path(dataset.uri, "data", dataset.get_fragments()[3].metadata.files[0].path)
    dataset.truncate_table()
    content = bytearray(file.read_bytes())
    content[: len(content) // 2] = bytes(len(content) // 2)
    file.write_bytes(content)
    assert table.verify(data=True).count() == 0
    found = table.verify(data=True, all_versions=True).collect()
    expected = pennon.dataset(dataset.uri).verify(data=True).findings
    assert found
    assert [(row.version, row.message) for row in found] == [(fault.version, fault.message) for fault in expected]
    with pytest.raises(pennon.InvalidInputError, match="all_versions was given without data"):
        table.verify(all_versions=True)
