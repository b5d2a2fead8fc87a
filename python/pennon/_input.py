"""Input data as one `pyarrow.RecordBatchReader`, streamed and never collected; tables are not converted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from pennon._exact_casts import cast_exactly
from pennon._python_values import columns_to_table, frame_to_table, rows_to_table, without_index
from pennon.errors import InvalidInputError, InvalidTypeError

# Selected rows are gathered one batch at a time; their values may be images.
_HUGGING_FACE_ROWS = 1000


def to_reader(
    data: Any, schema: pa.Schema | None = None, table_schema: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """A reader of record batches from any supported data.

    Parameters
    ----------
    data
        A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, anything with
        `__arrow_c_stream__` or `__arrow_c_array__`, a frame of pandas, a dataset of Hugging Face, a list of dicts
        or of models of pydantic, a dict of lists, or an iterable of record batches.
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
        # Descriptions say where blobs are in the table that they are read of.
        bytes_of_blobs = {"blob_handling": "all_binary"} if hasattr(data, "take_blobs") else {}
        return data.scanner(**bytes_of_blobs).to_reader()
    if isinstance(data, pyarrow.dataset.Scanner):
        return data.to_reader()
    for package in ("pandas", "polars"):
        if _is_of(data, package, "Series"):
            raise InvalidTypeError(f"Data must be a frame, found a Series of {package}: call its to_frame")
    if _is_of(data, "polars", "LazyFrame"):
        raise InvalidTypeError("Data must be a frame, found a LazyFrame of polars: call its collect")
    if is_frame_of_pandas(data):
        return frame_to_table(data, schema, table_schema).to_reader()
    if _is_of(data, "polars", "DataFrame"):
        return _polars_table(data).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return _imported(pa.RecordBatchReader.from_stream, data)
    if hasattr(data, "__arrow_c_array__"):
        return to_reader(_imported(pa.record_batch, data))
    if _is_of(data, "datasets", "Dataset") or _is_of(data, "datasets", "IterableDataset"):
        return _hugging_face_reader(data, schema)
    if _is_of(data, "datasets", "DatasetDict") or _is_of(data, "datasets", "IterableDatasetDict"):
        raise InvalidTypeError(f"Data must be one dataset, found a {type(data).__name__}: write its splits singly")
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
    return isinstance(data, dict) or is_frame_of_pandas(data)


def result_table(result: Any, schema: pa.Schema | None = None) -> pa.Table:
    """What a function returned. An index of a frame of pandas is left out where the schema does not have it."""
    rows = without_index(result, schema) if is_frame_of_pandas(result) else result
    return to_reader(rows, schema).read_all()


def names_columns(data: Any) -> bool:
    """Whether values of Python or pandas name a column; others get all columns of a table that they are for."""
    if isinstance(data, list):
        return any(not isinstance(row, Mapping) or row for row in data)
    if is_frame_of_pandas(data):
        return len(data.columns) > 0 or any(name is not None for name in data.index.names)
    return isinstance(data, dict) and bool(data)


def is_frame_of_pandas(data: Any) -> bool:
    """Whether data is a frame of pandas, which is not imported for that."""
    return _is_of(data, "pandas", "DataFrame")


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


def _is_of(data: Any, package: str, name: str) -> bool:
    """Whether data is of a class of a package, or of a subclass of it. The package is not imported for that."""
    found = getattr(sys.modules.get(package), name, None)
    return isinstance(found, type) and isinstance(data, found)


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


def _hugging_face_reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """The rows of a dataset of Hugging Face: those that are selected, in their order, with its features."""
    if schema is None and data.features is not None:
        schema = data.features.arrow_schema
    rows = data.with_format("arrow")
    examples = getattr(data, "_ex_iterable", None)
    if examples is None or getattr(examples, "iter_arrow", None):
        return _batches_reader(rows.iter(batch_size=_HUGGING_FACE_ROWS), schema, None)
    # Of rows of Python it makes tables of one row, and fails to join those that differ in types, such as nulls.
    if data.features is not None and hasattr(data, "decode"):
        return _batches_reader(_typed(data, data.features), schema, None)
    return _batches_reader(_joined(rows.iter(batch_size=1)), schema, None)


def _joined(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Larger tables of tables of one row, with types that all rows of a table fit."""
    left = iter(rows)
    while part := list(islice(left, _HUGGING_FACE_ROWS)):
        yield pa.concat_tables(part, promote_options="permissive").combine_chunks()


def _typed(data: Any, features: Any) -> Iterator[pa.Table]:
    """Tables of rows of Python, with the types of the features; stored images keep their bytes."""
    make = sys.modules["datasets"].Dataset.from_dict
    for batch in data.decode(False).with_format(None).iter(batch_size=_HUGGING_FACE_ROWS):
        yield make(batch, features=features).with_format("arrow")[:]


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
    return pa.RecordBatchReader.from_batches(schema, _in_types(batches, schema))


def _batches(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in data:
        if not isinstance(item, pa.RecordBatch | pa.Table) and not hasattr(item, "__arrow_c_array__"):
            hint = ": give rows as a list" if isinstance(item, dict) else ""
            raise InvalidTypeError(f"Expected RecordBatch, got {type(item)} in an iterable{hint}")
        yield from [item] if isinstance(item, pa.RecordBatch) else to_reader(item)


def _in_types(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.schema.equals(schema):
            yield batch
        else:
            yield from cast_exactly(pa.Table.from_batches([batch]), schema, as_pyarrow=True).to_batches()
