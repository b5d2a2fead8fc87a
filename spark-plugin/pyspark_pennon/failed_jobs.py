"""Jobs of Spark that were cancelled, or lost a worker: what happened in a sentence, instead of Java's stack.

Spark raises its own error for a job that was cancelled, and for a Python worker that ended without an answer. What
happened is in one of the causes of the exception in Java; Spark Connect has the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_CANCELLED = re.compile(r"\[SPARK_JOB_CANCELLED\]|\bJob \d+ cancelled\b")
_REASON = re.compile(r"Job \d+ cancelled[^\n]*?(?=\.?\s*SQLSTATE|\n|$)")
_WORKER = re.compile(r"Python worker exited unexpectedly")
_MOST_CAUSES = 20


def named_failure(error: Exception) -> Exception | None:
    """A short error of `pennon` for a job that was cancelled or lost a worker; None for all others."""
    from pennon.errors import PennonError

    if isinstance(error, PennonError):
        return None
    for message in _messages(error):
        if _CANCELLED.search(message):
            reason = _REASON.search(message)
            said = f": {reason[0]}" if reason is not None else ""
            return PennonError(f"The job was cancelled, and nothing of it was committed{said}")
        if _WORKER.search(message):
            return PennonError(
                "A Python worker of a task ended without an answer, and nothing of the job was committed: it "
                "crashed, was killed, as happens where memory is short, or its code ended the process. The log of "
                "the executor says more"
            )
    return None


def _messages(error: Exception) -> Iterator[str]:
    """The messages of the exceptions in Java, outermost first; the text of the error where there are none."""
    java: Any = getattr(error, "java_exception", None)
    if java is None:
        if type(error).__module__.startswith("pyspark."):
            yield str(error)
        return
    for _ in range(_MOST_CAUSES):
        if java is None:
            return
        yield str(java.getMessage() or "")
        java = java.getCause()
