"""The error for positions that do not exist, where Python and its libraries expect an `IndexError`."""

from __future__ import annotations

from pennon.errors import InvalidInputError

__all__ = ["PositionError"]


class PositionError(InvalidInputError, IndexError):
    """There is nothing at this position."""
