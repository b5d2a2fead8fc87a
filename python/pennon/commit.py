"""Errors of commits, under the name that pylance has for them."""

from pennon.errors import CommitConflictError

__all__ = ["CommitConflictError"]
