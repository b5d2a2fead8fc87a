"""A program with all verbs, on the master that is given: `program.py MASTER FOLDER PART...`.

Runs in a process of its own, since a process has one Spark context. After each step the reference reads the table,
which must be sound and have the rows of a dictionary to which the same was done; rows that were there keep their
ids. Executors are killed by the tasks that run on them, so the moment is always the same one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any

import lance
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, apply_changes, optimize, read, row_changes, upsert_batches, write
from pyspark_pennon.merge import attempt as merge_attempt
from pyspark_pennon.writes import tasks as write_tasks

sys.path.append(str(Path(__file__).resolve().parents[2]))

from support.spark_session import start_session

Rows = dict[int, tuple[int, str]]


def session(master: str) -> SparkSession:
    given = (setting.split("=", 1) for setting in os.environ.get("PENNON_TEST_CONF", "").split())
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        # In a checkout the packages are not installed; executors do not get the path of the driver.
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        **dict(given),
    }
    return start_session(master, settings)


class Checked:
    """A table and the dictionary that it must be equal to."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.spark, self.uri = spark, uri
        self.rows: Rows = {}
        self.ids: dict[int, int] = {}
        self.version = 0

    @property
    def table(self) -> LanceTable:
        return LanceTable.forPath(self.spark, self.uri)

    def create(self, count: int, files: int) -> None:
        write(numbers(self.spark, 0, count, files), self.uri)
        self.rows = {at: (at % 7, f"row {at}") for at in range(count)}
        self.check("write", 1)

    def check(self, step: str, commits: int | None = 1) -> None:
        """Compare; `commits` is how many versions the step must have made."""
        dataset = lance.dataset(self.uri)
        dataset.validate()
        found = dataset.to_table(with_row_id=True).to_pylist()
        rows = {row["id"]: (row["n"], row["text"]) for row in found}
        assert len(rows) == len(found), f"{step}: a row occurs more than once"
        assert rows == self.rows, f"{step}: {difference(rows, self.rows)}"
        ids = {row["id"]: row["_rowid"] for row in found}
        moved = [at for at in ids if at in self.ids and self.ids[at] != ids[at]]
        assert not moved, f"{step}: rows {moved} have new ids"
        assert commits is None or dataset.version == self.version + commits, f"{step}: version {dataset.version}"
        self.ids, self.version = ids, dataset.version
        print(f"{time.monotonic() - STARTED:6.1f} s  {step}", flush=True)


def difference(found: Rows, expected: Rows) -> str:
    keys = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    return ", ".join(f"{key}: {found.get(key)} instead of {expected.get(key)}" for key in keys[:5])


def numbers(spark: SparkSession, start: int, stop: int, partitions: int) -> DataFrame:
    return spark.range(start, stop, 1, partitions).selectExpr("id", "id % 7 AS n", "concat('row ', id) AS text")


