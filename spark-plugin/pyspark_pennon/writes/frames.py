"""`write`: the rows of a frame become rows of a table, in one commit.

Arguments are checked here, and the table is made or appended to even if another writer makes it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.errors import invalid
from pyspark_pennon.options.source import WriteOptions, durability_of, session_storage_options
from pyspark_pennon.options.values import parsed
from pyspark_pennon.tasks.executor import described
from pyspark_pennon.tasks.orphans import verb_errors
from pyspark_pennon.types.column_names import is_case_sensitive
from pyspark_pennon.types.schema import quoted
from pyspark_pennon.types.storable import is_ml_vector, stored_columns, unsized_vectors
from pyspark_pennon.writes.plan import WritePlan
from pyspark_pennon.writes.tasks import REPLACES, only_where, run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_MODES = {
    "create": "create",
    "error": "create",
    "errorifexists": "create",
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
}


def write(
    df: DataFrame,
    uri: str,
    *,
    mode: str = "create",
    replace_where: Column | str | None = None,
    merge_schema: bool = False,
    schema: pa.Schema | None = None,
    max_tasks: int | None = None,
    drop_system_columns: bool = False,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool | None = None,
    compatible_with: str | None = None,
    durability: str = "full",
    commit_message: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Write a DataFrame to a Lance table.

    There is one commit for all rows: readers see all of them or none, and if a task fails for good nothing is
    changed. The frame is evaluated once, unless another writer interferes. Each of its partitions becomes at least
    one file.

    Parameters
    ----------
    df
        The rows. An append casts them to the table's types, by column name; columns that the frame lacks are null.
        A frame that was read from a table makes a table with the same Arrow types, also where Spark has none.
    uri
        Where the table is or will be.
    mode
        `create` (also `error` and `errorifexists`) fails if the table exists, `ignore` does nothing then; `append`
        and `overwrite` create it if it does not exist. An overwrite replaces the schema as well.
    replace_where
        With mode `overwrite`: replace only the rows for which this condition of Spark's is true, a `Column` or
        text, and keep the schema. Rows of the frame for which it is not true are refused. Rows that others add
        while this runs are kept; if others change rows that are to be replaced, it is done again.
    merge_schema
        In an append or with `replace_where`: add the columns that the table lacks, null in its rows, in the commit
        of the rows. If there are no rows, none is added.
    schema
        Arrow schema of a new table or of one that is overwritten, by default what the frame implies: for each
        column of the frame a field, in any order.
    max_tasks
        Use at most so many tasks, and so few files, by `DataFrame.coalesce`.
    drop_system_columns
        Leave out `_rowid`, `_rowaddr` and their like instead of refusing them.
    max_rows_per_file, max_bytes_per_file
        When a task starts its next file.
    data_storage_version
        Data file version of a new table.
    enable_stable_row_ids
        Whether a new table has stable row ids, as it has by default.
    compatible_with
        The oldest release of pylance that shall read the table, such as `pylance 1.0`: see
        [write_dataset][pennon.write_dataset].
    durability
        `full` (default) survives a power cut; `os` leaves syncing to the operating system.
    commit_message
        What [history][pyspark_pennon.LanceTable.history] shows of the commit as `userMetadata`.
    storage_options
        Keys and values for the object store, on top of the session's settings `spark.pennon.storage.<key>`.

    Returns
    -------
    dict
        `num_inserted_rows`, `num_deleted_rows` (of `replace_where`), `num_files` that were written, and the
        `version` that was committed, or the one that there is if there was nothing to do.

    Raises
    ------
    pennon.InvalidInputError
        An option is wrong or contradicts another one. No task was run then.
    pennon.AlreadyExistsError
        The table exists and must not. No task was run then.
    pennon.SchemaMismatchError
        The frame does not fit the table. No task was run then.
    pennon.CommitConflictError
        Another writer changed what `replace_where` replaces, in each of several attempts, or overwrote or restored
        the table: then it is not tried again.
    pennon.PennonError
        A task failed, because of a value that does not fit for example. Nothing was committed.
    pyspark.errors.PySparkException
        A task failed for another reason, in the query of the frame. Nothing was committed.

    Examples
    --------
    >>> from pyspark_pennon import read, write
    >>> flights = spark.createDataFrame([(1, 28), (2, 28), (3, 29)], "id long, day int")
    >>> write(flights, f"{folder}/flights.lance", max_tasks=1)
    {'num_inserted_rows': 3, 'num_deleted_rows': 0, 'num_files': 1, 'version': 1}
    >>> late = spark.createDataFrame([(7, 28, "UA")], "id long, day int, carrier string")
    >>> write(late, f"{folder}/flights.lance", mode="overwrite", replace_where="day = 28", merge_schema=True)
    {'num_inserted_rows': 1, 'num_deleted_rows': 2, 'num_files': 1, 'version': 2}
    >>> read(spark, f"{folder}/flights.lance").orderBy("id").collect()
    [Row(id=3, day=29, carrier=None), Row(id=7, day=28, carrier='UA')]
    """
    found_mode = _checked_mode(mode, replace_where, merge_schema, schema)
    if max_tasks is not None and max_tasks < 1:
        raise invalid(f"max_tasks is {max_tasks}: expected 1 or more")
    options = WriteOptions.of(
        uri,
        session_storage_options(df.sparkSession, storage_options),
        create=found_mode in ("create", "ignore"),
        merge_schema=merge_schema,
        drop_system_columns=drop_system_columns,
        durability=parsed("durability", durability, durability_of),
        is_case_sensitive=is_case_sensitive(df.sparkSession),
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        enable_stable_row_ids=enable_stable_row_ids,
        data_storage_version=data_storage_version,
        compatible_with=compatible_with,
        commit_message=commit_message,
    )
    if found_mode == "ignore":
        table = tables.find_table(uri, options.storage_options)
        if table is not None:
            return nothing_done(table)
    with described(df.sparkSession, f"write to {uri}"), verb_errors(uri):
        return _written(df, options, found_mode, replace_where, schema, max_tasks)


