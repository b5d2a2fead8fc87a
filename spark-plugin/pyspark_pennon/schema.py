"""Type conversion: the Arrow types of a table, Spark's types, and the Arrow types that Spark expects.

Spark has no unsigned integers, no half floats, no fixed-size lists and one time unit, and it checks
that a batch is exactly what it expects. So a table's type maps to the narrowest Spark
type that can represent every value, and batches are cast on the way in and out.

| table | Spark |
|---|---|
| uint8, uint16, uint32 | short, int, long |
| uint64 | decimal(20,0); the system columns `_rowid`, `_rowaddr` and the row versions: long |
| float16 | float |
| timestamp of any unit | timestamp with, timestamp_ntz without a time zone; parts below 1 us are dropped |
| date64 | date |
| time | time(6), duration: day-time interval |
| decimal up to 38 digits | decimal; more digits: an error |
| large and fixed-size lists, binaries and strings, dictionaries | array, binary, string, the value |

Invariant: `spark_batch` returns a batch whose schema equals `expected_schema` of the Spark
schema it was planned with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
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
    TimeType,
)

from pyspark_pennon.errors import invalid, mismatch

if TYPE_CHECKING:
    from collections.abc import Callable

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_VERSIONS = ("_row_created_at_version", "_row_last_updated_at_version")
SYSTEM_COLUMNS = frozenset({ROW_ID, ROW_ADDRESS, "_rowoffset", *ROW_VERSIONS})
"""Columns every table has without storing them; uint64 in Arrow, long in Spark."""

_SIMPLE: dict[pa.DataType, DataType] = {
    pa.null(): NullType(),
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.string_view(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.binary_view(): BinaryType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema a table's columns are read with.

    Raises
    ------
    ValueError
        A column has a type that Spark cannot represent; the message names the column.
    """
    fields = []
    for column in schema:
        if column.name in SYSTEM_COLUMNS and pa.types.is_uint64(column.type):
            fields.append(StructField(column.name, LongType(), column.nullable))
        else:
            fields.append(StructField(column.name, _spark_type(column.type, column.name), column.nullable))
    return StructType(fields)


def _spark_type(kind: pa.DataType, path: str) -> DataType:
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple
    for matches, convert in _COMPOUND:
        if matches(kind):
            return convert(kind, path)
    raise invalid(_unsupported(kind, path))


def _unsupported(kind: pa.DataType, path: str) -> str:
    return (
        f"column '{path}' has the type {kind}, which Spark cannot represent; leave it out with the option 'columns'"
    )


def _decimal(kind: pa.DataType, path: str) -> DataType:
    if kind.precision > 38 or not 0 <= kind.scale <= kind.precision:
        raise invalid(_unsupported(kind, path))
    return DecimalType(kind.precision, kind.scale)


def _timestamp(kind: pa.DataType, _path: str) -> DataType:
    return TimestampNTZType() if kind.tz is None else TimestampType()


def _list(kind: pa.DataType, path: str) -> DataType:
    element = kind.value_field
    return ArrayType(_spark_type(element.type, f"{path}.{element.name}"), element.nullable)


def _map(kind: pa.DataType, path: str) -> DataType:
    key, value = kind.key_field, kind.item_field
    return MapType(
        _spark_type(key.type, f"{path}.{key.name}"),
        _spark_type(value.type, f"{path}.{value.name}"),
        value.nullable,
    )


def _struct(kind: pa.DataType, path: str) -> DataType:
    return StructType(
        [StructField(child.name, _spark_type(child.type, f"{path}.{child.name}"), child.nullable) for child in kind]
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


_COMPOUND: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], DataType]]] = [
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, lambda _kind, _path: TimeType()),
    (pa.types.is_duration, lambda _kind, _path: DayTimeIntervalType()),
    (pa.types.is_fixed_size_binary, lambda _kind, _path: BinaryType()),
    (_is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
    (pa.types.is_dictionary, lambda kind, path: _spark_type(kind.value_type, path)),
    (
        lambda kind: isinstance(kind, pa.BaseExtensionType),
        lambda kind, path: _spark_type(kind.storage_type, path),
    ),
]


def expected_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches with the Spark schema `schema`."""
    return to_arrow_schema(schema, timezone="UTC")


def spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a table's batch to `schema`, matching columns by name."""
    arrays = [_cast(batch.column(target.name), target, safe=False) for target in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def new_table_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a table created from a Spark schema.

    List elements are named `item`, as pyarrow and the reference do, so that either can append.

    Raises
    ------
    ValueError
        A column has a type that Arrow cannot represent (variant, year-month interval, geometry ...).
    """
    _refuse_duplicates(schema)
    fields = []
    for column in schema.fields:
        if not _is_storable(column.dataType):
            raise invalid(
                f"column '{column.name}' has the Spark type {column.dataType.simpleString()}, "
                "which a Lance table cannot hold; cast it or drop it first"
            )
        kind = to_arrow_schema(StructType([column]), timezone="UTC").field(0).type
        fields.append(pa.field(column.name, _stored_type(kind), column.nullable))
    return pa.schema(fields)


_STORABLE = (
    *{type(kind) for kind in _SIMPLE.values()},
    DayTimeIntervalType,
    DecimalType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)


def _is_storable(kind: DataType) -> bool:
    """Whether Arrow has a type for `kind` that means the same; a variant would become a bare struct."""
    if isinstance(kind, StructType):
        return all(_is_storable(child.dataType) for child in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_storable(kind.elementType)
    if isinstance(kind, MapType):
        return _is_storable(kind.keyType) and _is_storable(kind.valueType)
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


def table_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch from Spark to a table's `schema`; a value that does not fit is an error."""
    arrays = [_cast(batch.column(target.name), target, safe=True) for target in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def append_schema(table: pa.Schema, data: StructType) -> pa.Schema:
    """The table's fields that a Spark frame with schema `data` fills, in the frame's order.

    Raises
    ------
    ValueError
        A column the table does not have, or a missing one that may not be null.
    """
    _refuse_duplicates(data)
    unknown = [name for name in data.fieldNames() if name not in table.names]
    if unknown:
        raise mismatch(
            f"Append with different schema: the table has no column '{unknown[0]}'; "
            f"its columns are {', '.join(table.names)}"
        )
    given = set(data.fieldNames())
    for column in table:
        if column.name not in given and not column.nullable:
            raise mismatch(f"Append with different schema: column '{column.name}' is missing and may not be null")
    return pa.schema([table.field(name) for name in data.fieldNames()])


def _refuse_duplicates(schema: StructType) -> None:
    names = schema.fieldNames()
    for name in names:
        if names.count(name) > 1:
            raise invalid(
                f"column '{name}' occurs more than once; the columns of a Lance table have different names"
            )


def _cast(array: pa.Array, target: pa.Field, *, safe: bool) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type.equals(target.type):
        return array
    try:
        return pc.cast(array, target.type, safe=safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise mismatch(f"column '{target.name}': cannot convert {array.type} to {target.type}: {error}") from error
