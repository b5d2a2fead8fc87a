"""Values that a cast to the type of their column would change: the core casts as SQL does, it truncates and rounds.

A value is cast and cast back; what differs then is refused. Only floats are rounded, to the nearest of the column.
Of the columns of numbers only those of integers take texts: the core parses others with a loss of digits.

Some casts are refused for all values: from lists to single values and back, from numbers to bytes, from times to
other numbers and back, whose unit nobody gave, and from times without a zone to times with one and back. What is
left, as bytes, is cast by the core alone, which refuses what does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pennon._text import did_you_mean
from pennon.errors import InvalidInputError, SchemaMismatchError

InputT = TypeVar("InputT", pa.Table, pa.RecordBatchReader)
# Digits of the largest integer.
_INTEGER = pa.decimal128(20, 0)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_NESTED = (*_LISTS, pa.types.is_struct, pa.types.is_map)
_NUMBERS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def check_casts(data: pa.Table, schema: pa.Schema, *, as_pyarrow: bool = False) -> None:
    """Refuse values of columns of a table that would be stored as other values; `as_pyarrow` as in `check_values`.

    Raises
    ------
    pennon.InvalidInputError
        There is such a value, a column has values of another kind, or a struct has a member that its column does
        not have; the message names it.
    """
    for name, column in zip(data.schema.names, data.columns, strict=True):
        wanted = _type_of(schema, name)
        if wanted is not None and not column.type.equals(wanted):
            for chunk in column.chunks:
                check_values(name, chunk, wanted, as_pyarrow=as_pyarrow)


def cast_exactly(data: pa.Table, schema: pa.Schema, *, as_pyarrow: bool = False) -> pa.Table:
    """The data in the types of a schema that has its columns.

    Raises
    ------
    pennon.InvalidInputError
        As for `check_casts`.
    pennon.SchemaMismatchError
        The data has other columns, or a type that is not cast.
    """
    check_casts(data, schema, as_pyarrow=as_pyarrow)
    try:
        return data.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatchError(
            f"The data does not fit the schema: {error}. It has\n{data.schema}\nand the schema is\n{schema}"
        ) from error


def checked(data: InputT, schema: pa.Schema) -> InputT:
    """The same data, whose values are checked as `check_casts` does before they are read."""
    if isinstance(data, pa.Table):
        check_casts(data, schema)
        return data
    types = ((field.type, _type_of(schema, field.name)) for field in data.schema)
    if all(wanted is None or given.equals(wanted) for given, wanted in types):
        return data  # no code of Python runs for its batches

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in data:
            check_casts(pa.Table.from_batches([batch]), schema)
            yield batch

    return pa.RecordBatchReader.from_batches(data.schema, batches())


def check_values(path: str, values: pa.Array, wanted: pa.DataType, *, as_pyarrow: bool = False) -> None:
    """Refuse values as `check_casts` does; `path` is their column, or a member of it.

    With `as_pyarrow` pyarrow casts the values, to a type that somebody asked for: it parses texts, numbers that are
    given for times are of the unit of the column, and times without a zone are in UTC.
    """
    values = _plain(values)
    if isinstance(wanted, pa.BaseExtensionType):
        wanted = wanted.storage_type
    if pa.types.is_dictionary(wanted):
        wanted = wanted.value_type
    given = values.type
    if given.equals(wanted) or pa.types.is_null(given):
        return
    # A null that is not of a list would become a list of a null.
    if values.null_count == len(values) and not (len(values) and is_list(wanted)):
        return
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        _check_members(path, values, wanted, as_pyarrow)
    elif pa.types.is_map(given) and pa.types.is_map(wanted):
        for name, parts, kind in (("key", values.keys, wanted.key_type), ("value", values.items, wanted.item_type)):
            # Only what lies in this array, which may be a slice.
            inside = pa.ListArray.from_arrays(values.offsets, parts).flatten()
            check_values(f"{path}.{name}", inside, kind, as_pyarrow=as_pyarrow)
    elif is_list(given) and is_list(wanted):
        check_values(f"{path}.item", values.flatten(), wanted.value_type, as_pyarrow=as_pyarrow)
    elif is_text(given) and as_pyarrow:
        return
    elif _is_other_kind(given, wanted) or not (as_pyarrow or _is_same_time(given, wanted)):
        raise InvalidInputError(
            f"column {path}: its type is {wanted}, found {'texts' if is_text(given) else given}; cast them first"
        )
    elif is_one_of(_NUMBERS, given) and is_one_of(_NUMBERS, wanted):
        _check_numbers(path, values, wanted)


def is_one_of(kinds: Iterable[Callable[[pa.DataType], bool]], data_type: pa.DataType) -> bool:
    """Whether one of the functions is true of a type."""
    return any(is_kind(data_type) for is_kind in kinds)


def is_text(data_type: pa.DataType) -> bool:
    """Whether values of a type are texts."""
    return is_one_of(_TEXTS, data_type)


def is_list(data_type: pa.DataType) -> bool:
    """Whether values of a type are lists."""
    return is_one_of(_LISTS, data_type)


def is_number(data_type: pa.DataType) -> bool:
    """Whether values of a type are numbers, bools or times."""
    return is_one_of(_NUMBERS, data_type)


def _is_other_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values are of a kind that is not cast: nested ones are of one each."""
    if is_one_of(_NESTED, given) or is_one_of(_NESTED, wanted):
        return True
    if is_text(given):
        return is_number(wanted) and not pa.types.is_integer(wanted)
    return is_number(given) and is_one_of(_BYTES, wanted)


