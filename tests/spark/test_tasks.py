"""Tasks on executors: results in order, errors as they were raised, what is tried again, what people see."""

from __future__ import annotations

import os
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pennon
import pyarrow as pa
import pyspark_pennon
import pytest
from pennon import jobs
from pennon._text import in_bytes
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, write
from pyspark_pennon.spark_api import parallelism
from pyspark_pennon.tasks import executor
from pyspark_pennon.tasks.executor import run_tasks, typed_error
from pyspark_pennon.tasks.progress import SETTING, Done
from support.long import ATTEMPTS
from support.spark_frames import frame_of


@dataclass(frozen=True)
class Work:
    """A task that leaves a file at each attempt, and does as it is told."""

    folder: str
    number: int
    error: Exception | None = None
    fails: int = 0
    """Number of attempts that fail; the first ones."""

    def run(self) -> tuple[int, int]:
        mine = Path(self.folder, str(self.number))
        mine.mkdir(exist_ok=True)
        attempts = len(list(mine.iterdir()))
        (mine / f"{attempts}-{os.getpid()}").touch()
        if self.error is not None and attempts < self.fails:
            raise self.error
        return self.number, attempts


def attempts(folder: Path, number: int) -> int:
    return len(list((folder / str(number)).iterdir()))


@pytest.fixture(autouse=True)
def by_value() -> Any:
    """Executors cannot import the tests."""
    from pyspark import cloudpickle

    module = __import__(__name__)
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def test_results_come_in_order_and_the_job_has_a_name(spark: SparkSession, tmp_path: Path) -> None:
    work = [Work(str(tmp_path), number) for number in range(7)]
    assert run_tasks(spark, work, "seven tasks") == [(number, 0) for number in range(7)]
    assert run_tasks(spark, work, "again", call=lambda task: task.number * 2) == list(range(0, 14, 2))
    assert run_tasks(spark, [], "nothing") == []
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_what_may_pass_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    work = [
        Work(str(tmp_path), 0),
        Work(str(tmp_path), 1, pennon.StoreError("the store is busy"), fails=1),
        Work(str(tmp_path), 2, OSError("no route"), fails=ATTEMPTS - 1),
    ]
    assert run_tasks(spark, work, "tried again") == [(0, 0), (1, 1), (2, ATTEMPTS - 1)]
    assert [attempts(tmp_path, number) for number in range(3)] == [1, 2, ATTEMPTS]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (pennon.InvalidInputError("no such column"), 1),
        (pennon.CommitConflictError("somebody was faster", retryable=False), 1),
        (pennon.StoreError("the store is gone"), ATTEMPTS),
        (ValueError("a function of the user"), ATTEMPTS),
    ],
)
def test_errors_are_raised_as_they_were(
    spark: SparkSession, tmp_path: Path, error: Exception, expected: int
) -> None:
    with pytest.raises(type(error)) as caught:
        run_tasks(spark, [Work(str(tmp_path), 0), Work(str(tmp_path), 1, error, fails=9)], "fails")
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert getattr(caught.value, "retryable", None) == getattr(error, "retryable", None)
    assert caught.value.__cause__ is None
    assert attempts(tmp_path, 1) == expected