def verbs(spark: SparkSession, folder: Path) -> None:
    """Each verb once."""
    one = Checked(spark, str(folder / "verbs"))
    one.create(400, 4)
    wanted = {at for at, (n, text) in one.rows.items() if n == 3 and len(text) > 5}
    found = read(spark, one.uri, columns=["id"], where="n = 3 AND length(text) > 5").collect()
    assert sorted(row.id for row in found) == sorted(wanted)
    numbers(spark, 400, 500, 2).write.format("pennon").mode("append").save(one.uri)
    one.rows.update({at: (at % 7, f"row {at}") for at in range(400, 500)})
    one.check("append")

    tenth = fn.udf(lambda at: at % 10 == 0, "boolean")
    assert one.table.delete(tenth("id")).first().num_deleted_rows == 50
    one.rows = {at: row for at, row in one.rows.items() if at % 10}
    one.check("delete with a UDF")

    one.table.update("n = 3", {"n": "n + 100"})
    one.rows = {at: (n + 100 if n == 3 else n, text) for at, (n, text) in one.rows.items()}
    one.check("update")

    source = spark.range(430, 560, 1, 3).selectExpr("id", "1000L AS n", "'merged' AS text")
    metrics = (
        one.table.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s.id % 10 = 5")
        .whenMatchedUpdate(set={"n": "t.n + s.n"})
        .whenNotMatchedInsertAll("s.id % 2 = 0")
        .whenNotMatchedBySourceUpdate("t.id < 20", {"text": "'others'"})
        .whenNotMatchedBySourceDelete("t.id >= 420")
        .execute()
        .first()
    )
    before, after = one.rows, dict(one.rows)
    for at, (n, text) in before.items():
        if at >= 430:
            if at % 10 == 5:
                del after[at]
            else:
                after[at] = (n + 1000, text)
        elif at < 20:
            after[at] = (n, "others")
        elif at >= 420:
            del after[at]
    inserted = [at for at in range(430, 560) if at not in before and at % 2 == 0]
    after.update(dict.fromkeys(inserted, (1000, "merged")))
    one.rows = after
    one.check("merge")
    assert metrics.num_inserted_rows == len(inserted)
    assert metrics.num_deleted_rows == len(before) + len(inserted) - len(after)

    chosen = one.table.toDF(columns=["id"], with_row_id=True).where("id IN (1, 7, 433)")
    taken = one.table.takeRows(chosen.select("_rowid")).collect()
    assert {row.id: (row.n, row.text) for row in taken} == {at: one.rows[at] for at in (1, 7, 433)}
    one.table.updateRows(chosen.selectExpr("_rowid", "concat('id ', id) AS text"))
    one.rows.update({at: (one.rows[at][0], f"id {at}") for at in (1, 7, 433)})
    one.check("updateRows")

    assert one.table.optimize().executeCompaction().first().metrics.numFragmentsAdded == 1
    assert len(lance.dataset(one.uri).get_fragments()) == 1
    one.check("optimize", None)

    replay: Rows = {at: (at % 7, f"row {at}") for at in range(400)}
    # Of one version what goes is before what comes.
    order = ["_commit_version", fn.col("_change_type").isin("insert", "update_postimage")]
    for row in one.table.changes(2).orderBy(*order).collect():
        if row._change_type in ("delete", "update_preimage"):
            assert replay.pop(row.id) == (row.n, row.text), f"{row} of version {row._commit_version}"
        else:
            assert row.id not in replay
            replay[row.id] = (row.n, row.text)
    assert replay == one.rows, difference(replay, one.rows)
    one.check("changes", 0)

    copy = Checked(spark, str(folder / "copy"))
    for step in range(2):
        stream = spark.readStream.format("pennon").load(one.uri).writeStream.format("pennon")
        stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        assert stream.start(copy.uri).awaitTermination(120)
        copy.rows = dict(one.rows)
        copy.check(f"stream {step}", None)
        write(numbers(spark, 1000 + step, 1001 + step, 1), one.uri, mode="append")
        one.rows[1000 + step] = ((1000 + step) % 7, f"row {1000 + step}")
        one.check(f"append {step}")

    write(numbers(spark, 100, 120, 1), one.uri, mode="overwrite", replace_where="id BETWEEN 100 AND 199")
    kept = {at: row for at, row in one.rows.items() if not 100 <= at < 200}
    one.ids = {at: one.ids[at] for at in kept}
    one.rows = {**kept, **{at: (at % 7, f"row {at}") for at in range(100, 120)}}
    one.check("replace where")
    assert not one.table.verify().collect()


def executor_pid() -> int:
    """The process of the executor that a task runs on: the grandparent of the worker."""
    pid = os.getpid()
    while b"ExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, "no executor above this process: is this a cluster?"
    return pid


