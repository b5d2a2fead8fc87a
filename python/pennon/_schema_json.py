"""Arrow schemas as JSON values, in the form of pylance.

| value | is |
|---|---|
| schema | `fields`, and `metadata` if it has any |
| field | `name`, `type`, `nullable`, and `metadata` if it has any; that of an extension type is part of it |
| type | `type`, its name; `fields` of nested types; `length` of those with a fixed size |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pennon._c_data import metadata
from pennon.errors import InvalidInputError, InvalidTypeError

_NAMES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    **{f"time32:{unit}": pa.time32(unit) for unit in ("s", "ms")},
    **{f"time64:{unit}": pa.time64(unit) for unit in ("us", "ns")},
    **{f"duration:{unit}": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
}
_TYPES = {data_type: name for name, data_type in _NAMES.items()}


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """A schema as JSON values, for `json.dumps` and [json_to_schema][pennon.json_to_schema] of pylance or Pennon.

    Raises
    ------
    pennon.InvalidInputError
        A type has no name in this form (maps, views, intervals), or metadata are not UTF-8.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema_to_json(pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    {'fields': [{'name': 'a', 'type': {'type': 'int64'}, 'nullable': False}]}
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidTypeError(f"Expected a pyarrow.Schema, got {type(schema)}")
    return {"fields": [_field_json(field) for field in schema], **_metadata_json("the schema", schema)}


def json_to_schema(schema_json: dict[str, Any]) -> pa.Schema:
    """The schema of some JSON values, as [schema_to_json][pennon.schema_to_json] makes them.

    Raises
    ------
    pennon.InvalidInputError
        A member is missing or of another kind, or there is no type of a name.

    Examples
    --------
    >>> json_to_schema({"fields": [{"name": "a", "type": {"type": "decimal:128:5:2"}, "nullable": True}]})
    a: decimal128(5, 2)
    """
    fields = [_field(value, "the schema") for value in _member(schema_json, "fields", list, "the schema")]
    schema = pa.schema(fields, metadata=_metadata(schema_json, "the schema"))
    # Pyarrow finds extension types when it reads.
    return pa.ipc.read_schema(schema.serialize())


def _field_json(field: pa.Field) -> dict[str, Any]:
    data_type = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    return {
        "name": field.name,
        "type": _type_json(data_type, field.name),
        "nullable": field.nullable,
        **_metadata_json(f"the field {field.name}", field),
    }


def _metadata_json(owner: str, value: pa.Schema | pa.Field) -> dict[str, Any]:
    try:
        texts = dict(metadata(value))
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"The metadata of {owner} are not UTF-8: {error}") from None
    return {"metadata": texts} if texts else {}


def _type_json(data_type: pa.DataType, owner: str) -> dict[str, Any]:
    types = pa.types
    if types.is_struct(data_type):
        members = [data_type.field(at) for at in range(data_type.num_fields)]
        return {"type": "struct", "fields": [_field_json(member) for member in members]}
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        item = {"fields": [_field_json(data_type.value_field)]}
        if types.is_fixed_size_list(data_type):
            return {"type": "fixed_size_list", **item, "length": data_type.list_size}
        return {"type": "list" if types.is_list(data_type) else "large_list", **item}
    if types.is_fixed_size_binary(data_type) and not types.is_decimal(data_type):
        return {"type": "fixed_size_binary", "length": data_type.byte_width}
    return {"type": _name(data_type, owner)}


def _name(data_type: pa.DataType, owner: str) -> str:
    types = pa.types
    if data_type in _TYPES:
        return _TYPES[data_type]
    if types.is_timestamp(data_type):
        return f"timestamp:{data_type.unit}:{data_type.tz or '-'}"
    if types.is_decimal128(data_type) or types.is_decimal256(data_type):
        return f"decimal:{data_type.bit_width}:{data_type.precision}:{data_type.scale}"
    if types.is_dictionary(data_type):
        return f"dict:{_name(data_type.value_type, owner)}:{_name(data_type.index_type, owner)}:false"
    raise InvalidInputError(f"The field {owner} is of type {data_type}, which has no form in JSON")


def _field(value: Any, owner: str) -> pa.Field:
    name = _member(value, "name", str, f"a field of {owner}")
    data_type = _type(_member(value, "type", dict, name), name)
    return pa.field(name, data_type, _member(value, "nullable", bool, name), _metadata(value, name))


def _metadata(value: dict[str, Any], owner: str) -> dict[str, str] | None:
    if value.get("metadata") is None:
        return None
    texts = _member(value, "metadata", dict, owner)
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise InvalidInputError(f"The metadata of {owner} are not texts: {texts!r}")
    return dict(texts)


def _type(value: dict[str, Any], owner: str) -> pa.DataType:
    name = _member(value, "type", str, owner)
    if name == "struct":
        return pa.struct([_field(member, owner) for member in _member(value, "fields", list, owner)])
    lists: dict[str, Callable[[pa.Field], pa.DataType]] = {
        "list": pa.list_,
        "large_list": pa.large_list,
        "fixed_size_list": lambda item: pa.list_(item, _length(value, owner)),
    }
    if name in lists:
        members = _member(value, "fields", list, owner)
        if len(members) != 1:
            raise InvalidInputError(f"The field {owner} is a {name} of {len(members)} fields; expected one")
        return lists[name](_field(members[0], owner))
    if name == "fixed_size_binary":
        return pa.binary(_length(value, owner))
    return _named(name, owner)


def _named(name: str, owner: str) -> pa.DataType:
    if name in _NAMES:
        return _NAMES[name]
    kind, _, rest = name.partition(":")
    try:
        if kind == "timestamp":
            unit, _, zone = rest.partition(":")
            return pa.timestamp(unit, None if zone in ("", "-") else zone)
        if kind == "decimal":
            width, precision, scale = map(int, rest.split(":"))
            return {128: pa.decimal128, 256: pa.decimal256}[width](precision, scale)
        if kind == "dict":
            values, index, _ = rest.rsplit(":", 2)
            return pa.dictionary(_named(index, owner), _named(values, owner))
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InvalidInputError(f"The field {owner} is of type {name!r}, which is malformed: {error}") from None
    raise InvalidInputError(f"The field {owner} is of type {name!r}, which is unknown")


def _length(value: dict[str, Any], owner: str) -> int:
    length: int = _member(value, "length", int, owner)
    if not 0 <= length < 2**31:
        raise InvalidInputError(f"The field {owner} has values of length {length}")
    return length


def _member(value: Any, name: str, kind: type, owner: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidInputError(f"Expected an object for {owner}, found {value!r}")
    found = value.get(name)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InvalidInputError(f"Expected {name!r} of {owner} to be of type {kind.__name__}, found {found!r}")
    return found
