"""The source of a merge as the core takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from pennon._table.row_numbers import ROW_ID, with_uint64_ids


def merge_source(
    source: pa.Table | pa.RecordBatchReader, target: pa.Schema, on: Sequence[str]
) -> pa.Table | pa.RecordBatchReader:
    """A source with the types of the table where Python has others: for no rows, and for row ids as keys."""
    source = _typed_if_empty(source, target)
    return with_ids(source) if ROW_ID in on else source


def source_schema(schema: pa.Schema | None, on: Sequence[str]) -> pa.Schema | None:
    """The schema of such a source."""
    return schema if schema is None or ROW_ID not in on else with_uint64_ids(schema.empty_table()).schema


def _typed_if_empty(source: pa.Table | pa.RecordBatchReader, target: pa.Schema) -> pa.Table | pa.RecordBatchReader:
    """Gives columns of type null, which those of an empty list are, the types of the table if there are no rows."""
    if not any(pa.types.is_null(field.type) for field in source.schema):
        return source
    if isinstance(source, pa.Table):
        return source if source.num_rows else _typed(source.schema, target).empty_table()
    first = next((batch for batch in source if batch.num_rows), None)
    if first is not None:
        return pa.RecordBatchReader.from_batches(source.schema, chain([first], source))
    return _typed(source.schema, target).empty_table()


def _typed(schema: pa.Schema, target: pa.Schema) -> pa.Schema:
    fields = []
    for field in schema:
        at = target.get_field_index(field.name)
        fields.append(target.field(at) if pa.types.is_null(field.type) and at >= 0 else field)
    return pa.schema(fields)


def with_ids(source: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """A source whose row ids have their type: integers of Python are int64."""
    if isinstance(source, pa.Table):
        return with_uint64_ids(source)
    schema = with_uint64_ids(source.schema.empty_table()).schema
    if schema.equals(source.schema):
        return source
    tables = (with_uint64_ids(pa.Table.from_batches([batch])) for batch in source)
    return pa.RecordBatchReader.from_batches(schema, (batch for table in tables for batch in table.to_batches()))
