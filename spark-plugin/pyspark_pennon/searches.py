"""`nearest`: for each row of a frame of queries the rows of a table whose vectors are nearest to it.

The queries are divided among tasks, as their frame is, and each task searches the whole table, at the version that
was the newest when the frame was made: with an index over the column that is a few partitions for each query,
without one a look at every vector for each batch of queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.batches import converter
from pyspark_pennon.errors import invalid
from pyspark_pennon.options import ReadOptions, one_reference, session_storage_options
from pyspark_pennon.schema import expected_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Queries of a search: without an index each batch looks at every vector.
_QUERIES = 1024
_DISTANCE = "_distance"


def nearest(
    spark: SparkSession,
    uri: str,
    queries: DataFrame,
    k: int = 10,
    *,
    column: str,
    query_column: str | None = None,
    metric: str | None = None,
    columns: Sequence[str] | None = None,
    filter_sql: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    with_row_id: bool = False,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Find for each row of a frame the rows of a table whose vectors are nearest to its vector.

    Parameters
    ----------
    spark
        The session.
    uri
        Where the table is.
    queries
        A frame with a column of vectors, arrays of numbers. Rows without a vector find nothing.
    k
        The most rows for each query.
    column
        The column of vectors in the table.
    query_column
        That of the queries; the same name by default.
    metric
        `"l2"`, `"cosine"`, `"dot"` or `"hamming"`; that of the index over the column by default.
    columns
        Columns of the table in the result; all but the vectors by default.
    filter_sql
        Predicate in Pennon's SQL dialect: only rows of the table for which it is true are searched.
    version, tag
        The version that is searched; the newest when this is called by default.
    with_row_id
        Add `_rowid` (long).
    options
        More of the wheel's `nearest=`: `{"nprobes": 20, "refine_factor": 5}`.
    storage_options
        Keys and values for the object store, on top of the session's settings.

    Returns
    -------
    DataFrame
        The columns of the queries but their vectors, those of the table, and `_distance` (float); up to `k`
        rows for each query, the nearest first.

    Raises
    ------
    ValueError
        There is no such table, version or column, a column is in both frame and table, or an option is unknown.

    Examples
    --------
    >>> nearest(spark, uri, questions, 5, column="embedding").show()  # doctest: +SKIP
    """
    read = ReadOptions(
        uri=uri,
        storage_options=session_storage_options(spark, storage_options),
        version=one_reference(version, tag),
        columns=None if columns is None else tuple(columns),
        with_row_id=with_row_id,
    )
    table = tables.open_table(read)
    asked_column = column if query_column is None else query_column
    if asked_column not in queries.columns:
        raise invalid(f"the queries have no column {asked_column!r}, they have {queries.columns}")
    if columns is None:
        others = tuple(name for name in table.schema.names if name != column.split(".")[0])
        read = _with_columns(read, others)
    names = tables.read_columns(table, read)
    kept = [name for name in queries.columns if name != asked_column]
    clashes = sorted({*kept, _DISTANCE} & {*names} | {_DISTANCE} & {*kept})
    if clashes:
        raise invalid(f"the columns {clashes} are in the queries and in the result: rename those of the queries")
    # What is wrong with the request is said here, and not by a task.
    probe = [0.0] * _dimension(table, column)
    table.scanner(nearest={"column": column, "q": probe, "k": k, "metric": metric, **(options or {})})
    search = _Search(
        uri=uri,
        version=table.version,
        column=column,
        k=k,
        metric=metric,
        columns=names,
        filter_sql=filter_sql,
        options=dict(options or {}),
        storage_options=read.storage_options,
    )
    from pyspark.sql.types import FloatType, StructField, StructType

    fields = [queries.schema[name] for name in kept]
    found = tables.read_schema(table, read)
    schema = StructType([*fields, *found.fields, StructField(_DISTANCE, FloatType(), True)])
    target = expected_schema(schema)

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from search.run(batches, asked_column, kept, target)

    return queries.mapInArrow(rows, schema)


def _with_columns(options: ReadOptions, columns: tuple[str, ...]) -> ReadOptions:
    from dataclasses import replace

    return replace(options, columns=columns)


def _dimension(table: Any, column: str) -> int:
    """Elements of a vector of a column; raises what the wheel raises for another column."""
    import pyarrow as pa

    first, *path = column.split(".")
    found = table.schema.field(first).type if first in table.schema.names else None
    for name in path:
        found = found.field(name).type if isinstance(found, pa.StructType) else None
    if isinstance(found, pa.ListType | pa.LargeListType):
        found = found.value_type
    if isinstance(found, pa.BaseExtensionType):
        found = found.storage_type
    if not isinstance(found, pa.FixedSizeListType):
        raise invalid(f"the table has no column of vectors {column!r}, it has {table.schema.names}")
    return int(found.list_size)


@dataclass(frozen=True)
class _Search:
    """A search of one version, as tasks do it."""

    uri: str
    version: int
    column: str
    k: int
    metric: str | None
    columns: list[str]
    filter_sql: str | None
    options: dict[str, Any]
    storage_options: Mapping[str, str] = field(repr=False)

    def run(
        self, batches: Iterable[pa.RecordBatch], query_column: str, kept: list[str], target: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        import pennon
        import pyarrow as pa

        table = pennon.dataset(self.uri, version=self.version, storage_options=dict(self.storage_options) or None)
        for batch in batches:
            for start in range(0, batch.num_rows, _QUERIES):
                part = batch.slice(start, _QUERIES)
                part = part.filter(part[query_column].is_valid())
                if part.num_rows == 0:
                    continue
                found = table.to_table(
                    columns=self.columns,
                    filter=self.filter_sql,
                    prefilter=True,
                    nearest={
                        "column": self.column,
                        "q": part[query_column],
                        "k": self.k,
                        "metric": self.metric,
                        **self.options,
                    },
                )
                queries = pa.Table.from_batches([part.select(kept)]).take(found["query_index"])
                columns = [*queries.columns, *(found[name] for name in (*self.columns, _DISTANCE))]
                rows = pa.table(columns, names=[*kept, *self.columns, _DISTANCE]).combine_chunks()
                convert = converter(rows.schema, target, safe=False)
                for converted in rows.to_batches():
                    yield convert(converted)
