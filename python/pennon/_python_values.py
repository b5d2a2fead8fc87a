"""Values of Python as tables: those that pyarrow would cut to the types of a schema without a word are refused.

pyarrow makes 1 of 1.7 for integers, infinity of 1e300 for a float of 32 bits, and leaves out what a unit of time
cannot hold. Columns of such types are made a second time, of the types that the values have, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon._exact_casts import check_values
from pennon.errors import InvalidInputError

_NESTED = (pa.types.is_struct, pa.types.is_map)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def rows_to_table(rows: list[Any], schema: pa.Schema | None) -> pa.Table:
    """The table of dicts. Keys that the schema does not have are left out.

    Raises
    ------
    pennon.InvalidInputError
        A type of the schema would change a value; the message names the column. pyarrow raises its own errors for
        values of other kinds.
    """
    table = pa.Table.from_pylist(rows, schema=schema)
    if schema is not None:
        _check(table, lambda name: [row.get(name) for row in rows])
    return table


def columns_to_table(columns: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    """The table of lists or arrays by name. Raises as `rows_to_table`."""
    if schema is None:
        return pa.Table.from_pydict(columns)
    # What can be read only once is read twice.
    kept = {name: list(values) if isinstance(values, Iterator) else values for name, values in columns.items()}
    table = pa.Table.from_pydict(kept, schema=schema)
    _check(table, kept.__getitem__)
    return table


def frame_to_table(frame: Any, schema: pa.Schema | None) -> pa.Table:
    """The table of a frame of pandas, without the index if it is a plain range. Raises as `rows_to_table`."""
    table = pa.Table.from_pandas(frame, schema=schema)
    if schema is not None:
        _check(table.select([name for name in table.column_names if name in frame]), frame.__getitem__)
    return table


def _check(table: pa.Table, given: Callable[[str], Any]) -> None:
    for field, column in zip(table.schema, table.columns, strict=True):
        if any(_may_differ(chunk) for chunk in column.chunks):
            _compare(field.name, given(field.name), field.type)


def _may_differ(values: pa.Array) -> bool:
    """Whether values may have been cut to the type of this array."""
    if isinstance(values, pa.ExtensionArray):
        return _may_differ(values.storage)
    if isinstance(values, pa.DictionaryArray):
        return _may_differ(values.dictionary)
    kind = values.type
    if pa.types.is_struct(kind):
        return any(_may_differ(member) for member in values.flatten())
    if pa.types.is_map(kind):
        return _may_differ(values.keys) or _may_differ(values.items)
    if hasattr(kind, "value_field"):
        return _may_differ(values.flatten())
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return bool(pc.any(pc.is_inf(values.cast(pa.float32()))).as_py())
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _compare(path: str, given: Any, kind: pa.DataType) -> None:
    """`path` is the column, or a member of it."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if isinstance(given, pa.Array | pa.ChunkedArray):
        # pyarrow reads texts, or says what is wrong with them.
        if not any(test(given.type) for test in _TEXTS):
            for chunk in given.chunks if isinstance(given, pa.ChunkedArray) else [given]:
                check_values(path, chunk, kind)
        return
    if getattr(given, "dtype", "object") != "object":
        _compare(path, pa.array(given), kind)
        return
    values = [value for value in given if value is not None]
    found = None if _has_members(kind) else _inferred(values)
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        _check_nanoseconds(path, values, kind)
    if pa.types.is_date(kind):
        # Next to dates pyarrow takes times for dates.
        found = _inferred([value for value in values if isinstance(value, datetime)])
    if found is not None:
        check_values(path, found, kind)
    elif pa.types.is_struct(kind):
        rows = [value if isinstance(value, Mapping) else dict(value) for value in values]
        for member in kind:
            _compare(f"{path}.{member.name}", [row.get(member.name) for row in rows], member.type)
    elif pa.types.is_map(kind):
        pairs = [pair for value in values for pair in (value.items() if isinstance(value, Mapping) else value)]
        _compare(f"{path}.key", [key for key, _ in pairs], kind.key_type)
        _compare(f"{path}.value", [value for _, value in pairs], kind.item_type)
    elif hasattr(kind, "value_field"):
        _compare(f"{path}.item", [item for value in values for item in value], kind.value_type)
    else:
        for value in values:
            single = _inferred([value])
            if single is not None:
                check_values(path, single, kind)


def _has_members(kind: pa.DataType) -> bool:
    """Whether there are structs or maps in a type: in lists of pairs pyarrow does not see a map."""
    if any(test(kind) for test in _NESTED):
        return True
    return hasattr(kind, "value_field") and _has_members(kind.value_type)


def _inferred(values: Iterable[Any]) -> pa.Array | None:
    """Values in the type that they have; None if they have several."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _check_nanoseconds(path: str, values: list[Any], kind: pa.DataType) -> None:
    """Refuse what timestamps of pandas have beyond the microseconds for which pyarrow takes them."""
    for value in values:
        if getattr(value, "nanosecond", 0):
            raise InvalidInputError(
                f"column {path}: its type {kind} would change the value {value}; round it first"
            )
