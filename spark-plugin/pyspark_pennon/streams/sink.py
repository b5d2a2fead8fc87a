"""Streams into a table: `df.writeStream.format("pennon")`. Each batch is one commit, and is committed once.

Spark runs a batch again if it does not know that it was finished. So query and batch are recorded in the properties
of the transaction, where `history` shows them, and a batch that some version has is not committed again. The
transaction has a uuid that follows from the two, so that of two processes that commit one batch at the same time
only one makes a version.

Spark makes the writer in one process for the tasks and in another for the commit, so the plan that the tasks had
comes with their messages. A table that does not exist is made, without rows, before the first batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from pyspark import TaskContext

from pyspark_pennon import tables
from pyspark_pennon.errors import internal, invalid, noted
from pyspark_pennon.options.provider import stored
from pyspark_pennon.options.source import ReadOptions, WriteOptions
from pyspark_pennon.spark_api import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark_pennon.streams.sink_checkpoint import check_table, note_table
from pyspark_pennon.tasks.retries import answered
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.transactions import up_to
from pyspark_pennon.types.storable import frame_schema, stored_columns
from pyspark_pennon.writes.plan import WritePlan
from pyspark_pennon.writes.writer import Written, complete, results_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY = "pennon.stream.query"
BATCH = "pennon.stream.batch"
PART = "pennon.stream.part"
"""Properties of the transactions that streams commit; the first part of a batch, 0, is not recorded."""

_NAMESPACE = UUID("6f0f1b4e-9e0c-5c1b-8f0a-51b2f6f6a7d3")
"""The uuids of batches are made in it."""

QUERY_PROPERTY = "sql.streaming.queryId"
"""The local property of Spark's jobs with the id of their query."""

BATCH_PROPERTY = "streaming.sql.batchId"
"""The local property with the number of the batch."""

_SPARK_OPTIONS = ("checkpointlocation", "queryname")
"""Options that Spark reads itself and passes on."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamBatch:
    """A batch of a query, the same after a restart from its checkpoint; or a part of it, with a commit of its own.

    Attributes
    ----------
    part
        From 0: a function of `foreachBatch` may change one table several times.
    """

    query: str
    number: int
    part: int = 0

    @property
    def properties(self) -> dict[str, str]:
        """What the transaction of the batch says."""
        part = {PART: str(self.part)} if self.part else {}
        return {QUERY: self.query, BATCH: str(self.number), **part}

    @property
    def uuid(self) -> str:
        """The uuid of a transaction that writes the batch."""
        part = f"/{self.part}" if self.part else ""
        return str(uuid5(_NAMESPACE, f"{self.query}/{self.number}{part}"))

    def is_committed(self, table: Any) -> bool:
        """Whether a version up to that of `table` has the batch, according to the versions that are left.

        A query commits its batches, and the parts of each, in order, so the newest version of the query tells:
        usually one of the last few.
        """
        for transaction in up_to(table):
            properties = {} if transaction is None else transaction.transaction_properties or {}
            if properties.get(QUERY) == self.query:
                return (int(properties[BATCH]), int(properties.get(PART, 0))) >= (self.number, self.part)
        return False


@dataclass(frozen=True)
class WrittenOfBatch(Written):
    """What one task of a batch wrote, with what the commit has to know.

    Attributes
    ----------
    plan
        Of the first partition the plan of the batch, without storage options: the commit has its own.
    """

    batch: StreamBatch
    plan: WritePlan | None


@dataclass(frozen=True)
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query: made on the driver, pickled to the tasks, and made again to commit.

    Attributes
    ----------
    table
        Its newest version when the writer was made; None in tasks.
    """

    plan: WritePlan
    table: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
        """Check the rows against the table, and make the table if there is none."""
        given = {name: value for name, value in options.items() if name.lower() not in _SPARK_OPTIONS}
        parsed = WriteOptions.parse(given)
        if parsed.create:
            raise invalid("A stream makes its table if there is none: the option create is for single writes")
        data = stored_columns(schema, drop_system_columns=parsed.drop_system_columns)
        table: Any = tables.find_table(parsed.uri, parsed.storage_options)
        check_table(options, parsed.uri, table)
        if table is None:
            table = make_table(parsed, frame_schema(data))
        note_table(options, table)
        if parsed.table_parameters.pop("compatible_with", None) is not None:
            # What the table has become is what the reader reads.
            parsed.table_parameters["data_storage_version"] = table.data_storage_version
            parsed.table_parameters["enable_stable_row_ids"] = table.has_stable_row_ids
        return cls(WritePlan.of(table, parsed, data, overwrite=overwrite), table)

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamWriter, (self.plan,)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition to files that no version refers to yet; runs in a task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        number = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
        if context is None or query is None or number is None:
            raise internal("a batch of a stream is written by a Spark task of a query, and this is none")
        batch = StreamBatch(query, int(number))
        with quick_task(self.plan.plan.release):
            plan = self.plan.with_uuid(batch.uuid)
            partition = context.partitionId()
            result = plan.write_partition(partition, iterator)
            sent = plan.with_storage_options({}) if partition == 0 else None
            return WrittenOfBatch(partition, result, batch, sent)

    @noted()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the files of a batch in one commit, unless that was done before; runs in a process of the
        driver.
        """
        written = complete(messages, WrittenOfBatch, f"tasks of batch {batchId}")
        if not written:
            return
        batch, results = written[0].batch, results_of(written)
        sent = next((message.plan for message in written if message.plan is not None), None)
        if sent is None or batch.number != batchId:
            raise internal(f"batch {batchId} was written as batch {batch.number} of query {batch.query}")
        plan = sent.with_storage_options(self.plan.plan.storage_options)
        if not plan.has_changes(results):
            return
        # The commit itself finds a version that another process makes of the batch from now on, by its uuid.
        if batch.is_committed(self.table):
            _log.info("batch %d of query %s is in %s already", batch.number, batch.query, plan.uri)
            return
        version = plan.commit(results, batch.properties)["version"]
        _log.info("batch %d of query %s is version %d of %s", batch.number, batch.query, version, plan.uri)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove nothing: the batch may be committed, and orphans are removed by a vacuum."""
        finished = sum(message is not None for message in messages)
        _log.warning(
            "batch %d into %s was aborted after %d of %d tasks; their files are left in place",
            batchId,
            self.plan.uri,
            finished,
            len(messages),
        )


def make_table(options: WriteOptions, schema: pa.Schema) -> Any:
    """The table without rows; that of another writer, or of an attempt whose answer was lost, if it is there."""
    import pennon

    def make() -> Any:
        return pennon.write_dataset(
            schema.empty_table(),
            options.uri,
            mode="create",
            storage_options=stored(options.storage_options),
            durability=options.durability,
            **options.table_parameters,
        )

    try:
        return answered(make, f"the creation of {options.uri}")
    except pennon.AlreadyExistsError:
        return tables.open_table(ReadOptions(options.uri, options.storage_options))
