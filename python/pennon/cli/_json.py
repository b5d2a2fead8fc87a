"""JSON as `import` reads it: an object in each line, in UTF-8. Any other line is an error before it is parsed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

import pyarrow as pa

from pennon.cli._csv import BYTES, NOT_UTF8
from pennon.cli._types import member_types
from pennon.cli._values import shown
from pennon.errors import InvalidInputError

# Lines by their numbers.
_Lines: TypeAlias = dict[int, bytes]

# What an editor of Windows begins a file with.
_MARK = b"\xef\xbb\xbf"
# What a message shows of a line that is not an object.
_SHOWN = 40


class _Number(str):
    """A number as the file has it: a float of Python would round a decimal."""

    __slots__ = ()


def read_json(
    file: IO[bytes], schema: pa.Schema | None, wanted: pa.Schema | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns and rows of a file; with `schema` columns have these types.

    Where `wanted`, which has the same columns, has maps, the pairs of the file become structs.
    """
    maps = {} if wanted is None else {field.name: field.type for field in wanted if _has_map(field.type)}
    groups = _groups(file, maps)
    first = next(groups, None)
    if first is None:
        if schema is None:
            raise InvalidInputError("There is no row, which would say what the columns are")
        return schema, iter(())
    # Pyarrow finds out types, but loses nulls at the begin of lists meanwhile.
    begin = _parsed(first, _parsed(first, None).schema if schema is None else schema)
    types = begin.schema

    def batches() -> Iterator[pa.RecordBatch]:
        yield from begin.to_batches()
        for lines in groups:
            yield from _parsed(lines, types).to_batches()

    return types, batches()


def _groups(file: IO[bytes], maps: dict[str, pa.DataType]) -> Iterator[_Lines]:
    """The lines of a file, a few megabytes at a time, without those that are blank."""
    before = 0
    while lines := file.readlines(BYTES):
        if before == 0:
            lines[0] = lines[0].removeprefix(_MARK)
        objects: _Lines = {}
        for number, line in enumerate(lines, before + 1):
            begin = line.lstrip()
            if begin[:1] == b"{":
                objects[number] = _with_structs(line, maps, number) if maps else line
            elif begin:
                raise _no_object(begin, number)
        before += len(lines)
        if objects:
            _check_utf8(b"".join(objects.values()))
            yield objects


def _no_object(line: bytes, number: int) -> InvalidInputError:
    _check_utf8(line)
    if number == 1 and line[:1] == b"[":
        return InvalidInputError("This is a JSON array; expected an object in each line")
    found = shown(line.decode().rstrip(), _SHOWN)
    return InvalidInputError(f"Line {number} is {found!r}; expected an object in each line")


def _check_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(f"The text is {NOT_UTF8}") from None


def _parsed(lines: _Lines, schema: pa.Schema | None) -> pa.Table:
    import pyarrow.json

    text = b"".join(lines.values())
    options = pyarrow.json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
    )
    settings = pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    try:
        return pyarrow.json.read_json(io.BytesIO(text), settings, options)
    except pa.ArrowInvalid as error:
        if schema is not None and "unexpected field" in str(error):
            _check_fields(lines, schema)
        raise


def _check_fields(lines: _Lines, schema: pa.Schema) -> None:
    kind = pa.struct(list(schema))
    for number, line in lines.items():
        if name := _unexpected(json.loads(line), kind):
            expected = ", ".join(map(repr, schema.names))
            raise InvalidInputError(f"Line {number} has an unexpected field {name!r}; expected {expected}")


def _unexpected(value: Any, kind: pa.DataType) -> str | None:
    """The first field of a value that its type does not have."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
        for name, item in value.items():
            if name not in types:
                return str(name)
            if inner := _unexpected(item, types[name]):
                return f"{name}.{inner}"
    if isinstance(value, list) and not pa.types.is_struct(kind):
        for item in value:
            for item_type in member_types(kind):
                if inner := _unexpected(item, item_type):
                    return inner
    return None


def _with_structs(line: bytes, maps: dict[str, pa.DataType], number: int) -> bytes:
    """A line with the pairs of these maps as objects, which pyarrow can parse."""
    try:
        row = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
        changed = {name: _structs(row[name], kind) for name, kind in maps.items() if name in row}
        return _written({**row, **changed}).encode() + b"\n"
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"Line {number}: {error}") from None


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(name)}:{_written(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value)


def _structs(value: Any, kind: pa.DataType) -> Any:
    if value is None or not _has_map(kind):
        return value
    if pa.types.is_map(kind):
        if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise InvalidInputError("expected an array of pairs, which a map is in JSON")
        key, item = kind.key_field, kind.item_field
        return [{key.name: _structs(a, key.type), item.name: _structs(b, item.type)} for a, b in value]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
        return {name: _structs(item, types.get(name, pa.null())) for name, item in value.items()}
    if isinstance(value, list) and not pa.types.is_struct(kind):
        return [_structs(item, kind.value_type) for item in value]
    return value


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(map(_has_map, member_types(kind)))
