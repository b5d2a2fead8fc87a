"""pyarrow expressions as SQL filters of the core, which then skips what statistics rule out.

A filter is translated only where both give the same value for every row, null included:

| in pyarrow | in SQL |
|---|---|
| NaN is neither above nor below a number | above all numbers, so comparisons leave it out expressly |
| a literal is of any type that fits | written in the type of the column, if it has the very value there |
| `isin` is never null | asks for null apart |
| names are exact | they are, as long as such a column exists |

UUIDs are compared by their bytes. Everything else (arithmetic, casts, dictionaries, other extension types, columns
by their position, ...) is left to pyarrow. The tree of an expression is read from what pyarrow pickles: the
metadata of a record batch whose columns are literals and options.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pennon._c_data import metadata

__all__ = ["SYSTEM_COLUMNS", "named_columns", "split"]

SYSTEM_COLUMNS = pa.schema(
    [
        pa.field(name, pa.uint64())
        for name in ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")
    ]
)
"""The columns that every table has besides those of its schema."""

_COMPARISONS = {
    "equal": ("=", "="),
    "not_equal": ("<>", "<>"),
    "less": ("<", ">"),
    "less_equal": ("<=", ">="),
    "greater": (">", "<"),
    "greater_equal": (">=", "<="),
}
_TEXT_TESTS = {"starts_with": "starts_with", "ends_with": "ends_with", "match_substring": "contains"}
# Extension types whose values are compared as they are stored; pyarrow compares none.
_COMPARED_AS_STORED = ("arrow.uuid",)
# The core refuses deeper texts, and is slow to read longer ones.
_MOST_LEVELS = 25
_MOST_TERMS = 10_000


@dataclass(frozen=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: tuple[_Node, ...]
    options: pa.StructScalar | None


_Node: TypeAlias = "_Field | _Call | pa.Scalar"


class _UntranslatableError(Exception):
    """The core has nothing of this value."""


def split(
    expression: pc.Expression, schema: pa.Schema, *, means_sql: bool = False
) -> tuple[str | None, pc.Expression | None]:
    """The SQL text of a filter, and what pyarrow has to evaluate on the rows for which the text is true.

    Parameters
    ----------
    expression
        The filter.
    schema
        The columns it may name, besides those that every table has.
    means_sql
        Whether the expression was made of SQL and means the same: NaN is above all numbers, IN is null for null,
        and dictionaries are compared by their values.
    """
    try:
        root = _tree(expression)
    except (_UntranslatableError, pa.ArrowException):
        return None, expression
    added = [field for field in SYSTEM_COLUMNS if field.name not in schema.names]
    writer = _Writer(pa.schema([*schema, *added]), means_sql)
    texts = [writer.written(part) for part in _parts(root, "and_kleene")]
    is_whole = None not in texts
    return " AND ".join(filter(None, texts)) or None, None if is_whole else expression


def named_columns(expression: pc.Expression) -> set[str] | None:
    """The columns that an expression names; None if it may refer to some by their position."""
    try:
        waiting = [_tree(expression)]
    except (_UntranslatableError, pa.ArrowException):
        return None
    names = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Field):
            names.add(node.path[0])
        elif isinstance(node, _Call):
            waiting.extend(node.arguments)
    return names


def _tree(expression: pc.Expression) -> _Node:
    """The tree of an expression; pyarrow pickles no columns by position."""
    _, (pickled, *_) = expression.__reduce__()
    batch = pa.ipc.open_file(pickled).get_batch(0)
    steps = iter(metadata(batch.schema))

    # Calls whose arguments are being read, the innermost last: trees may be deeper than Python's stack.
    calls: list[tuple[str, list[_Node], list[pa.StructScalar]]] = [("", [], [])]
    for kind, text in steps:
        _, arguments, options = calls[-1]
        if kind == "call":
            calls.append((text, [], []))
        elif kind == "end":
            name, inner, given = calls.pop()
            calls[-1][1].append(_Call(name, tuple(inner), given[0] if given else None))
        elif kind == "options":
            options.append(batch.column(int(text))[0])
        elif kind == "literal":
            arguments.append(batch.column(int(text))[0])
        elif kind == "field_ref":
            arguments.append(_Field((text,)))
        elif kind == "nested_field_ref":
            arguments.append(_Field(tuple(next(steps)[1] for _ in range(int(text)))))
        else:
            raise _UntranslatableError
    return calls[0][1][0]


def _parts(node: _Node, name: str) -> Iterator[_Node]:
    """The operands of a chain of one operator, however it is nested."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Call) and node.name == name:
            waiting.extend(reversed(node.arguments))
        else:
            yield node


