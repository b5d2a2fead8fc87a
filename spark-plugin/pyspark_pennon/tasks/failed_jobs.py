"""Jobs of Spark that were cancelled, lost a worker, or failed in several stages: the error, not Java's stack.

Spark raises its own error for a job that was cancelled, and for a Python worker that ended without an answer. What
happened is in one of the causes of the exception in Java; Spark Connect has the text alone. Where stages fail at
the same time, their errors are suppressed ones of another, for which PySpark has no class. An expression that is
too deep for the stack of a thread fails in Java, often before there is a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark_pennon.errors import raised_in_task, unsupported

_CANCELLED = re.compile(r"\[SPARK_JOB_CANCELLED\]|\bJob \d+ cancelled\b")
_REASON = re.compile(r"Job \d+ cancelled[^\n]*?(?=\.?\s*SQLSTATE|\n|$)")
_WORKER = re.compile(r"Python worker exited unexpectedly")
_TOO_DEEP = re.compile(r"\bjava\.lang\.StackOverflowError\b")
_SEVERAL = re.compile(r"Multiple failures.* in stage materialization")
_MOST_CAUSES = 20


def named_failure(error: Exception) -> Exception | None:
    """A short error of `pennon` for a job that was cancelled or lost a worker, and for an expression that is too
    deep; None for all others.
    """
    from pennon.errors import PennonError

    if isinstance(error, PennonError):
        return None
    for message in _messages(error):
        if _CANCELLED.search(message):
            reason = _REASON.search(message)
            said = f": {reason[0]}" if reason is not None else ""
            return PennonError(f"The job was cancelled before its commit{said}")
        if _WORKER.search(message):
            return PennonError(
                "A Python worker of a task ended without an answer, before the commit of the job: it crashed, was "
                "killed, as happens where memory is short, or its code ended the process. The log of the executor "
                "says more"
            )
        if _TOO_DEEP.search(message):
            return unsupported(
                "A condition or value is nested too deeply for Spark, whose stack is full (StackOverflowError): a "
                "chain of Columns is a tree as deep as it is long. Use isin() for a list of values, or give the "
                "condition as SQL text"
            )
    return None


@contextmanager
def failures_named() -> Iterator[None]:
    """An error of Spark in the block is raised as what it is about: an error of `pennon`, see
    [named_failure][pyspark_pennon.tasks.failed_jobs.named_failure] and
    [raised_in_task][pyspark_pennon.errors.raised_in_task], or that of one of the stages that failed at once.
    """
    try:
        yield
    except Exception as error:
        failure = named_failure(error)
        if failure is not None:
            raise failure from error
        _raise_first(error)
        raise


def _raise_first(error: Exception) -> None:
    """Raise what made a task or a stage fail, if that is what the error is about.

    A variable for it would tie the caller's frame to the error, and with it all that the frame holds.
    """
    first = raised_in_task(error) or _first_failure(error)
    if first is not error:
        raise first from None


def _first_failure(error: Exception) -> Exception:
    """The error of one of the stages that failed at once, as Spark raises it of one; any other error itself."""
    for several in _causes(getattr(error, "java_exception", None)):
        if not _SEVERAL.search(str(several.getMessage() or "")):
            continue
        from pyspark.errors.exceptions.captured import UnknownException, convert_exception

        for failed in (several.getCause(), *several.getSuppressed()):
            for java in _causes(failed):
                found = convert_exception(java)
                if not isinstance(found, UnknownException):
                    return found
    return error


def _messages(error: Exception) -> Iterator[str]:
    """The exceptions in Java as text, outermost first; the text of the error where there are none."""
    java: Any = getattr(error, "java_exception", None)
    if java is None:
        if type(error).__module__.startswith("pyspark."):
            yield str(error)
        return
    for cause in _causes(java):
        yield str(cause.toString())


def _causes(java: Any) -> Iterator[Any]:
    """An exception of Java and its causes, outermost first."""
    for _ in range(_MOST_CAUSES):
        if java is None:
            return
        yield java
        java = java.getCause()
