"""Errors of commits, under the name that pylance has for them, and the type of a commit lock."""

from pennon.errors import CommitConflictError
from pennon.types import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