class _Writer:
    """Writes predicates over the columns of a schema."""

    def __init__(self, schema: pa.Schema, means_sql: bool) -> None:
        self._schema = schema
        self._means_sql = means_sql
        self._terms = 0

    def written(self, node: _Node) -> str | None:
        """The text of a predicate, if there is one."""
        try:
            return self.predicate(node, 1)
        except _UntranslatableError:
            return None

    def predicate(self, node: _Node, level: int) -> str:
        """A text that has the value of the node, null included."""
        self._terms += 1
        if level > _MOST_LEVELS or self._terms > _MOST_TERMS:
            raise _UntranslatableError
        if isinstance(node, _Field):
            text, data_type = self._column(node)
            return _only(pa.types.is_boolean(data_type), text)
        if isinstance(node, pa.Scalar):
            is_unknown = not node.is_valid and (pa.types.is_boolean(node.type) or pa.types.is_null(node.type))
            return "CAST(NULL AS BOOLEAN)" if is_unknown else self._literal(node, pa.bool_())
        if node.name in ("and_kleene", "or_kleene"):
            word = " AND " if node.name == "and_kleene" else " OR "
            parts = [self.predicate(part, level + 1) for part in _parts(node, node.name)]
            return f"({word.join(parts)})"
        if node.name == "invert":
            return f"(NOT {self.predicate(node.arguments[0], level + 1)})"
        if node.name in _COMPARISONS:
            return self._comparison(node)
        return self._unless_null(node) if node.name == "if_else" else self._test(node)

    def _comparison(self, node: _Call) -> str:
        left, right = node.arguments
        operator, swapped = _COMPARISONS[node.name]
        if isinstance(left, pa.Scalar):
            left, right, operator = right, left, swapped
        column, data_type = self._column(left)
        is_float = pa.types.is_floating(data_type)
        if isinstance(right, pa.Scalar):
            if pa.types.is_float32(data_type) and pa.types.is_float64(right.type):
                operator, right = _in_single_precision(operator, right)
            text = f"{column} {operator} {self._literal(right, data_type)}"
            leaves_out_nan = is_float and not self._means_sql and operator not in ("=", "<>")
            return f"({text} AND NOT isnan({column}))" if leaves_out_nan else f"({text})"
        other, other_type = self._column(right)
        _only(other_type == data_type and _is_plain(data_type) and (self._means_sql or not is_float))
        return f"({column} {operator} {other})"

    def _unless_null(self, node: _Call) -> str:
        """IN as SQL and duckdb have it: null for null."""
        condition, test, otherwise = node.arguments
        _only(isinstance(otherwise, pa.Scalar) and not otherwise.is_valid)
        if not isinstance(condition, _Call) or not isinstance(test, _Call):
            raise _UntranslatableError
        _only((condition.name, test.name) == ("is_valid", "is_in") and test.arguments == condition.arguments)
        column, data_type = self._column(test.arguments[0])
        found, has_null = self._listed(test, data_type)
        _only(bool(found) and not has_null)
        return f"({column} IN ({', '.join(found)}))"

    def _test(self, node: _Call) -> str:
        column, data_type = self._column(node.arguments[0])
        is_float = pa.types.is_floating(data_type)
        if node.name in ("is_null", "is_valid"):
            _only(_is_plain(data_type) or pa.types.is_struct(data_type) or pa.types.is_list(data_type))
            if node.name == "is_valid":
                return f"({column} IS NOT NULL)"
            with_nan = node.options is not None and _option(node, "nan_is_null").as_py()
            return f"({column} IS NULL OR isnan({column}))" if with_nan and is_float else f"({column} IS NULL)"
        if node.name == "is_nan":
            return _only(is_float, f"isnan({column})")
        if node.name == "is_in":
            return self._is_in(node)
        if node.name in _TEXT_TESTS:
            _only(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))
            _only(not _option(node, "ignore_case").as_py())
            return f"{_TEXT_TESTS[node.name]}({column}, {self._literal(_option(node, 'pattern'), data_type)})"
        raise _UntranslatableError

    def _is_in(self, node: _Call) -> str:
        column, data_type = self._column(node.arguments[0])
        found, has_null = self._listed(node, data_type)
        if self._means_sql:
            return _only(bool(found), f"({column} IN ({', '.join([*found, *['NULL'] * has_null])}))")
        if not found:
            return f"({column} IS NULL)" if has_null else "FALSE"
        listed = f"{column} IN ({', '.join(found)})"
        return f"({column} IS NULL OR {listed})" if has_null else f"({column} IS NOT NULL AND {listed})"

    def _listed(self, node: _Call, data_type: pa.DataType) -> tuple[list[str], bool]:
        """The values of a set, and whether null is in it."""
        values = _option(node, "value_set").values
        # MATCH and SKIP: whether null is in the set if the set has it.
        behaviour = _option(node, "null_matching_behavior").as_py()
        self._terms += len(values)
        _only(behaviour in (0, 1) and self._terms <= _MOST_TERMS and _converts(values.type, data_type))
        # Pyarrow looks numbers up by their hash.
        has_zero = pa.types.is_floating(data_type) and any(value.as_py() == 0 for value in values)
        _only(_is_plain(data_type) and (self._means_sql or not has_zero))
        found = [self._literal(value, data_type) for value in values if value.is_valid]
        return found, behaviour == 0 and len(found) < len(values)

    def _literal(self, scalar: pa.Scalar, data_type: pa.DataType) -> str:
        """A value in SQL, of exactly this type."""
        _only(scalar.is_valid)
        if pa.types.is_dictionary(scalar.type):
            scalar = scalar.cast(scalar.type.value_type)
        elif isinstance(scalar.type, pa.BaseExtensionType):
            scalar = scalar.value
        _only(_is_plain(data_type) and _converts(scalar.type, data_type))
        is_nan = pa.types.is_floating(scalar.type) and math.isnan(scalar.as_py())
        _only(self._means_sql or not is_nan)
        try:
            value = scalar if scalar.type == data_type else scalar.cast(data_type)
            _only(is_nan or scalar.type == data_type or value.cast(scalar.type).equals(scalar))
        except pa.ArrowException:
            raise _UntranslatableError from None
        return _sql(value)

    def _column(self, node: _Node) -> tuple[str, pa.DataType]:
        """A column or a member of one, and its type."""
        if not isinstance(node, _Field):
            raise _UntranslatableError
        first, *members = node.path
        # There are no such positions if the name is missing or not unique.
        at = self._schema.get_field_index(first)
        _only(at >= 0)
        data_type = self._schema.field(at).type
        for member in members:
            _only(pa.types.is_struct(data_type))
            at = data_type.get_field_index(member)
            _only(at >= 0)
            data_type = data_type.field(at).type
        _only(not any("`" in name for name in node.path))
        if self._means_sql and pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        elif getattr(data_type, "extension_name", None) in _COMPARED_AS_STORED:
            data_type = data_type.storage_type
        return ".".join(f"`{name}`" for name in node.path), data_type


