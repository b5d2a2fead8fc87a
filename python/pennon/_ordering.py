"""The order of rows that `order_by` asks for: sorted by pyarrow, as the reference sorts.

Rows that are equal keep their order. Pyarrow sorts no floats as the reference does (by their total order: -NaN,
-inf, ..., -0.0, 0.0, ..., inf, NaN) and no structs, so keys are made of the columns first:

| column | keys |
|---|---|
| floats | their bits as integers whose order is the total order |
| structs | whether it is null, then the keys of its members |
| dictionaries, views, extension types | the values |
| with nulls that come first | whether it is null, then the values |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pennon._expression import one_batch
from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError
from pennon.types import ColumnOrdering

__all__ = ["check", "combined", "first_rows", "orderings_of", "rows_at", "sort_indices"]

_LONGER = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
# Rows that are looked at together when few are wanted.
_FEW = 65_536


def orderings_of(order_by: Sequence[ColumnOrdering | str] | None) -> tuple[ColumnOrdering, ...]:
    """The orderings of an argument `order_by`; raises `InvalidTypeError` for anything else."""
    if isinstance(order_by, str):
        raise InvalidTypeError(f"order_by must be a list, not the string {order_by!r}")
    if order_by is not None and not isinstance(order_by, Iterable):
        raise InvalidTypeError(f"order_by must be a list of ColumnOrdering or names, found {order_by!r}")
    orderings = []
    for ordering in order_by or ():
        if isinstance(ordering, str):
            ordering = ColumnOrdering(ordering)
        if not isinstance(ordering, ColumnOrdering):
            raise InvalidTypeError(f"orderings must be a list of ColumnOrdering. Got {type(ordering)} instead.")
        if not isinstance(ordering.column_name, str):
            raise InvalidTypeError(f"ColumnOrdering needs the name of a column, got {type(ordering.column_name)}")
        orderings.append(ordering)
    return tuple(orderings)


def check(name: str, data_type: pa.DataType) -> None:
    """Raises `UnsupportedError` for a column whose values have no order here."""
    if isinstance(data_type, pa.BaseExtensionType):
        check(name, data_type.storage_type)
    elif pa.types.is_dictionary(data_type):
        check(name, data_type.value_type)
    elif pa.types.is_struct(data_type):
        for member in (data_type.field(at) for at in range(data_type.num_fields)):
            check(f"{name}.{member.name}", member.type)
    elif pa.types.is_nested(data_type) or pa.types.is_interval(data_type):
        raise UnsupportedError(f"Rows cannot be ordered by {name}, which is of type {data_type}")


def sort_indices(keys: Sequence[pa.ChunkedArray], orderings: Sequence[ColumnOrdering]) -> pa.Array:
    """Positions of the rows in their order; `keys` are the columns of the orderings, all of one length."""
    columns: list[pa.ChunkedArray] = []
    directions: list[str] = []
    for key, ordering in zip(keys, orderings, strict=True):
        direction = "ascending" if ordering.ascending else "descending"
        for column, marks_nulls in _columns(key, ordering.nulls_first):
            columns.append(column)
            nulls_first = "descending" if ordering.nulls_first else "ascending"
            directions.append(nulls_first if marks_nulls else direction)
    if not columns:
        return pa.array(range(len(keys[0]) if keys else 0), pa.uint64())
    names = [str(at) for at in range(len(columns))]
    table = pa.Table.from_arrays(columns, names)
    return pc.sort_indices(table, sort_keys=list(zip(names, directions, strict=True)))


def combined(table: pa.Table) -> pa.Table:
    """The table in one piece; batches have dictionaries of their own, which are put together.

    Columns of more text or bytes than an array can hold get the type with longer offsets.
    """
    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and any(part.dictionary.null_count for part in column.chunks):
            parts = _by_chunk(column, column.type, _without_null_items)
            table = table.set_column(at, table.schema.field(at), parts)
    try:
        table = table.combine_chunks()
    except pa.ArrowException as error:
        raise UnsupportedError(
            f"The rows cannot be put together: {error} Columns of dictionaries can be altered to wider keys."
        ) from error
    for at, column in enumerate(table.columns):
        if column.num_chunks > 1 and (longer := _LONGER.get(column.type)):
            field = table.schema.field(at).with_type(longer)
            table = table.set_column(at, field, column.cast(longer).combine_chunks())
    return table


def rows_at(table: pa.Table, positions: pa.Array, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a table from `combined`, in one batch, or several that fit into arrays.

    Raises `InvalidInputError` for a column that has more than an array can hold and no type with longer offsets.
    """
    try:
        taken = table.take(positions)
        batch = one_batch(taken if taken.schema == schema else taken.cast(schema))
    except pa.ArrowInvalid as error:
        if len(positions) < 2 or any(column.num_chunks > 1 for column in table.columns):
            raise InvalidInputError(f"The rows cannot be put in order: {error}") from error
        middle = len(positions) // 2
        yield from rows_at(table, positions[:middle], schema)
        yield from rows_at(table, positions[middle:], schema)
    else:
        yield batch


