"""Native handles: that of a dataset, or none if there is only a path."""

from __future__ import annotations

from typing import Any

from pennon import _native


def handle_of(table: Any) -> _native.Dataset | None:
    """The native handle of a dataset; `None` for a path or URI."""
    native = getattr(table, "_native", None)
    return native if isinstance(native, _native.Dataset) else None
