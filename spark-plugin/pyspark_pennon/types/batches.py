"""Record batches between a table's Arrow types and those that Spark expects.

[converter][] is planned once for a pair of schemas. Columns whose type is the same pass through; nested ones are
rebuilt around their buffers, so that an embedding costs an offset a row and no copy of its values. Only leaves
whose type differs are cast.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pennon.errors import mismatch
from pyspark_pennon.types.column_names import stored_names

Convert = Callable[[pa.Array], pa.Array]

BLOB_EXTENSION = "lance.blob.v2"


def converter(source: pa.Schema, target: pa.Schema, *, safe: bool) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function from batches with the columns of `source` to batches with the schema `target`, by name.

    A column that `source` lacks is the one whose name differs by case only: the driver refuses what Spark would not
    take for one name.

    Parameters
    ----------
    safe
        Whether a value that does not fit is an error, instead of losing digits.
    """
    folded = {name.lower(): name for name in source.names}
    pairs = [(f.name if f.name in source.names else folded.get(f.name.lower(), f.name), f) for f in target]
    columns = [(name, _column(source.field(name), field, safe)) for name, field in pairs]

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not columns:
            return batch.select([])
        arrays = [change(batch.column(name)) if change else batch.column(name) for name, change in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    return convert


def table_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatchReader:
    """Batches of Spark as rows of a table, with the columns of `schema`."""
    return filled_rows(batches, schema) or pa.RecordBatchReader.from_batches(schema, [])


def filled_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatchReader | None:
    """The same; None if there are no rows."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    convert = converter(first.schema, schema, safe=True)
    return pa.RecordBatchReader.from_batches(schema, map(convert, chain([first], filled)))


def spark_rows(rows: pa.Table | Iterable[pa.RecordBatch], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a table in the types that Spark expects; all batches have the columns of the first one."""
    batches = iter(rows.to_batches() if isinstance(rows, pa.Table) else rows)
    first = next(batches, None)
    if first is not None:
        yield from map(converter(first.schema, target, safe=False), chain([first], batches))


def is_blob(field: pa.Field) -> bool:
    """Whether the values of a column are stored as blobs, version 2."""
    if isinstance(field.type, pa.BaseExtensionType):  # pylance registers one
        return bool(field.type.extension_name == BLOB_EXTENSION)
    return bool((field.metadata or {}).get(b"ARROW:extension:name") == BLOB_EXTENSION.encode())


def is_list(kind: pa.DataType) -> bool:
    """Whether the values are lists, of whatever size."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _column(source: pa.Field, target: pa.Field, safe: bool) -> Convert | None:
    if is_blob(target):
        change: Convert | None = _to_blob(target.type)
    elif _is_vector(source.type) and is_list(target.type):
        change = _from_ml_vector(target, safe)
    else:
        change = _change(source.type, target.type, safe)
    if change is None:
        return None
    found: Convert = change

    def convert(array: pa.Array) -> pa.Array:
        try:
            return found(array)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise mismatch(
                f"column '{target.name}': cannot convert {array.type} to {target.type}: {error}"
            ) from error

    return convert


def _change(source: pa.DataType, target: pa.DataType, safe: bool) -> Convert | None:
    """How an array changes its type; None if it has that type."""
    if source.equals(target):
        return None
    if isinstance(source, pa.BaseExtensionType):
        inner = _change(source.storage_type, target, safe)
        return lambda array: inner(array.storage) if inner else array.storage
    if isinstance(target, pa.BaseExtensionType):
        stored = _change(source, target.storage_type, safe)
        return lambda array: pa.ExtensionArray.from_storage(target, stored(array) if stored else array)
    if pa.types.is_dictionary(source):
        values = _change(source.value_type, target, safe)
        return lambda array: values(array.dictionary_decode()) if values else array.dictionary_decode()
    if pa.types.is_dictionary(target):
        return _to_dictionary(source, target, safe)
    if is_list(source) and is_list(target):
        return _list(source, target, safe)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _map(source, target, safe)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(source, target, safe)
    if pa.types.is_integer(source) and pa.types.is_decimal128(target):
        # Arrow's cast of integers refuses a type that not all of them fit, its cast of decimals a value.
        digits = pa.decimal256(20 + target.scale, target.scale)
        return lambda array: pc.cast(pc.cast(array, digits), target, safe=safe)
    return lambda array: pc.cast(array, target, safe=safe)


def _to_dictionary(source: pa.DataType, target: pa.DataType, safe: bool) -> Convert:
    values = _change(source, target.value_type, safe)

    def convert(array: pa.Array) -> pa.Array:
        encoded = pc.dictionary_encode(values(array) if values else array)
        indices = pc.cast(encoded.indices, target.index_type, safe=True)
        return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=target.ordered)

    return convert


def _list(source: pa.DataType, target: pa.DataType, safe: bool) -> Convert:
    inner = _change(source.value_type, target.value_type, safe)
    offsets = _Offsets(source.list_size if pa.types.is_fixed_size_list(source) else 0)

    def lists(array: pa.Array) -> pa.Array:
        """The same with 32-bit offsets and converted values, under the type `found`."""
        if pa.types.is_large_list(source):
            array = pc.cast(array, pa.list_(source.value_field))
        values = array.values
        validity = array.buffers()[0]
        if pa.types.is_fixed_size_list(source):
            starts = offsets.until(array.offset + len(array))
        else:
            starts = array.buffers()[1]
        found = pa.list_(target.value_field)
        children = [inner(values) if inner else values]
        return pa.Array.from_buffers(
            found, len(array), [validity, starts], array.null_count, array.offset, children
        )

    if pa.types.is_list(target):
        return lists
    if pa.types.is_large_list(target):
        return lambda array: pc.cast(lists(array), target, safe=safe)
    return lambda array: _fixed(lists(array), target)


class _Offsets:
    """Offsets of lists of one size, kept from batch to batch."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = -1
        self._offsets = pa.py_buffer(b"")

    def until(self, count: int) -> pa.Buffer:
        if count > self._count:
            values = packed("i", range(0, (count + 1) * self._size, self._size)) if self._size else None
            self._offsets = pa.py_buffer(values if values is not None else bytes(4 * (count + 1)))
            self._count = count
        return self._offsets


def _fixed(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Lists of one length as fixed-size lists, without a copy where none is null."""
    size = target.list_size
    lengths = pc.min_max(pc.list_value_length(array)).as_py()
    for found in (lengths["min"], lengths["max"]):
        if found is not None and found != size:
            raise pa.ArrowInvalid(f"found a list of {found} values, expected {size}")
    # Arrow's own cast of lists with nulls ends the process for batches of the JVM that are null throughout.
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    dense = pa.FixedSizeListArray.from_arrays(array.flatten(), type=target)
    if not array.null_count:
        return dense
    valid = array.is_valid()
    rank = pc.subtract(pc.cumulative_sum(pc.cast(valid, pa.int64())), 1)
    return dense.take(pc.if_else(valid, rank, None))


def _map(source: pa.DataType, target: pa.DataType, safe: bool) -> Convert:
    key = _change(source.key_type, target.key_type, safe)
    item = _change(source.item_type, target.item_type, safe)

    def convert(array: pa.Array) -> pa.Array:
        keys, items = array.keys, array.items
        pairs = [key(keys) if key else keys, item(items) if item else items]
        entries = pa.StructArray.from_arrays(pairs, fields=[target.key_field, target.item_field])
        parts = array.buffers()[:2]
        return pa.Array.from_buffers(target, len(array), parts, array.null_count, array.offset, [entries])

    return convert


def _struct(source: pa.DataType, target: pa.DataType, safe: bool) -> Convert:
    fields = list(target)
    # The driver refuses what Spark would not take for one name.
    names = stored_names([field.name for field in fields], [field.name for field in source], is_sensitive=False)
    missing = [field.name for field in fields if field.name not in names and not field.nullable]
    unknown = [name for name in names if target.get_field_index(name) < 0]
    if missing or unknown:
        raise mismatch(f"a struct has the fields {', '.join(names)}, but the table has {target}")
    at = [names.index(field.name) if field.name in names else None for field in fields]
    changes = [
        None if number is None else _change(source.field(number).type, field.type, safe)
        for number, field in zip(at, fields, strict=True)
    ]

    def convert(array: pa.Array) -> pa.Array:
        children = []
        for number, field, change in zip(at, fields, changes, strict=True):
            child = pa.nulls(len(array), field.type) if number is None else array.field(number)
            children.append(change(child) if change else child)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    return convert


def _to_blob(target: pa.DataType) -> Convert:
    stored = target.storage_type if isinstance(target, pa.BaseExtensionType) else target

    def convert(array: pa.Array) -> pa.Array:
        children = [
            pc.cast(array, field.type) if field.name == "data" else pa.nulls(len(array), field.type)
            for field in stored
        ]
        mask = array.is_null() if array.null_count else None
        found = pa.StructArray.from_arrays(children, fields=list(stored), mask=mask)
        return found if stored is target else pa.ExtensionArray.from_storage(target, found)

    return convert


_VECTOR_FIELDS = ["type", "size", "indices", "values"]
_DENSE = 1


def _is_vector(kind: pa.DataType) -> bool:
    """Whether these are rows of Spark ML's `VectorUDT`."""
    return bool(pa.types.is_struct(kind)) and [field.name for field in kind] == _VECTOR_FIELDS


def _from_ml_vector(target: pa.Field, safe: bool) -> Convert:
    values = _change(pa.list_(pa.float64()), target.type, safe)

    def convert(array: pa.Array) -> pa.Array:
        kinds = pc.drop_null(pc.if_else(array.is_valid(), array.field("type"), None))
        if pc.any(pc.not_equal(kinds, _DENSE)).as_py():
            raise mismatch(
                f"column '{target.name}' has a sparse vector, which a table of fixed-size lists cannot hold: use "
                "pyspark.ml.functions.vector_to_array, or dense vectors"
            )
        dense = array.field("values")
        if array.null_count:
            dense = pc.if_else(array.is_valid(), dense, pa.scalar(None, dense.type))
        dense = pc.cast(dense, pa.list_(pa.float64()))
        return values(dense) if values else dense

    return convert