def _is_same_time(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether no numbers are taken for times, nor times in some zone for those in none."""
    if not (is_number(given) and is_number(wanted)):
        return True
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    return bool(pa.types.is_temporal(given) == pa.types.is_temporal(wanted))


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    at = schema.get_field_index(name)
    return None if at < 0 else schema.field(at).type


def _plain(values: pa.Array) -> pa.Array:
    """The values of an extension, a dictionary, runs or views of texts."""
    if isinstance(values, pa.ExtensionArray):
        return _plain(values.storage)
    if isinstance(values, pa.DictionaryArray):
        # There is no decoding of views.
        return pa.DictionaryArray.from_arrays(values.indices, _plain(values.dictionary)).dictionary_decode()
    if isinstance(values, pa.RunEndEncodedArray):
        # Each run once, of this array, which may be a slice.
        return _plain(values.values.slice(values.find_physical_offset(), values.find_physical_length()))
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _check_members(path: str, values: pa.StructArray, wanted: pa.StructType, as_pyarrow: bool) -> None:
    members = {field.name: field.type for field in wanted}
    if len({field.name for field in values.type}) < values.type.num_fields:
        raise InvalidInputError(f"column {path}: found several members of one name in {values.type}")
    for field, member in zip(values.type, values.flatten(), strict=True):
        check_member(path, field.name, members)
        check_values(f"{path}.{field.name}", member, members[field.name], as_pyarrow=as_pyarrow)


def check_member(path: str, name: str, members: Collection[str]) -> None:
    """Refuse a member that a column does not have."""
    if name not in members:
        raise InvalidInputError(
            f"column {path}: found a member {name}, expected {', '.join(members)}{did_you_mean(name, members)}"
        )


def _check_numbers(path: str, values: pa.Array, wanted: pa.DataType) -> None:
    try:
        changed = _changed(values, wanted)
    except pa.ArrowNotImplementedError:
        raise InvalidInputError(
            f"column {path}: its type {wanted} may change values of type {values.type}; cast them first"
        ) from None
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"column {path}: its type is {wanted}, found {values.type}: {error}") from None
    lost = values.filter(changed)
    if len(lost):
        # Not as a value of Python, which has no times beyond the year 9999.
        first = str(lost[:1]).strip("[]\n ")
        raise InvalidInputError(
            f"column {path}: its type {wanted} would change the value {first} of type {values.type}; "
            "round or cast it first"
        )


def _changed(values: pa.Array, wanted: pa.DataType) -> pa.BooleanArray:
    given = values.type
    if pa.types.is_floating(given) and pa.types.is_floating(wanted):
        # Half floats have no functions.
        found, stored = values.cast(pa.float64()), values.cast(wanted, safe=False).cast(pa.float64())
        return pc.and_(pc.is_finite(found), pc.invert(pc.is_finite(stored)))
    if pa.types.is_timestamp(given) and pa.types.is_time(wanted):
        return pc.is_valid(values)  # the date is lost
    if pa.types.is_timestamp(given) and given.tz is not None and pa.types.is_date(wanted):
        values = pc.local_timestamp(values)
    elif pa.types.is_temporal(given) and not pa.types.is_temporal(wanted):
        values = values.view(_integers(given))
    elif pa.types.is_temporal(wanted) and not pa.types.is_temporal(given):
        wanted = _integers(wanted)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    back = _cast(_cast(values, wanted), values.type)
    return pc.not_equal(back, values)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    given = values.type
    if pa.types.is_float16(given):
        # Half floats have no cast to decimals.
        values = values.cast(pa.float32())
    elif pa.types.is_decimal(wanted) and pa.types.is_integer(given):
        values = values.cast(_INTEGER)
    elif pa.types.is_decimal(given) and pa.types.is_floating(wanted):
        # The direct cast does not give the nearest float.
        values = values.cast(pa.string())
    elif pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        # Time zones are about how times are shown, if both have one.
        wanted = pa.timestamp(wanted.unit, given.tz)
    elif pa.types.is_date(given) and pa.types.is_timestamp(wanted):
        # A day begins at midnight of each time zone.
        wanted = pa.timestamp(wanted.unit)
    return values.cast(wanted, safe=False)


def _integers(temporal: pa.DataType) -> pa.DataType:
    return pa.int32() if temporal.bit_width == 32 else pa.int64()
