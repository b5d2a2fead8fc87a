"""Tasks on executors: results in order, errors as they were raised, what is tried again, what people see."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pennon
import pyspark_pennon
import pytest
from pennon import jobs
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark_pennon import executor
from pyspark_pennon.executor import run_tasks, typed_error
from pyspark_pennon.frames import parallelism


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
        Work(str(tmp_path), 2, OSError("no route"), fails=2),
    ]
    assert run_tasks(spark, work, "tried again") == [(0, 0), (1, 1), (2, 2)]
    assert [attempts(tmp_path, number) for number in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (pennon.InvalidInputError("no such column"), 1),
        (pennon.CommitConflictError("somebody was faster", retryable=False), 1),
        (pennon.StoreError("the store is gone"), 4),
        (ValueError("a function of the user"), 4),
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
    monkeypatch.setattr(executor, "_version", lambda: "0.0.0")
    with pytest.raises(pennon.UnsupportedError, match=r"The driver has pennon 0\.0\.0, but this executor"):
        run_tasks(spark, plan.tasks, "another release")


def test_a_line_of_progress(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    work = [Work(str(tmp_path), number) for number in range(3)]
    run_tasks(spark, work, "three tasks", progress=True)
    assert "three tasks: 3 of 3 tasks\n" in capfd.readouterr().err
    run_tasks(spark, work, "three tasks")
    assert "three tasks" not in capfd.readouterr().err


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
        conf, range = spark.conf, staticmethod(spark.range)

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
