"""Batch writes: tasks write files, the driver makes one commit.

The transaction's uuid is chosen once, in `plan`, and travels with the pickled writer to the process
that commits. A retry after a lost response finds its own uuid in the table and does
nothing. The commit assigns row ids, so no attempt of a task ever owns any.

Files of failed or superseded attempts are left in place, and no version refers to them: tasks may
finish after `abort`, and Spark calls `abort` with complete messages after a commit that raised, when
the files may belong to a published version. So `abort` deletes nothing.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_pennon import tables
from pyspark_pennon.schema import append_schema, new_table_schema, table_batch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_pennon.options import WriteOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote: fragments not yet in the table, as bytes; empty for no rows."""

    fragments: bytes
    rows: int


@dataclass(frozen=True)
class Writer(DataSourceArrowWriter):
    """One write job. Made on the driver, pickled to the tasks and to the committing process.

    Attributes
    ----------
    version
        The version an append was planned at; None when the job makes a new table or replaces
        its content.
    schema
        Arrow schema of the files.
    replace
        Whether the job may replace the content of a table that exists.
    uuid
        Identity of the transaction.
    """

    options: WriteOptions
    version: int | None
    replace: bool
    schema: pa.Schema
    uuid: str

    @classmethod
    def plan(cls, options: WriteOptions, schema: StructType, *, overwrite: bool) -> Writer:
        """Check the frame against the table, before any task runs."""
        table = tables.find_table(options.uri, options.storage_options)
        if table is not None and options.create:
            raise ValueError(f"Dataset already exists: {options.uri}")
        identity = str(uuid.uuid4())
        if table is None or overwrite:
            return cls(options, None, overwrite, new_table_schema(schema), identity)
        return cls(options, table.version, False, append_schema(table.schema, schema), identity)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows to new files; runs in a task."""
        batches = (table_batch(batch, self.schema) for batch in iterator if batch.num_rows)
        fragments, rows = tables.write_fragments(self.options, self.version, self.schema, batches)
        return Written(fragments, rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of all tasks in one commit; runs in a process of the driver."""
        written = [message for message in messages if isinstance(message, Written)]
        if len(written) != len(messages):
            raise RuntimeError(
                f"{len(messages) - len(written)} of {len(messages)} write tasks reported nothing; "
                "nothing was committed"
            )
        fragments = [message.fragments for message in written if message.rows]
        if self.version is None:
            tables.commit_new(self.options, self.schema, fragments, self.uuid, must_create=not self.replace)
        elif fragments:
            tables.commit_append(self.options, self.version, fragments, self.uuid)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove nothing; orphans are removed by a cleanup of the table."""
        finished = sum(message is not None for message in messages)
        _log.warning(
            "write of %s to %s was aborted after %d of %d tasks; their files are left in place",
            self.uuid,
            self.options.uri,
            finished,
            len(messages),
        )