def _without_null_items(part: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values without null items, with which pyarrow puts no dictionaries together: their rows are null."""
    items = part.dictionary
    is_item = items.is_valid()
    ends = pc.cumulative_sum(is_item.cast(pa.int64()))
    positions = pc.if_else(is_item, pc.subtract(ends, 1), None)
    keys = positions.take(part.indices).cast(part.type.index_type)
    return pa.DictionaryArray.from_arrays(keys, items.drop_null(), ordered=part.type.ordered)


def first_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    names: Sequence[str],
    orderings: Sequence[ColumnOrdering],
    count: int,
) -> pa.Table:
    """The first `count` rows of some batches in their order; holds not much more than these.

    `names` are the columns of `schema` that the orderings are about.
    """
    best = schema.empty_table()
    waiting: list[pa.RecordBatch] = []
    rows = 0

    def merged() -> pa.Table:
        more = pa.Table.from_batches(waiting, schema)
        table = pa.concat_tables([best, more if more.schema == best.schema else more.cast(best.schema)])
        found = sort_indices([table[name] for name in names], orderings)
        return combined(table).take(found[:count])

    for batch in batches if count else ():
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= max(_FEW, count):
            best, waiting, rows = merged(), [], 0
    return merged()


def _columns(column: pa.ChunkedArray, nulls_first: bool) -> Iterator[tuple[pa.ChunkedArray, bool]]:
    """Columns that pyarrow sorts, and whether they only say which values are null. Pyarrow puts nulls last."""
    data_type = column.type
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _columns(_by_chunk(column, data_type.storage_type, lambda part: part.storage), nulls_first)
        return
    if pa.types.is_dictionary(data_type):
        yield from _columns(column.cast(data_type.value_type), nulls_first)
        return
    is_struct = pa.types.is_struct(data_type)
    if column.null_count and (nulls_first or is_struct):
        yield column.is_null(), True
    if is_struct:
        for at in range(data_type.num_fields):
            yield from _columns(pc.struct_field(column, [at]), nulls_first)
    elif pa.types.is_floating(data_type):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[data_type.bit_width]
        yield _by_chunk(column, bits, lambda part: _total_order(part.view(bits))), False
    elif str(data_type) == "string_view":
        yield column.cast(pa.large_string()), False
    elif str(data_type) == "binary_view":
        yield column.cast(pa.large_binary()), False
    else:
        yield column, False


def _by_chunk(
    column: pa.ChunkedArray, data_type: pa.DataType, change: Callable[[pa.Array], pa.Array]
) -> pa.ChunkedArray:
    return pa.chunked_array([change(chunk) for chunk in column.chunks], data_type)


def _total_order(bits: pa.Array) -> pa.Array:
    """Of floats with a sign the other bits are turned around: the largest of them is the smallest number."""
    others = pa.scalar((1 << (bits.type.bit_width - 1)) - 1, bits.type)
    return pc.if_else(pc.less(bits, pa.scalar(0, bits.type)), pc.bit_wise_xor(bits, others), bits)
