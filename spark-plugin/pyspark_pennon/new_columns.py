"""Rows that are written before the table has all of their columns.

Any task of a write that adds columns may fail, and the table must be as it was then. So the tasks write files as
for a new table, where the ids of fields start at 0, and publish nothing. When all tasks are done, the driver adds
the columns, in a commit of their own, gives the fields in the metadata of the files the ids that the table has for
them, and commits the rows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon import tables
from pyspark_pennon.errors import mismatch, missing
from pyspark_pennon.storable import append_schema, new_columns, new_table_schema, refuse_other_case

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MAX_ATTEMPTS = 5
"""The most attempts to add columns."""

_log = logging.getLogger(__name__)


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
        cls, table: Any, data: StructType, vector_sizes: Mapping[str, int] | None = None
    ) -> tuple[NewColumns | None, pa.Schema]:
        """What a frame has that the table lacks, or None; and the columns of the table afterwards.

        Raises
        ------
        ValueError
            The frame does not fit these columns.
        """
        fields = missing_fields(table.schema, data, vector_sizes)
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

    def add(self, uri: str, storage_options: Mapping[str, str]) -> Any:
        """The newest version of the table, with these columns: see [add_columns][]."""
        table = tables.find_table(uri, storage_options)
        if table is None:
            raise missing(f"The table {uri} was removed while rows for it were written", uri)
        return add_columns(table, list(self.schema), storage_options)


@dataclass(frozen=True)
class NewFragments:
    """What one task wrote."""

    number: int
    new_fragments: list[Any]

    @property
    def rows(self) -> int:
        """Rows of all fragments."""
        return sum(fragment.physical_rows for fragment in self.new_fragments)

    def json(self) -> str:
        """Inverse of `from_json`."""
        return json.dumps(
            {"task": self.number, "new_fragments": [fragment.to_json() for fragment in self.new_fragments]}
        )

    @classmethod
    def from_json(cls, text: str) -> NewFragments | None:
        """What a task wrote; None of the JSON of a [TaskResult][pennon.jobs.TaskResult]."""
        from pennon.fragment import FragmentMetadata

        found = json.loads(text)
        if "new_fragments" not in found:
            return None
        fragments = [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in found["new_fragments"]]
        return cls(found["task"], fragments)


def missing_fields(
    stored: pa.Schema, data: StructType, vector_sizes: Mapping[str, int] | None = None
) -> list[pa.Field]:
    """The columns of a frame that a table lacks, as it would have them.

    Raises
    ------
    ValueError
        The other columns of the frame do not fit the table, or one of these has no Arrow type.
    """
    from pyspark.sql.types import StructType as Struct

    new = new_table_schema(Struct(new_columns(stored, data)), vector_sizes)
    fields = [column.with_nullable(True) for column in new]
    append_schema(pa.schema([*stored, *fields]), data)
    return fields


def add_columns(table: Any, fields: list[pa.Field], storage_options: Mapping[str, str]) -> Any:
    """The table with columns, in a commit of their own if some were missing.

    Raises
    ------
    pennon.SchemaMismatchError
        Another writer has added one of them with another type.
    """
    import pennon

    uri, attempts = table.uri, 1
    while wanted := [field for field in fields if field.name not in table.schema.names]:
        for field in wanted:
            refuse_other_case(table.schema, field.name)
        try:
            table.add_columns(pa.schema(wanted))
        except (pennon.CommitConflictError, pennon.CommitUnknownError, pennon.AlreadyExistsError) as error:
            if attempts == MAX_ATTEMPTS:
                raise
            _log.info("new columns of %s are added again: %s", uri, error)
            table = tables.find_table(uri, storage_options)
            attempts += 1
    _check_same(pa.schema(fields), table)
    return table


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
    from pennon.fragment import FragmentMetadata
    from pennon.schema import LanceSchema

    _check_same(written, table)
    own = _ids(LanceSchema.from_pyarrow(written).fields())
    ids = dict(zip(own, _ids(table.lance_schema.field(name) for name in written.names), strict=True))
    found = []
    for fragment in fragments:
        metadata = fragment.to_json()
        for file in metadata["files"]:
            file["fields"] = [ids[field] for field in file["fields"]]
        found.append(FragmentMetadata.from_json(json.dumps(metadata)))
    return found


def _ids(fields: Iterable[Any]) -> Iterator[int]:
    """Ids of fields and of those in them, parents first."""
    for field in fields:
        yield field.id
        yield from _ids(field.children())
