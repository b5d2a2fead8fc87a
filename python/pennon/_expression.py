"""Filters that are pyarrow expressions, as polars and duckdb pass them.

They are evaluated by pyarrow, on the batches of a scan without a filter: the core reads only SQL text,
and a translation would have to be exact in every case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pennon import _native


def columns_of(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns that an expression may need; too many rather than too few."""
    text = str(expression)
    named = [name for name in schema.names if name in text]
    return named if named and "FieldPath" not in text else list(schema.names)


@dataclass
class FilteredBatches(Iterator[pa.RecordBatch]):
    """The batches of a scan after filter, offset and limit, with the columns of `schema`."""

    batches: _native.Batches
    expression: pc.Expression
    schema: pa.Schema
    offset: int = 0
    limit: int | None = None

    def __next__(self) -> pa.RecordBatch:
        while self.limit is None or self.limit > 0:
            kept = pa.Table.from_batches([next(self.batches)]).filter(self.expression)
            skipped = min(self.offset, kept.num_rows)
            self.offset -= skipped
            kept = kept.slice(skipped, self.limit)
            if kept.num_rows == 0:
                continue
            if self.limit is not None:
                self.limit -= kept.num_rows
            selected = kept.select(self.schema.names).combine_chunks()
            columns = [
                column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in selected.columns
            ]
            if not columns:
                return pa.record_batch({"": pa.nulls(kept.num_rows)}).select([])
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        raise StopIteration

    def count(self) -> int:
        """Number of rows."""
        return sum(batch.num_rows for batch in self)
