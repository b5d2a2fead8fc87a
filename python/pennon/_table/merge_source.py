"""The source of a merge as the core takes it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pennon._table.row_numbers import ROW_ID, with_uint64_ids


def merge_source(source: pa.Table | pa.RecordBatchReader, on: Sequence[str]) -> pa.Table | pa.RecordBatchReader:
    """A source whose row ids, if they are the keys, have their type."""
    return with_ids(source) if ROW_ID in on else source


def source_schema(schema: pa.Schema | None, on: Sequence[str]) -> pa.Schema | None:
    """The schema of such a source."""
    return schema if schema is None or ROW_ID not in on else with_uint64_ids(schema.empty_table()).schema


def types_of_source(table: pa.Schema, on: Sequence[str]) -> pa.Schema:
    """The schema of a table, with the types of its columns, and of row ids if they are the keys."""
    return table.append(pa.field(ROW_ID, pa.uint64())) if ROW_ID in on else table


def with_ids(source: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """A source whose row ids have their type: integers of Python are int64."""
    if isinstance(source, pa.Table):
        return with_uint64_ids(source)
    schema = with_uint64_ids(source.schema.empty_table()).schema
    if schema.equals(source.schema):
        return source
    tables = (with_uint64_ids(pa.Table.from_batches([batch])) for batch in source)
    return pa.RecordBatchReader.from_batches(schema, (batch for table in tables for batch in table.to_batches()))
