"""Verbs that are tried again after a conflict with another writer, and commits whose answer was lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

MAX_ATTEMPTS = 10
"""The most attempts of a verb; a conflict with another writer starts the next one."""

COMMIT_ATTEMPTS = 5
"""The most attempts to hear whether a commit has happened."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


def retried(attempt: Callable[[], T], what: str, attempts: int = MAX_ATTEMPTS) -> T:
    """What `attempt` returns, after as many conflicts as there may be.

    Parameters
    ----------
    attempt
        Starts from the newest version each time.
    what
        What is done, for the log: `the merge into <uri>`.

    Raises
    ------
    pennon.CommitConflictError
        That of the last attempt, or one that cannot be retried.
    """
    import pennon

    try:
        return attempt()
    except pennon.CommitConflictError as error:
        if attempts == 1 or not error.retryable:
            raise
        _log.info("%s is tried again: %s", what, error)
    return retried(attempt, what, attempts - 1)


def committed(
    plan: Any,
    results: list[Any],
    *,
    properties: Mapping[str, str] | None = None,
    attempts: int = COMMIT_ATTEMPTS,
) -> Any:
    """The report of the commit of a plan, which is repeated while nobody knows whether it has happened.

    The transaction has the uuid of the plan: a commit that has happened is found, and not done a second time.

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
    import pennon

    try:
        return plan.commit(results, properties=properties)
    except pennon.CommitUnknownError as error:
        if attempts == 1:
            raise
        _log.info("the commit of %s is repeated: %s", plan.uuid, error)
    time.sleep(1 / attempts)
    return committed(plan, results, properties=properties, attempts=attempts - 1)
