"""A write as a plan of `pennon.jobs`: checked on the driver, run by tasks, committed once.

The transaction's uuid is chosen when the write is planned. A commit that is repeated after a lost response finds
its own uuid in the table and does nothing. The commit assigns row ids, so no attempt of a task ever owns any.

Two first writers may race. Both plan to make the table; the one that comes second finds a table with the schema of
its own files and appends them to it under the same uuid, unless `create` was given.

Files of failed or superseded attempts are left in place, and no version refers to them: tasks may finish after a
job has failed. They are counted and named in the log; a cleanup of the table removes them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.errors import exists
from pyspark_pennon.options.provider import stored
from pyspark_pennon.tasks.orphans import committing, mark_not_orphans
from pyspark_pennon.tasks.plans import ShippedPlan
from pyspark_pennon.tasks.results import rows_and_files
from pyspark_pennon.tasks.retries import committed
from pyspark_pennon.transactions import COMMIT_MESSAGE
from pyspark_pennon.types.arrow_facts import with_comments_of
from pyspark_pennon.types.batches import filled_rows
from pyspark_pennon.types.storable import append_schema, frame_schema
from pyspark_pennon.writes.new_columns import NewColumns, NewFragments

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_pennon.options.source import WriteOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WritePlan:
    """One write; picklable, made on the driver.

    Attributes
    ----------
    plan
        An append, an overwrite or a merge.
    columns
        Arrow schema of the rows that tasks are given to write, as IPC: a worker may not know an extension type of
        the driver.
    version
        The version that the table has, 0 for a new one.
    must_create
        Whether a table that another writer makes meanwhile is an error.
    new
        Columns that the table gets with the rows.
    message
        What `history` shows of the commit.
    """

    plan: ShippedPlan
    columns: bytes
    version: int
    must_create: bool
    is_append: bool
    uri: str
    file_parameters: dict[str, Any] = field(default_factory=dict)
    new: NewColumns | None = None
    message: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows that tasks are given to write."""
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(self.columns))

    @classmethod
    def of(
        cls,
        table: Any | None,
        options: WriteOptions,
        data: StructType,
        *,
        overwrite: bool,
        vector_sizes: Mapping[str, int] | None = None,
        new_schema: pa.Schema | None = None,
    ) -> WritePlan:
        """Check a frame against the table at its newest version, None if there is none, before any task runs.

        Raises
        ------
        ValueError
            The table exists and must not, or the frame does not fit it.
        """
        from pennon import jobs

        if table is not None and options.create:
            raise exists(f"Dataset already exists: {options.uri}", options.uri)
        version = 0 if table is None else int(table.version)
        new: NewColumns | None = None
        if table is None or overwrite:
            schema = frame_schema(data, vector_sizes) if new_schema is None else new_schema
            job = jobs.plan_overwrite(
                options.uri,
                schema,
                mode="overwrite" if overwrite else "create",
                storage_options=stored(options.storage_options),
                durability=options.durability,
                **options.table_parameters,
            )
            is_append = table is None and not overwrite
        else:
            columns = table.schema
            if options.merge_schema:
                new, columns = NewColumns.of(table, data, vector_sizes, is_sensitive=options.is_case_sensitive)
            schema = append_schema(columns, data, is_sensitive=options.is_case_sensitive)
            reader = options.table_parameters.get("compatible_with")
            job = jobs.plan_append(table, durability=options.durability, compatible_with=reader)
            is_append = True
        shipped = ShippedPlan.of(job, options.storage_options, options.durability)
        return cls(
            plan=shipped,
            columns=schema.serialize().to_pybytes(),
            version=version,
            must_create=options.create,
            is_append=is_append,
            uri=options.uri,
            file_parameters=dict(options.file_parameters),
            new=new,
            message=options.commit_message,
        )

    def write_partition(self, number: int, batches: Iterator[pa.RecordBatch]) -> Any:
        """Write the rows of the partition with a number, which orders them in the table; runs in a task.

        Returns a [TaskResult][pennon.jobs.TaskResult] or [NewFragments][], or None if there were no rows.
        """
        rows = filled_rows(batches, self.schema)
        if rows is None:
            return None
        if self.new is not None:
            fragments = self.new.write(rows, self.uri, **self.plan.reached(), **self.file_parameters)
            return NewFragments(number, fragments)
        return self.plan.task(number).run(rows, **self.file_parameters)

    def with_uuid(self, uuid: str) -> WritePlan:
        """The same write with another uuid of its transaction, before any task runs."""
        return replace(self, plan=self.plan.with_uuid(uuid))

    def with_storage_options(self, storage_options: Mapping[str, str]) -> WritePlan:
        """The same write with other storage options."""
        return replace(self, plan=replace(self.plan, storage_options=storage_options))

    def has_changes(self, results: list[Any]) -> bool:
        """Whether a commit makes a version: an overwrite without rows does."""
        return bool(results) or self.plan.job().kind == "overwrite"

    def commit(self, results: list[Any], properties: Mapping[str, str] | None = None) -> dict[str, int]:
        """Publish what the tasks wrote in one commit, and say what was done.

        Parameters
        ----------
        properties
            Those of the transaction, besides the message.

        Raises
        ------
        pennon.AlreadyExistsError
            Another writer made the table, and it must not exist or has another schema.
        pennon.PennonError
            Another writer changed the same rows, or the store failed.
        """
        import pennon

        rows, files = rows_and_files(results)
        done = {
            "num_inserted_rows": rows,
            "num_deleted_rows": 0,
            "num_files": len(files),
            "version": self.version,
        }
        if not self.has_changes(results):
            return done
        if self.message is not None:
            properties = {COMMIT_MESSAGE: self.message, **(properties or {})}
        plan = self.plan.job()
        if self.new is not None:
            return {**done, "version": self._append_with(self.new, plan.uuid, results, properties)}
        try:
            report = committed(plan, results, properties=properties)
        except pennon.AlreadyExistsError:
            if not self.is_append or self.must_create:
                raise
            report = self._append_to_new_table(plan, results, properties)
        if report.counts is not None:
            done["num_inserted_rows"] = report.counts["num_inserted_rows"]
            done["num_deleted_rows"] = report.counts["num_deleted_rows"]
        return {**done, "version": report.dataset.version}

    def _append_with(
        self, new: NewColumns, uuid: str, results: list[NewFragments], properties: Mapping[str, str] | None
    ) -> int:
        """Commit the rows and the columns; gives the version."""
        in_order = sorted(results, key=lambda result: result.number)
        fragments = [fragment for result in in_order for fragment in result.new_fragments]
        storage_options, durability = self.plan.storage_options, self.plan.durability
        with committing(results):
            return new.append(fragments, self.schema, self.uri, uuid, storage_options, durability, properties)

    def _append_to_new_table(self, planned: Any, results: list[Any], properties: Mapping[str, str] | None) -> Any:
        """Append files that were written for a new table to the one that another writer made meanwhile."""
        from pennon import jobs
        from pennon.schema import LanceSchema

        storage_options = self.plan.storage_options
        table = tables.find_table(self.uri, storage_options)
        status = None if table is None else table.commit_status(planned.uuid)
        if table is not None and status is not None and status.committed:
            mark_not_orphans(results)
            return jobs.JobReport(sum(result.rows for result in results), table.checkout_version(status.version))
        # Comments of columns are those of the table, as in every append.
        if table is None or table.lance_schema != LanceSchema.from_pyarrow(
            with_comments_of(self.schema, table.schema)
        ):
            raise exists(
                f"Another writer has made the table {self.uri} meanwhile, with another schema: write again, to "
                "append to it",
                self.uri,
            )
        _log.info("another writer made %s first: the rows are appended", self.uri)
        plan = jobs.plan_append(table, durability=self.plan.durability).with_uuid(planned.uuid)
        # The files are the same: only the version that they are for is another one.
        moved = [{**json.loads(result.json()), "version": plan.version} for result in results]
        results = [jobs.TaskResult.from_json(json.dumps(result)) for result in moved]
        return committed(plan, results, properties=properties)
