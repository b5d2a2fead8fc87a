"""`nearest`: for each row of a frame of queries the rows of a table whose vectors are nearest to it.

The version is the one that was the newest when the frame was made. With an index over the column a query looks at a
few partitions of it: the queries are divided among tasks, as their frame is, and each task searches all fragments.
Without an index every vector is looked at, so that the fragments are divided among tasks if the queries are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.errors import invalid, mismatch
from pyspark_pennon.options.search import FAST_SEARCH, search_options
from pyspark_pennon.options.source import ReadOptions, one_reference, session_storage_options
from pyspark_pennon.options.values import given_columns
from pyspark_pennon.reads.search_tasks import DISTANCE, MOST_QUERIES, Search
from pyspark_pennon.spark_api import parallelism, to_arrow
from pyspark_pennon.types.column_names import is_case_sensitive, stored_name
from pyspark_pennon.types.schema import quoted
from pyspark_pennon.types.storable import is_ml_vector

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LEAST_TASK_BYTES = 4 << 20
"""A task that compares vectors of fewer bytes costs more than it gains."""

_MOST_FOUND = 1 << 18
"""Rows in the result of few queries, at most: one task chooses them, and reads their columns."""


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
    version: int | str | None = None,
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
        A frame with a column of vectors, arrays of numbers or vectors of Spark ML. Rows without a vector find
        nothing. Without an index that can be searched up to 1,025 of them are read when this is called, to see
        whether they are few.
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
        The version that is searched, by number or tag; the newest when this is called by default.
    with_row_id
        Add `_rowid` (long).
    options
        More of the wheel's `nearest=`: `{"nprobes": 20, "refine_factor": 5}`. With `{"fast_search": True}` rows
        that no index covers are left out.
    storage_options
        Keys and values for the object store, on top of the session's settings.

    Returns
    -------
    DataFrame
        The columns of the queries but their vectors, those of the table, and `_distance` (float); up to `k`
        rows for each query, the nearest first; of two at the same distance the one with the lower row id.

    Raises
    ------
    pennon.NotFoundError
        There is no such table or version.
    pennon.InvalidInputError
        There is no such column, a column is in both frame and table, or an option is unknown.
    pennon.SchemaMismatchError
        The queries are not vectors.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pyspark_pennon import nearest, write
    >>> data = [("cat", [0.0, 1.0]), ("dog", [0.1, 0.9]), ("car", [1.0, 0.0])]
    >>> schema = pa.schema({"word": pa.string(), "vector": pa.list_(pa.float32(), 2)})
    >>> words = spark.createDataFrame(data, "word string, vector array<float>")
    >>> done = write(words, f"{folder}/words.lance", schema=schema)
    >>> questions = spark.createDataFrame([(7, [0.0, 1.0])], "question long, vector array<float>")
    >>> nearest(spark, f"{folder}/words.lance", questions, 2, column="vector").select("question", "word").show()
    +--------+----+
    |question|word|
    +--------+----+
    |       7| cat|
    |       7| dog|
    +--------+----+
    """
    read = ReadOptions(
        uri=uri,
        storage_options=session_storage_options(spark, storage_options),
        version=one_reference(version, tag),
        columns=given_columns(columns),
        with_row_id=with_row_id,
    )
    more = search_options(options)
    fast_search = bool(more.pop(FAST_SEARCH, False))
    table = tables.open_table(read)
    read = tables.with_stored_columns(table, read, spark)
    is_sensitive = is_case_sensitive(spark)
    wanted_column = column if query_column is None else query_column
    asked_column = stored_name(queries.columns, wanted_column, is_sensitive=is_sensitive)
    if asked_column is None:
        raise invalid(f"the queries have no column {wanted_column!r}, they have {queries.columns}")
    column, vectors, is_list = _vectors(table, column, is_sensitive=is_sensitive)
    queries = _with_arrays(queries, asked_column, is_list=is_list)
    if columns is None:
        others = tuple(name for name in table.schema.names if name != column.split(".")[0])
        read = replace(read, columns=others)
    names = tables.read_columns(table, read)
    kept = [name for name in queries.columns if name != asked_column]
    for name in names:
        if stored_name([DISTANCE], name, is_sensitive=is_sensitive):
            raise invalid(f"the table has a column {name!r}, the name of the distances: leave it out by columns=")
    found_names = [*names, DISTANCE]
    clashes = [name for name in kept if stored_name(found_names, name, is_sensitive=is_sensitive)]
    if clashes:
        raise invalid(f"the columns {clashes} are in the queries and in the result: rename those of the queries")
    # What is wrong with the request is said here, and not by a task.
    asked = {"column": column, "q": [0.0] * vectors.list_size, "k": k, "metric": metric, **more}
    table.scanner(nearest=asked, filter=filter_sql, prefilter=True)
    search = Search(
        replace(read.at(table.uri, int(table.version)), filter_sql=filter_sql),
        column,
        is_list,
        k,
        metric,
        names,
        more,
        fast_search,
        asked_column,
        kept,
    )
    from pyspark.sql.types import FloatType, StructField, StructType

    fields = [queries.schema[name] for name in kept]
    found = tables.read_schema(table, read)
    schema = StructType([*fields, *found.fields, StructField(DISTANCE, FloatType(), True)])
    if not queries.isStreaming and not _has_index(table, search):
        size = vectors.list_size * vectors.value_type.bit_width // 8
        wanted = min(parallelism(spark), -(-int(table.count_rows()) * size // _LEAST_TASK_BYTES))
        few = _few(queries, search) if wanted > 1 else None
        if few is not None:
            return search.by_fragments(spark, few, _divided(table, few.num_rows, wanted), schema)
    return search.by_queries(queries, schema)


def _with_arrays(queries: DataFrame, column: str, *, is_list: bool) -> DataFrame:
    """The queries with vectors of Spark ML as arrays.

    Raises
    ------
    pennon.SchemaMismatchError
        The column has no vectors.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, ByteType, DoubleType, FloatType, IntegerType, LongType, ShortType

    kind = queries.schema[column].dataType
    if is_ml_vector(kind):
        from pyspark.ml.functions import vector_to_array

        vector = functions.col(quoted(column))
        return queries.withColumn(column, functions.when(vector.isNotNull(), vector_to_array(vector)))
    numbers = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
    element = kind.elementType if isinstance(kind, ArrayType) else None
    if is_list and isinstance(element, ArrayType):
        element = element.elementType
    if not isinstance(element, numbers):
        more = ", or an array of such arrays" if is_list else ""
        raise mismatch(
            f"column '{column}' of the queries has the Spark type {kind.simpleString()}: expected an array of "
            f"numbers, or a vector of Spark ML{more}"
        )
    return queries


def _has_index(table: Any, search: Search) -> bool:
    """Whether an index is searched: one over the column by the metric that covers rows."""
    if search.options.get("use_index") is False:
        return False
    metric = (search.metric or "").lower().replace("euclidean", "l2")
    return any(
        index.field_names == [search.column]
        and index.num_rows_indexed > 0
        and index.index_type.startswith("IVF")
        and (not metric or index.details.get("metric_type", metric).lower() == metric)
        for index in table.describe_indices()
    )


def _few(queries: DataFrame, search: Search) -> pa.Table | None:
    """The queries that have a vector; None if they are many."""
    asked = to_arrow(queries.limit(MOST_QUERIES + 1))
    if asked.num_rows > MOST_QUERIES or asked.num_rows * search.k > _MOST_FOUND:
        return None
    return search.valid(asked)


def _divided(table: Any, queries: int, wanted: int) -> list[tuple[list[int], range]]:
    """About so many tasks: groups of fragments, with some of the queries each if there are fewer groups."""
    groups = tables.fragment_groups(table, wanted)
    parts = min(queries, -(-wanted // max(1, len(groups))))
    share = -(-queries // max(1, parts))
    return [
        (fragments, range(start, min(start + share, queries)))
        for fragments in groups
        for start in range(0, queries, max(1, share))
    ]


def _vectors(table: Any, column: str, *, is_sensitive: bool) -> tuple[str, pa.FixedSizeListType, bool]:
    """The path of a column of vectors as the table spells it, the type of the vectors, and whether rows have lists
    of them.
    """
    import pyarrow as pa

    path: list[str] = []
    found: Any = pa.struct(list(table.schema))
    for part in column.split("."):
        members = [member.name for member in found] if isinstance(found, pa.StructType) else []
        name = stored_name(members, part, is_sensitive=is_sensitive)
        found = None if name is None else found.field(name).type
        path.append(name or part)
    is_list = False
    if isinstance(found, pa.ListType | pa.LargeListType):
        found, is_list = found.value_type, True
    if isinstance(found, pa.BaseExtensionType):
        found = found.storage_type
    if not isinstance(found, pa.FixedSizeListType):
        raise invalid(f"the table has no column of vectors {column!r}, it has {table.schema.names}")
    return ".".join(path), found, is_list