def test_an_error_that_cannot_be_sent(spark: SparkSession, tmp_path: Path) -> None:
    class Local(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("a lock")

    def fail(_task: object) -> None:
        raise Local("what happened")

    with pytest.raises(pennon.InternalError, match="Local: what happened"):
        run_tasks(spark, [1], "fails", call=fail)


def test_tasks_of_jobs_and_another_release(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pennon.write_dataset({"id": list(range(40))}, uri, max_rows_per_file=10)
    plan = jobs.plan_delete(table, "id % 2 = 0", tasks=4)
    results = run_tasks(spark, plan.tasks, f"delete from {uri}")
    assert [result.number for result in results] == [0, 1, 2, 3]
    assert plan.commit(results).rows == 20
    wheel, own = pennon.__version__, pyspark_pennon.__version__
    for package, driver in ((pennon, "pennon 0.0.0 and"), (pyspark_pennon, "and pyspark-pennon 0.0.0")):
        with monkeypatch.context() as patched:
            patched.setattr(package, "__version__", "0.0.0")
            with pytest.raises(pennon.UnsupportedError) as refused:
                run_tasks(spark, plan.tasks, "another release")
            text = str(refused.value)
            assert driver in text
            assert f"this executor has pennon {wheel} and pyspark-pennon {own}: install one version" in text
            with pytest.raises(pennon.UnsupportedError, match=r"The driver has .*0\.0\.0.*, but this executor has"):
                write(spark.range(3), uri, mode="append")
    assert pennon.dataset(uri).version == 2


def jobs_of(spark: SparkSession, since: int) -> dict[int, str | None]:
    """The descriptions of Spark's jobs from a number on."""
    found = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    jobs = [found.apply(at) for at in range(found.size())]
    named = {int(job.jobId()): job.description() for job in jobs}
    return {at: text.get() if text.isDefined() else None for at, text in named.items() if at > since}


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (lambda spark, uri: write(spark.range(9), uri, mode="append"), "write to"),
        (
            lambda spark, uri: write(
                spark.range(3).withColumn("more", fn.lit("x")),
                uri,
                mode="overwrite",
                replace_where="id < 3",
                merge_schema=True,
            ),
            "write to",
        ),
        (
            lambda spark, uri: (
                LanceTable.forPath(spark, uri)
                .alias("t")
                .merge(spark.range(1, 3).withColumn("more", fn.lit("x")).alias("s"), "t.id = s.id")
                .whenMatchedUpdateAll()
                .whenNotMatchedInsertAll()
                .withSchemaEvolution()
                .execute()
            ),
            "merge into",
        ),
        (lambda spark, uri: LanceTable.forPath(spark, uri).delete("id % 40 = 1"), "delete from"),
        (lambda spark, uri: LanceTable.forPath(spark, uri).delete("id IN (SELECT 1L)"), "change rows of"),
        (
            lambda spark, uri: LanceTable.forPath(spark, uri).optimize().where("id > 0").executeCompaction(),
            "compact",
        ),
    ],
)
def test_jobs_have_descriptions(
    spark: SparkSession, uri: str, verb: Callable[[SparkSession, str], Any], expected: str
) -> None:
    pennon.write_dataset({"id": list(range(40))}, uri, max_rows_per_file=10)
    spark.range(1).count()
    before = max(jobs_of(spark, -1))
    verb(spark, uri)
    found = jobs_of(spark, before)
    assert found
    assert all(text is not None and expected in text and uri in text for text in found.values()), found
    spark.sparkContext.setJobDescription("mine")
    try:
        before = max(jobs_of(spark, -1))
        verb(spark, uri)
        assert set(jobs_of(spark, before).values()) == {"mine"}
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def test_errors_have_one_cause_and_no_trace(spark: SparkSession, uri: str) -> None:
    """In the driver's words, whatever runs: what prints it shows no trace of a worker."""
    pennon.write_dataset({"id": list(range(40)), "n": pa.array(range(40), pa.int8())}, uri, max_rows_per_file=10)
    table = LanceTable.forPath(spark, uri).alias("t")
    large = spark.sql("SELECT 1L id, 3000 n").alias("s")
    doubled = spark.sql("SELECT 1L id, tinyint(n) n FROM VALUES (1), (2) AS v(n)").alias("s")
    ids = table.toDF(with_row_id=True).selectExpr("_rowid + 1000 _rowid", "n")
    for verb in (
        lambda: write(large, uri, mode="append"),
        lambda: write(large, uri, mode="overwrite", replace_where="id = 2"),
        lambda: write(large.withColumn("new", fn.lit(1)), uri, mode="append", merge_schema=True),
        lambda: table.merge(doubled, "t.id = s.id").whenMatchedUpdateAll().execute(),
        lambda: table.updateColumnsFrom(doubled.select("id", "n"), on="id"),
        lambda: table.updateRows(ids),
    ):
        with pytest.raises(pennon.PennonError) as caught:
            verb()  # type: ignore[no-untyped-call]
        error = caught.value
        assert error.__cause__ is None
        assert error.__suppress_context__
        shown = "".join(traceback.format_exception(error))
        assert "Py4J" not in shown
        assert shown.count("Traceback") == 1
        assert "org.apache.spark" not in shown
    assert pennon.dataset(uri).version == 1
    # Actions on a frame are Spark's; typed_error gives the error that its text has.
    frame = read(spark, uri)
    for path in Path(uri, "data").iterdir():
        path.unlink()
    with pytest.raises(Exception, match="Traceback") as raw:
        frame.collect()
    assert isinstance(pyspark_pennon.typed_error(raw.value), pennon.PennonError)


