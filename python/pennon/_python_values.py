"""Values of Python and pandas as tables. They have no type of Arrow: it is that of a schema, or of a table.

Values that pyarrow would cut to a type without a word are refused: it makes 1 of 1.7 for integers, infinity of
1e300 for a float of 32 bits, and leaves out what a unit of time cannot hold. Columns of such types are made a
second time, of the types that the values have, and compared. Arrays of numpy and pandas have types of their own:
their values are checked as casts are.

With a schema, values are taken as pyarrow takes them: numbers for times, and times without a zone in UTC. With the
types of a table they are refused.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon._exact_casts import check_member, check_values, is_number, is_one_of, is_text
from pennon._text import did_you_mean
from pennon.errors import InvalidInputError, InvalidTypeError

_NESTED = (pa.types.is_struct, pa.types.is_map)
_OF_PYARROW = (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError)
"""What pyarrow raises for values that it cannot convert."""
_INDEX = "__index_level_"
"""What the names begin with that pyarrow gives to the levels of an index of pandas."""


def rows_to_table(rows: list[Any], schema: pa.Schema | None, table: pa.Schema | None = None) -> pa.Table:
    """The table of dicts. Its columns are the keys of all of them, in the order in which they first appear.

    Parameters
    ----------
    rows
        Dicts; what a row lacks is null.
    schema
        The columns and their types.
    table
        Instead of `schema`, that of a table which the rows are for: columns that it has get its types, if their
        values can have them.

    Raises
    ------
    pennon.InvalidInputError
        A type would change a value, or the schema does not have a key; the message names the column. For what
        pyarrow cannot convert, and for rows that are no dicts, it is an `InvalidTypeError`.
    """
    if not rows and table is not None:
        return table.empty_table()
    for at, row in enumerate(rows):
        if not isinstance(row, dict) and not isinstance(row, Mapping):
            raise InvalidTypeError(f"Row {at} of the data must be a dict, found {reprlib.repr(row)}")
    found = dict.fromkeys(chain.from_iterable(rows))
    if rows and not found:
        if schema is None and table is None:
            raise InvalidInputError("The rows of the data have no columns")
        found = dict.fromkeys(() if table is None else table.names)
    if schema is not None:
        _check_names(found, schema)
    names = found if schema is None else schema.names
    return columns_to_table({name: [row.get(name) for row in rows] for name in names}, schema, table)


def columns_to_table(
    columns: Mapping[str, Any], schema: pa.Schema | None, table: pa.Schema | None = None
) -> pa.Table:
    """The table of lists or arrays by name. Arrays of Arrow keep their types, unless there is a schema.

    Parameters and errors as for `rows_to_table`; all columns of the schema must be given.
    """
    if not columns and table is not None:
        return table.empty_table()
    kept = {name: _column(name, values) for name, values in columns.items()}
    if schema is None:
        fields, arrays = [], []
        for name, values in kept.items():
            field, array = _like_table(name, values, table)
            fields.append(field)
            arrays.append(array)
        schema = pa.schema(fields)
    else:
        _check_names(kept, schema)
        if lacking := [name for name in schema.names if name not in kept]:
            raise InvalidInputError(f"The schema has the column {lacking[0]}, and the data does not")
        arrays = [_typed(field.name, kept[field.name], field.type, of_table=False) for field in schema]
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(f"{name} {len(array)}" for name, array in zip(schema.names, arrays, strict=True))
        raise InvalidInputError(f"Columns must have equally many values, found {lengths}")
    return pa.Table.from_arrays(arrays, schema=schema)


def frame_to_table(frame: Any, schema: pa.Schema | None, table: pa.Schema | None = None) -> pa.Table:
    """The table of a frame of pandas, without the index if it is a plain range.

    Parameters and errors as for `rows_to_table`.
    """
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise InvalidInputError(f"The frame has several columns of the name {repeated}")
    if schema is not None:
        _check_names(map(str, frame.columns), schema)
        return _frame_of_schema(frame, schema)
    if table is None:
        return _from_pandas(frame)
    names = set(table.names)
    columns = {name: frame[name] for name in frame.columns if name in names}
    others = _from_pandas(frame.drop(columns=list(columns)))
    if repeated := [name for name in others.column_names if name in columns]:
        raise InvalidInputError(
            f"The frame has a column and an index of the name {repeated[0]}: leave the index out with "
            "reset_index(drop=True)"
        )
    check_index(others.column_names, table)
    columns.update(zip(others.column_names, others.columns, strict=True))
    if len(frame) and not columns:
        raise InvalidInputError("The frame has no columns")
    return columns_to_table(columns, None, table)


def check_index(names: Iterable[str], table: pa.Schema) -> None:
    """Refuse columns of a table that are the index of a frame of pandas, which has no name, unless it has them."""
    if found := [name for name in names if name.startswith(_INDEX) and name not in table.names]:
        raise InvalidInputError(
            f"The data has a column {found[0]}, which is the index of a frame of pandas, and the table has none: "
            "leave it out with reset_index(drop=True)"
        )


def _frame_of_schema(frame: Any, schema: pa.Schema) -> pa.Table:
    for field in schema:
        if field.name in frame:
            _check_array(field.name, frame[field.name], field.type, as_pyarrow=True)
    # Columns of nulls have some type all the same, such as float64.
    nulls = [name for name in frame.columns if frame[name].isna().all()]
    made = _from_pandas(frame.astype(dict.fromkeys(nulls, "object")) if nulls else frame, schema)
    for field, column in zip(schema, made.columns, strict=True):
        if field.name in frame and frame[field.name].dtype == "object":
            _check_objects(column, field.name, frame[field.name], field.type, as_pyarrow=True)
    return made


def _from_pandas(frame: Any, schema: pa.Schema | None = None) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, schema=schema)
    except _OF_PYARROW as error:
        raise InvalidTypeError(f"The frame cannot be stored: {'; '.join(map(str, error.args))}") from error


def _check_names(names: Iterable[str], schema: pa.Schema) -> None:
    known = set(schema.names)
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"The data has a column {name}, and the schema has {', '.join(schema.names)}"
                f"{did_you_mean(str(name), schema.names)}"
            )


def _column(name: Any, values: Any) -> Any:
    """The values of a column, which may be read more than once."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"Names of columns must be texts, found {name!r}")
    if isinstance(values, Iterator):
        return list(values)
    arrays = ("__iter__", "__arrow_c_array__", "__arrow_array__")
    if isinstance(values, str | bytes | Mapping) or not any(hasattr(values, found) for found in arrays):
        raise InvalidTypeError(f"column {name}: expected a list or an array, found {reprlib.repr(values)}")
    return values


