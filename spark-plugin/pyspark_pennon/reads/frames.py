"""`read`: a frame of one version of a table.

The version is looked up and divided into tasks on the driver, when the frame is made; the tasks travel in the
pickled function of a `mapInArrow`. So schema and rows are of one version whatever becomes of the table before the
action, a self-join sees one version, no option appears in a plan, and there is no helper process of a data source
to start.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.options.source import DEFAULT_BATCH_SIZE, ReadOptions, one_reference, session_storage_options
from pyspark_pennon.options.values import given_columns
from pyspark_pennon.reads.reader import spark_batches
from pyspark_pennon.spark_api import parallelism
from pyspark_pennon.tasks.failed_jobs import failures_named
from pyspark_pennon.tasks.plans import ShippedPlan, numbered
from pyspark_pennon.types.schema import expected_schema, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    where: Column | str | None = None,
    version: int | str | None = None,
    tag: str | None = None,
    branch: str | None = None,
    timestamp: datetime | str | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    with_row_versions: bool = False,
    filter_sql: str | None = None,
    tasks: int | None = None,
    bytes_per_task: int | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read one version of a Lance table into a DataFrame.

    The version is the newest when this is called, or the one that is asked for. The frame has the schema and the
    rows of that version, however often it is used and whatever is written meanwhile; only a cleanup of the table
    may take the files away.

    Spark cannot tell a Python function which columns a query needs, so `columns` is the way to read less:
    `read(spark, uri, columns=["id"])` reads one column, `read(spark, uri).select("id")` reads all of them. The same
    holds for `where`, of which a part is applied while scanning; `read(spark, uri).where(...)` reads all rows.

    Parameters
    ----------
    spark
        The session.
    uri
        Where the table is.
    columns
        Columns to read, in this order; all when None. With an empty list the rows have no columns.
    where
        A condition as in `DataFrame.where`, on any column of the table: a `Column`, or text in Spark's SQL. Spark
        evaluates it, so that functions, NULL and NaN mean what they mean in Spark. Comparisons with constants,
        `IN`, null checks and text functions of it are also used to skip rows while scanning. If it has nothing
        else, it is left to the scan, and columns that only it names do not come to Spark.
    version, tag, branch, timestamp
        What to read: a version by number or tag, which is `version` or `tag`, or the newest one that was committed
        at or before a time (naive times are local); with a branch one of its versions, by default its newest.
    with_row_id, with_row_address
        Add `_rowid` or `_rowaddr` (long).
    with_row_versions
        Add `_row_created_at_version` and `_row_last_updated_at_version` (long).
    filter_sql
        Predicate in Pennon's SQL dialect, which differs from Spark's: `id / 2` of an integer is an integer, and NaN
        and casts are others. Applied while scanning.
    tasks, bytes_per_task
        Into how many Spark tasks the read is divided, or bytes of data files of a task. By default each core of the
        session gets the same number of tasks, of at most about 128 MiB; fewer if they would be of less than 1 MiB.
    batch_size
        Rows in an Arrow batch, at most; a batch also ends at 32 MiB.
    storage_options
        Keys and values for the object store, on top of the session's settings `spark.pennon.storage.<key>`.

    Raises
    ------
    pennon.NotFoundError
        There is no such table, version or branch.
    pennon.InvalidInputError
        Options contradict each other, a column is unknown or named twice, `filter_sql` is not valid, or a column
        has a type that Spark does not have.
    pyspark.errors.AnalysisException
        `where` is not valid.
    pennon.UnsupportedError
        `where` is nested too deeply for Spark.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable, read, write
    >>> flights = spark.createDataFrame([(1, "AA"), (2, "UA"), (3, None)], "id long, carrier string")
    >>> done = write(flights, f"{folder}/flights.lance")
    >>> LanceTable.forPath(spark, f"{folder}/flights.lance").createTag("audited")
    >>> uri = f"{folder}/flights.lance"
    >>> frame = read(spark, uri, tag="audited", columns=["id"], where="carrier IS NOT NULL")
    >>> frame.orderBy("id").collect()
    [Row(id=1), Row(id=2)]
    >>> read(spark, f"{folder}/flights.lance", version=1, filter_sql="id = 3", with_row_id=True).columns
    ['id', 'carrier', '_rowid']
    """
    options = ReadOptions(
        uri=uri,
        storage_options=session_storage_options(spark, storage_options),
        version=one_reference(version, tag),
        columns=given_columns(columns),
        filter_sql=filter_sql,
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        with_row_versions=with_row_versions,
        batch_size=batch_size,
        tasks=tasks,
        bytes_per_task=bytes_per_task,
        branch=branch,
        timestamp=timestamp,
    )
    table = tables.open_table(options)
    options = tables.with_stored_columns(table, options, spark)
    if where is None:
        return table_frame(spark, table, options)
    from pyspark_pennon.catalyst.conditions import analysed

    names = tables.read_columns(table, options)
    everything = replace(options, columns=tables.readable_columns(table, options))
    with failures_named():
        condition = analysed(spark, table, tables.read_schema(table, everything), where).later()
    if condition.is_exact:
        return table_frame(spark, table, replace(options, filter_sql=condition.with_filter(filter_sql)))
    asked = list(table.schema.names if options.columns is None else options.columns)
    stored = everything.columns or ()
    # In the order of the table, which `*` in the condition stands for.
    needed = [name for name in stored if name in asked or condition.may_need(name)]
    needed += [name for name in asked if name not in stored]
    narrowed = replace(options, columns=tuple(needed), filter_sql=condition.with_filter(filter_sql))
    with failures_named():
        frame = table_frame(spark, table, narrowed).where(where)
    return frame if frame.columns == names else frame.select(*(quoted(name) for name in names))


def table_frame(
    spark: SparkSession, table: Any, options: ReadOptions, fragments: Container[int] | None = None
) -> DataFrame:
    """A frame of an open table, at its version.

    Parameters
    ----------
    fragments
        Tasks that read none of these are left out. Others may read more.
    """
    columns = tables.read_columns(table, options)
    if not columns:
        # Spark takes no rows without columns from a function.
        return table_frame(spark, table, replace(options, with_row_address=True), fragments).select()
    schema = tables.read_schema(table, options)
    plan = tables.plan_read(table, options, columns, parallelism(spark))
    shipped = ShippedPlan.of(plan, options.storage_options)
    if fragments is not None:
        shipped = shipped.chosen(
            [task.number for task in plan.tasks if any(number in fragments for number, _ in task.slices)]
        )
    # Of a Spark schema the driver computes the Arrow schema once, not each task.
    target = expected_schema(schema)

    def rows(number: int) -> Iterator[pa.RecordBatch]:
        if number < len(shipped):
            yield from spark_batches(shipped.task(number), target)

    stored = table.count_rows()
    return numbered(spark, len(shipped), rows, schema, rows=stored)
