"""Work on a table by Spark tasks: picklable items out, their results back, errors as they were raised.

A task gives its result or its error as a value, so that the driver raises the same error of `pennon` once, without
the tracebacks of workers. Only what may pass is raised inside the task, which Spark then runs again: errors of the
store and of the system. In its last attempt a task gives these as values, too.

The items come with the function in the task's closure, and the numbers of the items are the rows of a frame, one
per partition: a task is one item.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from pyspark_pennon.errors import internal, raised_in_task
from pyspark_pennon.spark_api import has_changed, spark_context, to_arrow
from pyspark_pennon.tasks.failed_jobs import failures_named
from pyspark_pennon.tasks.orphans import current
from pyspark_pennon.tasks.plans import numbered
from pyspark_pennon.tasks.progress import Done, progress_line
from pyspark_pennon.tasks.releases import check_release, installed_release
from pyspark_pennon.tasks.results import files_of
from pyspark_pennon.tasks.workers import mapped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Any],
    description: str,
    *,
    call: Callable[[Any], Any] | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """Run tasks of a job on the executors, one Spark task for each, and give their results in order.

    Parameters
    ----------
    spark
        The session.
    tasks
        [Tasks][pennon.jobs.Task] of a plan, or anything that can be pickled.
    description
        What Spark shows for the job: `delete from <uri>`.
    call
        What is called with each of `tasks` on an executor; can be pickled. By default their method `run`.
    progress
        Whether a line on standard error tells what is done, as for
        [progress_line][pyspark_pennon.tasks.progress.progress_line].

    Returns
    -------
    list
        The results, such as [TaskResult][pennon.jobs.TaskResult], in the order of `tasks`.

    Raises
    ------
    pennon.PennonError
        What a task raised, as it was raised there. Errors of the store only after Spark ran the task as often as
        `spark.task.maxFailures` allows; all others at once.
    """
    if not tasks:
        return []
    # A Spark task unpickles its own task only.
    pickled: list[bytes] = [cloudpickle.dumps(task) for task in tasks]  # type: ignore[no-untyped-call]
    with watched(spark, description, len(tasks), progress) as done:
        checks = _Checks.of(spark, done)

        def run(number: int) -> Iterator[pa.RecordBatch]:
            yield _row(number, checks.outcome(partial(_unpickled, pickled[number], call)))

        return _results(numbered(spark, len(tasks), run, _OUTCOMES), len(tasks))


def run_partitions(
    frame: DataFrame,
    call: Callable[[int, Iterator[pa.RecordBatch]], Any],
    description: str,
    *,
    tasks: int | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """Call a function with the number and the rows of each partition of a frame, and give its results in order.

    Parameters
    ----------
    frame
        Evaluated once; what it raises is Spark's.
    call
        Runs on the executors; can be pickled. It is called for empty partitions as well, and a second time where
        Spark runs a task again.
    description
        What Spark shows for the job.
    tasks
        How many partitions the frame has, for the line of progress.
    progress
        As in [run_tasks][pyspark_pennon.tasks.executor.run_tasks].

    Raises
    ------
    pennon.PennonError
        What the function raised, as in [run_tasks][pyspark_pennon.tasks.executor.run_tasks].
    """
    spark = frame.sparkSession
    with watched(spark, description, tasks, progress) as done:
        return _results(mapped(frame, _partition_runner(call, _Checks.of(spark, done)), _OUTCOMES), None)


def _partition_runner(
    call: Callable[[int, Iterator[pa.RecordBatch]], Any], checks: _Checks
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's tasks run: rows of a partition in, the pickled outcome out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        yield _row(number, checks.outcome(lambda: call(number, batches)))

    return run


_OUTCOMES = "number long, stage long, outcome binary"

_LOCAL = re.compile(r"local(\[[^,\]]*(,\s*(?P<failures>\d+)\s*)?\])?")
"""`local[threads,failures]`; without the second number nothing is tried again. Not `local-cluster[2,1,1024]`."""


def _results(frame: DataFrame, count: int | None) -> list[Any]:
    """The results in a frame of outcomes, by number. Raises the error of the first task that has one."""
    # Collected once: a second action would run everything again.
    with failures_named():
        found = to_arrow(frame)
    found = found.sort_by("number")
    numbers = found.column("number").to_pylist()
    # Spark makes fewer partitions than it was asked for if there is nothing in them, and numbers them in a row.
    expected = _tasks_of_stage(frame.sparkSession, found) if count is None else count
    if numbers != list(range(expected)):
        raise internal(f"Spark gave results of tasks {numbers}, expected one of each of {expected}")
    pairs = [pickle.loads(outcome) for outcome in found.column("outcome").to_pylist()]
    results = [value for is_result, value in pairs if is_result]
    written = current()
    if written is not None:
        written.add(results)
    for is_result, value in pairs:
        if not is_result:
            raise value from None
    return results


def _tasks_of_stage(spark: SparkSession, found: pa.Table) -> int:
    """The number of tasks of the stage that outcomes are from; that of the outcomes where Spark does not say."""
    context, outcomes = spark_context(spark), int(found.num_rows)
    if context is None or outcomes == 0:
        return outcomes
    try:
        stage = context.statusTracker().getStageInfo(found.column("stage")[0].as_py())
    except Exception as error:
        if has_changed(error, "a result that Spark loses is not noticed if it is the last one"):
            return outcomes
        raise
    # A later attempt has only the tasks that the first one left.
    return outcomes if stage is None or stage.currentAttemptId else int(stage.numTasks)


def _row(number: int, outcome: bytes) -> pa.RecordBatch:
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    columns = [
        pa.array([number], pa.int64()),
        pa.array([context.stageId()], pa.int64()),
        pa.array([outcome], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["number", "stage", "outcome"])


def typed_error(error: Exception) -> Exception:
    """The error of `pennon` that Spark reports as text, or the error itself.

    Spark passes what a Python worker raised as the text of its traceback. A line below the message,
    `[pennon {...}]`, has the class and the attributes of the error, such as `path` and `retryable`.

    Parameters
    ----------
    error
        What an action on a frame of [read][pyspark_pennon.read], its planning, or a streaming query raised: Spark
        raises these itself, with all of its traces. Verbs and writes raise typed errors by themselves.

    Examples
    --------
    >>> from pyspark_pennon import typed_error, write
    >>> done = write(spark.range(3), f"{folder}/flights.lance")
    >>> try:
    ...     spark.read.format("pennon").option("version", 7).load(f"{folder}/flights.lance")
    ... except Exception as error:
    ...     print(type(error).__name__, type(typed_error(error)).__name__)
    AnalysisException NotFoundError
    """
    return raised_in_task(error) or error


def _unpickled(pickled: bytes, call: Callable[[Any], Any] | None) -> Any:
    task = pickle.loads(pickled)
    return task.run() if call is None else call(task)


@dataclass(frozen=True)
class _Checks:
    """What a task on an executor looks at besides its work; picklable.

    Attributes
    ----------
    release
        That of the wheels on the driver.
    last_attempt
        The number of the last attempt that Spark makes of a task.
    done
        What results are added to, if somebody watches.
    written
        What files are added to, if the error of the verb names orphans.
    """

    release: str
    last_attempt: int
    done: Accumulator[Done] | None
    written: Accumulator[dict[str, int]] | None

    @classmethod
    def of(cls, spark: SparkSession, done: Accumulator[Done] | None) -> _Checks:
        files = current()
        written = None if files is None else files.accumulator(spark_context(spark))
        return cls(installed_release(), _last_attempt(spark), done, written)

    def outcome(self, run: Callable[[], Any]) -> bytes:
        """The pickled result of a task, or its error unless another attempt may succeed."""
        from pyspark import TaskContext

        try:
            check_release(self.release)
            result = run()
            pickled = pickle.dumps((True, result))
        except Exception as error:
            context = TaskContext.get()
            if _may_pass(error) and context is not None and context.attemptNumber() < self.last_attempt:
                raise
            return _pickled(error)
        if self.done is not None:
            self.done.add(Done.of(result))
        files = files_of(result)
        if self.written is not None and files:
            self.written.add(files)
        return pickled


def _may_pass(error: Exception) -> bool:
    """Whether a new attempt may succeed: errors of the store, of the system, and of code that is not Pennon's."""
    try:
        from pennon.errors import PennonError, StoreError
    except ImportError:
        return False
    return isinstance(error, StoreError) or not isinstance(error, PennonError)


