"""Numbers of rows as the core takes them: 64 bits each, in native byte order."""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pennon.errors import InvalidInputError, InvalidTypeError, PositionError

ROW_ID = "_rowid"
"""The column with the ids of rows."""


def row_numbers(rows: Sequence[int] | pa.Array, name: str = "Rows to take") -> bytes:
    """The bytes of row numbers; `name` is what errors call them."""
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        return _words(rows, name)
    try:
        values = rows if isinstance(rows, list) else list(rows)
        return array("Q", values).tobytes()
    except TypeError:
        raise InvalidTypeError(f"{name} must be a list of whole numbers, found {reprlib.repr(rows)}") from None
    except OverflowError:
        wrong = min(values) if min(values) < 0 else max(values)
        raise PositionError(f"{name} must not be negative nor exceed 64 bits, found {wrong}") from None


def id_list(row_ids: Sequence[int] | pa.Array) -> list[int]:
    """Row ids that were given as `row_ids`."""
    return array("Q", row_numbers(row_ids, "row_ids")).tolist()


def id_array(row_ids: Sequence[int] | pa.Array) -> pa.UInt64Array:
    """Row ids that were given as `row_ids`."""
    words = row_numbers(row_ids, "row_ids")
    return pa.Array.from_buffers(pa.uint64(), len(words) // 8, [None, pa.py_buffer(words)])


def with_uint64_ids(data: pa.Table) -> pa.Table:
    """Data whose column `_rowid` has the type of row ids: integers of Python are int64.

    The core refuses other types than integers.

    Raises
    ------
    pennon.InvalidInputError
        An id is negative: a `PositionError`.
    """
    schema = schema_with_uint64_ids(data.schema)
    if schema.equals(data.schema):
        return data
    at = schema.get_field_index(ROW_ID)
    try:
        return data.set_column(at, schema.field(at), data.column(at).cast(pa.uint64()))
    except pa.ArrowInvalid:
        least = pc.min(data.column(at))
        raise PositionError(f"The column {ROW_ID} must not be negative, found {least}") from None


def schema_with_uint64_ids(schema: pa.Schema) -> pa.Schema:
    """The schema of such data."""
    at = schema.get_field_index(ROW_ID)
    given = None if at < 0 else schema.field(at).type
    # The type is null if there are no ids, or nulls alone.
    if given is None or not (pa.types.is_integer(given) or pa.types.is_null(given)):
        return schema
    return schema.set(at, pa.field(ROW_ID, pa.uint64()))


def _words(rows: pa.Array | pa.ChunkedArray, name: str) -> bytes:
    if len(rows) == 0:  # an empty array of pyarrow has the type null
        return b""
    if rows.null_count or not pa.types.is_integer(rows.type):
        raise InvalidInputError(
            f"{name} must be integers without nulls, found {rows.type}, {rows.null_count} nulls"
        )
    try:
        cast = rows.cast(pa.uint64())
    except pa.ArrowInvalid as error:
        raise PositionError(f"{name} must not be negative: {error}") from None
    chunks = cast.chunks if isinstance(cast, pa.ChunkedArray) else [cast]
    words = []
    for chunk in chunks:
        values = chunk.buffers()[1]
        if values is not None:
            words.append(values.slice(8 * chunk.offset, 8 * len(chunk)))
    return b"".join(words)
