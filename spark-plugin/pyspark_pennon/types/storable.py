"""Frames that become rows of a table: which columns a table can hold, and with which Arrow types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
)

from pyspark_pennon.errors import invalid, mismatch
from pyspark_pennon.spark_api import TimeType
from pyspark_pennon.types.arrow_facts import FIXED_SIZE_LIST, restored, with_comment
from pyspark_pennon.types.batches import is_blob, is_list
from pyspark_pennon.types.column_names import stored_names
from pyspark_pennon.types.schema import SYSTEM_COLUMNS, arrow_schema

_STORABLE = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    *([] if TimeType is None else [TimeType]),
)


_SIZED_TEXT = re.compile(r"\b(var)?char\(\d+\)")
"""`CHAR(n)` and `VARCHAR(n)`, also in nested types."""


def stored_columns(schema: StructType, *, drop_system_columns: bool) -> StructType:
    """The columns of a frame that are written.

    Raises
    ------
    ValueError
        A name occurs twice, or a system column is among them and is not to be dropped.
    """
    kept = []
    for column in schema.fields:
        if column.name not in SYSTEM_COLUMNS:
            kept.append(column)
        elif not drop_system_columns:
            raise invalid(
                f"column '{column.name}' is a system column, which every table has by itself: drop or rename it, "
                "or give the option drop_system_columns"
            )
    seen = set()
    for column in kept:
        if column.name in seen:
            raise invalid(
                f"column '{column.name}' occurs more than once; the columns of a Lance table have different names"
            )
        seen.add(column.name)
    if not kept:
        raise invalid("the frame has no columns to write")
    return StructType(kept)


def new_table_schema(schema: StructType, vector_sizes: Mapping[str, int] | None = None) -> pa.Schema:
    """The Arrow schema of a table created from a Spark schema.

    List elements are named `item`, as pyarrow and the reference do, so that either can append.

    Parameters
    ----------
    vector_sizes
        Sizes of the columns of Spark ML's vectors, as far as their metadata does not say it.

    Raises
    ------
    ValueError
        A column has a type that Arrow cannot represent (variant, year-month interval, geometry ...), or vectors of
        an unknown size.
    """
    sizes = vector_sizes or {}
    return pa.schema([with_comment(_new_field(column, sizes.get(column.name)), column) for column in schema.fields])


def frame_schema(schema: StructType, vector_sizes: Mapping[str, int] | None = None) -> pa.Schema:
    """The Arrow schema of new columns, or of a new table: as in Spark's own sources, everything may be null.

    Raises
    ------
    ValueError
        As of `new_table_schema`, and for a name that differs from that of a system column by case only.
    """
    for column in schema.fields:
        refuse_other_case([], column.name)
    return pa.schema([_with_nulls(field) for field in new_table_schema(schema, vector_sizes)])


def _with_nulls(field: pa.Field) -> pa.Field:
    kind = field.type
    if is_blob(field):
        pass
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(_with_nulls(kind.value_field), kind.list_size)
    elif pa.types.is_list(kind):
        kind = pa.list_(_with_nulls(kind.value_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_with_nulls(kind.value_field))
    elif pa.types.is_struct(kind):
        kind = pa.struct([_with_nulls(child) for child in kind])
    elif pa.types.is_map(kind):
        key = _with_nulls(kind.key_field).with_nullable(False)
        kind = pa.map_(key, _with_nulls(kind.item_field), kind.keys_sorted)
    return field.with_type(kind).with_nullable(True)


def _new_field(column: StructField, size: int | None) -> pa.Field:
    if is_ml_vector(column.dataType):
        found = known_vector_size(column) or size
        if found is None:
            raise invalid(
                f"column '{column.name}' has vectors of unknown size: write it with pyspark_pennon.write, or set "
                f"the metadata {FIXED_SIZE_LIST} of the column"
            )
        return pa.field(column.name, pa.list_(pa.float64(), found), column.nullable)
    if _SIZED_TEXT.search(column.dataType.simpleString()):
        raise invalid(
            f"column '{column.name}' has the Spark type {column.dataType.simpleString()}, and a Lance table keeps "
            "no length of text: use STRING"
        )
    if not _is_storable(column.dataType):
        raise invalid(
            f"column '{column.name}' has the Spark type {column.dataType.simpleString()}, "
            "which a Lance table cannot hold; cast it or drop it first"
        )
    return restored(column, lambda: implied_type(column))


def implied_type(column: StructField) -> pa.DataType:
    """The Arrow type of a new table for a Spark type alone."""
    bare = StructField(column.name, column.dataType, column.nullable)
    return _stored_type(arrow_schema(StructType([bare])).field(0).type)


def append_schema(table: pa.Schema, data: StructType, *, is_sensitive: bool = False) -> pa.Schema:
    """The table's fields that a Spark frame with schema `data` fills, in the frame's order.

    Parameters
    ----------
    is_sensitive
        Whether names differ by case.

    Raises
    ------
    ValueError
        A column or member the table does not have, a missing one that may not be null, or one of a type that never
        fits.
    """
    unknown = new_columns(table, data, is_sensitive=is_sensitive)
    if unknown:
        raise mismatch(
            f"Append with different schema: the table has no column '{unknown[0].name}'; "
            f"its columns are {', '.join(table.names)}; to add it, give the option merge_schema"
        )
    given = stored_names(table.names, data.fieldNames(), is_sensitive=is_sensitive)
    for at, name in enumerate(given):
        if name in given[:at]:
            raise mismatch(f"Append with different schema: two columns of the frame are '{name}' of the table")
    for column in table:
        if column.name not in given and not column.nullable:
            raise mismatch(f"Append with different schema: column '{column.name}' is missing and may not be null")
    for name, column in zip(given, data.fields, strict=True):
        _check_fits(table.field(name), column, is_sensitive=is_sensitive)
    return pa.schema([table.field(name) for name in given])


def new_columns(table: pa.Schema, data: StructType, *, is_sensitive: bool = False) -> list[StructField]:
    """The columns of a frame that the table does not have.

    Raises
    ------
    ValueError
        Names differ by case, and the table has a column of another case: other sessions take the two for one name.
    """
    names = stored_names(table.names, data.fieldNames(), is_sensitive=is_sensitive)
    unknown = [column for name, column in zip(names, data.fields, strict=True) if name not in table.names]
    for column in unknown:
        refuse_other_case(table.names, column.name)
    return unknown


def refuse_other_case(names: Sequence[str], name: str) -> None:
    """Refuse a new column whose name differs from that of another one, or of a system column, by case only."""
    if name.lower() in SYSTEM_COLUMNS:
        raise mismatch(
            f"the new column '{name}' differs from the system column '{name.lower()}' by case only: rename it, "
            "since Spark takes the two for one name"
        )
    near = {stored.lower(): stored for stored in names}.get(name.lower())
    if near is not None:
        raise mismatch(
            f"the table has the column '{near}', and the new column '{name}' differs from it by case only: rename "
            "it, since Spark takes the two for one name"
        )


def _check_fits(table: pa.Field, column: StructField, *, is_sensitive: bool) -> None:
    """Refuse what no value can be converted from, before the first file."""
    kind = column.dataType
    if is_ml_vector(kind):
        is_fit = is_list(table.type)
    elif is_blob(table):
        is_fit = isinstance(kind, BinaryType)
    else:
        is_fit = _is_storable(kind)
        if is_fit:
            _check_values(kind, table.type, column.name, is_sensitive=is_sensitive)
    if not is_fit:
        raise _misfit(kind, table.type, column.name)


def _check_values(kind: DataType, table: pa.DataType, path: str, *, is_sensitive: bool) -> None:
    """The same for values without a column, with their members, elements, keys and values."""
    wanted = _unwrapped(table)
    if isinstance(kind, NullType):
        return
    if _families(implied_type(StructField(path, kind))) != _families(wanted):
        raise _misfit(kind, table, path)
    if isinstance(kind, ArrayType):
        _check_values(kind.elementType, wanted.value_type, f"{path}[]", is_sensitive=is_sensitive)
    elif isinstance(kind, MapType):
        _check_values(kind.keyType, wanted.key_type, f"{path}.key", is_sensitive=is_sensitive)
        _check_values(kind.valueType, wanted.item_type, f"{path}.value", is_sensitive=is_sensitive)
    elif isinstance(kind, StructType):
        _check_members(kind, wanted, path, is_sensitive=is_sensitive)


def _check_members(kind: StructType, table: pa.StructType, path: str, *, is_sensitive: bool) -> None:
    members = {member.name: member for member in table}
    given = stored_names(list(members), kind.names, is_sensitive=is_sensitive)
    for at, name in enumerate(given):
        if name not in members:
            raise mismatch(
                f"column '{path}' has the member '{name}', which the table lacks: there are {', '.join(members)}"
            )
        if name in given[:at]:
            raise mismatch(f"column '{path}': two members of the frame are '{name}' of the table")
    for name, member in members.items():
        if name not in given and not member.nullable:
            raise mismatch(f"column '{path}': the member '{name}' is missing and may not be null")
    for name, own in zip(given, kind.fields, strict=True):
        _check_values(own.dataType, members[name].type, f"{path}.{name}", is_sensitive=is_sensitive)


def _misfit(kind: DataType, table: pa.DataType, path: str) -> Exception:
    return mismatch(f"column '{path}' has the Spark type {kind.simpleString()}, but the table has {table}: cast it")


def _unwrapped(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves, not of an extension or a dictionary."""
    if isinstance(kind, pa.BaseExtensionType):
        return _unwrapped(kind.storage_type)
    return _unwrapped(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _families(kind: pa.DataType) -> str:
    """Types between which values are converted, as one word."""
    kind = _unwrapped(kind)
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp without time zone"
    for name, matches in _FAMILIES:
        if any(match(kind) for match in matches):
            return name
    return str(kind)


_FAMILIES = [
    ("number", (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)),
    ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (
        "bytes",
        (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        ),
    ),
    ("date", (pa.types.is_date,)),
    ("time of day", (pa.types.is_time,)),
    ("duration", (pa.types.is_duration,)),
    ("list", (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)),
    ("map", (pa.types.is_map,)),
    ("struct", (pa.types.is_struct,)),
]


def is_ml_vector(kind: DataType) -> bool:
    """Whether a column has vectors of Spark ML (or of the old MLlib)."""
    return isinstance(kind, UserDefinedType) and type(kind).__name__ == "VectorUDT"


def known_vector_size(column: StructField) -> int | None:
    """The size of a column's vectors as its metadata has it: ours, or that of a `VectorAssembler`."""
    size = column.metadata.get(FIXED_SIZE_LIST)
    if size is None:
        attributes = column.metadata.get("ml_attr")
        size = attributes.get("num_attrs") if isinstance(attributes, dict) else None
    return size if isinstance(size, int) and size > 0 else None


def unsized_vectors(schema: StructType, names: Sequence[str]) -> list[str]:
    """Which of the named columns have vectors of a size that nothing says."""
    return [name for name in names if is_ml_vector(schema[name].dataType) and not known_vector_size(schema[name])]


def _is_storable(kind: DataType) -> bool:
    """Whether Arrow has a type for `kind` that means the same; a variant would become a bare struct."""
    if isinstance(kind, StructType):
        return all(_is_storable(child.dataType) for child in kind.fields)
    # Spark does not know the type of what is in `array()` and `map()`, and Arrow has no nulls that may not be null.
    if isinstance(kind, ArrayType):
        return _is_storable(kind.elementType) and (kind.containsNull or not isinstance(kind.elementType, NullType))
    if isinstance(kind, MapType):
        has_keys = not isinstance(kind.keyType, NullType)
        return has_keys and _is_storable(kind.keyType) and _is_storable(kind.valueType)
    return isinstance(kind, _STORABLE)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(pa.field("item", _stored_type(element.type), element.nullable))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _stored_type(child.type), child.nullable) for child in kind])
    if pa.types.is_map(kind):
        value = kind.item_field
        return pa.map_(
            pa.field("key", _stored_type(kind.key_type), nullable=False),
            pa.field("value", _stored_type(value.type), value.nullable),
        )
    return kind
