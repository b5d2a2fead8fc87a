"""Values that verbs assign, as Columns in the Spark types of a table's columns: Spark's store assignment.

Members of structs are found by name, also in arrays and maps. A value that does not fit is an error, whatever
`spark.sql.ansi.enabled` is; types that do not fit are one before work starts. Each value is computed once, since a
function in Python may make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
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

from pyspark_pennon.catalyst.needed_columns import other_rows_of
from pyspark_pennon.errors import invalid, mismatch
from pyspark_pennon.spark_api import try_cast
from pyspark_pennon.types.column_names import is_case_sensitive
from pyspark_pennon.types.schema import spark_type
from pyspark_pennon.types.storable import is_ml_vector

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_NUMBERS = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
"""Each fits into those after it, and a double into a float, with fewer digits."""
_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_TIMES = (DateType, TimestampType, TimestampNTZType)
_NESTED = (ArrayType, MapType, StructType)


def assigned(frame: DataFrame, columns: pa.Schema, values: Mapping[str, Column]) -> dict[str, Column]:
    """New values of columns of a table in their Spark types.

    Parameters
    ----------
    frame
        What the values are computed from.

    Raises
    ------
    pennon.InvalidInputError
        A value is not computed from its own row.
    pennon.SchemaMismatchError
        The type of a value does not fit that of its column.
    pyspark.errors.AnalysisException
        A value is not valid.
    """
    from pyspark.sql import functions as fn

    given = of_one_row(frame, {f"The value of column '{name}'": value for name, value in values.items()}).schema
    is_sensitive = is_case_sensitive(frame.sparkSession)
    found, converted = {}, dict[str, _Fit]()
    for (name, value), field in zip(values.items(), given.fields, strict=True):
        fit = _Fit(name, field.dataType, spark_type(columns.field(name)), is_sensitive)
        if fit.is_same or fit.is_cast:
            found[name] = fit.of(value)
            continue
        converted[name] = fit
        try:
            found[name] = fn.transform(fn.array(value), fit.of)[0]
        except AnalysisException:
            raise fit.refused() from None
    # At once: Spark looks at all columns of the frame for each.
    if converted and not _is_valid(frame, [found[name] for name in converted]):
        for name, fit in converted.items():
            if not _is_valid(frame, [found[name]]):
                raise fit.refused()
    return found


def _is_valid(frame: DataFrame, values: list[Column]) -> bool:
    try:
        _ = frame.select(*values).schema
    except AnalysisException:
        return False
    return True


def of_one_row(frame: DataFrame, values: Mapping[str, Column]) -> DataFrame:
    """The values, computed from a frame, by what an error calls them.

    Raises
    ------
    pennon.InvalidInputError
        One of them looks at more than one row, or makes others.
    """
    step = frame.select(*(value.alias(f"value{at}") for at, value in enumerate(values.values())))
    if other_rows_of(step, frame) is not None:
        for name, value in values.items():
            found = other_rows_of(frame.select(value), frame)
            if found is not None:
                shown = str(value).removeprefix("Column<'").removesuffix("'>")
                raise invalid(
                    f"{name} is computed from its own row, and {shown} needs or makes others: found {found}"
                )
    return step


def with_nulls(kind: DataType) -> DataType:
    """The type whose members may all be null: Spark casts no member that may be null to one that may not."""
    if isinstance(kind, ArrayType):
        return ArrayType(with_nulls(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(with_nulls(kind.keyType), with_nulls(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, with_nulls(field.dataType)) for field in kind.fields])
    return kind


@dataclass(frozen=True)
class _Fit:
    """How a value of one type becomes one of another.

    Attributes
    ----------
    path
        The column, or a member of it.
    is_sensitive
        Whether names of members differ by case.
    """

    path: str
    given: DataType
    wanted: DataType
    is_sensitive: bool

    @property
    def is_same(self) -> bool:
        """Whether the types are the same, except for what may be null."""
        return with_nulls(self.given) == with_nulls(self.wanted)

    @property
    def is_cast(self) -> bool:
        """Whether a cast of Spark's fits every value and matches members by name."""
        return _is_cast(self.given, self.wanted)

    def of(self, value: Column) -> Column:
        """The value as one of the wanted type. If no cast does it, `value` is evaluated several times."""
        from pyspark.sql import functions as fn

        given, wanted = self.given, self.wanted
        if self.is_same:
            return value
        if self.is_cast:
            return value.cast(with_nulls(wanted))
        if is_ml_vector(given) and isinstance(wanted, ArrayType):
            from pyspark.ml.functions import vector_to_array

            return replace(self, given=ArrayType(DoubleType())).of(vector_to_array(value))
        if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
            return fn.transform(value, self._inner("element", given.elementType, wanted.elementType).of)
        if isinstance(given, MapType) and isinstance(wanted, MapType):
            keys = self._inner("key", given.keyType, wanted.keyType)
            items = self._inner("value", given.valueType, wanted.valueType)
            changed = fn.transform_values(value, lambda _key, item: items.of(item))
            return changed if keys.is_same else fn.transform_keys(changed, lambda key, _item: keys.of(key))
        if isinstance(given, StructType) and isinstance(wanted, StructType):
            return fn.when(value.isNotNull(), fn.struct(*self._members(value, given, wanted)))
        if isinstance(given, _NESTED) or isinstance(wanted, _NESTED):
            raise self.refused()
        return self._checked(value)

    def refused(self) -> Exception:
        """The types do not fit."""
        return mismatch(
            f"column '{self.path}': a value of the Spark type {self.given.simpleString()} does not fit "
            f"{self.wanted.simpleString()}, the type of the column"
        )

    def _inner(self, name: str, given: DataType, wanted: DataType) -> _Fit:
        return _Fit(f"{self.path}.{name}", given, wanted, self.is_sensitive)

    def _members(self, value: Column, given: StructType, wanted: StructType) -> list[Column]:
        from pyspark.sql import functions as fn

        found = {self._folded(field.name): field for field in given.fields}
        if len(found) < len(given.fields):
            raise self.refused()
        members = []
        for field in wanted.fields:
            own = found.pop(self._folded(field.name), None)
            if own is not None:
                member = self._inner(field.name, own.dataType, field.dataType).of(value.getField(own.name))
            elif field.nullable:
                member = fn.lit(None).cast(with_nulls(field.dataType))
            else:
                raise self.refused()
            members.append(member.alias(field.name))
        if found:
            raise self.refused()
        return members

    def _folded(self, name: str) -> str:
        return name if self.is_sensitive else name.lower()

    def _checked(self, value: Column) -> Column:
        from pyspark.sql import functions as fn

        # Lines of their own: so the driver finds the error in the text that Spark has of it.
        start = f"\npennon.errors.SchemaMismatchError: column '{self.path}': the value "
        end = f" of the Spark type {self.given.simpleString()} does not fit {self.wanted.simpleString()}\n"
        error = fn.raise_error(fn.concat(fn.lit(start), value.cast("string"), fn.lit(end)))
        return fn.coalesce(try_cast(value, self.wanted), fn.when(value.isNotNull(), error))


def _is_cast(given: DataType, wanted: DataType) -> bool:
    if given == wanted or isinstance(given, NullType):
        return True
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _is_cast(given.elementType, wanted.elementType)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return _is_cast(given.keyType, wanted.keyType) and _is_cast(given.valueType, wanted.valueType)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.names == wanted.names and all(
            _is_cast(one.dataType, other.dataType) for one, other in zip(given.fields, wanted.fields, strict=True)
        )
    if isinstance(wanted, StringType):
        return not isinstance(given, _NESTED)
    if isinstance(wanted, DecimalType):
        digits = _DIGITS.get(type(given), 0)
        exact = DecimalType(digits, 0) if digits else given
        return isinstance(exact, DecimalType) and (
            exact.scale <= wanted.scale and exact.precision - exact.scale <= wanted.precision - wanted.scale
        )
    if isinstance(wanted, (FloatType, DoubleType)):
        return isinstance(given, (*_NUMBERS, DecimalType))
    if isinstance(wanted, _NUMBERS) and isinstance(given, _NUMBERS):
        return _NUMBERS.index(type(given)) < _NUMBERS.index(type(wanted))
    return isinstance(wanted, _TIMES) and isinstance(given, _TIMES)
