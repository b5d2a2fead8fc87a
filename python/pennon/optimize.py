"""Compaction: rows of small fragments, and of fragments with many deleted rows, rewritten to few new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pennon import _native, _readers, cleanup
from pennon._compaction import (
    CompactionMetrics,
    CompactionOptions,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
    TableState,
    known_options,
    option_parts,
)
from pennon._compatibility import ExplainsAbsence
from pennon._options import checked_names, checked_number, ignored, refuse_unknown
from pennon._progress import ProgressLike, Reporter
from pennon._table.indices import staged

if TYPE_CHECKING:
    from pennon._protocols import Handle
    from pennon.types import AutoCleanupConfig, FileVersion

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "DatasetOptimizer",
    "RewriteResult",
    "TableState",
]


class Compaction:
    """Compaction in steps, which may run in different processes.

    Examples
    --------
    >>> import pennon
    >>> from pennon.optimize import Compaction
    >>> rows = {"a": list(range(6))}
    >>> table = pennon.write_dataset(rows, "memory://compaction", mode="overwrite", max_rows_per_file=2)
    >>> plan = Compaction.plan(table, {"target_rows_per_fragment": 3})
    >>> [[fragment.id for fragment in task.fragments] for task in plan.tasks]
    [[0, 1, 2]]
    >>> results = [task.execute(table) for task in plan.tasks]
    >>> Compaction.commit(table, results)
    CompactionMetrics(fragments_removed=3, fragments_added=2, files_removed=3, files_added=2)
    """

    @staticmethod
    def execute(dataset: Handle, options: CompactionOptions, *, progress: ProgressLike = None) -> CompactionMetrics:
        """Plan, execute and commit a compaction, and move the dataset to the new version.

        Options and errors as for [compact_files][pennon.optimize.DatasetOptimizer.compact_files].

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://compaction-execute", mode="overwrite", max_rows_per_file=2)
        >>> Compaction.execute(table, {"target_rows_per_fragment": 100})
        CompactionMetrics(fragments_removed=3, fragments_added=1, files_removed=3, files_added=1)
        >>> len(table.get_fragments())
        1
        """
        parts = option_parts(options)
        with Reporter("compact", progress) as report:
            dataset._native, done, before, after = _native.compact(dataset._native, parts, report.counts)
        return CompactionMetrics(**done, before=TableState(**before), after=TableState(**after))

    @staticmethod
    def plan(dataset: Handle, options: CompactionOptions | None = None) -> CompactionPlan:
        """The tasks that compact the dataset at its version; writes nothing.

        Options as for [compact_files][pennon.optimize.DatasetOptimizer.compact_files].

        Raises
        ------
        pennon.InvalidInputError
            An option is not known, or has an invalid value.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://compaction-of-plan", mode="overwrite", max_rows_per_file=2)
        >>> Compaction.plan(table).tasks
        [CompactionTask(read_version=1, fragments=[0, 1, 2])]
        >>> Compaction.plan(table, {"target_rows_per_fragment": 2}).tasks
        []
        """
        options = known_options(options or {})
        tasks = _native.plan_compaction(dataset._native, option_parts(options))
        version = dataset._native.version
        return CompactionPlan(version, [CompactionTask(version, task, options) for task in tasks], options)

    @staticmethod
    def commit(
        dataset: Handle, rewrites: list[RewriteResult], options: CompactionOptions | None = None
    ) -> CompactionMetrics:
        """Commit the results of tasks on top of the newest version, and move the dataset there.

        Rows that other writers have deleted or updated since are deleted in the new fragments.

        Raises
        ------
        pennon.CommitConflictError
            Another writer compacted some of the fragments, or changed their columns. The results of the other tasks
            can still be committed.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://compaction-commit", mode="overwrite", max_rows_per_file=2)
        >>> results = [task.execute(table) for task in Compaction.plan(table).tasks]
        >>> table.delete("a = 0")
        {'num_deleted_rows': 1}
        >>> Compaction.commit(table, results).fragments_added
        1
        >>> table.to_table()["a"].to_pylist()
        [1, 2, 3, 4, 5]
        """
        parts = [(one.read_version, one.original_fragments, one.new_fragments) for one in rewrites]
        dataset._native, done = _native.commit_compaction(dataset._native, parts, option_parts(options or {}))
        return CompactionMetrics(**done)


class DatasetOptimizer(ExplainsAbsence):
    """Maintenance of a dataset; see [LanceDataset.optimize][pennon.LanceDataset.optimize].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://optimizer", mode="overwrite")
    >>> table.insert({"a": [4]})
    >>> table.optimize.compact_files().fragments_removed
    2
    """

    def __init__(self, dataset: Handle) -> None:
        self._dataset = dataset

    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: list[str] | None = None,
        retrain: bool = False,
        **kwargs: Any,
    ) -> None:
        """Take rows into indices that these do not cover, and move to the version that has the result, if any.

        Segments whose files are missing or damaged are built again, although they cover their rows.

        Parameters
        ----------
        num_indices_to_merge
            So many of the newest segments of an index become one with these rows, 1 by default; 0 makes a segment
            of the rows alone.
        index_names
            Only these indices.
        retrain
            Whether the indices are built again from all rows.
        kwargs
            `progress_callback`, a function of an [IndexProgress][pennon.progress.IndexProgress] as in
            [create_index][pennon.LanceDataset.create_index]; others are accepted, without effect.

        Raises
        ------
        pennon.InvalidInputError
            A number is negative, or the names are not a list of texts.
        pennon.NotFoundError
            No index has a name of these.
        pennon.CommitConflictError
            Others made, changed or dropped one of the indices since this version.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(10)}, "memory://optimize-indices", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.insert({"a": range(10, 20)})
        >>> table.optimize.optimize_indices()
        >>> table.stats.index_stats("a_idx")["num_indexed_rows"]
        20
        """
        progress_callback = kwargs.pop("progress_callback", None)
        ignored(**kwargs)
        names = None if index_names is None else checked_names("index_names", index_names)
        merged = num_indices_to_merge
        merged = None if merged is None else checked_number("num_indices_to_merge", merged)
        with staged(progress_callback) as stages:
            self._dataset._native = _native.optimize_indices(self._dataset._native, names, merged, retrain, stages)

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        defer_index_remap: bool | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None = None,
        binary_copy_read_batch_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: list[int] | None = None,
        data_storage_version: FileVersion | None = None,
        max_seconds: float | None = None,
        partial_progress: bool | None = None,
        progress: ProgressLike = None,
    ) -> CompactionMetrics:
        """Rewrite small fragments, and those with many deleted rows, to few new ones, and move to the new version.

        Rows keep their ids and versions. In a table with stable row ids, rows that are compacted together are
        written in the order of their ids, so that ids and versions take little space in the manifest. Fragments are
        compacted together if they are neighbours and covered by the same indices. Deletes and updates that other
        writers commit in the meantime are kept.

        An option that is not given is read from the table config, under `lance.compaction.` and its name; the
        defaults below apply if the config does not have it either.

        Parameters
        ----------
        target_rows_per_fragment
            Fragments with fewer rows are compacted with their neighbours, to about this many; 1,048,576.
        max_bytes_per_file
            Bytes after which a new fragment is started, as in [write_dataset][pennon.write_dataset].
        materialize_deletions
            Whether fragments are compacted because of their deleted rows; true.
        materialize_deletions_threshold
            The share of deleted rows above which they are; 0.1.
        defer_index_remap
            For tables without stable row ids: leave indices as they are and record the new addresses; false, which
            writes indices again in the same commit.
        num_threads
            Tasks in flight; the number of cores.
        compaction_mode
            `reencode`, or `try_binary_copy`, which does the same.
        max_source_fragments, max_source_rows, max_source_bytes
            The most old fragments, live rows, and bytes of data files to compact.
        excluded_fragment_ids
            Ids of fragments that are not compacted.
        data_storage_version
            Version of the new data files; the table's. All data files of version 0.1 are written again.
        max_seconds
            No task starts after this time, except the first one.
        partial_progress
            Commit each task as soon as it is done instead of all at the end; false.
        max_rows_per_group, batch_size, binary_copy_read_batch_bytes
            Accepted, without effect.
        progress
            A function that hears of tasks, fragments and rows; what it raises ends the compaction, and what is not
            committed by then is undone. Otherwise as in [jobs.run][pennon.jobs.run].

        Returns
        -------
        CompactionMetrics
            What was removed and added, and the state of the table before and after.

        Raises
        ------
        pennon.InvalidInputError
            An option has an invalid value.
        pennon.UnsupportedError
            An index of a kind that Pennon does not write, such as full text, refers to rows of the fragments by
            their addresses.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://compact-files", mode="overwrite")
        >>> table.insert({"a": [2, 3]})
        >>> done = table.optimize.compact_files()
        >>> done
        CompactionMetrics(fragments_removed=2, fragments_added=1, files_removed=2, files_added=1)
        >>> done.before.fragments, done.after.fragments
        (2, 1)
        """
        options: CompactionOptions = {
            "target_rows_per_fragment": target_rows_per_fragment,
            "max_rows_per_group": max_rows_per_group,
            "max_bytes_per_file": max_bytes_per_file,
            "materialize_deletions": materialize_deletions,
            "materialize_deletions_threshold": materialize_deletions_threshold,
            "defer_index_remap": defer_index_remap,
            "num_threads": num_threads,
            "batch_size": batch_size,
            "compaction_mode": compaction_mode,
            "binary_copy_read_batch_bytes": binary_copy_read_batch_bytes,
            "max_source_fragments": max_source_fragments,
            "max_source_rows": max_source_rows,
            "max_source_bytes": max_source_bytes,
            "excluded_fragment_ids": excluded_fragment_ids,
            "data_storage_version": data_storage_version,
            "max_seconds": max_seconds,
            "partial_progress": partial_progress,
        }
        _readers.check_version(data_storage_version, self._dataset._native.config.get(_readers.KEY))
        return Compaction.execute(self._dataset, options, progress=progress)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig, **kwargs: Any) -> None:
        """Remove old versions automatically, after every `interval` commits.

        Raises
        ------
        pennon.InvalidInputError
            An option is not known, or is not a whole number, 0 or more.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://auto-cleanup", mode="overwrite")
        >>> table.optimize.enable_auto_cleanup({"interval": 5, "older_than_seconds": 3600})
        >>> table.config()
        {'lance.auto_cleanup.interval': '5', 'lance.auto_cleanup.older_than': '3600s'}
        """
        refuse_unknown("enable_auto_cleanup", (), kwargs)
        _update_config(self._dataset, {**cleanup.auto_cleanup_config(auto_cleanup_config)})

    def disable_auto_cleanup(self, **kwargs: Any) -> None:
        """Stop removing old versions automatically.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://no-auto-cleanup", mode="overwrite")
        >>> table.optimize.enable_auto_cleanup({"interval": 5})
        >>> table.optimize.disable_auto_cleanup()
        >>> table.config()
        {}
        """
        refuse_unknown("disable_auto_cleanup", (), kwargs)
        keys = ["lance.auto_cleanup.interval", "lance.auto_cleanup.older_than"]
        _update_config(self._dataset, dict.fromkeys(keys))


def _update_config(dataset: Handle, updates: dict[str, str | None]) -> None:
    """Change settings of the newest version: a cleanup may have removed the one of the dataset and later ones."""
    newest = dataset._native.copy()
    newest.checkout_latest()
    newest.update_map("config", updates, False)
    dataset._native = newest
