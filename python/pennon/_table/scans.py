"""Scans of a table: the request to the core, and what pyarrow does for filters that are its expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from pennon._expression import FilteredBatches, columns_of
from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pennon import _native
    from pennon._protocols import Numbered
    from pennon.types import BlobHandling, Columns, Filter


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
    order_by: list[Any] | None
    disable_scoring_autoprojection: bool | None
    row_addr_allowlist: bytes | None
    row_addr_blocklist: bytes | None


def given(**options: Unpack[ScanOptions]) -> ScanOptions:
    """The options that have a value."""
    return cast("ScanOptions", {name: value for name, value in options.items() if value is not None})


Window: TypeAlias = tuple[pc.Expression, pa.Schema, int, int | None]
"""What pyarrow does with the batches of a scan: filter, columns of the result, offset and limit."""


def native_columns(columns: Columns | None) -> list[str] | list[tuple[str, str]] | None:
    """Columns as the core takes them."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        return list(columns.items())
    if isinstance(columns, str):
        raise InvalidTypeError(f"columns must be a list of names, not the string {columns!r}")
    return list(columns)


def new_request() -> _native.ScanRequest:
    """A scan of all rows and columns."""
    return {
        "columns": None,
        "filter": None,
        "limit": None,
        "offset": None,
        "batch_size": None,
        "batch_size_bytes": None,
        "strict_batch_size": False,
        "with_row_id": False,
        "with_row_address": False,
        "fragments": None,
        "scan_in_order": True,
        "include_deleted_rows": False,
        "use_stats": True,
        "blob_handling": None,
    }


def plan(
    table: _native.Dataset, request: _native.ScanRequest, expression: pc.Expression | None, schema: pa.Schema
) -> tuple[_native.Scan, Window | None]:
    """Plan a scan; reads nothing. `schema` has the columns that a pyarrow expression may name."""
    return (table.scan(request), None) if expression is None else _filtered(table, request, expression, schema)


def addresses(table: _native.Dataset, expression: pc.Expression) -> pa.Array:
    """The addresses of the rows that match a pyarrow expression."""
    request: _native.ScanRequest = {**new_request(), "columns": ["_rowaddr"]}
    scan, window = _filtered(table, request, expression, table.schema)
    batches = list(FilteredBatches(scan.batches(), *window))
    return pa.Table.from_batches(batches, window[1])["_rowaddr"].combine_chunks()


def _filtered(
    table: _native.Dataset, request: _native.ScanRequest, expression: pc.Expression, schema: pa.Schema
) -> tuple[_native.Scan, Window]:
    if isinstance(request["columns"], list) and any(isinstance(c, tuple) for c in request["columns"]):
        raise UnsupportedError("SQL columns together with a pyarrow filter: give the filter as SQL text")
    plain: _native.ScanRequest = {**request, "limit": None, "offset": None}
    shown = table.scan(plain).schema
    needed = [name for name in columns_of(expression, schema) if name not in shown.names]
    wide: _native.ScanRequest = {**plain, "columns": [*shown.names, *needed]}
    scan = table.scan(wide)
    try:
        scan.schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInputError(f"The filter {expression} does not fit the columns: {error}") from error
    return scan, (expression, shown, request["offset"] or 0, request["limit"])
