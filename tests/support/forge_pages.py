"""Encodings of pages of file version 2.2 as messages, and their buffers, with whatever sizes and counts: see
`forge_file`. Names are those of `protos/encodings21.proto`; one layout and its encodings of 2.0 are at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from support.forge import Field, Message, encode, number, text

LZ4, ZSTD = 1, 2
ALL_VALID_ITEM, NULLABLE_ITEM, NULL_AND_EMPTY_LIST = b"\x01", b"\x03", b"\x06"
Page = tuple[Message, list[bytes]]
"""An encoding and its buffers."""


def flat(bits: int) -> Field:
    return text(1, encode([number(1, bits)]))


def variable(bits: int) -> Field:
    return text(2, encode([text(1, encode([flat(bits)]))]))


def fsst(symbols: int, length: int) -> Field:
    """A table of as many symbols of one length."""
    table = bytes([symbols, 0, 0, 1]) + b"TSSF" + b"ab" * 4 * symbols + bytes([length]) * symbols
    return text(6, encode([text(1, table.ljust(2312, b"\0")), text(2, encode([variable(32)]))]))


def rle(bits: int) -> Field:
    return text(8, encode([text(1, encode([flat(bits)])), text(2, encode([flat(8)]))]))


def general(scheme: int, values: Field) -> Field:
    return text(10, encode([text(1, encode([number(1, scheme)])), text(3, encode([values]))]))


def mini_block(values: Field, items: int, buffers: Sequence[bytes], dictionary: Sequence[Field] = ()) -> Page:
    """One chunk without levels."""
    chunk = struct.pack("<H", 0) + b"".join(struct.pack("<I", len(buffer)) for buffer in buffers)
    chunk = _padded(chunk) + b"".join(map(_padded, buffers))
    layout = [text(3, encode([values])), *dictionary, text(6, ALL_VALID_ITEM)]
    layout += [number(7, len(buffers)), number(9, items), number(10, 1)]
    # The logarithm of the number of values is 0 in the last chunk.
    return [text(1, encode(layout))], [struct.pack("<I", (len(chunk) // 8 - 1) << 4), chunk]


def dictionary(scheme: int, items: bytes, rows: int, count: int = 7) -> Page:
    """Texts by numbers, all 0, into a compressed buffer that is to have `count` of them."""
    entries = [text(4, encode([general(scheme, variable(32))])), number(5, count)]
    layout, buffers = mini_block(flat(32), rows, [bytes(4 * rows)], entries)
    return layout, [*buffers, items]


def full_zip_value(value: bytes) -> Page:
    """One compressed text."""
    layout = [number(4, 32), number(5, 1), number(6, 1), text(7, encode([general(ZSTD, variable(32))]))]
    row = struct.pack("<I", len(value)) + value
    return [text(3, encode([*layout, text(8, ALL_VALID_ITEM)]))], [row, struct.pack("<II", 0, len(row))]


def full_zip_of_numbers(items: int, values: bytes) -> Page:
    layout = [number(3, 64), number(5, items), number(6, items), text(7, encode([flat(64)]))]
    return [text(3, encode([*layout, text(8, ALL_VALID_ITEM)]))], [values]


def constant(value: bytes) -> Page:
    """The same in all rows."""
    return [text(2, encode([text(5, ALL_VALID_ITEM), text(6, value)]))], []


def constant_text(size: int, content: bytes) -> Page:
    """One that says it has `size` bytes."""
    buffer = struct.pack("<III", 2, 8, size) + struct.pack("<ii", 0, size) + content
    return [text(2, encode([text(5, ALL_VALID_ITEM)]))], [buffer]


def nulls() -> Page:
    return [text(2, encode([text(5, NULLABLE_ITEM)]))], []


def lists_of_levels(levels: int, runs: int) -> Page:
    """Null lists whose levels are runs of 255."""
    codec = encode([rle(16)])
    layout = [text(5, NULL_AND_EMPTY_LIST), text(7, codec), text(8, codec), number(9, levels), number(10, levels)]
    buffer = struct.pack("<Q", 2 * runs) + bytes(2 * runs) + b"\xff" * runs
    return [text(2, encode(layout))], [buffer, buffer]


def texts(count: int, length: int, end: int | None = None) -> bytes:
    """A buffer of texts of zeros; `end` is where the last one says it ends."""
    start = 4 * (count + 1)
    offsets = [start + length * row for row in range(count + 1)]
    if end is not None:
        offsets[-1] = end
    return struct.pack(f"<{count + 1}I", *offsets) + bytes(count * length)


def compressed_numbers(scheme: str, buffer: bytes) -> Page:
    """Numbers of 64 bits in file version 2.0."""
    plain = encode([number(1, 64), text(2, b""), text(3, encode([text(1, scheme)]))])
    return [text(2, encode([text(1, encode([text(1, encode([text(1, plain)]))]))]))], [buffer]


def _padded(buffer: bytes) -> bytes:
    return buffer + bytes(-len(buffer) % 8)
