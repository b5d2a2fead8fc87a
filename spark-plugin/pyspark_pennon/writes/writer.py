"""Batch writes through the data source: tasks write files, the driver makes one commit.

Spark pickles the writer to its tasks and to the process that commits, and calls `abort` with complete messages
after a commit that raised, when the files may belong to a published version. So `abort` deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext

from pyspark_pennon import tables
from pyspark_pennon.errors import internal, noted
from pyspark_pennon.spark_api import DataSourceArrowWriter, WriterCommitMessage
from pyspark_pennon.tasks.orphans import sentence
from pyspark_pennon.tasks.results import files_of
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.types.storable import stored_columns
from pyspark_pennon.writes.plan import WritePlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_pennon.options.source import WriteOptions


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote, as [WritePlan.write_partition][] says."""

    number: int
    result: Any


WrittenT = TypeVar("WrittenT", bound=Written)


@dataclass(frozen=True)
class Writer(DataSourceArrowWriter):
    """One write job. Made on the driver, pickled to the tasks and to the committing process."""

    plan: WritePlan

    @classmethod
    def of(cls, options: WriteOptions, schema: StructType, *, overwrite: bool) -> Writer:
        """Check the frame against the table, before any task runs."""
        data = stored_columns(schema, drop_system_columns=options.drop_system_columns)
        table = tables.find_table(options.uri, options.storage_options)
        return cls(WritePlan.of(table, options, data, overwrite=overwrite))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition to new files; runs in a task."""
        context = TaskContext.get()
        if context is None:
            raise internal("a partition is written by a Spark task, which this process does not run")
        with quick_task(self.plan.plan.release):
            return self.write_partition(context.partitionId(), iterator)

    def write_partition(self, number: int, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of the partition with a number, which orders them in the table."""
        return Written(number, self.plan.write_partition(number, batches))

    @noted()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of all tasks in one commit; runs in a process of the driver."""
        self.plan.commit(results_of(complete(messages, Written, "write tasks")))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove nothing, and log what is left; a cleanup of the table removes it."""
        if not self._is_committed():
            written = [message for message in messages if isinstance(message, Written)]
            sentence(self.plan.uri, files_of(results_of(written)))

    def _is_committed(self) -> bool:
        table = tables.find_table(self.plan.uri, self.plan.plan.storage_options)
        return table is not None and bool(table.commit_status(self.plan.plan.job().uuid).committed)


def complete(messages: Sequence[WriterCommitMessage | None], kind: type[WrittenT], tasks: str) -> list[WrittenT]:
    """The messages of all tasks. Raises an error if one is missing.

    Parameters
    ----------
    tasks
        What they are, for the error.
    """
    written = [message for message in messages if isinstance(message, kind)]
    if len(written) != len(messages):
        raise internal(
            f"{len(messages) - len(written)} of {len(messages)} {tasks} reported nothing; nothing was committed"
        )
    if len({message.number for message in written}) < len(written):
        raise internal("two partitions have one number; nothing was committed")
    return written


def results_of(written: Sequence[Written]) -> list[Any]:
    """What tasks wrote that had rows."""
    return [message.result for message in written if message.result is not None]