def _option(node: _Call, name: str) -> pa.Scalar:
    """An option of a call; pyarrow's releases have some more and some less."""
    _only(node.options is not None and name in dict(node.options or {}))
    return (node.options or {})[name]


def _only(condition: bool, text: str = "") -> str:
    """The text, under this condition."""
    if not condition:
        raise _UntranslatableError
    return text


def _is_plain(data_type: pa.DataType) -> bool:
    """Whether values of a type are compared in the same way by both."""
    types = pa.types
    tests = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_date,
        types.is_time,
        types.is_timestamp,
        types.is_duration,
        types.is_decimal128,
    )
    return not isinstance(data_type, pa.BaseExtensionType) and any(test(data_type) for test in tests)


def _converts(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether pyarrow compares values of both types by their value, without rounding those of the column."""
    types = pa.types
    families = (
        (types.is_integer,),
        (types.is_floating,),
        (types.is_decimal128,),
        (types.is_string, types.is_large_string),
        (types.is_binary, types.is_large_binary),
    )
    is_same = any(any(test(found) for test in tests) and any(test(wanted) for test in tests) for tests in families)
    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return bool(found.tz == wanted.tz)
    return is_same or (types.is_integer(found) and types.is_floating(wanted)) or bool(found == wanted)


def _in_single_precision(operator: str, limit: pa.Scalar) -> tuple[str, pa.Scalar]:
    """The same comparison of 32-bit floats with one of them: pyarrow compares with the limit itself."""
    wanted = limit.as_py()
    nearest = None if wanted is None else ctypes.c_float(wanted).value
    if nearest is None or nearest == wanted or math.isnan(wanted) or operator in ("=", "<>"):
        return operator, limit
    is_lower_limit = operator in (">", ">=")
    # The numbers on both sides of it: for a lower limit the one above is wanted.
    if (nearest > wanted) != is_lower_limit:
        (bits,) = struct.unpack("<I", struct.pack("<f", nearest))
        away = is_lower_limit == (nearest > 0)
        bits = 1 | (not is_lower_limit) << 31 if nearest == 0 else bits + (1 if away else -1)
        (nearest,) = struct.unpack("<f", struct.pack("<I", bits))
    return (">=" if is_lower_limit else "<="), pa.scalar(nearest, pa.float32())


def _sql(value: pa.Scalar) -> str:
    data_type = value.type
    types = pa.types
    if types.is_boolean(data_type):
        return "TRUE" if value.as_py() else "FALSE"
    if types.is_string(data_type) or types.is_large_string(data_type):
        text = "'" + value.as_py().replace("'", "''") + "'"
        return text if types.is_string(data_type) else _cast(text, "LargeUtf8")
    if types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_fixed_size_binary(data_type):
        text = f"X'{value.as_py().hex()}'"
        if types.is_binary(data_type):
            return text
        large = types.is_large_binary(data_type)
        return _cast(text, "LargeBinary" if large else f"FixedSizeBinary({data_type.byte_width})")
    if types.is_integer(data_type):
        number = value.as_py()
        plain = types.is_int64(data_type) and number >= 0
        return str(number) if plain else _cast(f"'{number}'", _arrow_name(data_type))
    if types.is_floating(data_type):
        return _cast(f"'{float(value.as_py())!r}'", _arrow_name(data_type))
    if types.is_decimal128(data_type):
        _only(data_type.scale >= 0)
        return _cast(f"'{value.as_py():f}'", f"Decimal128({data_type.precision}, {data_type.scale})")
    stored = "Int32" if types.is_date32(data_type) or types.is_time32(data_type) else "Int64"
    return _cast(_cast(f"'{value.value}'", stored), _arrow_name(data_type))


def _cast(text: str, name: str) -> str:
    return f"arrow_cast({text}, '{name}')"


_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def _arrow_name(data_type: pa.DataType) -> str:
    """The name of a type in SQL."""
    types = pa.types
    if types.is_date(data_type):
        return f"Date{data_type.bit_width}"
    if types.is_time(data_type):
        return f"Time{data_type.bit_width}({_UNITS[data_type.unit]})"
    if types.is_duration(data_type):
        return f"Duration({_UNITS[data_type.unit]})"
    if types.is_timestamp(data_type):
        _only(data_type.tz is None or not set(data_type.tz) & set("'\"\\"))
        zone = "None" if data_type.tz is None else f'Some("{data_type.tz}")'
        return f"Timestamp({_UNITS[data_type.unit]}, {zone})"
    kind = "Float" if types.is_floating(data_type) else "UInt" if types.is_unsigned_integer(data_type) else "Int"
    return f"{kind}{data_type.bit_width}"
