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
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_pennon import tables
from pyspark_pennon.errors import exists, internal
from pyspark_pennon.schema import append_schema, new_table_schema, table_batch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_pennon.options import WriteOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote; None for no rows."""

    result: Any | None


@dataclass(frozen=True)
class Writer(DataSourceArrowWriter):
    """One write job. Made on the driver, pickled to the tasks and to the committing process.

    Attributes
    ----------
    job
        The plan of an append or overwrite.
    schema
        Arrow schema of the files.
    """

    options: WriteOptions
    job: Any
    schema: pa.Schema

    @classmethod
    def plan(cls, options: WriteOptions, schema: StructType, *, overwrite: bool) -> Writer:
        """Check the frame against the table, before any task runs."""
        table = tables.find_table(options.uri, options.storage_options)
        if table is not None and options.create:
            raise exists(f"Dataset already exists: {options.uri}", options.uri)
        if table is None or overwrite:
            new = new_table_schema(schema)
            return cls(options, tables.plan_new(options, new, must_create=not overwrite), new)
        appended = append_schema(table.schema, schema)
        return cls(options, tables.plan_append(table, options), appended)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition to new files; runs in a task."""
        context = TaskContext.get()
        if context is None:
            raise internal("a partition is written by a Spark task, which this process does not run")
        return self.write_partition(context.partitionId(), iterator)

    def write_partition(self, number: int, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of the partition with a number, which orders them in the table."""
        import pyarrow as pa

        converted = (table_batch(batch, self.schema) for batch in batches if batch.num_rows)
        first = next(converted, None)
        if first is None:
            return Written(None)
        rows = pa.RecordBatchReader.from_batches(self.schema, chain([first], converted))
        return Written(self.job.task(number).run(rows, **self.options.file_parameters))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of all tasks in one commit; runs in a process of the driver."""
        written = [message for message in messages if isinstance(message, Written)]
        if len(written) != len(messages):
            raise internal(
                f"{len(messages) - len(written)} of {len(messages)} write tasks reported nothing; "
                "nothing was committed"
            )
        results = [message.result for message in written if message.result is not None]
        if len({result.number for result in results}) < len(results):
            raise internal("two partitions have one number; nothing was committed")
        if results or self.job.kind == "overwrite":
            self.job.commit(results)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove nothing; orphans are removed by a cleanup of the table."""
        finished = sum(message is not None for message in messages)
        _log.warning(
            "write of %s to %s was aborted after %d of %d tasks; their files are left in place",
            self.job.uuid,
            self.options.uri,
            finished,
            len(messages),
        )
