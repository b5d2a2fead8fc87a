"""How the processes of a job reach its table."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon._options import strings
from pennon._table.writing import native_options
from pennon.dataset import LanceDataset

if TYPE_CHECKING:
    from pennon import _native
    from pennon.types import Durability, Reference


@dataclass(frozen=True)
class Connection:
    """How tasks and the commit reach the table: goes with a pickle, not with JSON, since it may hold secrets."""

    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    durability: Durability = "full"

    @classmethod
    def of(cls, storage_options: Mapping[str, str] | None, durability: Durability) -> Connection:
        return cls(tuple(sorted(strings(storage_options).items())), durability)

    def open(self, uri: str, version: Reference | None = None) -> LanceDataset:
        options = dict(self.storage_options)
        return LanceDataset(uri, version, storage_options=options, durability=self.durability)

    def request(self, **given: Any) -> _native.WriteOptions:
        return native_options(storage_options=dict(self.storage_options), durability=self.durability, **given)


class _Handle:
    """A version that one thread opens for all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.table: LanceDataset | None = None


_locks: dict[int, threading.Lock] = {}
"""Of `_handles`, one for each process, because a lock may be held while that is forked."""
_handles: dict[tuple[int, str, str, int, Connection], _Handle] = {}
"""Versions that tasks of this process have opened, those used last. Each job opens its own: another table may
have been made at the same location since the last one.
"""
_MOST_HANDLES = 4


def pinned(connection: Connection, job: str, uri: str, version: int) -> LanceDataset:
    """The version that a job is pinned to."""
    process = os.getpid()
    key = (process, job, uri, version, connection)
    with _locks.setdefault(process, threading.Lock()):
        handle = _handles[key] = _handles.pop(key, _Handle())
        for old in [*_handles][:-_MOST_HANDLES]:
            del _handles[old]
    with handle.lock:
        if handle.table is None:
            handle.table = connection.open(uri, version)
        return handle.table