def _like_table(name: str, values: Any, table: pa.Schema | None) -> tuple[pa.Field, Any]:
    """Field and values of a column, like those of the table if pyarrow can convert them, else as they are."""
    at = -1 if table is None or isinstance(values, pa.Array | pa.ChunkedArray) else table.get_field_index(name)
    if table is not None and at >= 0:
        field = table.field(at)
        array = _typed(name, values, field.type, of_table=True)
        if array is not None:
            return field.with_type(array.type).with_nullable(True), array
    try:
        array = _array(values)
    except _OF_PYARROW as error:
        raise InvalidTypeError(f"column {name}: {error}") from error
    return pa.field(name, array.type), array


def _typed(path: str, values: Any, kind: pa.DataType, *, of_table: bool) -> Any:
    """The values as an array of a type. If it is that of a table, none for values that pyarrow cannot convert."""
    _check_array(path, values, kind, as_pyarrow=not of_table)
    made = _with_given_members(kind, values) if of_table else kind
    try:
        # A dictionary gets wider keys than its type has, if there are many values.
        array = _array(_array(values, made), made)
    except _OF_PYARROW as error:
        found = _inferred(values)
        if found is not None and found.null_count == len(found):
            return pa.nulls(len(found), made)
        if found is not None and is_number(found.type) and is_number(kind):
            # This names the value.
            check_values(path, found, kind, as_pyarrow=not of_table)
        if of_table:
            return None
        raise InvalidTypeError(f"column {path}: its type is {kind}: {error}") from error
    if not _has_type(values):
        _check_objects(array, path, values, kind, as_pyarrow=not of_table)
    return array


def _with_given_members(kind: pa.DataType, values: Any) -> pa.DataType:
    """The type without members of structs that no value has: a merge keeps those of the table."""
    given = _not_null(values) if pa.types.is_struct(kind) else []
    if not all(isinstance(value, Mapping) for value in given):
        return kind
    names = set(chain.from_iterable(given))
    fields = [
        field.with_type(_with_given_members(field.type, [value.get(field.name) for value in given]))
        for field in (kind if names else ())
        if field.name in names
    ]
    return pa.struct(fields) if fields else kind


def _not_null(values: Any) -> list[Any]:
    """The values that are not null; pandas has nulls of its own."""
    return [value for value in getattr(values, "dropna", lambda: values)() if value is not None]


def _array(values: Any, kind: pa.DataType | None = None) -> Any:
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        return pa.array(values, kind)
    return values if kind is None or values.type.equals(kind) else values.cast(kind)


def _has_type(values: Any) -> bool:
    """Whether values are an array of Arrow, or one of numpy or pandas that is not of objects."""
    return isinstance(values, pa.Array | pa.ChunkedArray) or getattr(values, "dtype", "object") != "object"


def _check_array(path: str, values: Any, kind: pa.DataType, *, as_pyarrow: bool) -> None:
    """Check values that have a type."""
    found = _inferred(values) if _has_type(values) else None
    # Nulls are of any type, and pyarrow reads texts, or says what is wrong with them.
    if found is None or found.null_count == len(found) or is_text(found.type):
        return
    for chunk in found.chunks if isinstance(found, pa.ChunkedArray) else [found]:
        check_values(path, chunk, kind, as_pyarrow=as_pyarrow)


