"""Data files as nobody would write them: the pages of a column of a file without checksums are replaced.

The file is one of the reference, of version 2.0 to 2.2. New buffers go behind all that is there, and then comes
what a file ends with: the descriptor, metadata of columns, offset tables, footer. Also frames of zstd and blocks of
LZ4 that stand for far more bytes than they have.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from support.forge import Message, encode, get, number, parse, text, varint, without

FOOTER = struct.Struct("<QQQIIHH4s")
ALIGNMENT = 64
DESCRIPTOR = {"schema": 1, "length": 2}
COLUMN = {"encoding": 1, "pages": 2}
PAGE = {"offsets": 1, "sizes": 2, "length": 3, "encoding": 4}
ZSTD_MAGIC, ZSTD_BLOCK = b"\x28\xb5\x2f\xfd", 128 << 10


class ForgedFile:
    """A file that is taken apart."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, bytearray(path.read_bytes())
        _, offsets, buffers, count_of_buffers, count, *version = FOOTER.unpack(self.data[-FOOTER.size :])
        self.version = version
        self.columns = [parse(self._part(offsets, at)) for at in range(count)]
        self.descriptor = parse(self._part(buffers, 0))
        # Others, as statistics, stay where they are.
        self.others = [struct.unpack_from("<QQ", self.data, buffers + 16 * at) for at in range(1, count_of_buffers)]

    def _part(self, table: int, at: int) -> bytes:
        position, size = struct.unpack_from("<QQ", self.data, table + 16 * at)
        return bytes(self.data[position : position + size])

    def page(self, column: int) -> tuple[Message, list[bytes]]:
        """The encoding of the first page, a `PageLayout` or an `ArrayEncoding`, and its buffers."""
        page = parse(get(self.columns[column], COLUMN["pages"]))
        # A page of a constant has no buffers.
        offsets, sizes = (_numbers(b"".join(_all(page, PAGE[name]))) for name in ("offsets", "sizes"))
        found = [bytes(self.data[at : at + size]) for at, size in zip(offsets, sizes, strict=True)]
        return parse(get(_any_of(page), 2)), found

    def replace(self, column: int, encoding: Message, buffers: Sequence[bytes], rows: int) -> None:
        """All pages of a column by one."""
        page = parse(get(self.columns[column], COLUMN["pages"]))
        offsets = [self._append(buffer) for buffer in buffers]
        any = encode([text(1, get(_any_of(page), 1)), text(2, encode(encoding))])
        new = [
            text(PAGE["offsets"], b"".join(map(varint, offsets))),
            text(PAGE["sizes"], b"".join(varint(len(buffer)) for buffer in buffers)),
            number(PAGE["length"], rows),
            text(PAGE["encoding"], encode([text(2, encode([text(1, any)]))])),
        ]
        self.columns[column] = [*without(self.columns[column], COLUMN["pages"]), text(COLUMN["pages"], encode(new))]

    def write(self, rows: int) -> Path:
        """The file again, of so many rows."""
        descriptor = encode([*without(self.descriptor, DESCRIPTOR["length"]), number(DESCRIPTOR["length"], rows)])
        first = self._append(descriptor), len(descriptor)
        placed = []
        for column in map(encode, self.columns):
            placed.append((len(self.data), len(column)))
            self.data += column
        tables = []
        for table in (placed, [first, *self.others]):
            tables.append(len(self.data))
            self.data += b"".join(struct.pack("<QQ", *entry) for entry in table)
        counts = len(self.others) + 1, len(self.columns)
        self.data += FOOTER.pack(placed[0][0], *tables, *counts, *self.version)
        self.path.write_bytes(self.data)
        return self.path

    def _append(self, buffer: bytes) -> int:
        self.data += bytes(-len(self.data) % ALIGNMENT)
        self.data += buffer
        return len(self.data) - len(buffer)


def zstd_bomb(size: int) -> bytes:
    """A frame of as many zeros: a block of a repeated byte stands for 128 KiB and has four bytes."""
    blocks, rest = divmod(size, ZSTD_BLOCK)
    sizes = [ZSTD_BLOCK] * blocks + [rest]
    # No single segment, no size of the content, a window of 128 KiB.
    frame = bytearray(ZSTD_MAGIC + b"\x00\x38")
    for at, length in enumerate(sizes):
        frame += (length << 3 | 1 << 1 | (at == len(sizes) - 1)).to_bytes(3, "little") + b"\0"
    return bytes(frame)


def lz4_bomb(size: int) -> bytes:
    """A block of as many zeros, at least 300: a byte of a length stands for 255."""
    # One literal, then a match of distance 1; the last five bytes are literals.
    length = size - 1 - 5 - 4
    more = length - 15
    return b"\x1f\x00\x01\x00" + b"\xff" * (more // 255) + bytes([more % 255]) + b"\x50" + bytes(5)


def _all(message: Message, field: int) -> list[bytes]:
    return [value for found, _, value in message if found == field and isinstance(value, bytes)]


def _any_of(page: Message) -> Message:
    return parse(get(parse(get(parse(get(page, PAGE["encoding"])), 2)), 1))


def _numbers(packed: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found
