"""Scans of a table: their options, and the request to the core."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from pennon._predicate import split
from pennon._table.plan import ScanPlan, planned
from pennon.errors import InvalidInputError, InvalidTypeError, NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pennon import _native
    from pennon._protocols import Numbered
    from pennon.types import BlobHandling, ColumnOrdering, Columns, Filter


MOST_BATCH_ROWS = 2**32 - 1


class ScanOptions(TypedDict, total=False):
    """The options of a scan; `LanceDataset.scanner` describes them.

    The signatures of the methods that scan are made of these types, see `tests/scan_signatures.py`.
    """

    columns: Columns | None
    filter: Filter | None
    limit: int | None
    offset: int | None
    nearest: dict[str, Any] | None
    batch_size: int | None
    batch_size_bytes: int | None
    batch_readahead: int | None
    fragment_readahead: int | None
    scan_in_order: bool | None
    fragments: Sequence[Numbered] | None
    index_segments: Any | None
    full_text_query: Any | None
    prefilter: bool | None
    with_row_id: bool | None
    with_row_address: bool | None
    use_stats: bool | None
    fast_search: bool | None
    io_buffer_size: int | None
    late_materialization: bool | list[str] | None
    blob_handling: BlobHandling | None
    use_scalar_index: bool | None
    include_deleted_rows: bool | None
    scan_stats_callback: Any | None
    strict_batch_size: bool | None
    order_by: Sequence[ColumnOrdering | str] | None
    disable_scoring_autoprojection: bool | None
    row_addr_allowlist: bytes | None
    row_addr_blocklist: bytes | None
    strict_indices: bool | None


def given(**options: Unpack[ScanOptions]) -> ScanOptions:
    """The options that have a value."""
    return given_of(options)


def given_of(arguments: Mapping[str, Any]) -> ScanOptions:
    """The options that have a value, among the arguments of a method."""
    known = ScanOptions.__annotations__
    found = {name: value for name, value in arguments.items() if value is not None and name in known}
    return cast("ScanOptions", found)


def native_columns(columns: Columns | None) -> list[str] | list[tuple[str, str]] | None:
    """Columns as the core takes them."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise InvalidTypeError(f"columns must be a list of names, not the string {columns!r}")
    if not isinstance(columns, Iterable):
        raise InvalidTypeError(f"columns must be a list of names or a dict of SQL expressions, found {columns!r}")
    found: list[Any] = list(columns.items() if isinstance(columns, Mapping) else columns)
    are_names = all(isinstance(column, str) for column in found)
    if not are_names and not all(isinstance(column, tuple) and _is_pair(column) for column in found):
        raise InvalidTypeError(f"columns must be names, or SQL expressions by name, found {found!r}")
    return found


def _is_pair(column: tuple[Any, ...]) -> bool:
    return len(column) == 2 and all(isinstance(part, str) for part in column)


def new_request() -> _native.ScanRequest:
    """A scan of all rows and columns, in batches of the size that the environment names for pylance.

    Raises `InvalidInputError` for a size that is not a number of rows.
    """
    wanted = os.environ.get("LANCE_DEFAULT_BATCH_SIZE") or None
    if wanted is not None and not (wanted.isdecimal() and 1 <= int(wanted) <= MOST_BATCH_ROWS):
        raise InvalidInputError(
            f"LANCE_DEFAULT_BATCH_SIZE is {wanted!r}, expected a whole number from 1 to {MOST_BATCH_ROWS}"
        )
    return {
        "columns": None,
        "filter": None,
        "limit": None,
        "offset": None,
        "batch_size": None if wanted is None else int(wanted),
        "batch_size_bytes": None,
        "strict_batch_size": False,
        "with_row_id": False,
        "with_row_address": False,
        "fragments": None,
        "scan_in_order": True,
        "include_deleted_rows": False,
        "use_stats": True,
        "use_scalar_index": True,
        "fast_search": False,
        "strict_indices": False,
        "blob_handling": None,
        "nearest": None,
        "first": None,
    }


def check_columns(table: _native.Dataset, option: str, names: Sequence[str]) -> None:
    """Refuse names that are not columns. Raises `NotFoundError`."""
    try:
        table.scan({**new_request(), "columns": list(dict.fromkeys(names))})
    except InvalidInputError as error:
        raise NotFoundError(f"{option}: {error}") from None


def plan(
    table: _native.Dataset,
    request: _native.ScanRequest,
    schema: pa.Schema | None = None,
    *,
    expression: pc.Expression | None = None,
    orderings: Sequence[ColumnOrdering] = (),
) -> ScanPlan:
    """Plan a scan; reads nothing. `schema` has the columns that the pyarrow expression may name."""
    rest = None
    if expression is not None and schema is not None:
        text, rest = split(expression, schema)
        request = {**request, "filter": text}
    return planned(table, request, rest, orderings, schema)


def addresses(table: _native.Dataset, expression: pc.Expression) -> pa.Array:
    """The addresses of the rows that match a pyarrow expression."""
    request: _native.ScanRequest = {**new_request(), "columns": ["_rowaddr"]}
    found = plan(table, request, table.schema, expression=expression)
    return pa.Table.from_batches(list(found.batches()), found.schema)["_rowaddr"].combine_chunks()
