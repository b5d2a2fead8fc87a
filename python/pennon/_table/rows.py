"""Rows of a table: taken by number, updated, and changed where a pyarrow expression matches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from pennon._input import to_reader
from pennon._options import checked_duration, checked_number
from pennon._predicate import split
from pennon._table import scans
from pennon._table.keyed_data import types_of_source, types_of_values
from pennon._table.row_numbers import ROW_ID, id_array, row_numbers, with_uint64_ids
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon import _native
    from pennon.types import BlobHandling, Columns, FileVersion, Filter, Missing, ReaderLike, RewriteMode, TakeBy

RETRY_TIMEOUT = timedelta(seconds=30)
"""No retry of a delete, update or merge starts after this time, if the caller names no other."""


def take(
    table: _native.Dataset,
    by: TakeBy,
    rows: Sequence[int] | pa.Array,
    columns: Columns | None,
    *,
    members: Literal["in_structs", "apart"] = "in_structs",
    with_row_id: bool = False,
    with_row_address: bool = False,
    ignore_deletions: bool = False,
    missing: Missing = "skip",
    blob_handling: BlobHandling | None = None,
) -> pa.Table:
    """Rows by `"position"`, `"id"` or `"address"`, in their order; members of structs `"apart"` as in scans."""
    batch = table.take(
        {
            "by": by,
            "rows": row_numbers(rows),
            "columns": scans.native_columns(columns),
            "members": members,
            "with_row_id": with_row_id,
            "with_row_address": with_row_address,
            "ignore_deletions": ignore_deletions,
            "missing": missing,
            "blob_handling": blob_handling,
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
        "conflict_retries": checked_number("conflict_retries", retries, most=2**32 - 1),
        "retry_timeout": checked_duration("retry_timeout", timeout),
        "data_storage_version": version,
        "mode": mode,
    }


def with_ids(row_ids: Any, data: ReaderLike | None, types: pa.Schema) -> pa.Table:
    """New values with the ids of their rows in `_rowid`; without `data` they are all in `row_ids`.

    Values of Python and pandas get the `types` of the table.
    """
    if data is None:
        types = types_of_source(types, [ROW_ID])
        return with_uint64_ids(to_reader(row_ids, table_schema=types).read_all())
    ids = id_array(row_ids)
    if len(ids):
        types = types_of_values(types, data)
    table = to_reader(data, table_schema=types).read_all()
    if ROW_ID in table.schema.names:
        raise InvalidInputError(f"The data has a column {ROW_ID}, and row_ids are given too: expected one of them")
    if len(ids) != table.num_rows:
        raise InvalidInputError(
            f"{len(ids)} row_ids are given, and the data has {table.num_rows} rows: expected a row for each id"
        )
    return table.append_column(ROW_ID, ids)


def as_sql(table: _native.Dataset, filter: Filter) -> Filter:
    """The SQL text that means the same as a pyarrow expression, if there is one: the core can skip rows by it."""
    if not isinstance(filter, pc.Expression):
        return filter
    text, rest = split(filter, table.schema)
    return filter if text is None or rest is not None else text
