"""Native handles: that of a dataset, or none of a path; and those that are opened when they are used."""

from __future__ import annotations

from typing import Any

from pennon import _native


def handle_of(table: Any) -> _native.Dataset | None:
    """The native handle of a dataset; `None` for a path or URI."""
    native = getattr(table, "_native", None)
    return native if isinstance(native, _native.Dataset) else None


class OpenedWhenUsed:
    """The attribute `_native` of what was unpickled: `_unopened()`, called when it is first used.

    So an error reaches who uses the object. One of unpickling would not: a pool of processes takes an `OSError` for
    its end, and waits forever for the result of the task that it lost.
    """

    def __get__(self, unpickled: Any, owner: type | None = None) -> Any:
        if unpickled is None:
            return self
        unopened = unpickled.__dict__.get("_unopened")
        if unopened is None:
            raise AttributeError("_native")
        return unpickled.__dict__.setdefault("_native", unopened())
