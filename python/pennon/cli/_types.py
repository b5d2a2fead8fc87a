"""Types of imported columns: what the parsers of text are asked for, and how that becomes what a table has.

Parsers do not know all types. Of those that they lack, and of bytes, they get one that has the same text.
"""

from __future__ import annotations

from itertools import starmap
from typing import Literal
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from pennon.blob import blob_array
from pennon.cli._bytes import from_base64, is_binary, is_blob, is_bytes
from pennon.errors import InvalidInputError

TextFormat = Literal["csv", "jsonl"]


def text_types(schema: pa.Schema, text: TextFormat) -> pa.Schema:
    """The types that a parser is asked for, so that `converted` makes those of `schema` of them."""
    return pa.schema([field.with_type(_text_type(field.type, text)) for field in schema])


def converted(
    batch: pa.RecordBatch, wanted: pa.Schema, *, text: TextFormat | None, only_bytes: bool
) -> pa.RecordBatch:
    """The columns of a batch of a file as the types that they have in `wanted`.

    Those of a text file must have been asked for by `text_types`. Of other files, bytes become blobs; dates and
    times become those of another unit, dictionaries those with other keys, and plain values dictionaries, if no
    value changes. With `only_bytes` nothing else than bytes is converted, which text has as base64.
    """
    columns, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if field.name in wanted.names:
            kind = wanted.field(field.name).type
            try:
                if text is None:
                    array = _from_arrow(array, kind, only_bytes)
                elif not only_bytes or array.type == _base64_type(kind):
                    array = _from_text(array, kind, text)
            except (ValueError, pa.ArrowException, InvalidInputError) as error:
                raise InvalidInputError(f"Column {field.name!r}: {error}") from None
        columns.append(array)
        fields.append(field.with_type(array.type))
    return pa.record_batch(columns, schema=pa.schema(fields))


def member_types(kind: pa.DataType) -> list[pa.DataType]:
    """The types in a nested type: those of values, of members, or of keys and items."""
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if _is_list(kind) else []


def is_nested(kind: pa.DataType) -> bool:
    """Whether values of a type have members, which CSV has no form for."""
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(pa.types.is_nested(storage)) and not is_bytes(kind)


def nested_in_csv(kind: pa.DataType) -> InvalidInputError:
    """The error of a nested column in a CSV file."""
    return InvalidInputError(f"{kind} cannot be read from CSV, as it can from JSON, Parquet and Arrow")


def _base64_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column with text for its bytes."""
    if is_bytes(kind):
        return pa.utf8()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_base64_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_base64_type(kind.value_type)))
    return kind


def _text_type(kind: pa.DataType, text: TextFormat) -> pa.DataType:
    is_json = text == "jsonl"
    if is_bytes(kind) or _is_uuid(kind) or pa.types.is_string_view(kind):
        return pa.utf8()
    if isinstance(kind, pa.BaseExtensionType):
        # Python has a value of its own for it, which JSON shows.
        is_flag = is_json and kind.extension_name == "arrow.bool8"
        return pa.bool_() if is_flag else _text_type(kind.storage_type, text)
    if pa.types.is_dictionary(kind):
        return _text_type(kind.value_type, text)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_nested(kind):
        return _nested_type(kind) if is_json else pa.utf8()
    has_text = pa.types.is_date(kind) or pa.types.is_time(kind) if is_json else pa.types.is_decimal256(kind)
    return pa.utf8() if has_text else kind


def _nested_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_text_type(field.type, "jsonl")) for field in kind])
    if pa.types.is_map(kind):
        return pa.list_(_nested_type(pa.struct([kind.key_field, kind.item_field])))
    if _is_list(kind):
        return pa.list_(kind.value_field.with_type(_text_type(kind.value_type, "jsonl")))
    return kind


def _from_text(array: pa.Array, kind: pa.DataType, text: TextFormat) -> pa.Array:
    if array.type == kind:
        return array
    if is_bytes(kind):
        return from_base64(array, kind)
    if _is_uuid(kind):
        values = [None if value is None else UUID(value).bytes for value in array.to_pylist()]
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _from_text(array, kind.storage_type, text))
    if pa.types.is_dictionary(kind):
        return _from_text(array, kind.value_type, text).dictionary_encode().cast(kind)
    if pa.types.is_nested(kind):
        if text == "csv":
            raise nested_in_csv(kind)
        return _nested(array, kind)
    if pa.types.is_time(kind):
        moments = pc.binary_join_element_wise("1970-01-01", array, "T")
        return moments.cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_float16(kind):
        return _halves(array)
    return array.cast(kind)


def _nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        members = [_from_text(array.field(at), field.type, "jsonl") for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        entries = _from_text(array.values, pa.struct([kind.key_field, kind.item_field]), "jsonl")
        # An offset that is null begins a map that is null.
        has_value = pa.concat_arrays([array.is_valid(), pa.array([True])])
        offsets = pc.if_else(has_value, array.offsets, None)
        return pa.MapArray.from_arrays(offsets, entries.field(0), entries.field(1), type=kind)
    values = _from_text(array.values, kind.value_type, "jsonl")
    plain = pa.list_(kind.value_field)
    lists = pa.ListArray.from_arrays(array.offsets, values, plain, mask=array.is_null())
    return lists if kind == plain else lists.cast(kind)


def _halves(array: pa.Array) -> pa.Array:
    halves = array.cast(pa.float16())
    lost = pc.and_(pc.is_inf(halves.cast(pa.float32())), pc.is_finite(array))
    if pc.any(lost).as_py():
        raise InvalidInputError(f"{array.filter(lost)[0]} is too large for float16")
    return halves


def _from_arrow(array: pa.Array, kind: pa.DataType, only_bytes: bool) -> pa.Array:
    if array.type == kind:
        return array
    if is_blob(kind):
        return blob_array(array.to_pylist()) if is_binary(array.type) else array
    # Parquet has neither seconds, nor the date64, keys of dictionaries and dictionaries of numbers of Arrow.
    return _cast(array, kind) if not only_bytes and _is_same_but_units(array.type, kind) else array


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(array.type):
        return array.cast(kind.value_type).dictionary_encode().cast(kind)
    try:
        return array.cast(kind)
    except pa.ArrowNotImplementedError:  # for dictionaries in nested values
        return pa.array(array.to_pylist(), kind)


def _is_same_but_units(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(found):
        return _is_same_but_units(found, wanted.value_type)
    if pa.types.is_timestamp(found):
        return bool(pa.types.is_timestamp(wanted) and found.tz == wanted.tz)
    for is_kind in (pa.types.is_date, pa.types.is_time):
        if is_kind(found):
            return bool(is_kind(wanted))
    if pa.types.is_dictionary(found):
        is_text = pa.types.is_dictionary(wanted) and _is_text(found.value_type) and _is_text(wanted.value_type)
        return found == wanted or is_text
    if pa.types.is_struct(found) and pa.types.is_struct(wanted) and _names(found) != _names(wanted):
        return False
    pairs = list(zip(member_types(found), member_types(wanted), strict=False))
    return found == wanted or (found.id == wanted.id and bool(pairs) and all(starmap(_is_same_but_units, pairs)))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _names(kind: pa.StructType) -> list[str]:
    return [field.name for field in kind]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_uuid(kind: pa.DataType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"
