"""Numbers of rows as the core takes them: 64 bits each, in native byte order."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pyarrow as pa

from pennon.errors import InvalidInputError, PositionError


def numbers(rows: Sequence[int] | pa.Array) -> bytes:
    """The bytes of row numbers."""
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        return _words(rows)
    values = rows if isinstance(rows, list) else list(rows)
    try:
        return array("Q", values).tobytes()
    except OverflowError:
        wrong = min(values) if min(values) < 0 else max(values)
        raise PositionError(f"Rows to take must not be negative nor exceed 64 bits, found {wrong}") from None


def _words(rows: pa.Array | pa.ChunkedArray) -> bytes:
    if rows.null_count or not pa.types.is_integer(rows.type):
        raise InvalidInputError(
            f"Rows to take are integers without nulls, found {rows.type}, {rows.null_count} nulls"
        )
    try:
        numbers = rows.cast(pa.uint64())
    except pa.ArrowInvalid as error:
        raise PositionError(f"Rows to take must not be negative: {error}") from None
    chunks = numbers.chunks if isinstance(numbers, pa.ChunkedArray) else [numbers]
    words = []
    for chunk in chunks:
        values = chunk.buffers()[1]
        if values is not None:
            words.append(values.slice(8 * chunk.offset, 8 * len(chunk)))
    return b"".join(words)
