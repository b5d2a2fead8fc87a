"""Rows that are written before the table has all of their columns.

Others may add columns or rows while the tasks of an append with new columns run. So the tasks write files as for a
new table, where the ids of fields start at 0, and publish nothing. When all tasks are done, the driver gives the
fields in the metadata of the files the ids that the newest version has for them, or would have with the columns
that it lacks, and commits these columns and the rows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.errors import mismatch, missing
from pyspark_pennon.tasks.retries import retried
from pyspark_pennon.types.storable import append_schema, frame_schema, new_columns, refuse_other_case

if TYPE_CHECKING:
    from pennon.types import Durability
    from pyspark.sql.types import StructType

COLUMN_ATTEMPTS = 20
"""The most attempts to commit rows with columns, while others change the columns."""


@dataclass(frozen=True)
class NewColumns:
    """The columns that a write adds to a table; picklable.

    Attributes
    ----------
    fields
        Their Arrow schema, as IPC.
    file_version
        The version of the data files of the table.
    has_stable_row_ids
        Whether the table has stable row ids.
    """

    fields: bytes
    file_version: str
    has_stable_row_ids: bool

    @classmethod
    def of(
        cls,
        table: Any,
        data: StructType,
        vector_sizes: Mapping[str, int] | None = None,
        *,
        is_sensitive: bool = False,
    ) -> tuple[NewColumns | None, pa.Schema]:
        """What a frame has that the table lacks, or None; and the columns of the table afterwards.

        Raises
        ------
        ValueError
            The frame does not fit these columns.
        """
        fields = missing_fields(table.schema, data, vector_sizes, is_sensitive=is_sensitive)
        if not fields:
            return None, table.schema
        text = pa.schema(fields).serialize().to_pybytes()
        schema = pa.schema([*table.schema, *fields], metadata=table.schema.metadata)
        return cls(text, table.data_storage_version, table.has_stable_row_ids), schema

    @property
    def schema(self) -> pa.Schema:
        """Their Arrow schema."""
        return pa.ipc.read_schema(pa.py_buffer(self.fields))

    def write(self, rows: pa.RecordBatchReader, uri: str, **options: Any) -> list[Any]:
        """Write rows to files that no version refers to, and give their fragments; runs in a task.

        Parameters
        ----------
        options
            Those of [write_fragments][pennon.fragment.write_fragments] about files and the store.
        """
        from pennon.fragment import write_fragments

        version: Any = self.file_version
        written: Any = write_fragments(
            rows,
            uri,
            mode="overwrite",
            data_storage_version=version,
            enable_stable_row_ids=self.has_stable_row_ids,
            **options,
        )
        return list(written)

    def append(
        self,
        fragments: Iterable[Any],
        columns: pa.Schema,
        uri: str,
        uuid: str,
        storage_options: Mapping[str, str],
        durability: Durability,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Commit what tasks wrote, together with those of these columns that the newest version lacks, and give the
        version.

        Parameters
        ----------
        columns
            All columns of the files.
        uuid
            That of the transaction: repeated, the commit does nothing.

        Raises
        ------
        pennon.SchemaMismatchError
            Another writer has added one of the columns with another type, or changed another one.
        pennon.CommitConflictError
            Other writers changed the columns first, in every attempt.
        """
        import pennon

        written = list(fragments)

        def attempt() -> int:
            table = tables.find_table(uri, storage_options)
            if table is None:
                raise missing(f"The table {uri} was removed while rows for it were written", uri)
            status = table.commit_status(uuid)
            if status.committed:
                return int(status.version)
            extended = with_columns(table, list(self.schema))
            append = pennon.LanceOperation.Append(renumbered(written, columns, extended))
            transaction = pennon.Transaction(int(table.version), append, uuid, dict(properties or {}))
            return int(pennon.LanceDataset.commit(extended, transaction, durability=durability).version)

        return retried(attempt, f"the commit of {uuid} to {uri}", is_repeatable=True, attempts=COLUMN_ATTEMPTS)


@dataclass(frozen=True)
class NewFragments:
    """What one task wrote."""

    number: int
    new_fragments: list[Any]


def missing_fields(
    stored: pa.Schema,
    data: StructType,
    vector_sizes: Mapping[str, int] | None = None,
    *,
    is_sensitive: bool = False,
) -> list[pa.Field]:
    """The columns of a frame that a table lacks, as it would have them.

    Parameters
    ----------
    is_sensitive
        Whether names differ by case.

    Raises
    ------
    ValueError
        The other columns of the frame do not fit the table, or one of these has no Arrow type.
    """
    from pyspark.sql.types import StructType as Struct

    fields = list(frame_schema(Struct(new_columns(stored, data, is_sensitive=is_sensitive)), vector_sizes))
    append_schema(pa.schema([*stored, *fields]), data, is_sensitive=is_sensitive)
    return fields


def with_columns(table: Any, fields: list[pa.Field]) -> Any:
    """A version with columns: those it lacks are committed by the next change of rows, with it.

    Raises
    ------
    pennon.SchemaMismatchError
        Another writer has added one of them with another type.
    """
    wanted = [field for field in fields if field.name not in table.schema.names]
    for field in wanted:
        refuse_other_case(table.schema.names, field.name)
    extended = table.with_new_columns(pa.schema(wanted)) if wanted else table
    _check_same(pa.schema(fields), extended)
    return extended


def _check_same(written: pa.Schema, table: Any) -> None:
    """Refuse columns that other writers have dropped, or have changed or added with another type."""
    for field in written:
        at = table.schema.get_field_index(field.name)
        found = "is missing" if at < 0 else f"is of type {table.schema.field(at).type}"
        if found != f"is of type {field.type}":
            raise mismatch(
                f"Another writer has changed the columns of {table.uri} meanwhile: '{field.name}' {found}, "
                f"the rows have {field.type}: write again"
            )


def renumbered(fragments: Iterable[Any], written: pa.Schema, table: Any) -> list[Any]:
    """Fragments whose files have the ids of a table for fields that were numbered from 0.

    Parameters
    ----------
    written
        The columns of the files.

    Raises
    ------
    pennon.SchemaMismatchError
        Another writer has dropped one of them, or changed its type.
    """
    from pennon.schema import LanceSchema

    _check_same(written, table)
    own = _ids(LanceSchema.from_pyarrow(written).fields())
    ids = dict(zip(own, _ids(table.lance_schema.field(name) for name in written.names), strict=True))
    return [
        replace(
            fragment,
            files=[replace(file, fields=[ids[field] for field in file.fields]) for file in fragment.files],
        )
        for fragment in fragments
    ]


def _ids(fields: Iterable[Any]) -> Iterator[int]:
    """Ids of fields and of those in them, parents first."""
    for field in fields:
        yield field.id
        yield from _ids(field.children())