def kill_executor_once(mark: str) -> None:
    """The first that comes here kills its executor, and leaves the mark."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(executor_pid(), signal.SIGKILL)
    time.sleep(60)


def killed_after(call: Callable[..., Any], mark: str) -> Callable[..., Any]:
    """The work of a task, which has written its files when the executor is killed."""

    def run(*given: Any) -> Any:
        done = call(*given)
        kill_executor_once(mark)
        return done

    return run


class Replaced:
    """The functions that start tasks, with another work for tasks, in a `with` statement."""

    def __init__(self, module: Any, name: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self.module, self.name, self.change = module, name, change
        self.original = getattr(module, name)

    def __enter__(self) -> None:
        if self.name == "run_partitions":
            self.module.run_partitions = lambda frame, call, title, **options: self.original(
                frame, self.change(call), title, **options
            )
        else:
            self.module.run_tasks = lambda spark, tasks, title, **options: self.original(
                spark, tasks, title, call=self.change(lambda task: task.run()), **options
            )

    def __exit__(self, *_: object) -> None:
        setattr(self.module, self.name, self.original)


def failures(spark: SparkSession, folder: Path) -> None:
    """Executors that are killed, and twins that finish too: rows are right, and orphans are found."""
    one = Checked(spark, os.environ.get("PENNON_TEST_TABLE", str(folder / "failures")))
    one.create(300, 3)
    mark = str(folder / "killed-condition")

    def value(at: int) -> int:
        kill_executor_once(mark)
        return at * 2

    source = spark.range(250, 350, 1, 2).selectExpr("id", "5L AS n", "'merged' AS text").alias("s")
    merging = one.table.alias("t").merge(source, "t.id = s.id")
    merging.whenMatchedUpdate(set={"n": fn.udf(value, "long")("s.id")}).whenNotMatchedInsertAll().execute()
    assert Path(mark).exists()
    one.rows.update({at: (at * 2, one.rows[at][1]) for at in range(250, 300)})
    one.rows.update(dict.fromkeys(range(300, 350), (5, "merged")))
    one.check("merge, an executor killed while values are computed")

    mark = str(folder / "killed-merge")
    source = spark.range(320, 380, 1, 2).selectExpr("id", "6L AS n", "'again' AS text").alias("s")
    merging = one.table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    with Replaced(merge_attempt, "run_partitions", lambda call: killed_after(call, mark)):
        merging.execute()
    assert Path(mark).exists()
    one.rows.update(dict.fromkeys(range(320, 380), (6, "again")))
    one.check("merge, an executor killed when files were written")

    mark = str(folder / "killed-compaction")
    with Replaced(optimize, "run_tasks", lambda call: killed_after(call, mark)):
        one.table.optimize().executeCompaction()
    assert Path(mark).exists()
    assert len(lance.dataset(one.uri).get_fragments()) == 1
    one.check("compaction, an executor killed when files were written", None)
    orphans = orphaned(one)
    assert orphans >= 2, orphans

    def repeated(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(number: int, batches: Iterator[Any]) -> Any:
            rows = list(batches)
            call(number, iter(rows))
            return call(number, iter(rows))

        return run

    # Spark starts speculative twins on another host only, see `twins`: here each task has one that wrote its files.
    with Replaced(row_changes, "run_partitions", repeated):
        one.table.update("id < 100", {"n": "n + 1"})
    one.rows.update({at: (one.rows[at][0] + 1, one.rows[at][1]) for at in range(100)})
    one.check("update, each task with a twin")
    assert orphaned(one) > orphans
    if "://" in one.uri:
        return
    one.table.vacuum()
    assert not orphaned(one)
    one.check("vacuum", 0)


def is_slow(folder: Path) -> bool:
    """Whether this is the first attempt that comes here; all leave a mark with their numbers."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    name = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}-{context.taskAttemptId()}"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    if context.attemptNumber():
        return False
    try:
        os.close(os.open(folder / "slow", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    (folder / "slow").write_text(name)
    return True


def slow_once(folder: Path) -> None:
    """The first attempt that comes here waits until it is killed."""
    if is_slow(folder):
        time.sleep(100)


def wait_for(*paths: Path) -> None:
    ends = time.monotonic() + 100
    while not all(path.exists() for path in paths):
        assert time.monotonic() < ends, paths
        time.sleep(0.01)


def meet(folder: Path) -> None:
    """The first attempt that comes here and its twin have written their files, and wait until both may finish."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if is_slow(folder):
        (folder / "first").touch()
    elif context.attemptNumber():
        (folder / "twin").touch()
    else:
        return
    wait_for(folder / "go")


@contextmanager
def both_finish(spark: SparkSession, folder: Path) -> Iterator[None]:
    """The driver stands still while the two attempts that `meet` finish, as in a pause of its garbage collection:
    else it would have the second one killed when it hears of the first.
    """
    driver = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def stop() -> None:
        wait_for(folder / "first", folder / "twin")
        os.kill(driver, signal.SIGSTOP)
        try:
            (folder / "go").touch()
            time.sleep(8)
        finally:
            os.kill(driver, signal.SIGCONT)

    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(stop)
        yield
        stopped.result()


def has_twin(folder: Path) -> None:
    """The slow attempt of a task has one twin, which is another attempt of the same task."""
    stage, partition, attempt, number = (folder / "slow").read_text().split("-")
    assert attempt == "0"
    attempts = [path.name.split("-") for path in folder.glob(f"{stage}-{partition}-*")]
    twins = [found[2] for found in attempts if found[3] != number]
    assert twins == ["1"], attempts


def append_then(
    one: Checked, start: int, stop: int, then: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """An append of four tasks, which do something when they have written their files."""
    original = write_tasks._task
    write_tasks._task = lambda *given: then(original(*given))  # type: ignore[assignment]
    try:
        write(numbers(one.spark, start, stop, 4), one.uri, mode="append")
    finally:
        write_tasks._task = original
    one.rows.update({at: (at % 7, f"row {at}") for at in range(start, stop)})


def merge_then(
    one: Checked, start: int, stop: int, then: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """A merge of several tasks, which do something when they have written their files."""
    row_changes.LEAST_ROWS_PER_TASK = 20
    known = sum(start <= at < stop for at in one.rows)
    source = one.spark.range(start, stop, 1, 2).selectExpr("id", "5L AS n", "'merged' AS text").alias("s")
    merging = one.table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    with Replaced(merge_attempt, "run_partitions", then):
        metrics = merging.execute().first()
    assert (metrics.num_updated_rows, metrics.num_inserted_rows) == (known, stop - start - known)
    one.rows.update(dict.fromkeys(range(start, stop), (5, "merged")))


def after(action: Callable[[Path], None], marks: Path) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The work of a task, followed by an action; that of an append is a generator."""

    def change(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            done = call(*given)
            action(marks)
            return done

        def rows(batches: Iterator[Any]) -> Iterator[Any]:
            yield from call(batches)
            action(marks)

        return rows if isgeneratorfunction(call) else run

    return change


def twins(spark: SparkSession, folder: Path) -> None:
    """Tasks whose first attempt is slow, so that Spark starts a twin, which finishes first, or as well: each row is
    there once, and files that the other attempt wrote are orphans.
    """
    one = Checked(spark, str(folder / "twins"))
    one.create(300, 3)

    marks = folder / "append"
    append_then(one, 300, 420, after(slow_once, marks))
    has_twin(marks)
    one.check("append, the twin of a slow task was first")
    orphans = orphaned(one)
    assert orphans >= 1

    marks = folder / "merge"
    merge_then(one, 250, 500, after(slow_once, marks))
    has_twin(marks)
    one.check("merge, the twin of a slow task was first")
    assert orphaned(one) > orphans
    orphans = orphaned(one)

    marks = folder / "append-of-both"
    with both_finish(spark, marks):
        append_then(one, 500, 620, after(meet, marks))
    has_twin(marks)
    one.check("append, a task and its twin have both finished")
    assert orphaned(one) > orphans
    orphans = orphaned(one)

    marks = folder / "merge-of-both"
    with both_finish(spark, marks):
        merge_then(one, 550, 800, after(meet, marks))
    has_twin(marks)
    one.check("merge, a task and its twin have both finished")
    assert orphaned(one) > orphans

    one.table.vacuum()
    assert not orphaned(one)
    one.check("vacuum", 0)


def orphaned(one: Checked) -> int:
    """How many data files no version refers to, as `verify` and `vacuum` find them: files on a disk are made old
    enough for them.
    """
    assert not one.table.verify().collect()
    is_local = "://" not in one.uri
    for path in Path(one.uri, "data").iterdir() if is_local else ():
        os.utime(path, (time.time() - 30 * 86400,) * 2)
    left = one.table.verify(leftovers=True).where("message LIKE '%the kind data%'").collect()
    assert {row.kind for row in left} <= {"orphan" if is_local else "unverified"}
    count = sum(row.files for row in left)
    removed = [row for row in one.table.vacuum(dryRun=True).collect() if row.kind == "data"]
    assert len(removed) == (count if is_local else 0)
    return count


def secrets(spark: SparkSession, folder: Path) -> None:
    """Reads, writes and changes with credentials among the storage options."""
    uri = str(folder / "secrets-table")
    storage = {"aws_secret_access_key": os.environ["PENNON_TEST_SECRET"]}
    write(numbers(spark, 0, 20, 2), uri, storage_options=storage)
    table = LanceTable.forPath(spark, uri, storage)
    table.delete("id = 3")
    table.update("id = 4", {"n": "n + 1"})
    merging = table.alias("t").merge(numbers(spark, 18, 22, 1).alias("s"), "t.id = s.id")
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.optimize().executeCompaction()
    assert read(spark, uri, where="id > 1", storage_options=storage).count() == 19
    assert table.changes(2).count() > 0
    options = {f"storage.{key}": value for key, value in storage.items()}
    assert spark.read.format("pennon").options(**options).load(uri).count() == 21
    numbers(spark, 22, 23, 1).write.format("pennon").mode("append").options(**options).save(uri)
    replaced, chosen = numbers(spark, 5, 8, 1).withColumn("more", fn.lit(1)), "id IN (5, 6, 7)"
    write(replaced, uri, mode="overwrite", replace_where=chosen, merge_schema=True, storage_options=storage)
    table.addColumns({"square": "id * id"})
    table.updateColumnsFrom(numbers(spark, 5, 6, 1).select("id", "n"), on="id")
    table.createIndex("id")
    table.optimize().where("id = 1").executeCompaction()
    table.verify(data=True).collect()
    for kind, sink in (("upserts", upsert_batches), ("changes", apply_changes), ("sink", None)):
        stream = spark.readStream.format("pennon").options(**options, readChangeFeed=kind == "changes").load(uri)
        started = stream.writeStream.option("checkpointLocation", str(folder / f"secrets-{kind}"))
        target = f"{uri}-{kind}"
        if sink is None:
            started = started.format("pennon").options(**options)
        else:
            started = started.foreachBatch(sink(target, "id", storage_options=storage))
        query = started.trigger(availableNow=True).start(*([target] if sink is None else []))
        assert query.awaitTermination(120)
        assert read(spark, target, storage_options=storage).count() > 0

    def fails(at: int) -> int:
        raise ValueError(f"no value for {at}")

    bad = fn.udf(fails, "long")("id")
    more = numbers(spark, 50, 52, 1)
    without = more.withColumn("n", bad)
    doubled = more.union(more).selectExpr("id - 46 AS id", "n", "text").alias("s")
    for failing in (
        lambda: write(without, uri, mode="append", storage_options=storage),
        lambda: write(without, uri, mode="overwrite", replace_where="id > 1", storage_options=storage),
        lambda: write(more.withColumn("id", fn.lit("text")), uri, mode="append", storage_options=storage),
        lambda: without.write.format("pennon").mode("append").options(**options).save(uri),
        lambda: table.update("id = 4", {"n": bad}),
        lambda: table.delete(bad == 1),
        lambda: table.addColumns({"bad": bad}),
        lambda: table.alias("t").merge(doubled, "t.id = s.id").whenMatchedUpdateAll().execute(),
        lambda: read(spark, uri, where=bad == 1, storage_options=storage).collect(),
        lambda: spark.read.format("pennon").options(**options).load(uri).where(bad == 1).collect(),
    ):
        print(f"failed as it should: {error_of(failing)}", flush=True)


def error_of(work: Callable[[], Any]) -> str:
    """What it raises, in all its forms."""
    try:
        work()
    except Exception as error:
        return f"{error!r} {error}"
    raise AssertionError("it does not fail")


PARTS = {"verbs": verbs, "failures": failures, "secrets": secrets, "twins": twins}

if __name__ == "__main__":
    STARTED = time.monotonic()
    started = session(sys.argv[1])
    try:
        for part in sys.argv[3:]:
            PARTS[part](started, Path(sys.argv[2]))
    finally:
        started.stop()
