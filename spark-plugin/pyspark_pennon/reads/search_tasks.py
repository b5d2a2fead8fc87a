"""Searches for the nearest vectors, as Spark's tasks do them.

| divided by | a task searches |
|---|---|
| queries | all fragments for a part of the frame of queries |
| fragments | some fragments for some of the queries, which the driver has |

Divided by fragments, addresses and distances are shuffled to one task, which keeps the nearest of each query and
reads their columns. Which are the nearest is decided as by the wheel: by distance, row id and address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pennon import tables
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.reads.addressed_rows import AddressedRows
from pyspark_pennon.tasks.plans import numbered
from pyspark_pennon.tasks.workers import mapped
from pyspark_pennon.types.batches import spark_rows
from pyspark_pennon.types.schema import ROW_ADDRESS, ROW_ID, expected_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DISTANCE = "_distance"

MOST_QUERIES = 1024
"""Queries of a search: without an index each batch looks at every vector."""

_QUERY = "query_index"
_FOUND = [_QUERY, DISTANCE, ROW_ID, ROW_ADDRESS]

_MERGED_ROWS = 1 << 18
"""Rows that were found are reduced to the nearest when there are so many more."""


@dataclass(frozen=True)
class Search:
    """A search of one version; picklable.

    Attributes
    ----------
    read
        The table, its version, and the columns of it in the result.
    is_list
        Whether rows have lists of vectors, so that several vectors are one query.
    options
        More of the wheel's `nearest=`.
    fast_search
        Whether rows that no index covers are left out.
    query_column
        The vectors of the queries.
    kept
        The columns of the queries in the result.
    """

    read: ReadOptions
    column: str
    is_list: bool
    k: int
    metric: str | None
    names: list[str]
    options: dict[str, Any]
    fast_search: bool
    query_column: str
    kept: list[str]

    def by_queries(self, queries: DataFrame, schema: StructType) -> DataFrame:
        """The result, each task searching for its part of the queries."""
        target = expected_schema(schema)

        def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table = tables.open_table(self.read)
            for batch in batches:
                for start in range(0, batch.num_rows, MOST_QUERIES):
                    asked = self.valid(pa.Table.from_batches([batch.slice(start, MOST_QUERIES)]))
                    if asked.num_rows:
                        found = self._found(table, asked[self.query_column], columns=self.names)
                        yield from self._joined(asked, found, target)

        return mapped(queries, rows, schema)

    def by_fragments(
        self, spark: SparkSession, asked: pa.Table, tasks: Sequence[tuple[list[int], range]], schema: StructType
    ) -> DataFrame:
        """The result, each task searching some fragments for some of the queries.

        Parameters
        ----------
        asked
            The queries, all of them with a vector.
        tasks
            The fragments and the numbers of the queries.
        """
        target = expected_schema(schema)
        vectors = asked[self.query_column].combine_chunks()

        def found(number: int) -> Iterator[pa.RecordBatch]:
            if number >= len(tasks):
                return
            fragments, part = tasks[number]
            table = tables.open_table(self.read)
            rows = self._found(
                table,
                vectors.slice(part.start, len(part)),
                columns=[],
                with_fragments=[table.get_fragment(fragment) for fragment in fragments],
                with_row_id=True,
                with_row_address=True,
            )
            first = pa.scalar(part.start, pa.int32())
            numbers = pc.add(rows[_QUERY].cast(pa.int32()), first)
            addresses = (rows[name].cast(pa.int64()) for name in (ROW_ID, ROW_ADDRESS))
            columns = [numbers, rows[DISTANCE], *addresses]
            yield from pa.table(columns, names=_FOUND).to_batches()

        def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nearest = _nearest_of_each(batches, self.k)
            if nearest is None:
                return
            addresses = nearest[ROW_ADDRESS].combine_chunks()
            distinct = addresses.dictionary_encode()
            order = pc.sort_indices(distinct.dictionary)
            rows = AddressedRows(self.read, self.names).at(distinct.dictionary.take(order))
            taken = rows.take(pc.sort_indices(order).take(distinct.indices))
            yield from self._joined(asked, _with(taken, nearest), target)

        everything = numbered(spark, len(tasks), found, _found_schema())
        return mapped(everything.repartition(1), merged, schema)

    def valid(self, asked: pa.Table) -> pa.Table:
        """The queries that have a vector."""
        return asked.filter(asked[self.query_column].is_valid())

    def _found(self, table: Any, vectors: Any, **scan: Any) -> pa.Table:
        """The rows of a scan that are nearest to each vector, the first one's first, with `query_index`."""
        import pennon

        asked = {"column": self.column, "k": self.k, "metric": self.metric, **self.options}

        def nearest(query: Any) -> pa.Table:
            builder = pennon.ScannerBuilder(table).nearest(**asked, q=query)
            builder.apply_defaults(scan).filter(self.read.filter_sql).prefilter(True).fast_search(self.fast_search)
            builder.blob_handling("all_binary")
            return builder.to_scanner().to_table()

        if not self.is_list:
            return nearest(vectors)
        parts = []
        for number, query in enumerate(vectors):
            part = nearest(query)
            numbers = pa.repeat(pa.scalar(number, pa.int32()), part.num_rows)
            parts.append(part.append_column(_QUERY, numbers))
        return pa.concat_tables(parts)

    def _joined(self, asked: pa.Table, found: pa.Table, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows that were found with the columns of their queries."""
        queries = asked.select(self.kept).take(found[_QUERY])
        columns = [*queries.columns, *(found[name] for name in (*self.names, DISTANCE))]
        rows = pa.table(columns, names=[*self.kept, *self.names, DISTANCE]).combine_chunks()
        yield from spark_rows(rows, target)


def _with(rows: pa.Table, nearest: pa.Table) -> pa.Table:
    for name in (_QUERY, DISTANCE):
        rows = rows.append_column(name, nearest[name])
    return rows


def _found_schema() -> StructType:
    from pyspark.sql.types import FloatType, IntegerType, LongType, StructField, StructType

    kinds = [IntegerType(), FloatType(), LongType(), LongType()]
    return StructType([StructField(name, kind) for name, kind in zip(_FOUND, kinds, strict=True)])


def _nearest_of_each(batches: Iterable[pa.RecordBatch], k: int) -> pa.Table | None:
    """The nearest rows of each query among those found in parts of the table; None if nothing was found."""
    kept: pa.Table | None = None
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows > _MERGED_ROWS:
            kept, waiting, rows = _reduced(kept, waiting, k), [], 0
    return _reduced(kept, waiting, k)


def _reduced(kept: pa.Table | None, more: list[pa.RecordBatch], k: int) -> pa.Table | None:
    import numpy as np

    parts = [*([] if kept is None else [kept]), *([pa.Table.from_batches(more)] if more else [])]
    if not parts:
        return None
    found = pa.concat_tables(parts)
    query, distance, row, address = (found[name].to_numpy() for name in _FOUND)
    # By their bits all numbers have an order, also those that are equal, -0.0 and 0.0.
    bits = distance.view(np.int32)
    order = np.lexsort((address, row, np.where(bits < 0, bits ^ 0x7FFFFFFF, bits), query))
    sorted_queries = query[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_queries, sorted_queries)
    return found.take(pa.array(order[rank < k]))
