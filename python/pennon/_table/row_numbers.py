"""Numbers of rows as the core takes them: 64 bits each, in native byte order."""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Sequence

import pyarrow as pa

from pennon.errors import InvalidInputError, InvalidTypeError, PositionError


def row_numbers(rows: Sequence[int] | pa.Array) -> bytes:
    """The bytes of row numbers."""
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        return _words(rows)
    try:
        values = rows if isinstance(rows, list) else list(rows)
        return array("Q", values).tobytes()
    except TypeError:
        raise InvalidTypeError(
            f"Rows to take must be a list of whole numbers, found {reprlib.repr(rows)}"
        ) from None
    except OverflowError:
        wrong = min(values) if min(values) < 0 else max(values)
        raise PositionError(f"Rows to take must not be negative nor exceed 64 bits, found {wrong}") from None


def _words(rows: pa.Array | pa.ChunkedArray) -> bytes:
    if rows.null_count or not pa.types.is_integer(rows.type):
        raise InvalidInputError(
            f"Rows to take are integers without nulls, found {rows.type}, {rows.null_count} nulls"
        )
    try:
        cast = rows.cast(pa.uint64())
    except pa.ArrowInvalid as error:
        raise PositionError(f"Rows to take must not be negative: {error}") from None
    chunks = cast.chunks if isinstance(cast, pa.ChunkedArray) else [cast]
    words = []
    for chunk in chunks:
        values = chunk.buffers()[1]
        if values is not None:
            words.append(values.slice(8 * chunk.offset, 8 * len(chunk)))
    return b"".join(words)
