"""Verbs that are tried again after a conflict with another writer, and commits whose answer was lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark_pennon.tasks.orphans import committing

MAX_ATTEMPTS = 10
"""The most attempts of a verb; a conflict with another writer starts the next one."""

COMMIT_ATTEMPTS = 5
"""The most attempts to hear whether a commit has happened."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


def retried(attempt: Callable[[], T], what: str, *, is_repeatable: bool = False, attempts: int = MAX_ATTEMPTS) -> T:
    """What `attempt` returns, after as many conflicts as there may be.

    Parameters
    ----------
    attempt
        Starts from the newest version each time.
    what
        What is done, for the log: `the merge into <uri>`.
    is_repeatable
        Whether an attempt does only what is left to do: then one may follow any conflict, and a commit of which
        nobody knows whether it has happened.

    Raises
    ------
    pennon.CommitConflictError
        That of the last attempt, or one that cannot be retried.
    """
    return _repeated(attempt, what, attempts, lambda error: is_repeatable or error.retryable)


def published(plan: Any, run: Callable[[Any], list[Any]], what: str) -> Any:
    """The report of a job that changes rows; None if there is no row to change, and then no version.

    After a conflict only what others changed is done again.

    Parameters
    ----------
    plan
        A [JobPlan][pennon.jobs.JobPlan] that can be renewed.
    run
        Gives the results of the tasks of a plan.
    what
        As in `retried`.

    Raises
    ------
    pennon.CommitConflictError, pennon.CommitUnknownError
        As in `retried` and `committed`.
    """
    import pennon

    def attempt() -> Any:
        nonlocal plan
        results = run(plan)
        if not any(result.rows for result in [*plan.kept, *results]):
            return None
        try:
            return committed(plan, results)
        except pennon.CommitConflictError as conflict:
            if conflict.retryable:
                plan = plan.renew(results)
            raise

    return retried(attempt, what)


def committed(
    plan: Any,
    results: list[Any],
    *,
    properties: Mapping[str, str] | None = None,
    attempts: int = COMMIT_ATTEMPTS,
) -> Any:
    """The report of the commit of a plan, which is repeated while nobody knows whether it has happened.

    Parameters
    ----------
    plan
        A [JobPlan][pennon.jobs.JobPlan].
    results
        Those of its tasks.
    properties
        As in [commit][pennon.jobs.JobPlan.commit].

    Raises
    ------
    pennon.CommitUnknownError
        The answers of all attempts were lost.
    """
    with committing([*plan.kept, *results]):
        return answered(
            lambda: plan.commit(results, properties=properties), f"the commit of {plan.uuid}", attempts=attempts
        )


def answered(commit: Callable[[], T], what: str, *, attempts: int = COMMIT_ATTEMPTS) -> T:
    """What `commit` returns, which is repeated while nobody knows whether it has happened.

    Parameters
    ----------
    commit
        Commits a transaction that has one uuid in all attempts: a commit that has happened is found by it, and not
        done a second time.
    what
        What is repeated, for the log.

    Raises
    ------
    pennon.CommitUnknownError
        The answers of all attempts were lost.
    """
    import pennon

    return _repeated(commit, what, attempts, lambda error: isinstance(error, pennon.CommitUnknownError))


def commit_entries(table: Any, new: list[Any], removed: list[Any], uuid: str) -> None:
    """Commit entries of indices on top of a version, also if the answer is lost: see `answered`."""
    import pennon

    transaction = pennon.Transaction(int(table.version), pennon.LanceOperation.CreateIndex(new, removed), uuid)
    answered(lambda: pennon.LanceDataset.commit(table, transaction), f"the commit of {uuid}")


def _repeated(attempt: Callable[[], T], what: str, attempts: int, may_repeat: Callable[[Any], bool]) -> T:
    """What `attempt` returns, tried again after some errors of a commit, with longer and longer pauses."""
    import pennon

    try:
        return attempt()
    except (pennon.CommitConflictError, pennon.CommitUnknownError) as error:
        if attempts == 1 or not may_repeat(error):
            raise
        _log.info("%s is tried again: %s", what, error)
    time.sleep(1 / attempts)
    return _repeated(attempt, what, attempts - 1, may_repeat)