def _pickled(error: Exception) -> bytes:
    try:
        text = pickle.dumps((False, error))
        pickle.loads(text)
    except Exception:
        return pickle.dumps((False, internal(f"{type(error).__name__}: {error}")))
    return text


def _last_attempt(spark: SparkSession) -> int:
    """The number of the last attempt that Spark makes of a task, from 0."""
    local = _LOCAL.fullmatch((spark.conf.get("spark.master", "") or "").strip())
    if local is not None:
        return int(local["failures"] or 1) - 1
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4) - 1


@contextmanager
def watched(
    spark: SparkSession, description: str, tasks: int | None, progress: bool | None = None
) -> Iterator[Accumulator[Done] | None]:
    """The jobs of this thread have a description and a line of progress; gives what tasks add to, or None."""
    line = progress_line(spark, spark_context(spark), description, tasks, progress)
    with described(spark, description), line as done:
        yield done


@contextmanager
def described(spark: SparkSession, description: str) -> Iterator[None]:
    """The jobs of this thread have a description, unless the user gave them one."""
    key = "spark.job.description"
    context = spark_context(spark)
    if context is None or context.getLocalProperty(key) is not None:
        yield
        return
    context.setLocalProperty(key, description)
    try:
        yield
    finally:
        context.setLocalProperty(key, None)  # type: ignore[arg-type]
