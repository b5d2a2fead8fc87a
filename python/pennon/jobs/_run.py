"""Jobs from begin to end, with an executor of `concurrent.futures`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon._options import checked_duration, checked_number
from pennon._progress import Progress, ProgressLike, Reporter
from pennon.errors import CommitConflictError, InternalError, InvalidInputError
from pennon.jobs._task import WITH_SOURCE, Task, TaskResult
from pennon.processors import cpu_count

if TYPE_CHECKING:
    from pennon.jobs._plan import JobPlan, JobReport
    from pennon.types import ReaderLike


def run(
    plan: JobPlan,
    data: Sequence[ReaderLike] | None = None,
    *,
    source: ReaderLike | Callable[[], ReaderLike] | None = None,
    executor: Executor | None = None,
    progress: ProgressLike = None,
    conflict_retries: int = 10,
    retry_timeout: timedelta = timedelta(hours=1),
) -> JobReport:
    """Run all tasks and commit, planning again what others changed meanwhile.

    Parameters
    ----------
    plan
        Of any kind but a scan.
    data
        The rows of an append, overwrite or merge, an item for each task; pickled where the executor has processes.
        In a merge, rows with equal keys must be in one item.
    source
        Instead of `data`, all rows of a merge, of which each task keeps its own, or the data that columns come from
        by a key; or a function that returns it. Each task reads it: nothing that can be read only once.
    executor
        What runs the tasks: a `ThreadPoolExecutor`, `ProcessPoolExecutor`, or whatever has their `submit`; threads,
        as many as processors, by default.
    progress
        A function that is called after each task, in this thread; what it raises ends the job, and nothing is
        committed. True for a bar of tqdm, False for nothing. By default a bar, where tqdm is installed and somebody
        is watching: in a terminal or a notebook, after two seconds.
    conflict_retries, retry_timeout
        How often, and for how long, a job is planned again after a conflict with another writer. Compactions, jobs
        with `data`, and those whose source names rows by their addresses are not.

    Raises
    ------
    pennon.InvalidInputError
        The plan is a scan, `data` does not fit the number of tasks, or `source` can be read only once.
    pennon.CommitConflictError
        Every attempt conflicted with another writer.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon import jobs
    >>> rows = [{"a": [1, 2]}, {"a": [3]}]
    >>> plan = jobs.plan_overwrite("memory://jobs-run", pa.schema({"a": pa.int64()}), mode="create", tasks=2)
    >>> seen = []
    >>> jobs.run(plan, rows, progress=lambda at: seen.append((at.tasks, at.rows))).rows
    3
    >>> seen[-1]
    (2, 3)
    """
    conflict_retries = checked_number("conflict_retries", conflict_retries)
    retry_timeout = checked_duration("retry_timeout", retry_timeout)
    if plan.kind == "scan":
        raise InvalidInputError("A scan has nothing to commit: read the batches of its tasks")
    if data is None and source is None and plan.num_tasks is None:
        raise InvalidInputError(f"A plan of kind {plan.kind} was given no rows, as data or source")
    if isinstance(source, pa.RecordBatchReader | Iterator):
        raise InvalidInputError(f"Each task reads the source, but a {type(source).__name__} can be read only once")
    if source is not None and (data is not None or plan.kind not in WITH_SOURCE):
        raise InvalidInputError(
            f"A source is for {', '.join(WITH_SOURCE)} without data; the plan is of kind {plan.kind}"
        )
    if executor is None:
        with ThreadPoolExecutor(cpu_count(), thread_name_prefix="pennon-job") as own:
            return run(
                plan,
                data,
                source=source,
                executor=own,
                progress=progress,
                conflict_retries=conflict_retries,
                retry_timeout=retry_timeout,
            )
    started = time.monotonic()
    for attempt in range(conflict_retries + 1):
        with Reporter(plan.kind, progress) as report:
            results = _results(plan, data, source, executor, report)
        try:
            return plan.commit(results)
        except CommitConflictError as conflict:
            late = time.monotonic() - started > retry_timeout.total_seconds()
            if not conflict.retryable or attempt == conflict_retries or late or data is not None:
                raise
            try:
                plan = plan.renew(results)
            except InvalidInputError as reason:
                # A compaction, or a source that names rows by their addresses.
                raise conflict from reason
    raise InternalError("unreachable: the last attempt returns or raises")


def _results(
    plan: JobPlan,
    data: Sequence[ReaderLike] | None,
    source: ReaderLike | Callable[[], ReaderLike] | None,
    executor: Executor,
    report: Reporter,
) -> list[TaskResult]:
    if plan.num_tasks is None and source is not None:
        raise InvalidInputError("A source is divided among a number of tasks: plan the merge with one")
    count = plan.num_tasks if plan.num_tasks is not None else len(data or ())
    if data is not None and len(data) != count:
        raise InvalidInputError(f"{len(data)} items of rows were given for {count} tasks")
    tasks = [plan.task(number) for number in range(count)]
    rows = data if data is not None else [None] * count
    pairs = zip(tasks, rows, strict=True)
    waiting = {executor.submit(Task.run, task, part, source=source): task for task, part in pairs}
    # A fragment that is divided is read when the last task with a part of it is done.
    left = {fragment: 0 for task in tasks for fragment, _ in task.slices}
    for task in tasks:
        for fragment, _ in task.slices:
            left[fragment] += 1
    results: list[TaskResult] = []
    read = written = found = 0
    try:
        pending: set[Future[TaskResult]] = set(waiting)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                results.append(result)
                written += result.bytes
                found += result.rows
                for fragment, _ in waiting[future].slices:
                    left[fragment] -= 1
                    read += left[fragment] == 0
                if report.is_needed:
                    report(Progress(len(results), count, read, len(left), found, None, written))
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return results
