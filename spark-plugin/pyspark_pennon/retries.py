"""Verbs that are tried again after a conflict with another writer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

MAX_ATTEMPTS = 10
"""The most attempts of a verb; a conflict with another writer starts the next one."""

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
