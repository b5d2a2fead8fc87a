"""Frames from tables and tables from frames, as plain functions.

They set the options of the data source and add what Spark's own interface cannot express: columns to
prune to, and the mode `create`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark_pennon.errors import invalid
from pyspark_pennon.options import STORAGE_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MODES = ("create", "append", "overwrite")


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    with_row_versions: bool = False,
    batch_size: int | None = None,
    fragments_per_task: int | None = None,
    push_filters: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a Lance table into a DataFrame.

    Spark does not tell Python data sources which columns a query needs, so `columns` is the way
    to read less: `read(spark, uri, columns=["id"]).count()` reads one column.

    Parameters
    ----------
    spark
        The session.
    uri
        Where the table is.
    columns
        Columns to read, in this order; all when None.
    filter
        Predicate in Pennon's SQL dialect, applied while scanning. Unlike filters on the frame
        it may contain `OR` and functions.
    version, tag
        The version to read; the newest when both are None.
    with_row_id, with_row_address
        Add `_rowid` or `_rowaddr` (long).
    with_row_versions
        Add `_row_created_at_version` and `_row_last_updated_at_version` (long).
    batch_size
        Rows in an Arrow batch, at most.
    fragments_per_task
        Fragments one Spark task reads; by default neighbours are grouped by their rows.
    push_filters
        Take over Spark's filters where the translation is exact, if the session has
        `spark.sql.python.filterPushdown.enabled`. Only for a frame that is used in one query: Spark 4.3
        keeps the filters of the query planned last for every other query on the same frame.
    storage_options
        Keys and values for the object store.
    """
    options: dict[str, Any] = {
        "columns": None if columns is None else json.dumps(list(columns)),
        "filter": filter,
        "version": version,
        "tag": tag,
        "with_row_id": with_row_id,
        "with_row_address": with_row_address,
        "with_row_versions": with_row_versions,
        "batch_size": batch_size,
        "fragments_per_task": fragments_per_task,
        "push_filters": push_filters,
        **_storage(storage_options),
    }
    return spark.read.format("pennon").options(**_given(options)).load(uri)


def write(
    df: DataFrame,
    uri: str,
    *,
    mode: str = "create",
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool | None = None,
    durability: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Write a DataFrame to a Lance table in one commit.

    Parameters
    ----------
    df
        The rows. An append casts them to the table's types, by column name.
    uri
        Where the table is or will be.
    mode
        `create` fails if the table exists; `append` and `overwrite` create it if it does not.
    max_rows_per_file, max_bytes_per_file
        When a task starts its next file.
    data_storage_version
        Data file version of a new table.
    enable_stable_row_ids
        Whether a new table has stable row ids, as it has by default.
    durability
        `full` (default) survives a power cut; `os` leaves syncing to the operating system.
    storage_options
        Keys and values for the object store.

    Raises
    ------
    ValueError
        An unknown mode. Other errors are Spark's, with Pennon's message inside.
    """
    if mode not in _MODES:
        raise invalid(f"Invalid mode {mode!r}: expected one of {', '.join(_MODES)}")
    options: dict[str, Any] = {
        "create": True if mode == "create" else None,
        "max_rows_per_file": max_rows_per_file,
        "max_bytes_per_file": max_bytes_per_file,
        "data_storage_version": data_storage_version,
        "enable_stable_row_ids": enable_stable_row_ids,
        "durability": durability,
        **_storage(storage_options),
    }
    spark_mode = "overwrite" if mode == "overwrite" else "append"
    df.write.format("pennon").mode(spark_mode).options(**_given(options)).save(uri)


def _storage(storage_options: Mapping[str, str] | None) -> dict[str, str]:
    return {f"{STORAGE_PREFIX}{key}": value for key, value in (storage_options or {}).items()}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
