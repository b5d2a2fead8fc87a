"""Errors of commits, under the name that pylance has for them, and the type of a commit lock."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from pennon.errors import CommitConflictError

__all__ = ["CommitConflictError", "CommitLock"]

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[Any]]
"""A function from the number of a version to a context manager, which is held while its manifest is written."""
