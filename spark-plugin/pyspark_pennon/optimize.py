"""`LanceTable.optimize()`: compaction by Spark tasks, committed group by group.

A plan names the fragments that are written together. Its tasks run in groups of about twice as many as run at
once, and each group is committed when it is done: what is committed stays, whatever happens to the rest, and other
writers meet a commit of a few fragments instead of one of all. Deletes and updates that others commit meanwhile
are kept. Fragments that others compacted meanwhile are left to them, and the rest is planned again on the newest
version.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.catalyst.filters import conjunction
from pyspark_pennon.errors import invalid
from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.reads.frames import read
from pyspark_pennon.spark_api import as_column, parallelism
from pyspark_pennon.tasks.executor import run_partitions, run_tasks
from pyspark_pennon.tasks.orphans import committing, verb_errors
from pyspark_pennon.tasks.retries import retried
from pyspark_pennon.types.schema import FRAGMENT_BITS, ROW_ADDRESS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from pyspark_pennon.options.source import ReadOptions
    from pyspark_pennon.target import Target

_METRICS = (
    "path string, metrics struct<numFilesAdded:long,numFilesRemoved:long,numFragmentsAdded:long,"
    "numFragmentsRemoved:long,numCommits:long,numConflicts:long>, version long"
)


@dataclass(frozen=True)
class _Rewrite:
    """A task on an executor: the fragments of one group are written to new files."""

    read: ReadOptions
    task: Any

    def run(self) -> Any:
        return self.task.execute(tables.open_table(self.read))


@dataclass
class _Totals:
    files_added: int = 0
    files_removed: int = 0
    fragments_added: int = 0
    fragments_removed: int = 0
    commits: int = 0
    conflicts: int = 0

    def add(self, metrics: Any) -> None:
        self.commits += 1
        for name in ("files_added", "files_removed", "fragments_added", "fragments_removed"):
            setattr(self, name, getattr(self, name) + getattr(metrics, name))


class OptimizeBuilder:
    """A compaction to be run; see `LanceTable.optimize`.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable, write
    >>> done = write(spark.range(0, 100, 1, 4), f"{folder}/flights.lance")
    >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
    >>> metrics = table.optimize().where("id >= 50").executeCompaction().first().metrics
    >>> metrics.numFilesRemoved, metrics.numFilesAdded
    (2, 1)
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._conditions: list[Column] = []
        self._predicates: list[str] = []

    def where(self, condition: Column | str | None = None, *, filter_sql: str | None = None) -> OptimizeBuilder:
        """Compact only fragments that have a row for which a condition is true.

        A Lance table has no partitions, so a condition chooses fragments by their rows, which a distributed scan
        looks for: `where("day >= DATE '2026-11-01'")` leaves alone what only has older rows. A fragment is
        compacted whole, with its other rows. A second call narrows the first.

        Parameters
        ----------
        condition
            A `Column`, or text in Spark's SQL. Spark evaluates it, as in [read][pyspark_pennon.read].
        filter_sql
            Predicate in Pennon's SQL dialect, as in `read`.

        Raises
        ------
        pennon.InvalidInputError
            Neither was given.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(0, 100, 1, 4), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> builder = table.optimize().where("id >= 25").where(filter_sql="id < 75")
        >>> builder.executeCompaction().first().metrics.numFragmentsRemoved
        2
        """
        if condition is None and filter_sql is None:
            raise invalid("where() was given nothing: expected a condition, or filter_sql=")
        if condition is not None:
            self._conditions.append(as_column(condition))
        if filter_sql is not None:
            self._predicates.append(filter_sql)
        return self

    def executeCompaction(self, *, progress: bool | None = None, **options: Any) -> DataFrame:  # noqa: N802
        """Rewrite small fragments, and those with many deleted rows, to few large ones.

        Rows keep their ids. Each group of tasks is a commit of its own, so an interrupted compaction keeps what it
        has done.

        Parameters
        ----------
        progress
            Whether a line on standard error shows what is done; by default as the setting `spark.pennon.progress`
            of the session says, and without it in a terminal.
        **options
            Those of [compact_files][pennon.optimize.DatasetOptimizer.compact_files] about what is compacted, such
            as `target_rows_per_fragment`, `max_bytes_per_file`, `materialize_deletions_threshold` or
            `max_source_fragments`.

        Returns
        -------
        DataFrame
            One row: `path`; `metrics` with `numFilesAdded`, `numFilesRemoved` (data and deletion files),
            `numFragmentsAdded`, `numFragmentsRemoved`, `numCommits`, and `numConflicts`, the tasks whose fragments
            another writer had compacted; and the newest `version`.

        Raises
        ------
        pennon.InvalidInputError
            An option or `filter_sql` is invalid.
        pyspark.errors.AnalysisException
            The condition is not valid.
        pennon.UnsupportedError
            An index refers to rows by their addresses.
        pennon.CommitConflictError
            Each of ten plans conflicted with another writer.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(0, 100, 1, 4), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.optimize().executeCompaction(target_rows_per_fragment=50).first().metrics
        Row(numFilesAdded=2, numFilesRemoved=4, numFragmentsAdded=2, numFragmentsRemoved=4, ...)
        """
        totals = _Totals()
        what = f"the compaction of {self._target.uri}"
        with verb_errors(self._target.uri):
            retried(lambda: self._attempt(totals, options, progress), what, is_repeatable=True)
        target = self._target
        metrics = (
            totals.files_added,
            totals.files_removed,
            totals.fragments_added,
            totals.fragments_removed,
            totals.commits,
            totals.conflicts,
        )
        return local_frame(target.spark, [(target.uri, metrics, int(target.open().version))], _METRICS)

    def _attempt(self, totals: _Totals, options: dict[str, Any], progress: bool | None) -> None:
        """One plan on the newest version; raises a conflict that left some of it undone."""
        import pennon
        from pennon.optimize import Compaction

        table = self._target.open()
        chosen = dict(options)
        if self._conditions or self._predicates:
            kept = self._matching(table, progress)
            others = {part.fragment_id for part in table.get_fragments()} - kept
            chosen["excluded_fragment_ids"] = sorted(others.union(options.get("excluded_fragment_ids") or ()))
        for name in ("num_threads", "max_seconds", "partial_progress"):
            if chosen.get(name) is not None:
                raise pennon.InvalidInputError(f"A compaction by Spark tasks has no option {name!r}")
        plan = Compaction.plan(table, chosen)  # type: ignore[arg-type]
        conflict: Exception | None = None
        for group in self._groups(plan.tasks):
            tasks = [_Rewrite(self._target.options(version=task.read_version), task) for task in group]
            results = run_tasks(self._target.spark, tasks, f"compact {self._target.uri}", progress=progress)
            conflict = self._commit(results, chosen, totals) or conflict
        if conflict is not None:
            raise conflict

    def _commit(self, results: list[Any], options: dict[str, Any], totals: _Totals) -> Exception | None:
        """Commit a group at once, or task by task if a task of it conflicts."""
        import pennon
        from pennon.optimize import Compaction

        try:
            with committing(results):
                totals.add(Compaction.commit(self._target.open(), results, options))  # type: ignore[arg-type]
        except pennon.CommitUnknownError as unknown:
            # Planned again, on the newest version: what was committed is no longer there to be compacted.
            return unknown
        except pennon.CommitConflictError as conflict:
            if len(results) == 1:
                totals.conflicts += 1
                return conflict
            last: Exception | None = None
            for result in results:
                last = self._commit([result], options, totals) or last
            return last
        return None

    def _groups(self, tasks: list[Any]) -> Iterator[list[Any]]:
        size = 2 * parallelism(self._target.spark)
        for start in range(0, len(tasks), size):
            yield tasks[start : start + size]

    def _matching(self, table: Any, progress: bool | None) -> set[int]:
        """Fragments with a row for which the conditions are true, found by tasks."""
        rows = read(
            self._target.spark,
            self._target.uri,
            columns=[],
            where=reduce(operator.and_, self._conditions) if self._conditions else None,
            filter_sql=conjunction(self._predicates),
            version=int(table.version),
            with_row_address=True,
            storage_options=self._target.storage_options,
        )
        found = run_partitions(rows, _fragments, f"fragments to compact of {self._target.uri}", progress=progress)
        return {fragment for fragments in found for fragment in fragments}


def _fragments(_number: int, batches: Iterator[pa.RecordBatch]) -> list[int]:
    """The fragments of rows by their addresses."""
    found: set[int] = set()
    for batch in batches:
        found.update((batch.column(ROW_ADDRESS).to_numpy() >> FRAGMENT_BITS).tolist())
    return sorted(found)
