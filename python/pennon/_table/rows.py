"""Rows of a table: taken by number, updated, and changed where a pyarrow expression matches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon._input import to_reader
from pennon._predicate import split
from pennon._table import scans
from pennon._table.row_numbers import row_numbers
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon import _native
    from pennon.types import Columns, FileVersion, Filter, Missing, ReaderLike, RewriteMode, TakeBy


def take(
    table: _native.Dataset,
    by: TakeBy,
    rows: Sequence[int] | pa.Array,
    columns: Columns | None,
    *,
    with_row_address: bool = False,
    ignore_deletions: bool = False,
    missing: Missing = "skip",
) -> pa.Table:
    """Rows by `"position"`, `"id"` or `"address"`, in their order."""
    batch = table.take(
        {
            "by": by,
            "rows": row_numbers(rows),
            "columns": scans.native_columns(columns),
            "members": "in_structs",
            "with_row_id": False,
            "with_row_address": with_row_address,
            "ignore_deletions": ignore_deletions,
            "missing": missing,
        }
    )
    return pa.Table.from_batches([batch])


def take_blobs(
    table: _native.Dataset,
    column: str,
    ids: Sequence[int] | pa.Array | None,
    addresses: Sequence[int] | pa.Array | None,
    indices: Sequence[int] | pa.Array | None,
) -> list[tuple[int, _native.Blob | None]]:
    """Row addresses and blobs, of rows that are given in exactly one of three ways."""
    given = {"id": ids, "address": addresses, "position": indices}
    chosen = [(by, rows) for by, rows in given.items() if rows is not None]
    if len(chosen) != 1:
        raise InvalidInputError("Exactly one of ids, indices, or addresses must be specified")
    ((by, rows),) = chosen
    return table.take_blobs(column, by, row_numbers(rows))


def update_request(
    retries: int, timeout: timedelta, version: FileVersion | None, mode: RewriteMode
) -> _native.UpdateRequest:
    """The options of an update."""
    return {
        "conflict_retries": retries,
        "retry_timeout": timeout,
        "data_storage_version": version,
        "mode": mode,
    }


def with_ids(row_ids: Any, data: ReaderLike | None) -> pa.Table:
    """New values with the ids of their rows in `_rowid`; without `data` they are all in `row_ids`."""
    table = to_reader(row_ids if data is None else data).read_all()
    if data is not None:
        is_arrow = isinstance(row_ids, pa.Array | pa.ChunkedArray)
        ids = row_ids.cast(pa.uint64()) if is_arrow else pa.array(row_ids, pa.uint64())
        return table.append_column("_rowid", ids)
    if "_rowid" in table.schema.names and pa.types.is_integer(table.schema.field("_rowid").type):
        at = table.schema.get_field_index("_rowid")
        return table.set_column(at, "_rowid", table["_rowid"].cast(pa.uint64()))
    return table


def as_sql(table: _native.Dataset, filter: Filter) -> Filter:
    """The SQL text that means the same as a pyarrow expression, if there is one: the core can skip rows by it."""
    if not isinstance(filter, pc.Expression):
        return filter
    text, rest = split(filter, table.schema)
    return filter if text is None or rest is not None else text
