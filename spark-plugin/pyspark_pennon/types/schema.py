"""Types: the Arrow schema of a table, Spark's schema, and the Arrow schema that Spark expects.

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
| blobs | binary |

What Spark's type does not say is in the metadata of the field, see [pyspark_pennon.types.arrow_facts][].
"""

from __future__ import annotations

import re
from inspect import signature
from typing import TYPE_CHECKING

import pyarrow as pa
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
)

from pyspark_pennon.errors import invalid
from pyspark_pennon.spark_api import TimeType, parsed_type
from pyspark_pennon.types.batches import is_blob, is_list

if TYPE_CHECKING:
    from collections.abc import Callable

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
FRAGMENT_BITS = 32
"""Where the number of the fragment begins in an address."""

CHANGE_TYPE = "_change_type"
"""The column that says what becomes, or became, of a row."""

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
"""The columns of a change feed with the version of a change, and its time."""

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

_PLAIN = (*_SIMPLE.values(), TimestampType(), TimestampNTZType(), DayTimeIntervalType())


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema a table's columns are read with, without metadata.

    Raises
    ------
    ValueError
        A column has a type that Spark cannot represent; the message names the column.
    """
    return StructType([StructField(column.name, spark_type(column), column.nullable) for column in schema])


def spark_type(column: pa.Field) -> DataType:
    """The Spark type of a column. Raises `ValueError` if there is none."""
    if column.name in SYSTEM_COLUMNS and pa.types.is_uint64(column.type):
        return LongType()
    if is_blob(column):
        return BinaryType()
    return _spark_type(column.type, column.name)


def is_readable(column: pa.Field) -> bool:
    """Whether Spark has a type for a column."""
    try:
        spark_type(column)
    except ValueError:
        return False
    return True


def is_plain(kind: DataType) -> bool:
    """Whether values of a Spark type come back from a function over Arrow batches as they were."""
    if isinstance(kind, StructType):
        return all(is_plain(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return is_plain(kind.keyType) and is_plain(kind.valueType)
    if isinstance(kind, ArrayType):
        return is_plain(kind.elementType)
    # Text with a collation is not equal to the plain type.
    return kind in _PLAIN or type(kind) is DecimalType


def _spark_type(kind: pa.DataType, path: str) -> DataType:
    if isinstance(kind, pa.BaseExtensionType):  # some have no hash
        return _spark_type(kind.storage_type, path)
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


def _time(kind: pa.DataType, path: str) -> DataType:
    if TimeType is None:
        raise invalid(f"column '{path}' has the type {kind}: PySpark has times of a day from 4.1 on")
    time: DataType = TimeType()
    return time


_COMPOUND: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], DataType]]] = [
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, _time),
    (pa.types.is_duration, lambda _kind, _path: DayTimeIntervalType()),
    (pa.types.is_fixed_size_binary, lambda _kind, _path: BinaryType()),
    (is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
    (pa.types.is_dictionary, lambda kind, path: _spark_type(kind.value_type, path)),
]


_WORD = re.compile(r"\w+")


def quoted(name: str) -> str:
    """The name of a column as Spark reads it."""
    # Where `spark.sql.parser.quotedRegexColumnNames` is set, a name in back ticks may be a regular expression.
    return name if _WORD.fullmatch(name) else f"`{name.replace('`', '``')}`"


def expected_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches with the Spark schema `schema`."""
    found: pa.Schema = arrow_schema(schema)
    return found.remove_metadata()


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's own counterpart of a schema, timestamps in UTC; before 4.3 without an argument, by default."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def parsed_schema(text: str) -> StructType:
    """A schema from its text. Raises `InvalidInputError` if it is none."""
    try:
        found = parsed_type(text)
    except Exception as error:
        raise invalid(f"The schema is {text!r}, which is none of Spark") from error
    if not isinstance(found, StructType):
        raise invalid(f"The schema is {text!r}, a {found.simpleString()}: expected names with types")
    return found