def test_a_line_of_progress(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    work = [Work(str(tmp_path), number) for number in range(3)]
    run_tasks(spark, work, "three tasks", progress=True)
    assert "three tasks: 3 of 3 tasks\n" in capfd.readouterr().err
    run_tasks(spark, work, "three tasks")
    assert "three tasks" not in capfd.readouterr().err
    # A task that is run again counts once, and one that fails does not count.
    failing = Work(str(tmp_path), 1, pennon.InvalidInputError("no such column"), fails=9)
    with pytest.raises(pennon.InvalidInputError):
        run_tasks(spark, [Work(str(tmp_path), 0), failing], "two tasks", progress=True)
    assert "two tasks: 1 of 2 tasks\n" in capfd.readouterr().err
    busy = Work(str(tmp_path), 4, pennon.StoreError("the store is busy"), fails=1)
    run_tasks(spark, [busy, Work(str(tmp_path), 5)], "tried again", progress=True)
    assert "tried again: 2 of 2 tasks\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("done", "tasks", "text"),
    [
        (Done(), 7, "0 of 7 tasks"),
        (Done(3), None, "3 tasks"),
        (Done(3, 12_000), 8, "3 of 8 tasks, 12,000 rows"),
        (Done(1_200, 12_000, 4_500_000), 8_000, "1,200 of 8,000 tasks, 12,000 rows, 4.5 MB"),
        (Done.of([]), 2, "1 of 2 tasks"),
        (Done.of([3, 4]), 2, "1 of 2 tasks"),
        (Done.of(None), None, "1 tasks"),
        (
            Done.of(SimpleNamespace(rows=2, files={"data/1.lance": 30})) + Done(1, 1, 1),
            2,
            "2 of 2 tasks, 3 rows, 31 B",
        ),
        (
            Done.of([SimpleNamespace(rows=2, files={f"data/{n}.lance": 30}) for n in (1, 2)]),
            2,
            "1 of 2 tasks, 4 rows, 60 B",
        ),
    ],
)
def test_what_a_line_says(done: Done, tasks: int | None, text: str) -> None:
    assert done.text(tasks) == text


@pytest.fixture
def lines(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[], list[str]]]:
    """The last states of the lines of progress since the last call, which the session asks for."""
    spark.conf.set(SETTING, "true")

    def last() -> list[str]:
        ended = capfd.readouterr().err.split("\n")[:-1]
        return [line.split("\r")[-1].rstrip() for line in ended if "\r" in line]

    yield last
    spark.conf.unset(SETTING)


