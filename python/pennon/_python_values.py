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
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon._exact_casts import check_member, check_values, is_list, is_number, is_one_of, is_text
from pennon._text import did_you_mean
from pennon.errors import InvalidInputError, InvalidTypeError

_NESTED = (pa.types.is_struct, pa.types.is_map)
_OF_PYARROW = (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError)
"""What pyarrow raises for values that it cannot convert."""
_OF_PYTHON = (datetime, date, time, timedelta)
"""Classes of times that have no nanoseconds."""
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
        return pa.Table.from_batches([], table)
    for at, row in enumerate(rows):
        if not isinstance(row, dict) and not isinstance(row, Mapping):
            raise InvalidTypeError(f"Row {at} of the data must be a dict, found {reprlib.repr(row)}")
    found = dict.fromkeys(chain.from_iterable(rows))
    if rows and not found:
        found = dict.fromkeys(() if table is None else table.names)
        if schema is None and not found:
            raise InvalidInputError("The rows of the data have no columns")
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
        return pa.Table.from_batches([], table)
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
    """The table of a frame of pandas. Levels of the index are columns, unless it is a plain range.

    Levels without a name are left out if there is a schema, and refused if there is a table that lacks them; so are
    levels of the name of a column.
    Parameters and errors as for `rows_to_table`.
    """
    names = [_name(name) for name in frame.columns]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"The frame has several columns of the name {repeated}")
    if schema is None and table is None:
        return _from_pandas(frame)
    if any(type(name) is not str for name in frame.columns):
        frame = frame.set_axis(names, axis=1)
    levels = _named_levels(frame.index)
    if schema is not None:
        levels = {name: values for name, values in levels.items() if name not in names}
    elif both := [name for name in levels if name in names]:
        raise InvalidInputError(
            f"The frame has a column and an index of the name {both[0]}: leave the index out with "
            "reset_index(drop=True)"
        )
    columns = {**{name: frame[name] for name in names}, **levels}
    if schema is not None:
        _check_names(columns, schema, " (leave an index out with reset_index(drop=True))" if levels else "")
        return _frame_of_schema(frame, columns, schema)
    known = set(() if table is None else table.names)
    others = _from_pandas(frame.drop(columns=[name for name in names if name in known]))
    check_index(others.column_names, known)
    for name, values in zip(others.column_names, others.columns, strict=True):
        if name not in columns or name not in known:
            columns[name] = values
    if len(frame) and not columns:
        raise InvalidInputError("The frame has no columns")
    return columns_to_table(columns, None, table)


def check_index(names: Iterable[str], known: Collection[str] = ()) -> None:
    """Refuse columns that are the index of a frame of pandas, which has no name, unless the table has them."""
    if found := [name for name in names if name.startswith(_INDEX) and name not in known]:
        raise InvalidInputError(
            f"The data has a column {found[0]}, which is the index of a frame of pandas: leave it out with "
            "reset_index(drop=True)"
        )


def without_index(frame: Any, schema: pa.Schema | None) -> Any:
    """A frame without the levels of its index whose names are not in a schema. If there is none, without those that
    have no name, or that of a column.
    """
    if type(frame.index).__name__ == "RangeIndex":
        return frame
    levels, names = list(enumerate(frame.index.names)), set(map(_name, frame.columns))
    if schema is None:
        left_out = [at for at, name in levels if name is None or _name(name) in names]
    else:
        left_out = [at for at, name in levels if name is not None and _name(name) not in schema.names]
    return frame.reset_index(left_out, drop=True) if left_out else frame


