"""Native handles: that of a dataset, or none of a path; and those that are opened when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

from pennon import _native
from pennon._options import location, strings
from pennon._protocols import Handle

TableAddress: TypeAlias = Handle | str | PathLike[str]
"""A path or URI, or a dataset, which is at one."""


def handle_of(table: Any) -> _native.Dataset | None:
    """The native handle of a dataset; `None` for a path or URI."""
    native = getattr(table, "_native", None)
    return native if isinstance(native, _native.Dataset) else None


def address_of(table: TableAddress, storage_options: Mapping[str, str] | None) -> tuple[str, dict[str, str]]:
    """Where a table is, and the storage options: those of a dataset, and those given."""
    native = handle_of(table)
    if native is None:
        return location(table), strings(storage_options)  # type: ignore[arg-type]
    return native.absolute_uri, {**native.storage_options, **strings(storage_options)}


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
