"""Data with a key, for a merge or a join, as the core takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon._exact_casts import checked
from pennon._input import names_columns, to_reader
from pennon._table.row_numbers import ROW_ID, schema_with_uint64_ids, with_uint64_ids

if TYPE_CHECKING:
    from pennon.types import ReaderLike


def merge_source(source: pa.Table | pa.RecordBatchReader, on: Sequence[str]) -> pa.Table | pa.RecordBatchReader:
    """A source whose row ids, if they are the keys, have their type."""
    return with_ids(source) if ROW_ID in on else source


def source_schema(schema: pa.Schema | None, on: Sequence[str]) -> pa.Schema | None:
    """The schema of such a source."""
    return schema if schema is None or ROW_ID not in on else schema_with_uint64_ids(schema)


def types_of_source(table: pa.Schema, on: Sequence[str]) -> pa.Schema:
    """The schema of a table, with the types of its columns, and of row ids if they are the keys."""
    return table.append(pa.field(ROW_ID, pa.uint64())) if ROW_ID in on else table


def new_columns(
    table: pa.Schema, data: ReaderLike, left_on: str, right_on: str | None, schema: pa.Schema | None
) -> tuple[pa.RecordBatchReader, str]:
    """Columns that a table shall get, and the name of their key."""
    key = right_on or left_on
    reader = to_reader(data, schema, pa.schema(_key_field(table, left_on, key)))
    return _with_ids(reader), key


def new_values(
    table: pa.Schema, data: ReaderLike, left_on: str, right_on: str | None, schema: pa.Schema | None
) -> tuple[pa.RecordBatchReader, str]:
    """Values for columns of a table, which are not cast yet, and the name of their key."""
    key = right_on or left_on
    types = pa.schema([*_key_field(table, left_on, key), *(field for field in table if field.name != key)])
    return _with_ids(checked(to_reader(data, schema, types_of_values(types, data)), table)), key


def types_of_values(types: pa.Schema, data: ReaderLike) -> pa.Schema:
    """The types that new values get. None if they name no column: they would be nulls for all columns."""
    return types if names_columns(data) else pa.schema([])


def _key_field(table: pa.Schema, left_on: str, right_on: str) -> list[pa.Field]:
    """The key of other data, in the type of the key of the table."""
    if left_on in (ROW_ID, "_rowaddr"):
        return [pa.field(right_on, pa.uint64())]
    at = table.get_field_index(left_on)
    return [] if at < 0 else [table.field(at).with_name(right_on)]


def with_ids(source: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """A source whose row ids have their type: integers of Python are int64."""
    return with_uint64_ids(source) if isinstance(source, pa.Table) else _with_ids(source)


def _with_ids(source: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = schema_with_uint64_ids(source.schema)
    if schema.equals(source.schema):
        return source
    tables = (with_uint64_ids(pa.Table.from_batches([batch])) for batch in source)
    return pa.RecordBatchReader.from_batches(schema, (batch for table in tables for batch in table.to_batches()))
