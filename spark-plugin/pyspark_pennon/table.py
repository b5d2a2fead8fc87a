"""`LanceTable`: operations on a table by its URI, with the work done by Spark tasks.

A delete is a job of `pennon.jobs`: the driver pins a version and divides it -> tasks find the matching rows of
their parts, as bitmaps -> one commit on the driver. If another writer changed one of those rows in the meantime,
the commit is refused, and what changed is looked at again.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.administration import AdministrationMethods
from pyspark_pennon.builders import TableBuilder
from pyspark_pennon.errors import internal
from pyspark_pennon.feed import read_changes
from pyspark_pennon.frames import read
from pyspark_pennon.optimize import OptimizeBuilder
from pyspark_pennon.options import ReadOptions, session_storage_options
from pyspark_pennon.references import ReferenceMethods

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MAX_ATTEMPTS = 10
"""The most attempts of a delete; a conflict with another writer starts the next one."""

_log = logging.getLogger(__name__)


class LanceTable(AdministrationMethods, ReferenceMethods):
    """A Lance table seen from a Spark session; made by [LanceTable.forPath][].

    Has the URI and the storage options, no state of the table: every call reads the newest version. Names are
    those of Delta's `DeltaTable` where it has them.
    """

    @classmethod
    def forPath(  # noqa: N802 - as Delta spells it
        cls, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None = None
    ) -> LanceTable:
        """The table at `uri`.

        Raises
        ------
        ValueError
            There is no table at `uri`.
        """
        table = cls(spark, uri, storage_options)
        table._open()
        return table

    @staticmethod
    def isLanceTable(  # noqa: N802 - as Delta spells it
        spark: SparkSession,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether there is a Lance table at `uri`."""
        return tables.find_table(uri, session_storage_options(spark, storage_options)) is not None

    @classmethod
    def create(cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> TableBuilder:
        """A builder of a table that must not exist.

        Examples
        --------
        >>> LanceTable.create(spark).location(uri).addColumn("id", "BIGINT").property("owner", "flights").execute()
        LanceTable('...')
        """
        return TableBuilder(spark, cls, storage_options, creates=True, replaces=False, must_create=True)

    @classmethod
    def createIfNotExists(  # noqa: N802
        cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None
    ) -> TableBuilder:
        """A builder of a table that is left as it is if it exists."""
        return TableBuilder(spark, cls, storage_options, creates=True, replaces=False, must_create=False)

    @classmethod
    def replace(cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> TableBuilder:
        """A builder of new columns and properties, without rows, for a table that must exist; keeps its
        versions.
        """
        return TableBuilder(spark, cls, storage_options, creates=False, replaces=True, must_create=False)

    @classmethod
    def createOrReplace(  # noqa: N802
        cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None
    ) -> TableBuilder:
        """A builder of a table that is replaced, as by `replace`, if it exists."""
        return TableBuilder(spark, cls, storage_options, creates=True, replaces=True, must_create=False)

    def alias(self, name: str) -> LanceTable:
        """The same table under a name that conditions can use, and that its frame has."""
        named = type(self)(self._spark, self._uri, self._storage_options)
        named._alias = name
        return named

    def toDF(  # noqa: N802 - as Delta spells it
        self,
        *,
        version: int | None = None,
        tag: str | None = None,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> DataFrame:
        """The rows of a version, the newest by default; `options` as in [pyspark_pennon.read][]."""
        frame = read(
            self._spark,
            self._uri,
            version=version,
            tag=tag,
            columns=columns,
            storage_options=self._storage_options,
            **options,
        )
        return frame if self._alias is None else frame.alias(self._alias)

    def changes(
        self,
        startingVersion: int | None = None,  # noqa: N803 - as Delta spells its options
        endingVersion: int | None = None,  # noqa: N803
        *,
        startingTimestamp: datetime | str | None = None,  # noqa: N803
        endingTimestamp: datetime | str | None = None,  # noqa: N803
        columns: Sequence[str] | None = None,
        net: bool = False,
        dropUnchanged: bool = False,  # noqa: N803
    ) -> DataFrame:
        """What happened to rows in a range of versions; see [pyspark_pennon.read_changes][].

        Examples
        --------
        >>> table.changes(3).where("_change_type = 'delete'").count()
        4
        """
        return read_changes(
            self._spark,
            self._uri,
            starting_version=startingVersion,
            ending_version=endingVersion,
            starting_timestamp=startingTimestamp,
            ending_timestamp=endingTimestamp,
            columns=columns,
            net=net,
            drop_unchanged=dropUnchanged,
            storage_options=self._storage_options,
        )

    def optimize(self) -> OptimizeBuilder:
        """A compaction: `optimize().where(...).executeCompaction()`; see [pyspark_pennon.optimize][]."""
        return OptimizeBuilder(self._spark, self._uri, self._storage_options)

    def delete(self, predicate: str, *, tasks: int | None = None) -> dict[str, int]:
        """Delete the rows for which `predicate` is true, in one commit.

        Fragments are scanned by Spark tasks; the driver only merges bitmaps.

        Parameters
        ----------
        predicate
            Predicate in Pennon's SQL dialect, not Spark's. Rows for which it is null are kept.
        tasks
            Number of Spark tasks, at most; by default each has about 256 MiB of data files.

        Returns
        -------
        dict
            `num_deleted_rows`, the `version` that was committed, and the number of `attempts`.

        Raises
        ------
        ValueError
            The predicate does not parse, names an unknown column or is not boolean.
        pennon.PennonError
            Another writer changed matching rows during each of ten attempts.
        """
        plan = tables.plan_delete(self._options(), predicate, tasks)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            results = self._run(plan)
            try:
                done = plan.commit(results)
            except Exception as error:
                if attempt == MAX_ATTEMPTS or not tables.is_retryable(error):
                    raise
                _log.info("delete from %s is retried: %s", self._uri, error)
                plan = plan.renew(results)
            else:
                return {
                    "num_deleted_rows": done.rows,
                    "version": done.dataset.version,
                    "attempts": attempt,
                }
        raise internal("unreachable: the last attempt returns or raises")

    def _run(self, plan: Any) -> list[Any]:
        tasks = plan.tasks
        if not tasks:
            return []
        # One row per task: a partition of `range` holds exactly the number of its task.
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        # Collected once: a second action would run everything again.
        found = numbers.mapInArrow(_runner(tasks), "result binary").toArrow()
        return [pickle.loads(result) for result in found.column("result").to_pylist()]

    def _options(self) -> ReadOptions:
        return ReadOptions(self._uri, self._storage_options)


def _runner(tasks: list[Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's tasks run: numbers of tasks in, pickled results out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pa.array([pickle.dumps(tasks[number].run())], pa.binary())
                yield pa.RecordBatch.from_arrays([result], names=["result"])

    return run