def _check_objects(array: Any, path: str, given: Any, kind: pa.DataType, *, as_pyarrow: bool) -> None:
    """Compare values of Python with the array that was made of them."""
    _check_lists(path, given, kind)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if any(_may_differ(chunk) for chunk in chunks):
        _compare(path, given, kind, as_pyarrow)


def _may_differ(values: pa.Array) -> bool:
    """Whether values may have been cut to the type of this array."""
    if isinstance(values, pa.ExtensionArray):
        return _may_differ(values.storage)
    if isinstance(values, pa.DictionaryArray):
        return _may_differ(values.dictionary)
    kind = values.type
    if pa.types.is_struct(kind):
        return True  # there may be members that it does not have
    if pa.types.is_map(kind):
        return _may_differ(values.keys) or _may_differ(values.items)
    if hasattr(kind, "value_field"):
        return hasattr(kind.value_type, "value_field") or _may_differ(values.flatten())
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return bool(pc.any(pc.is_inf(values.cast(pa.float32()))).as_py())
    return is_number(kind) and not pa.types.is_float64(kind)


def _compare(path: str, given: Any, kind: pa.DataType, as_pyarrow: bool) -> None:
    """`path` is the column, or a member of it."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if _has_type(given):
        _check_array(path, given, kind, as_pyarrow=as_pyarrow)
        return
    values = _not_null(given)
    found = None if _has_members(kind) else _inferred(values, nan_is_null=True)
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        _check_nanoseconds(path, values, kind)
    if pa.types.is_date(kind):
        # Next to dates pyarrow takes times for dates.
        _check_inferred(path, [value for value in values if isinstance(value, datetime)], kind, as_pyarrow)
        values = [value for value in values if not isinstance(value, datetime)]
        found = _inferred(values, nan_is_null=True)
    if found is not None:
        check_values(path, found, kind, as_pyarrow=as_pyarrow)
    elif pa.types.is_struct(kind):
        rows = [_members(value, kind) for value in values]
        members = {member.name: member.type for member in kind}
        for name in dict.fromkeys(chain.from_iterable(rows)):
            check_member(path, name, members)
            _compare(f"{path}.{name}", [row.get(name) for row in rows], members[name], as_pyarrow)
    elif pa.types.is_map(kind):
        pairs = [pair for value in values for pair in (value.items() if isinstance(value, Mapping) else value)]
        _compare(f"{path}.key", [key for key, _ in pairs], kind.key_type, as_pyarrow)
        _compare(f"{path}.value", [value for _, value in pairs], kind.item_type, as_pyarrow)
    elif hasattr(kind, "value_field"):
        _check_lists(path, values, kind)
        _compare(f"{path}.item", [item for value in values for item in value], kind.value_type, as_pyarrow)
    else:
        for value in values:
            _check_inferred(path, [value], kind, as_pyarrow)


def _members(value: Any, kind: pa.StructType) -> Mapping[str, Any]:
    """The members of a struct, which pyarrow takes by name, as pairs and by position."""
    if isinstance(value, Mapping):
        return value
    if all(isinstance(item, tuple) and len(item) == 2 for item in value):
        return dict(value)
    return dict(zip((field.name for field in kind), value, strict=False))


def _check_lists(path: str, given: Iterable[Any], kind: pa.DataType) -> None:
    """Refuse texts and bytes for lists: pyarrow takes them for lists of their letters."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if hasattr(kind, "value_field"):
        for value in given:
            if isinstance(value, str | bytes):
                raise InvalidInputError(f"column {path}: its type is {kind}, found {reprlib.repr(value)}")


def _check_inferred(path: str, values: list[Any], kind: pa.DataType, as_pyarrow: bool) -> None:
    found = _inferred(values, nan_is_null=True)
    if found is not None:
        check_values(path, found, kind, as_pyarrow=as_pyarrow)
    elif len(values) == 1 and is_number(kind) and not isinstance(values[0], int):
        # It has some form as an integer, which need not be its value.
        raise InvalidInputError(
            f"column {path}: its type is {kind}, found {reprlib.repr(values[0])}; convert it first"
        )


def _has_members(kind: pa.DataType) -> bool:
    """Whether there are structs or maps in a type: in lists of pairs pyarrow does not see a map."""
    return is_one_of(_NESTED, kind) or (hasattr(kind, "value_field") and _has_members(kind.value_type))


def _inferred(values: Any, *, nan_is_null: bool = False) -> Any:
    """Values in the type that they have; None if they have several. NaN may be null, as in objects of pandas."""
    try:
        return pa.array(values, from_pandas=True) if nan_is_null and isinstance(values, list) else _array(values)
    except _OF_PYARROW:
        return None


def _check_nanoseconds(path: str, values: list[Any], kind: pa.DataType) -> None:
    """Refuse what timestamps of pandas have beyond the microseconds for which pyarrow takes them."""
    for value in values:
        if getattr(value, "nanosecond", 0) and value == value:  # that of NaT is NaN
            raise InvalidInputError(
                f"column {path}: its type {kind} would change the value {value}; round it first"
            )
