"""Tables as nobody would write them: a manifest is taken apart into its fields, changed and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from support.protobuf import read_varint

Field = tuple[int, int, "int | bytes"]
"""Number, wire type and value."""
Message = list[Field]
CHECKSUM = 5263440
"""The field of the checksum, which a changed message must not keep."""
MANIFEST = {"fields": 1, "fragments": 2, "transaction_file": 12, "base_paths": 18, "branch": 20}
FRAGMENT = {"id": 1, "files": 2, "deletion_file": 3, "physical_rows": 4, "row_ids": 5, "created_at": 7}


def newest_manifest(uri: str | Path) -> Path:
    return min(Path(uri, "_versions").glob("*.manifest"), key=lambda path: int(path.stem))


def parse(data: bytes) -> Message:
    """The fields of a message, in their order."""
    found: Message = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
            found.append((number, 0, value))
            continue
        if kind == 2:
            length, at = read_varint(data, at)
        else:
            length = {1: 8, 5: 4}[kind]
        found.append((number, kind, data[at : at + length]))
        at += length
    return found


def encode(message: Iterable[Field]) -> bytes:
    data = bytearray()
    for number, kind, value in message:
        data += varint(number << 3 | kind)
        if isinstance(value, int):
            data += varint(value)
        else:
            data += varint(len(value)) * (kind == 2) + value
    return bytes(data)


def text(number: int, value: str | bytes) -> Field:
    return number, 2, value.encode() if isinstance(value, str) else value


def number(field: int, value: int) -> Field:
    return field, 0, value


def without(message: Message, *numbers: int) -> Message:
    return [field for field in message if field[0] not in numbers]


def get(message: Message, field: int) -> bytes:
    return next(value for found, _, value in message if found == field and isinstance(value, bytes))


def forge(uri: str | Path, change: Callable[[Message], Message]) -> Path:
    """Writes the newest manifest again, with other fields; its path."""
    path = newest_manifest(uri)
    data = path.read_bytes()
    start = int.from_bytes(data[-16:-8], "little")
    length = int.from_bytes(data[start : start + 4], "little")
    message = without(parse(data[start + 4 : start + 4 + length]), CHECKSUM)
    changed = encode(change(message))
    path.write_bytes(data[:start] + len(changed).to_bytes(4, "little") + changed + data[-16:])
    return path


def forge_fragments(uri: str | Path, change: Callable[[Message], Message]) -> Path:
    """The same for every fragment."""
    return forge(uri, lambda manifest: _each(manifest, MANIFEST["fragments"], change))


def forge_data_files(uri: str | Path, change: Callable[[Message], Message]) -> Path:
    """The same for every data file of a fragment."""
    return forge_fragments(uri, lambda fragment: _each(fragment, FRAGMENT["files"], change))


def base_path(id: int, path: str, *, is_dataset_root: bool) -> Field:
    message = [number(1, id), number(3, int(is_dataset_root)), text(4, path)]
    return text(MANIFEST["base_paths"], encode(message))


def _each(message: Message, wanted: int, change: Callable[[Message], Message]) -> Message:
    """A message with all messages in a field of it changed."""
    edited = []
    for field in message:
        found, _, value = field
        edited.append(
            text(found, encode(change(parse(value)))) if found == wanted and isinstance(value, bytes) else field
        )
    return edited


def varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)
