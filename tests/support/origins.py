"""From which version a version was made."""

from __future__ import annotations

from typing import Any

import pennon


def is_overwritten(table: Any, one: int, other: int) -> bool | None:
    """Whether an overwrite lies between two versions, on the way through restores; None if a version is missing."""
    while one != other:
        one, other = min(one, other), max(one, other)
        try:
            operation = table.read_transaction(other).operation
        except pennon.NotFoundError:
            return None
        kind = type(operation).__name__
        if kind == "Overwrite":
            return True
        other = operation.version if kind == "Restore" else other - 1
    return False