def _frame_of_schema(frame: Any, columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """The table of a frame; `columns` are its own and the levels of its index."""
    for field in schema:
        if field.name in columns:
            _check_array(field.name, columns[field.name], field.type, as_pyarrow=True)
    # Columns of nulls have some type all the same, such as float64.
    nulls = [name for name in frame.columns if frame[name].isna().all()]
    made = _from_pandas(frame.astype(dict.fromkeys(nulls, "object")) if nulls else frame, schema)
    for field, column in zip(schema, made.columns, strict=True):
        if field.name in columns and columns[field.name].dtype == "object":
            _check_objects(column, field.name, columns[field.name], field.type, as_pyarrow=True)
    return made


def _named_levels(index: Any) -> dict[str, Any]:
    """The levels of an index that have names, unless it is a plain range."""
    if type(index).__name__ == "RangeIndex":
        return {}
    return {_name(name): index.get_level_values(at) for at, name in enumerate(index.names) if name is not None}


def _name(name: Any) -> str:
    """The name of a column that pyarrow makes of one of pandas."""
    if isinstance(name, str):
        return str.__str__(name)  # that of a member of an enumeration is its value
    return name.decode() if isinstance(name, bytes) else str(name)


def _from_pandas(frame: Any, schema: pa.Schema | None = None) -> pa.Table:
    try:
        made = pa.Table.from_pandas(frame, schema=schema)
    except _OF_PYARROW as error:
        raise InvalidTypeError(f"The frame cannot be stored: {'; '.join(map(str, error.args))}") from error
    if schema is None:
        for name, field in zip(frame.columns, made.schema, strict=False):  # followed by the index
            _check_inferred_times(field.name, frame[name], field.type)
    return made


def _check_names(names: Iterable[str], schema: pa.Schema, hint: str = "") -> None:
    known = set(schema.names)
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"The data has a column {name}, and the schema has {', '.join(schema.names)}"
                f"{hint}{did_you_mean(str(name), schema.names)}"
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
    _check_inferred_times(name, values, array.type)
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
        if found is not None and _are_alike(found.type, kind):
            # This names the value.
            check_values(path, found, kind, as_pyarrow=not of_table)
        if of_table:
            return None
        raise InvalidTypeError(f"column {path}: its type is {kind}: {error}") from error
    if not _has_type(values):
        _check_objects(array, path, values, kind, as_pyarrow=not of_table)
    return array


def _are_alike(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether both are numbers, lists or structs."""
    return any(is_alike(found) and is_alike(kind) for is_alike in (is_number, is_list, pa.types.is_struct))


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
    if found is not values and pa.types.is_date(kind) and getattr(found.type, "tz", None) is not None:
        # Of those of pandas pyarrow takes the dates in UTC.
        in_utc = found.cast(pa.timestamp(found.type.unit))
        days = [times.cast(pa.date32(), safe=False) for times in (in_utc, pc.local_timestamp(found))]
        if pc.any(pc.not_equal(*days)).as_py():
            raise InvalidInputError(
                f"column {path}: its type is {kind}, found {found.type}; convert it to dates first"
            )


def _check_objects(array: Any, path: str, given: Any, kind: pa.DataType, *, as_pyarrow: bool) -> None:
    """Compare values of Python with the array that was made of them."""
    _check_lists(path, given, kind)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if any(_may_differ(chunk) for chunk in chunks):
        _compare(path, given, kind, as_pyarrow)


def _check_inferred_times(path: str, values: Any, kind: pa.DataType) -> None:
    """Check values of Python whose type pyarrow chose: it takes all times for microseconds."""
    if not _has_type(values) and _has_times(kind):
        _compare(path, values, kind, False)


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
    if pa.types.is_float32(kind):
        return bool(pc.any(pc.is_inf(values)).as_py())
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
    if pa.types.is_temporal(kind):
        _check_times(path, values, kind, as_pyarrow)
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
        same = _type_of_numpy(kind.value_type)
        lists = [value for value in values if str(getattr(value, "dtype", None)) != same]
        _compare(f"{path}.item", list(chain.from_iterable(lists)), kind.value_type, as_pyarrow)
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
    """Refuse texts and bytes for lists, and times of numpy in another unit.

    Pyarrow takes the former for lists of their letters, and the numbers of the latter as they are.
    """
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not hasattr(kind, "value_field"):
        return
    item = kind.value_type
    unit = "[D]" if pa.types.is_date64(item) else f"[{item.unit}]" if hasattr(item, "unit") else ""
    for value in given:
        if isinstance(value, str | bytes):
            raise InvalidInputError(f"column {path}: its type is {kind}, found {reprlib.repr(value)}")
        found = getattr(value, "dtype", None) if unit else None
        if getattr(found, "kind", "") in ("m", "M") and not str(found).endswith(unit):
            raise InvalidInputError(f"column {path}: its type is {kind}, found an array of {found}; cast it first")


def _type_of_numpy(kind: pa.DataType) -> str:
    """The type of times in arrays of numpy that pyarrow does not change."""
    if pa.types.is_duration(kind):
        return f"timedelta64[{kind.unit}]"
    return f"datetime64[{kind.unit}]" if pa.types.is_timestamp(kind) and kind.tz is None else ""


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
    """Whether pyarrow does not tell the type of values from them: in lists of pairs it sees no map, and in lists of
    times no nanoseconds.
    """
    if hasattr(kind, "value_field"):
        return pa.types.is_temporal(kind.value_type) or _has_members(kind.value_type)
    return is_one_of(_NESTED, kind)


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_times(member.type) for member in kind)
    if pa.types.is_map(kind):
        return _has_times(kind.key_type) or _has_times(kind.item_type)
    return _has_times(kind.value_type) if hasattr(kind, "value_field") else pa.types.is_temporal(kind)


def _inferred(values: Any, *, nan_is_null: bool = False) -> Any:
    """Values in the type that they have; None if they have several. NaN may be null, as in objects of pandas."""
    try:
        return pa.array(values, from_pandas=True) if nan_is_null and isinstance(values, list) else _array(values)
    except _OF_PYARROW:
        return None


def _check_times(path: str, values: list[Any], kind: pa.DataType, as_pyarrow: bool) -> None:
    """Refuse times that pyarrow would change: it leaves out nanoseconds of pandas and zones of times of a day, and
    takes times without a zone to be in UTC where others have one.
    """
    for value in values if pa.types.is_time(kind) else ():
        if isinstance(value, time) and value.tzinfo is not None:
            raise InvalidInputError(f"column {path}: its type {kind} has no zones, found {value}")
    if pa.types.is_timestamp(kind) and not as_pyarrow:
        # NaT is a datetime as well.
        zones = {value.tzinfo is None for value in values if isinstance(value, datetime) and value == value}
        if len(zones) > 1:
            raise InvalidInputError(f"column {path}: found times with a zone and times without one")
    for value in values:
        if type(value) in _OF_PYTHON:
            continue
        lost = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
        if lost > 0 and getattr(kind, "unit", None) != "ns":  # those of NaT are NaN
            raise InvalidInputError(
                f"column {path}: its type {kind} would change the value {value}; round it, or use a type of "
                "nanoseconds"
            )
        if pa.types.is_date64(kind) and str(getattr(value, "dtype", "")) == "datetime64[ns]" and value == value:
            raise InvalidInputError(f"column {path}: its type is {kind}, found {value}; cast it first")
