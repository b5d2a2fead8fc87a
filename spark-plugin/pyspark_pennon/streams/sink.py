"""Streams into a table: `df.writeStream.format("pennon")`. Each batch is one commit, and is committed once.

Spark runs a batch again if it does not know that it was finished. So query and batch are recorded in the properties
of the transaction, where `history` shows them, and a batch that some version has is not committed again. The
transaction has a uuid that follows from the two, so that of two processes that commit one batch at the same time
only one makes a version.

Spark makes the writer in one process for the tasks and in another for the commit, so what the commit has to know
comes with the messages of the tasks. A table that does not exist is made, without rows, before the first batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from pyspark import TaskContext

from pyspark_pennon import wheel
from pyspark_pennon.errors import internal, invalid, noted
from pyspark_pennon.options.provider import stored
from pyspark_pennon.options.source import WriteOptions
from pyspark_pennon.spark_api import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark_pennon.streams.sink_checkpoint import check_table, note_table
from pyspark_pennon.tasks.releases import installed_release
from pyspark_pennon.tasks.retries import answered
from pyspark_pennon.tasks.workers import quick_task
from pyspark_pennon.transactions import up_to
from pyspark_pennon.types.batches import filled_rows
from pyspark_pennon.types.storable import append_schema, frame_schema, stored_columns
from pyspark_pennon.writes.new_columns import NewColumns

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
        """The uuid of a transaction that appends the batch."""
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
class Written(WriterCommitMessage):
    """What one task of a batch wrote.

    Attributes
    ----------
    query
        The id of the query, the same after a restart from its checkpoint.
    version
        The version that the files were written for.
    new
        The columns that the table gets with the rows.
    """

    partition: int
    query: str
    version: int
    fragments: list[Any]
    new: NewColumns | None = None


@dataclass(frozen=True)
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query: made on the driver, pickled to the tasks, and made again to commit."""

    options: WriteOptions
    schema: pa.Schema
    version: int
    overwrite: bool
    release: str
    new: NewColumns | None = None

    @classmethod
    def plan(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
        """Check the rows against the table, and make the table if there is none."""
        given = {name: value for name, value in options.items() if name.lower() not in _SPARK_OPTIONS}
        parsed = WriteOptions.parse(given)
        if parsed.create:
            raise invalid("A stream makes its table if there is none: the option create is for single writes")
        data = stored_columns(schema, drop_system_columns=parsed.drop_system_columns)
        table: Any = wheel.find_table(parsed.uri, parsed.storage_options)
        check_table(options, parsed.uri, table)
        if table is None:
            table = make_table(parsed, frame_schema(data))
        note_table(options, table)
        if parsed.table_parameters.pop("compatible_with", None) is not None:
            # What the table has become is what the reader reads.
            parsed.table_parameters["data_storage_version"] = table.data_storage_version
            parsed.table_parameters["enable_stable_row_ids"] = table.has_stable_row_ids
        new, stored = None, table.schema
        if parsed.merge_schema and not overwrite:
            new, stored = NewColumns.of(table, data)
        columns = frame_schema(data) if overwrite else append_schema(stored, data)
        return cls(parsed, columns, int(table.version), overwrite, installed_release(), new)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition to files that no version refers to yet; runs in a task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        if context is None or query is None:
            raise internal("a batch of a stream is written by a Spark task of a query, and this is none")
        with quick_task(self.release):
            rows = filled_rows(iterator, self.schema)
            fragments = [] if rows is None else self._fragments(rows)
        return Written(context.partitionId(), query, self.version, fragments, self.new)

    def _fragments(self, rows: pa.RecordBatchReader) -> list[Any]:
        import pennon

        uri, storage = self.options.uri, stored(self.options.storage_options)
        given: dict[str, Any] = {"storage_options": storage, "durability": self.options.durability}
        given.update(self.options.file_parameters)
        if self.new is not None:
            return self.new.write(rows, uri, **given)
        target: Any = uri
        if self.overwrite:
            given.update(self.options.table_parameters)
        else:
            target = pennon.dataset(uri, self.version, storage_options=storage)
        mode: Any = "overwrite" if self.overwrite else "append"
        written: Any = pennon.fragment.write_fragments(rows, target, mode=mode, **given)
        return list(written)

    @noted()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the files of a batch in one commit, unless that was done before; runs in a process of the
        driver.
        """
        written = [message for message in messages if isinstance(message, Written)]
        if len(written) != len(messages):
            raise internal(
                f"{len(messages) - len(written)} of {len(messages)} tasks of batch {batchId} reported nothing; "
                "nothing was committed"
            )
        written.sort(key=lambda message: message.partition)
        fragments = [fragment for message in written for fragment in message.fragments]
        if written and (fragments or self.overwrite):
            self._commit(written[0], fragments, batchId)

    def _commit(self, written: Written, fragments: list[Any], batch: int) -> None:
        import pennon

        storage = stored(self.options.storage_options)
        number = StreamBatch(written.query, batch)
        if number.is_committed(pennon.dataset(self.options.uri, storage_options=storage)):
            _log.info("batch %d of query %s is in %s already", batch, written.query, self.options.uri)
            return
        if written.new is not None:
            done = written.new.append(
                fragments,
                self.schema,
                self.options.uri,
                number.uuid,
                self.options.storage_options,
                self.options.durability,
                number.properties,
            )
            _log.info("batch %d of query %s is version %d of %s", batch, written.query, done, self.options.uri)
            return
        operation: Any = pennon.LanceOperation.Append(fragments)
        if self.overwrite:
            empty: Any = pennon.fragment.write_fragments(
                self.schema.empty_table(),
                self.options.uri,
                mode="overwrite",
                return_transaction=True,
                storage_options=storage,
            )
            operation = empty.operation
            operation.fragments = fragments
        transaction = pennon.Transaction(written.version, operation, number.uuid, number.properties)
        made = answered(
            lambda: pennon.LanceDataset.commit(
                self.options.uri, transaction, storage_options=storage, durability=self.options.durability
            ),
            f"the commit of batch {batch} of query {written.query}",
        )
        _log.info("batch %d of query %s is version %d of %s", batch, written.query, made.version, self.options.uri)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove nothing: the batch may be committed, and orphans are removed by a vacuum."""
        finished = sum(message is not None for message in messages)
        _log.warning(
            "batch %d into %s was aborted after %d of %d tasks; their files are left in place",
            batchId,
            self.options.uri,
            finished,
            len(messages),
        )


def make_table(options: WriteOptions, schema: pa.Schema) -> Any:
    """The table without rows; that of another writer, or of an attempt whose answer was lost, if it is there."""
    import pennon

    storage = stored(options.storage_options)

    def make() -> Any:
        return pennon.write_dataset(
            schema.empty_table(),
            options.uri,
            mode="create",
            storage_options=storage,
            durability=options.durability,
            **options.table_parameters,
        )

    try:
        return answered(make, f"the creation of {options.uri}")
    except pennon.AlreadyExistsError:
        return pennon.dataset(options.uri, storage_options=storage)
