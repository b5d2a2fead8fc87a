"""Batches after a scan: filtered by pyarrow expressions, skipped, limited and cut."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pennon._predicate import SYSTEM_COLUMNS, named_columns
from pennon.errors import InvalidInputError


def columns_of(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns that an expression needs; all of the schema if it counts columns or names none."""
    named = named_columns(expression)
    if not named:
        return list(schema.names)
    return [name for name in dict.fromkeys([*schema.names, *SYSTEM_COLUMNS.names]) if name in named]


def counts_columns(expression: pc.Expression) -> bool:
    """Whether an expression may refer to a column by its position."""
    return "FieldPath" in str(expression)


@dataclass
class Batches(Iterator[pa.RecordBatch]):
    """Batches with these columns."""

    schema: pa.Schema
    source: Generator[pa.RecordBatch, None, None]

    def __next__(self) -> pa.RecordBatch:
        return next(self.source)

    def close(self) -> None:
        """End the scan: there are no more batches."""
        self.source.close()


def filtered(batches: Iterable[pa.RecordBatch], expression: pc.Expression) -> Iterator[pa.RecordBatch]:
    """The rows for which an expression is true, with all their columns.

    Raises `InvalidInputError` if it has no value for some row: by an overflow, for example.
    """
    for batch in batches:
        try:
            kept = pa.Table.from_batches([batch]).filter(expression)
        except pa.ArrowException as error:
            raise InvalidInputError(f"The filter {expression} cannot be evaluated: {error}") from error
        if kept.num_rows:
            yield one_batch(kept)


def windowed(batches: Iterable[pa.RecordBatch], offset: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The rows after the first `offset`, at most `limit`."""
    if limit == 0:
        return
    for batch in batches:
        skipped = min(offset, batch.num_rows)
        offset -= skipped
        kept = batch.slice(skipped, limit)
        if kept.num_rows == 0:
            continue
        yield kept
        if limit is not None:
            limit -= kept.num_rows
            if limit == 0:
                return


def in_batches_of(rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows`, the last one apart."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        count = sum(part.num_rows for part in waiting)
        if count >= rows:
            table = pa.Table.from_batches(waiting)
            yield from (one_batch(table.slice(at, rows)) for at in range(0, count - rows + 1, rows))
            rest = table.slice(count - count % rows)
            waiting = rest.to_batches()
    if waiting:
        yield one_batch(pa.Table.from_batches(waiting))


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a batch that `schema` names."""
    if not schema.names:
        return batch.select([])
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch; values are copied where they are in several pieces.

    Raises `InvalidInputError` for more text than an array can hold.
    """
    if not table.num_columns:
        return pa.record_batch({"": pa.nulls(table.num_rows)}).select([])
    columns = []
    for column in table.columns:
        chunks = column.chunks or [pa.array([], column.type)]
        try:
            columns.append(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"{table.num_rows} rows do not fit into one batch: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)