def test_all_verbs_have_a_line(spark: SparkSession, uri: str, lines: Callable[[], list[str]]) -> None:
    def size(version: int) -> str:
        """The bytes of the data files that a version brought."""
        files = [
            {file.path: file.file_size_bytes for part in table.get_fragments() for file in part.metadata.files}
            for table in (pennon.dataset(uri, version=version - 1), pennon.dataset(uri, version=version))
        ]
        return in_bytes(sum(bytes for path, bytes in files[1].items() if path not in files[0]))

    table = pennon.write_dataset({"id": list(range(40)), "n": [0] * 40}, uri, max_rows_per_file=10)
    handle = LanceTable.forPath(spark, uri)
    handle.delete("id % 40 < 5")
    (line,) = lines()
    assert re.fullmatch(rf"delete from {re.escape(uri)}: (\d) of \1 tasks, 5 rows", line)
    handle.update("id < 12", {"n": "id"})
    (line,) = lines()
    assert re.fullmatch(rf"update {re.escape(uri)}: (\d) of \1 tasks, 7 rows, {re.escape(size(3))}", line)
    new = frame_of(spark, [(20, 9), (50, 9)], "id long, n long")
    merge = handle.alias("t").merge(new.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    (line,) = lines()
    assert re.fullmatch(rf"merge into {re.escape(uri)}: (\d) of \1 tasks, 2 rows, {re.escape(size(4))}", line)
    write(new.where("id = 50").selectExpr("id + 1 AS id", "n").coalesce(1), uri, mode="append")
    assert lines() == [f"write to {uri}: 1 tasks, 1 rows, {size(5)}"]
    handle.updateColumnsFrom(new.where("id = 20"), "id")
    (line,) = lines()
    assert re.fullmatch(
        rf"update columns of {re.escape(uri)}: (\d) of \1 tasks, 1 rows, {re.escape(size(6))}", line
    )
    handle.addColumns({"more": "id + 1"})
    (line,) = lines()
    assert re.fullmatch(rf"add columns to {re.escape(uri)}: (\d) of \1 tasks, 37 rows, {re.escape(size(7))}", line)
    ids = handle.toDF(with_row_id=True).where("id = 30").selectExpr("_rowid", "7L AS n")
    handle.updateRows(ids)
    (line,) = lines()
    assert re.fullmatch(rf"update rows of {re.escape(uri)}: 1 of 1 tasks, 1 rows, {re.escape(size(8))}", line)
    handle.optimize().executeCompaction()
    assert lines() == [f"compact {uri}: 1 of 1 tasks, 37 rows, {size(handle.version)}"]
    handle.optimize().executeCompaction(target_rows_per_fragment=10, progress=False)
    handle.delete("id % 40 = -1")
    (line,) = lines()
    assert line.startswith("delete from")
    assert line.endswith(" tasks")
    spark.conf.set(SETTING, "false")
    handle.update("id = 30", {"n": "8"})
    assert lines() == []
    spark.conf.set(SETTING, "perhaps")
    with pytest.raises(pennon.InvalidInputError, match=r"spark\.pennon\.progress is 'perhaps': expected true or"):
        handle.delete("id % 40 = 30")
    assert table.checkout_version(handle.version).count_rows() == 37


@pytest.mark.parametrize(
    ("master", "last"),
    [
        ("local", 0),
        ("local[2]", 0),
        ("local[*]", 0),
        ("local[2,4]", 3),
        ("local[*, 2]", 1),
        ("local-cluster[2,1,1024]", 6),
        ("spark://127.0.0.1:7077", 6),
        ("yarn", 6),
        (None, 6),
    ],
)
def test_how_often_a_task_is_tried(master: str | None, last: int) -> None:
    settings = {"spark.master": master, "spark.task.maxFailures": "7"}
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda name, other: settings[name] or other))
    assert executor._last_attempt(session) == last