def _written(
    df: DataFrame,
    options: WriteOptions,
    mode: str,
    replace_where: Column | str | None,
    schema: pa.Schema | None,
    max_tasks: int | None,
) -> dict[str, int]:
    """What `write` does when its arguments were checked."""
    import pennon

    uri = options.uri
    data = stored_columns(df.schema, drop_system_columns=options.drop_system_columns)
    frame = df if len(data) == len(df.schema) else df.select(*(quoted(name) for name in data.names))
    if max_tasks is not None:
        frame = frame.coalesce(max_tasks)
    table = tables.find_table(uri, options.storage_options)
    if replace_where is not None:
        from pyspark_pennon.writes.replace import replace_rows

        if table is not None:
            return replace_rows(frame, data, options, replace_where)
        frame = only_where(frame, replace_where)
    overwrite = mode == "overwrite"
    new_schema = None if schema is None else _checked_schema(schema, data, options)
    sizes_of_vectors = {} if new_schema is not None else _vector_sizes(frame, data, None if overwrite else table)

    def planned() -> WritePlan:
        return WritePlan.of(
            table, options, data, overwrite=overwrite, vector_sizes=sizes_of_vectors, new_schema=new_schema
        )

    try:
        return run(frame, planned(), None if replace_where is None else REPLACES)
    except pennon.AlreadyExistsError:
        # Another writer has made the table meanwhile.
        table = tables.find_table(uri, options.storage_options)
        if table is None or mode not in ("append", "ignore"):
            raise
        if mode == "ignore":
            return nothing_done(table)
        return run(frame, planned())


def _checked_mode(
    mode: str, replace_where: Column | str | None, merge_schema: bool, schema: pa.Schema | None
) -> str:
    found = _MODES.get(mode.lower())
    if found is None:
        raise invalid(f"Invalid mode {mode!r}: expected one of {', '.join(_MODES)}")
    if replace_where is not None and found != "overwrite":
        raise invalid(f"replace_where replaces rows of a table: expected mode 'overwrite', found {mode!r}")
    if merge_schema and found != "append" and replace_where is None:
        raise invalid(f"merge_schema is for mode 'append' and for replace_where; found mode {mode!r}")
    if schema is not None and (found == "append" or replace_where is not None):
        raise invalid("schema is for a new table or an overwrite: a table that there is has one")
    return found


def _checked_schema(schema: pa.Schema, data: StructType, options: WriteOptions) -> pa.Schema:
    from pyspark_pennon.types.storable import append_schema

    if sorted(schema.names) != sorted(data.names):
        raise invalid(
            f"schema has the columns {', '.join(schema.names)}, but the frame has {', '.join(data.names)}: "
            "expected the same, in any order"
        )
    append_schema(schema, data, is_sensitive=options.is_case_sensitive)
    return schema


def _vector_sizes(frame: DataFrame, data: StructType, table: Any | None) -> dict[str, int]:
    """Sizes of vectors of Spark ML that neither their columns nor the table tell: those of the first row."""
    if not any(is_ml_vector(column.dataType) for column in data.fields):
        return {}
    names = [name for name in data.names if table is None or name not in table.schema.names]
    sizes = {}
    for name in unsized_vectors(data, names):
        column = frame.select(quoted(name))
        row = column.where(column[0].isNotNull()).first()
        if row is not None:
            sizes[name] = int(row[0].size)
    return sizes


def nothing_done(table: Any) -> dict[str, int]:
    """What a write returns that leaves the table as it is."""
    return {"num_inserted_rows": 0, "num_deleted_rows": 0, "num_files": 0, "version": int(table.version)}
