"""Input data as one `pyarrow.RecordBatchReader`, streamed and never collected; tables are not converted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from pennon._exact_casts import check_casts
from pennon._python_values import columns_to_table, frame_to_table, rows_to_table
from pennon.errors import InvalidInputError, InvalidTypeError, SchemaMismatchError


def to_reader(
    data: Any, schema: pa.Schema | None = None, table_schema: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """A reader of record batches from any supported data.

    Parameters
    ----------
    data
        A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, anything with
        `__arrow_c_stream__` or `__arrow_c_array__`, a frame of pandas, a list of dicts or of models of
        pydantic, a dict of lists, or an iterable of record batches.
    schema
        Schema of the data, if it has none of its own; the batches of an iterable are cast to it. By default that of
        its first batch.
    table_schema
        Schema of a table that the data is for: without `schema`, values of Python and pandas get the types of its
        columns.

    Raises
    ------
    pennon.InvalidInputError
        A type of a schema would change a value: of numbers only floats are rounded. Or the data has a column that
        the schema does not have. For data of other kinds it is an `InvalidTypeError`.

    Examples
    --------
    >>> to_reader([{"a": 1}, {"a": 2}]).read_all().num_rows
    2
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pyarrow.dataset.Dataset):
        return data.scanner().to_reader()
    if isinstance(data, pyarrow.dataset.Scanner):
        return data.to_reader()
    package, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if package in ("pandas", "polars") and kind == "Series":
        raise InvalidTypeError(f"Data must be a frame, found a Series of {package}: call its to_frame")
    if package == "polars" and kind == "LazyFrame":
        raise InvalidTypeError("Data must be a frame, found a LazyFrame of polars: call its collect")
    if _is_pandas(data):
        # Leaves out the index, as the reference does when it is a plain range.
        return frame_to_table(data, schema, table_schema).to_reader()
    if package == "polars" and hasattr(data, "to_arrow"):
        return _polars_table(data).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return _imported(pa.RecordBatchReader.from_stream, data)
    if hasattr(data, "__arrow_c_array__"):
        return to_reader(_imported(pa.record_batch, data))
    if isinstance(data, dict):
        return columns_to_table(data, schema, table_schema).to_reader()
    if isinstance(data, list) and (not data or isinstance(data[0], dict)):
        if not data and schema is None and table_schema is None:
            raise InvalidInputError("Must provide schema to write an empty list")
        return rows_to_table(data, schema, table_schema).to_reader()
    if "pydantic" in sys.modules:
        from pennon.pydantic import is_models, models_to_table

        if is_models(data):
            return models_to_table(data, schema=schema, table_schema=table_schema).to_reader()
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _batches_reader(data, schema, table_schema)
    raise InvalidTypeError(f"Unknown data type {type(data)}: it holds neither Arrow data nor rows")


def has_no_types(data: Any) -> bool:
    """Whether data is values of Python or pandas, which get their types from a schema or a table."""
    if isinstance(data, list):
        return not data or not any(hasattr(data[0], name) for name in ("__arrow_c_array__", "__arrow_c_stream__"))
    return isinstance(data, dict) or _is_pandas(data)


def to_input(
    data: Any, schema: pa.Schema | None = None, table_schema: pa.Schema | None = None
) -> pa.RecordBatchReader | pa.Table:
    """As `to_reader`, but a table is returned unchanged, so that no Python code runs for its batches.

    Raises `InvalidInputError` for metadata that are not UTF-8.
    """
    found = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if not isinstance(found, pa.Table):
        found = to_reader(found, schema, table_schema)
    _check_metadata("the schema", found.schema.metadata)
    for field in found.schema:
        _check_field(field, field.name)
    return found


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "iloc")


def _polars_table(frame: Any) -> pa.Table:
    """The table of a frame of polars. Its stream has views of text, and pylance stores these as another type.

    Raises `InvalidTypeError` for a column that has no type of Arrow.
    """
    for name, kind in frame.schema.items():
        # As bytes of Arrow they would be addresses in memory.
        if str(kind) == "Object":
            raise InvalidTypeError(
                f"column {name}: objects of Python in a frame of polars have no type of Arrow: convert them first, "
                "to text for example, or give them as a list in a dict"
            )
    try:
        return frame.to_arrow()
    except pa.ArrowException as error:
        named = ", ".join(f"{name} {kind}" for name, kind in frame.schema.items())
        raise InvalidTypeError(f"The frame has a type that Arrow does not have: {error}; found {named}") from error


def _imported(read: Callable[[Any], Any], data: Any) -> Any:
    try:
        return read(data)
    except pa.ArrowInvalid as error:
        raise InvalidTypeError(f"Data must be a table or structs, found {type(data).__name__}: {error}") from error


def _check_field(field: pa.Field, path: str) -> None:
    _check_metadata(f"the field {path}", field.metadata)
    for member in _members(field.type):
        _check_field(member, f"{path}.{member.name}")


def _members(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(data_type):
        return [data_type.field(at) for at in range(data_type.num_fields)]
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return [data_type.value_field] if any(test(data_type) for test in is_list) else []


def _check_metadata(owner: str, metadata: dict[bytes, bytes] | None) -> None:
    for key in (key for key, value in (metadata or {}).items() if not _is_utf8(key + value)):
        raise InvalidInputError(
            f"Metadata key {key!r} is not valid utf8. Consider base64 encode for generic binary metadata. It is"
            f" in {owner}"
        )


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _batches_reader(
    data: Iterable[Any], schema: pa.Schema | None, table_schema: pa.Schema | None
) -> pa.RecordBatchReader:
    batches = _batches(data)
    if schema is None:
        first = next(batches, None)
        if first is None and table_schema is None:
            raise InvalidInputError("Must provide schema to write an iterable without batches")
        schema = table_schema if first is None else first.schema
        batches = chain([] if first is None else [first], batches)
    cast = (batch if batch.schema.equals(schema) else _cast(batch, schema) for batch in batches)
    return pa.RecordBatchReader.from_batches(schema, cast)


def _batches(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in data:
        if not isinstance(item, pa.RecordBatch | pa.Table) and not hasattr(item, "__arrow_c_array__"):
            hint = ": give rows as a list" if isinstance(item, dict) else ""
            raise InvalidTypeError(f"Expected RecordBatch, got {type(item)} in an iterable{hint}")
        yield from [item] if isinstance(item, pa.RecordBatch) else to_reader(item)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    check_casts(pa.Table.from_batches([batch]), schema, as_pyarrow=True)
    try:
        return batch.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatchError(
            f"A batch of the data does not fit the schema that was given: {error}. It has\n{batch.schema}\nand the"
            f" schema is\n{schema}"
        ) from error
