"""What every plan has in common: its table, its version, and the work as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pennon import _native
from pennon._options import checked_number, location, strings
from pennon.dataset import LanceDataset
from pennon.errors import InvalidInputError
from pennon.jobs._connection import Connection
from pennon.jobs._plan import JobPlan

if TYPE_CHECKING:
    from pennon.types import Durability, Reference

TableLike: TypeAlias = "LanceDataset | str | PathLike[str]"
"""A table: a dataset, whose version is pinned, or a URI, whose newest version is."""


def columns_of(schema: pa.Schema) -> str:
    """A stream of no batches, for the JSON of a plan."""
    columns = pa.BufferOutputStream()
    pa.ipc.new_stream(columns, schema).close()
    return base64.b64encode(columns.getvalue()).decode()


def planned(
    table: TableLike,
    work: dict[str, Any],
    tasks: int | None,
    bytes_per_task: int | None,
    storage_options: Mapping[str, str] | None,
    durability: Durability | None = None,
    version: Reference | None = None,
    workers: tuple[int, int | None] | None = None,
) -> JobPlan:
    """The plan of `work`, which is the JSON that `rust/table/src/jobs` reads.

    Parameters
    ----------
    workers
        How many, and the bytes of data files that a task for them is worth.
    """
    numbers = {"tasks": tasks, "bytes_per_task": bytes_per_task}
    if workers is not None:
        numbers |= {"workers": workers[0], "least_bytes_per_task": workers[1]}
    for name, number in numbers.items():
        if number is not None:
            checked_number(name, number)
    opened, connection = opened_table(table, storage_options, durability, version)
    native = _native.JobPlan.plan(opened._native, json.dumps(work), tasks, bytes_per_task, workers)
    return JobPlan(native, connection)


def opened_table(
    table: TableLike,
    storage_options: Mapping[str, str] | None,
    durability: Durability | None,
    version: Reference | None,
) -> tuple[LanceDataset, Connection]:
    """The table at the version that a plan pins, and how its tasks will reach it."""
    if isinstance(table, LanceDataset):
        if version is not None:
            raise InvalidInputError("A version was given for a dataset, which has one: check it out, or give a URI")
        stored = {**table._native.storage_options, **strings(storage_options)}
        return table, Connection.of(stored, durability or table._native.commit_settings[0])
    connection = Connection.of(storage_options, durability or "full")
    return connection.open(location(table), version), connection
