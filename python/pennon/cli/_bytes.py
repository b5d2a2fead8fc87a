"""Bytes of imported files: text has them as base64, and a table may have a column of them as blobs."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from pennon.blob import blob_array
from pennon.errors import InvalidInputError

# What a message shows of a text that is no base64.
_SHOWN = 40


def text_types(schema: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """The types that a text file has for these columns: those in `known` with base64 for bytes."""
    names = () if known is None else known.names
    types = [_text_type(field.type) if field.name in names else field.type for field in schema]
    return pa.schema([field.with_type(kind) for field, kind in zip(schema, types, strict=True)])


def decoded(batch: pa.RecordBatch, known: pa.Schema, *, is_text: bool) -> pa.RecordBatch:
    """The columns of a batch whose type in `known` is bytes or blobs, as these."""
    columns, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        kind = known.field(field.name).type if field.name in known.names else field.type
        try:
            if is_text and array.type == _text_type(kind):
                array = _decoded(array, kind)
            elif _is_blob(kind) and _is_binary(array.type):
                array = blob_array(array.to_pylist())
        except (ValueError, pa.ArrowInvalid) as error:
            raise InvalidInputError(f"Column {field.name!r}: {error}") from None
        columns.append(array)
        fields.append(field.with_type(array.type))
    return pa.record_batch(columns, schema=pa.schema(fields))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes or blobs."""
    return _is_binary(kind) or _is_blob(kind)


def _text_type(kind: pa.DataType) -> pa.DataType:
    if is_bytes(kind):
        return pa.utf8()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_text_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_text_type(kind.value_type)))
    return kind


def _decoded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        members = [_decoded(array.field(at), field.type) for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = _decoded(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, kind, mask=array.is_null())
    values = [None if text is None else _from_base64(text) for text in array.to_pylist()]
    return blob_array(values) if _is_blob(kind) else pa.array(values, kind)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        part = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise InvalidInputError(f"{part!r} is no base64, which bytes are in text") from None


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_blob(kind: Any) -> bool:
    # Pylance registers a class of its own for the name.
    return getattr(kind, "extension_name", None) == "lance.blob.v2"
