"""Tables: how they are opened, their columns as Spark reads them, and how a scan of one is divided.

Tasks and the driver's helper processes share nothing, so a table is opened from its URI. Here and elsewhere
`pennon` is imported inside of functions: Spark imports this package in processes that never touch a table.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon.errors import mismatch
from pyspark_pennon.options.provider import stored
from pyspark_pennon.types.arrow_facts import metadata_of
from pyspark_pennon.types.column_names import is_case_sensitive, refuse_repeated, stored_names
from pyspark_pennon.types.schema import ROW_ADDRESS, ROW_ID, ROW_VERSIONS, SYSTEM_COLUMNS, is_readable, spark_schema
from pyspark_pennon.types.storable import implied_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pyspark_pennon.options.source import ReadOptions

BATCH_BYTES = 32 << 20
"""A batch is cut at this size, so that wide rows do not exhaust an executor's memory."""

TASK_BYTES = 128 << 20
"""Bytes of data files that a task reads, at most, about: as for Spark's own files."""

LEAST_TASK_BYTES = 1 << 20
"""A task that reads fewer costs more than it gains."""

LEAST_FILE_BYTES = 4 << 20
"""A task that reads fewer and writes a file would leave many small ones."""


def open_table(options: ReadOptions) -> Any:
    """The table at the version that `options` name."""
    import pennon

    storage_options = stored(options.storage_options)
    uri: str = options.uri
    version: Any = options.version
    if options.branch is not None:
        branch = pennon.dataset(uri, version=(options.branch, version), storage_options=storage_options)
        if options.timestamp is None:
            return branch
        uri = branch.uri
    return pennon.dataset(uri, version=version, asof=options.timestamp, storage_options=storage_options)


def find_table(uri: str, storage_options: Mapping[str, str]) -> Any | None:
    """The newest version of a table, or None if there is no table at `uri`."""
    import pennon

    try:
        return pennon.dataset(uri, storage_options=stored(storage_options))
    except pennon.NotFoundError:
        return None


def read_schema(table: Any, options: ReadOptions) -> StructType:
    """The Spark schema of a read, with what a write needs to restore the table's types in its metadata.

    Planning it finds every mistake in the options.
    """
    found = _scan(table, options, read_columns(table, options)).projected_schema
    schema = spark_schema(found)
    stored = table.schema
    for at, column in enumerate(found):
        known = stored.get_field_index(column.name)
        if known >= 0:
            field = schema.fields[at]
            schema.fields[at].metadata = metadata_of(stored.field(known), implied_type(field))
    return schema


def full_schema(table: Any) -> pa.Schema:
    """The table's columns followed by the system columns."""
    system = [pa.field(name, pa.uint64()) for name in sorted(SYSTEM_COLUMNS)]
    return pa.schema([*table.schema, *system])


def check_asked(table: Any, options: ReadOptions, schema: StructType) -> None:
    """Refuse a schema given by the user if the table lacks a column or has another type for it."""
    known = spark_schema(_scan(table, options, asked_columns(table, schema)).projected_schema)
    for asked, found in zip(schema.fields, known.fields, strict=True):
        if asked.dataType != found.dataType:
            raise mismatch(
                f"column '{asked.name}' was asked for as {asked.dataType.simpleString()}, "
                f"but the table has {found.dataType.simpleString()}"
            )


def plan_read(
    table: Any,
    options: ReadOptions,
    columns: Sequence[str],
    parallelism: int,
    *,
    least_bytes: int | None = None,
) -> Any:
    """A scan of one version, divided by bytes: large fragments by rows, small ones together.

    As for Spark's own files a task is for at most about 128 MiB. Each of `parallelism` cores gets the same number
    of tasks, but there are fewer if they would be of less than `least_bytes`, by default [LEAST_TASK_BYTES][].
    """
    from pennon import jobs

    division: dict[str, Any]
    if options.tasks is not None or options.bytes_per_task is not None:
        division = {"tasks": options.tasks, "bytes_per_task": options.bytes_per_task}
    else:
        division = {
            "bytes_per_task": TASK_BYTES,
            "workers": parallelism,
            "least_bytes_per_task": least_bytes or LEAST_TASK_BYTES,
        }
    return jobs.plan_scan(
        table,
        columns=list(columns),
        filter=options.filter_sql,
        batch_size=options.batch_size,
        batch_size_bytes=BATCH_BYTES,
        blob_handling="all_binary",
        storage_options=stored(options.storage_options),
        **division,
    )


def row_width(table: Any, columns: Collection[str]) -> int | None:
    """The bytes of a row's values in some columns; None if one of them may be of any length."""
    kinds = [full_schema(table).field(name).type for name in columns]
    if any(pa.types.is_dictionary(kind) for kind in kinds):
        return None
    try:
        return sum(-(-int(kind.bit_width) // 8) for kind in kinds)
    except ValueError:
        return None


def fragment_groups(table: Any, tasks: int, *, among: Container[int] | None = None) -> list[list[int]]:
    """The fragments in at most so many groups of about as many rows, neighbours together.

    Parameters
    ----------
    among
        Only these fragments; all by default.
    """
    sizes = [
        (fragment.fragment_id, fragment.count_rows())
        for fragment in table.get_fragments()
        if among is None or fragment.fragment_id in among
    ]
    return grouped(sizes, max(1, -(-sum(rows for _, rows in sizes) // tasks)))


def grouped(fragments: Sequence[tuple[int, int]], rows_of_group: int) -> list[list[int]]:
    """Fragments, given with their rows, in groups: each but the last has so many rows or more."""
    groups: list[list[int]] = []
    filled = rows_of_group
    for fragment, rows in fragments:
        if filled >= rows_of_group:
            groups.append([])
            filled = 0
        groups[-1].append(fragment)
        filled += rows
    return groups


def _scan(table: Any, options: ReadOptions, columns: Sequence[str]) -> Any:
    return table.scanner(columns=list(columns), filter=options.filter_sql, blob_handling="all_binary")


def with_stored_columns(table: Any, options: ReadOptions, spark: SparkSession | None = None) -> ReadOptions:
    """`options` with the columns as the table spells them; without a session case does not matter.

    Raises
    ------
    pennon.InvalidInputError
        One of them is named twice.
    """
    if options.columns is None:
        return options
    names = list(options.columns)
    if not set(names) <= set(table.schema.names):
        is_sensitive = spark is not None and is_case_sensitive(spark)
        names = stored_names(table.schema.names, names, is_sensitive=is_sensitive)
    refuse_repeated(names)
    return replace(options, columns=tuple(names))


def asked_columns(table: Any, schema: StructType) -> list[str]:
    """The columns of a schema given by the user, as the table spells them; case does not matter."""
    return stored_names(full_schema(table).names, schema.fieldNames(), is_sensitive=False)


def readable_columns(table: Any, options: ReadOptions) -> tuple[str, ...]:
    """The columns that a condition may name: those that Spark has a type for, or that are asked for."""
    asked = table.schema.names if options.columns is None else options.columns
    return tuple(column.name for column in table.schema if column.name in asked or is_readable(column))


def read_columns(table: Any, options: ReadOptions) -> list[str]:
    """The columns of a read by name, system columns last."""
    names = list(table.schema.names if options.columns is None else options.columns)
    if options.with_row_id:
        names.append(ROW_ID)
    if options.with_row_address:
        names.append(ROW_ADDRESS)
    if options.with_row_versions:
        names.extend(ROW_VERSIONS)
    return list(dict.fromkeys(names))
