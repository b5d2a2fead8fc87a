"""A job that is divided into tasks, and the commit of their results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pennon import _native
from pennon._options import checked_number, checked_text, strings
from pennon._render import Grid, listed, panel
from pennon.dataset import LanceDataset
from pennon.errors import InvalidInputError, InvalidTypeError
from pennon.jobs._connection import Connection, pinned
from pennon.jobs._task import ChangeFunction, ColumnFunction, PlannedWork, Task, TaskResult
from pennon.merge_insert import execute_result
from pennon.verification import VerifyReport

if TYPE_CHECKING:
    from pennon.types import Durability, ExecuteResult


@dataclass(frozen=True)
class JobReport:
    """What a job did.

    Attributes
    ----------
    rows
        Rows that were added, deleted or updated, moved by a compaction, or that got columns.
    dataset
        The table at the version that the job made.
    counts
        Of a merge and of changes of rows, what [MergeInsertBuilder.execute][pennon.MergeInsertBuilder.execute]
        returns.
    verification
        What a verification found.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://job-report", mode="overwrite")
    >>> report = jobs.run(jobs.plan_delete(table, "a = 1"))
    >>> report.rows, report.dataset.version
    (1, 2)
    """

    rows: int
    dataset: LanceDataset
    counts: ExecuteResult | None = None
    verification: VerifyReport | None = None

    def _repr_html_(self) -> str:
        return panel("JobReport", {"rows": self.rows, "dataset": self.dataset})


class JobPlan(PlannedWork[_native.JobPlan]):
    """A job that is divided into tasks. It can be pickled, and turned into JSON by `json`.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://job-plan", mode="overwrite")
    >>> plan = jobs.plan_delete(table, "a = 1")
    >>> plan.kind, plan.num_tasks, plan.version
    ('delete', 1, 1)
    """

    __slots__ = ()

    @property
    def uuid(self) -> str:
        """The uuid of the job, which its transaction gets.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-uuid", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> report = jobs.run(plan)
        >>> report.dataset.read_transaction(2).uuid == plan.uuid
        True
        """
        return self._native.uuid

    def with_uuid(self, uuid: str) -> JobPlan:
        """The same job with another uuid, before any of its tasks runs.

        A commit looks for its uuid in the versions after the one that the plan read, all of them for an overwrite,
        and gives the version that has it. So only one of two processes that append the same rows makes a version,
        if their uuid follows from the name of a file for example. For versions before that of the plan see
        [commit_status][pennon.LanceDataset.commit_status].

        Raises
        ------
        pennon.InvalidInputError
            The text is not a uuid, or results are in the plan already: see `kept`.

        Examples
        --------
        >>> import uuid
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1]}, "memory://plan-with-uuid", mode="overwrite")
        >>> of_file = str(uuid.uuid5(uuid.NAMESPACE_URL, "s3://arrivals/2026-11-30.csv"))
        >>> plans = [jobs.plan_append(table).with_uuid(of_file) for _ in range(2)]
        >>> [plan.commit([plan.task(0).run({"a": [2]})]).dataset.version for plan in plans]
        [2, 2]
        """
        text = checked_text("uuid", uuid)
        try:
            wanted = str(UUID(text))
        except ValueError:
            raise InvalidInputError(f"uuid is {uuid!r}: expected a uuid, as text") from None
        found = json.loads(self.json())
        if found.get("done"):
            raise InvalidInputError(f"The plan has results of tasks of job {self.uuid}, so its uuid cannot change")
        found["job"]["uuid"] = wanted
        return JobPlan(_native.JobPlan.from_json(json.dumps(found)), self._connection, self._function)

    @property
    def num_tasks(self) -> int | None:
        """Number of tasks; None for an append, overwrite or merge that takes as many as there will be.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-num-tasks", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> plan.num_tasks, jobs.plan_append(table).num_tasks
        (1, None)
        """
        return self._native.num_tasks

    @property
    def kept(self) -> list[TaskResult]:
        """Results that `renew` kept, which `commit` adds to those it is given; none in a plan that is new.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-kept", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> results = [task.run() for task in plan.tasks]
        >>> table.insert({"a": [4]})
        >>> renewed = plan.renew(results)
        >>> [result.rows for result in renewed.kept], renewed.num_tasks
        ([2], 1)
        >>> renewed.commit([task.run() for task in renewed.tasks]).rows
        3
        """
        return [TaskResult.from_json(json.dumps(result)) for result in json.loads(self.json()).get("done", ())]

    @property
    def tasks(self) -> list[Task]:
        """The tasks, by number. Raises `InvalidInputError` if their number is open; see `task`.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-tasks", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> [task.number for task in plan.tasks]
        [0]
        """
        if self.num_tasks is None:
            raise InvalidInputError("The plan does not say how many tasks there are: make them by task(number)")
        return [self.task(number) for number in range(self.num_tasks)]

    def task(self, number: int) -> Task:
        """The task with a number, from 0. Raises `InvalidInputError` if the plan has no such task.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1]}, "memory://plan-task", mode="overwrite")
        >>> plan = jobs.plan_append(table)
        >>> results = [plan.task(number).run({"a": [number]}) for number in (0, 1)]
        >>> plan.commit(results).dataset.to_table()["a"].to_pylist()
        [1, 0, 1]
        """
        native = self._native.task(checked_number("number", number))
        return Task(native, self._connection, self._function)

    def commit(self, results: Iterable[TaskResult], *, properties: Mapping[str, str] | None = None) -> JobReport:
        """Publish the results of all tasks, once.

        Repeated, with these results or those of twins, it gives the version that the first time made; the rows of
        an append or overwrite are those of that version. Of twins one counts. Rows of an append or overwrite come
        in the order of the tasks' numbers.

        Parameters
        ----------
        results
            One of each task, at least.
        properties
            What the transaction says besides, for whoever reads it: `Transaction.transaction_properties`.

        Raises
        ------
        pennon.InvalidInputError
            A task has no result, or a result belongs to another plan.
        pennon.InvalidTypeError
            `results` has something that is not a `TaskResult`.
        pennon.CommitConflictError
            Another writer changed rows since the version of the plan. If it is retryable, use `renew`.
        pennon.AlreadyExistsError
            The job makes a table, in mode create, and there is one.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-commit", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> report = plan.commit([task.run() for task in plan.tasks])
        >>> report.rows, report.dataset.count_rows()
        (2, 1)
        """
        done = _natives(results)
        table = pinned(self._connection, self.uuid, self.uri, self.version)._native if self.version else None
        request = self._connection.request()
        rows, counts, found, native = self._native.commit(table, done, strings(properties, "properties"), request)
        verification = None if found is None else VerifyReport._of(found)
        return JobReport(rows, LanceDataset._wrap(native), counts and execute_result(counts), verification)

    def renew(self, results: Iterable[TaskResult]) -> JobPlan:
        """The same job on the newest version, after a conflict.

        Results about fragments that are as they were are kept in the plan; its tasks are for the others, and for
        those that came. The tasks of a merge are all to be done again. Not for jobs that add rows or compact, and
        not for changes of rows whose tasks read nothing.

        Raises
        ------
        pennon.InvalidInputError
            The job is committed: `commit` gives its answer again. Or a result belongs to another plan.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-renew", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> results = [task.run() for task in plan.tasks]
        >>> table.delete("a = 2")
        {'num_deleted_rows': 1}
        >>> again = plan.renew(results)
        >>> again.version, again.commit([task.run() for task in again.tasks]).rows
        (2, 1)
        """
        done = _natives(results)
        read = pinned(self._connection, self.uuid, self.uri, self.version)._native
        newest = self._connection.open(self.uri)
        status = newest.commit_status(self.uuid)
        if status.committed:
            raise InvalidInputError(f"Job {self.uuid} is committed already, as version {status.version}")
        return JobPlan(self._native.renew(read, newest._native, done), self._connection, self._function)

    def json(self) -> str:
        """The plan as JSON, without storage options and without the function of new columns.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-json", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> jobs.JobPlan.from_json(plan.json()).uuid == plan.uuid
        True
        """
        return self._native.to_json()

    @staticmethod
    def from_json(
        json: str, *, storage_options: Mapping[str, str] | None = None, durability: Durability = "full"
    ) -> JobPlan:
        """The inverse of `json`. Raises `InvalidInputError` for other text and for that of another release.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://plan-from-json", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> sent = jobs.JobPlan.from_json(plan.json())
        >>> sent.commit([task.run() for task in sent.tasks]).rows
        2
        """
        native = _native.JobPlan.from_json(checked_text("json", json))
        return JobPlan(native, Connection.of(storage_options, durability))

    def __reduce__(self) -> tuple[Any, ...]:
        return _plan, (self.json(), self._connection, self._function)

    def __repr__(self) -> str:
        return f"JobPlan({self.kind!r}, {self.uri!r}, version={self.version}, tasks={self.num_tasks})"

    def _repr_html_(self) -> str:
        count = self.num_tasks or 0
        facts = {"work": self.kind, "version": self.version, "uuid": self.uuid, "tasks": self.num_tasks}
        slices = (self.task(number).slices for number in range(count))
        ids = ([fragment for fragment, _ in found] for found in slices)
        rows = ((number, listed(found, len(found))) for number, found in enumerate(ids))
        return panel(f"JobPlan of {self.uri}", facts, Grid(("task", "fragments"), rows, count))


def _natives(results: Iterable[TaskResult]) -> list[_native.JobResult]:
    """What the core takes. Raises `InvalidTypeError` for anything but results."""
    if not isinstance(results, Iterable):
        raise InvalidTypeError(f"results must be a list of TaskResult, found {type(results)}")
    found = list(results)
    for result in found:
        if not isinstance(result, TaskResult):
            raise InvalidTypeError(f"results must be a list of TaskResult, found {type(result)} in it")
    return [result._native for result in found]


def _plan(text: str, connection: Connection, function: ColumnFunction | ChangeFunction | None) -> JobPlan:
    return JobPlan(_native.JobPlan.from_json(text), connection, function)