def test_a_session_without_a_context(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As one of Spark Connect: tasks run, without a description and a line of progress."""

    class Remote:
        conf, sql = spark.conf, staticmethod(spark.sql)

        @property
        def sparkContext(self) -> object:
            raise PySparkAttributeError("a session of Spark Connect has no sparkContext")

    session: Any = Remote()
    work = [Work(str(tmp_path), number) for number in range(3)]
    assert run_tasks(session, work, "three tasks", progress=True) == [(0, 0), (1, 0), (2, 0)]
    assert "three tasks" not in capfd.readouterr().err
    assert parallelism(session) == os.cpu_count()


def test_errors_from_text() -> None:
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] ... Traceback (most recent call last):\n"
        '  File "source.py", line 1\npennon.errors.NotFoundError: There is no version 7\n'
        " SQLSTATE: 38000"
    )
    found = typed_error(RuntimeError(text))
    assert type(found) is pennon.NotFoundError
    assert str(found) == "There is no version 7"
    other = RuntimeError("pennon.errors.NoSuchClass: x")
    assert typed_error(other) is other
    assert pickle.loads(pickle.dumps(found)).args == found.args
    assert "read_changes" in dir(pyspark_pennon)


def test_a_worker_forgets_the_archives_of_spark(spark: SparkSession) -> None:
    """Before each task Spark makes a worker read those again that it has looked into."""
    import pkgutil
    import sys
    from zipimport import zipimporter

    from pyspark_pennon.tasks.workers import forget_archives

    def known() -> list[str]:
        return [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _batch in batches:
            # The worker may have run a task of this package before.
            for path in sys.path:
                pkgutil.get_importer(path)
            before = known()
            forget_archives()
            after = known()
            import pyspark.sql.tvf as found_again

            names = [*before, "|", *after, "|", found_again.__name__]
            yield pa.RecordBatch.from_pydict({"archives": ["\n".join(names)]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(run, "archives string").collect()
    before, after, found_again = row.archives.split("|")
    assert "pyspark.zip" in before
    assert ".jar" in before
    assert after.strip() == ""
    assert found_again.strip() == "pyspark.sql.tvf"


def test_collections_of_garbage_between_tasks_leave_modules_alone(spark: SparkSession) -> None:
    """Else a worker collects for 40 ms after each task."""
    import gc
    import sys
    import types
    import weakref

    from pyspark_pennon.tasks.workers import freeze_modules, mapped

    class Loop:
        def __init__(self) -> None:
            self.itself = self

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, _batch in enumerate(batches):
            loop = Loop()
            kept = weakref.ref(loop)
            sys.modules[f"a module of task {number}"] = types.ModuleType("imported")
            freeze_modules()
            frozen, rest = gc.get_freeze_count(), len(gc.get_objects())
            freeze_modules()
            more = gc.get_freeze_count() - frozen
            del loop
            sys.modules[f"another module of task {number}"] = types.ModuleType("imported")
            freeze_modules()
            counts = {"frozen": [frozen], "rest": [rest], "more": [more], "freed": [kept() is None]}
            yield pa.RecordBatch.from_pydict(counts)

    frame = mapped(spark.range(0, 2, 1, 1), run, "frozen long, rest long, more long, freed boolean")
    for row in frame.collect():
        assert row.frozen > 20_000
        assert row.rest < row.frozen / 4
        assert row.more == 0
        assert row.freed


def test_workers_do_not_wait_to_send(spark: SparkSession) -> None:
    """Else each task takes 40 ms longer."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import socket
        import stat
        from contextlib import suppress

        for _batch in batches:
            found = []
            for descriptor in range(256):
                with suppress(OSError):  # no such descriptor, or no connection by TCP
                    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                        with socket.socket(fileno=os.dup(descriptor)) as connection:
                            at_once = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                            found.append(f"{connection.getpeername()[0]} {at_once}")
            yield pa.RecordBatch.from_pydict({"found": [", ".join(found)]})

    from pyspark_pennon.tasks.workers import mapped

    (row,) = mapped(spark.range(0, 1, 1, 1), run, "found string").collect()
    assert "127.0.0.1 1" in row.found
    assert not re.search(r" 0\b", row.found)


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_timeout_of_sockets_leaves_the_connection_as_it_is(timeout: float | None) -> None:
    import socket

    from pyspark_pennon.tasks import workers

    before = socket.getdefaulttimeout()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        near.setblocking(True)
        socket.setdefaulttimeout(timeout)
        try:
            workers._send_at_once(near.fileno())
        finally:
            socket.setdefaulttimeout(before)
        assert os.get_blocking(near.fileno())
        assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        far.sendall(b"here")
        assert near.recv(4) == b"here"


def test_only_archives_that_do_not_change_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from pyspark_pennon.tasks.workers import forget_archives

    kept = ["/tasks/code.zip", "/tasks/code.egg/inner", "/venv/lib/python3.11/site-packages", "/tasks/jar/module"]
    fixed = [
        "/spark/python/lib/pyspark.zip",
        "/spark/python/lib/pyspark.zip/pyspark/sql",
        "/spark/python/lib/py4j-0.10.9.9-src.zip/py4j",
        "/spark/jars/spark-core_2.13-4.3.0.jar",
        "/home/me/.ivy2/jars/io.delta_delta-spark_4.1_2.13-4.4.0.jar/org",
    ]
    monkeypatch.setattr(sys, "path_importer_cache", dict.fromkeys([*kept, *fixed]))
    forget_archives()
    assert list(sys.path_importer_cache) == kept
