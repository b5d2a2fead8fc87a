"""Messages of protobuf by their bytes: what both libraries keep without knowing it is compared byte by byte."""

from __future__ import annotations

from pathlib import Path

INDEX_SECTION = 6
"""The field of a manifest that says where its index section begins."""


def index_entries(uri: str) -> list[bytes]:
    """The entries of the index section of the newest manifest."""
    newest = min(Path(uri, "_versions").glob("*.manifest"), key=lambda path: int(path.stem))
    manifest = newest.read_bytes()
    at = dict(fields(_message(manifest, int.from_bytes(manifest[-16:-8], "little"))))[INDEX_SECTION]
    assert isinstance(at, int)
    return [entry for _, entry in fields(_message(manifest, at)) if isinstance(entry, bytes)]


def fields(message: bytes) -> list[tuple[int, bytes | int]]:
    """Number and value of each field of a message."""
    found: list[tuple[int, bytes | int]] = []
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        if tag & 7 == 1:
            found.append((tag >> 3, int.from_bytes(message[at : at + 8], "little")))
            at += 8
            continue
        value, at = read_varint(message, at)
        if tag & 7 == 2:
            found.append((tag >> 3, message[at : at + value]))
            at += value
        else:
            found.append((tag >> 3, value))
    return found


def _message(data: bytes, at: int) -> bytes:
    length = int.from_bytes(data[at : at + 4], "little")
    return data[at + 4 : at + 4 + length]


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a position, and where the next field begins."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
