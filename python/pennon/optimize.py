"""Compaction: rows of small fragments, and of fragments with many deleted rows, rewritten to few new ones."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from pennon import _native, _readers, cleanup
from pennon._compatibility import ExplainsAbsence
from pennon._options import ignored, loading, refuse_unknown
from pennon._progress import ProgressLike, Reporter
from pennon._render import Grid, listed, panel
from pennon._table.indices import staged
from pennon.errors import InvalidInputError
from pennon.metadata import FragmentMetadata

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


class CompactionOptions(TypedDict, total=False):
    """Options of a compaction; see [compact_files][pennon.optimize.DatasetOptimizer.compact_files]."""

    target_rows_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    defer_index_remap: bool | None
    num_threads: int | None
    batch_size: int | None
    io_buffer_size: int | None
    compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None
    binary_copy_read_batch_bytes: int | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    max_overlays_per_fragment: int | None
    excluded_fragment_ids: list[int] | None
    data_storage_version: FileVersion | None
    max_seconds: float | None
    partial_progress: bool | None


_KNOWN = list(CompactionOptions.__annotations__)
# Accepted, without effect.
_IGNORED = (
    "max_rows_per_group",
    "batch_size",
    "io_buffer_size",
    "binary_copy_read_batch_bytes",
    "max_overlays_per_fragment",
)


@dataclass(frozen=True)
class TableState:
    """What a version of a table consists of.

    Attributes
    ----------
    rows
        Live rows.
    fragments
        Fragments.
    files
        Data files and deletion files.
    deleted_share
        Deleted rows as a share of all rows in the files, 0 to 1.
    id_bits_per_row
        Bits of the manifest that a row id takes, on average.
    version_bits_per_row
        Bits of the manifest that the two versions of a row take, on average.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://table-state", mode="overwrite")
    >>> table.insert({"a": [4]})
    >>> state = table.optimize.compact_files().after
    >>> state.rows, state.fragments
    (4, 1)
    """

    rows: int
    fragments: int
    files: int
    deleted_share: float
    id_bits_per_row: float
    version_bits_per_row: float


@dataclass(frozen=True)
class CompactionMetrics:
    """What a compaction removed and added; files are data files and deletion files.

    `before` and `after` describe the table, if the whole table was compacted in one call.
    """

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0
    before: TableState | None = field(default=None, repr=False, compare=False)
    after: TableState | None = field(default=None, repr=False, compare=False)

    def _repr_html_(self) -> str:
        parts = asdict(self)
        before, after = (parts.pop(name) for name in ("before", "after"))
        rows = [(name, before[name], after[name]) for name in before] if before and after else []
        return panel("CompactionMetrics", parts, Grid(("table", "before", "after"), rows, len(rows)))


@dataclass(frozen=True)
class RewriteResult:
    """The result of a task. It can be pickled, and turned into JSON by `json`."""

    read_version: int
    metrics: CompactionMetrics
    original_fragments: list[FragmentMetadata]
    new_fragments: list[FragmentMetadata]

    def json(self) -> str:
        """The result as JSON."""
        counts = ("fragments_removed", "fragments_added", "files_removed", "files_added")
        metrics = {name: getattr(self.metrics, name) for name in counts}
        parts = {
            "metrics": metrics,
            "new_fragments": [fragment.to_json() for fragment in self.new_fragments],
            "read_version": self.read_version,
            "original_fragments": [fragment.to_json() for fragment in self.original_fragments],
        }
        return json.dumps(parts)

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """The inverse of `json`. Raises `InvalidInputError` for other text."""
        with loading("RewriteResult"):
            parts = _parsed(json)
            return RewriteResult(
                parts["read_version"],
                CompactionMetrics(**parts["metrics"]),
                _fragments(parts["original_fragments"]),
                _fragments(parts["new_fragments"]),
            )


class CompactionTask:
    """Fragments to compact together. It can be pickled, and turned into JSON by `json`.

    Attributes
    ----------
    read_version
        The version of the plan.
    options
        The options of the plan.
    """

    __slots__ = ("_fragments", "options", "read_version")

    def __init__(
        self,
        read_version: int,
        fragments: list[FragmentMetadata] | _native.PlannedFragments,
        options: CompactionOptions | None = None,
    ) -> None:
        self.read_version = read_version
        self._fragments = fragments
        self.options = CompactionOptions() if options is None else options

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """The fragments as the version has them; made when they are asked for."""
        if isinstance(self._fragments, _native.PlannedFragments):
            self._fragments = [FragmentMetadata._of(parts) for parts in self._fragments.parts]
        return self._fragments

    def _ids(self) -> list[int]:
        if isinstance(self._fragments, _native.PlannedFragments):
            return self._fragments.ids
        return [fragment.id for fragment in self._fragments]

    def _parts(self) -> tuple[int, list[FragmentMetadata], CompactionOptions]:
        return self.read_version, self.fragments, self.options

    def __eq__(self, other: object) -> bool:
        return self._parts() == other._parts() if isinstance(other, CompactionTask) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return CompactionTask, self._parts()

    def __repr__(self) -> str:
        ids = self._ids()
        return f"CompactionTask(read_version={self.read_version}, fragments={listed(ids, len(ids))})"

    def execute(self, dataset: Handle) -> RewriteResult:
        """Write the live rows of the fragments to new ones, without a commit.

        The table is read at the version of the plan, whatever the version of `dataset`.
        """
        native = dataset._native
        if native.version != self.read_version:
            native = native.checkout(self.read_version)
        parts = _native.compact_fragments(native, self._ids(), option_parts(self.options))
        version, original, new = parts
        old = [FragmentMetadata._of(parts) for parts in original]
        written = [FragmentMetadata._of(parts) for parts in new]
        return RewriteResult(version, _metrics(old, written), old, written)

    def json(self) -> str:
        """The task as JSON."""
        return json.dumps({**_task(self), "read_version": self.read_version, "options": self.options})

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """The inverse of `json`. Raises `InvalidInputError` for other text."""
        with loading("CompactionTask"):
            parts = _parsed(json)
            fragments = _fragments(parts["task"]["fragments"])
            return CompactionTask(parts["read_version"], fragments, _known(parts["options"]))


@dataclass(frozen=True)
class CompactionPlan:
    """The tasks of a compaction. It can be pickled, and turned into JSON by `json`.

    Examples
    --------
    >>> import pennon
    >>> from pennon.optimize import Compaction
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://compaction-plan", mode="overwrite")
    >>> table.insert({"a": [4]})
    >>> Compaction.plan(table).num_tasks()
    1
    """

    read_version: int
    tasks: list[CompactionTask]
    options: CompactionOptions = field(default_factory=CompactionOptions, repr=False)

    def __repr__(self) -> str:
        return f"CompactionPlan(read_version={self.read_version}, tasks={listed(self.tasks, len(self.tasks))})"

    def _repr_html_(self) -> str:
        ids = (task._ids() for task in self.tasks)
        rows = ((number, len(found), listed(found, len(found))) for number, found in enumerate(ids))
        grid = Grid(("task", "fragments", "ids"), rows, len(self.tasks))
        return panel("CompactionPlan", {"read version": self.read_version, "tasks": len(self.tasks)}, grid)

    def num_tasks(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """The plan as JSON."""
        tasks = [_task(task)["task"] for task in self.tasks]
        return json.dumps({"tasks": tasks, "read_version": self.read_version, "options": self.options})

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """The inverse of `json`. Raises `InvalidInputError` for other text."""
        with loading("CompactionPlan"):
            parts = _parsed(json)
            version, options = parts["read_version"], _known(parts["options"])
            tasks = [CompactionTask(version, _fragments(task["fragments"]), options) for task in parts["tasks"]]
            return CompactionPlan(version, tasks, options)


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
        """
        parts = option_parts(options)
        with Reporter("compact", progress) as report:
            dataset._native, done, before, after = _native.compact(dataset._native, parts, report.counts)
        return CompactionMetrics(**done, before=TableState(**before), after=TableState(**after))

    @staticmethod
    def plan(dataset: Handle, options: CompactionOptions | None = None) -> CompactionPlan:
        """The tasks that compact the dataset at its version."""
        options = _known(options or {})
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
        if num_indices_to_merge is not None and num_indices_to_merge < 0:
            raise InvalidInputError(f"num_indices_to_merge is {num_indices_to_merge}, expected 0 or more")
        with staged(progress_callback) as stages:
            self._dataset._native = _native.optimize_indices(
                self._dataset._native, index_names, num_indices_to_merge, retrain, stages
            )

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
            For tables without stable row ids: leave indices as they are and record the new addresses; false.
            Otherwise the compaction of fragments that an index covers is refused.
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
            An index refers to rows of the fragments by their addresses.
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
        given = {name: value for name, value in locals().items() if name in _KNOWN}
        _readers.check_version(data_storage_version, self._dataset._native.config.get(_readers.KEY))
        return Compaction.execute(self._dataset, cast(CompactionOptions, given), progress=progress)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig, **kwargs: Any) -> None:
        """Remove old versions automatically, after every `interval` commits.

        Raises
        ------
        pennon.InvalidInputError
            An option is not known.

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


def _known(options: Any) -> CompactionOptions:
    for name in options:
        if name not in _KNOWN:
            raise InvalidInputError(f"Invalid compaction option: {name}")
    return cast(CompactionOptions, {name: value for name, value in options.items() if value is not None})


def option_parts(options: CompactionOptions) -> _native.CompactionOptionParts:
    given = _known(options)
    for name in ("max_source_rows", "max_source_bytes", "max_source_fragments"):
        if given.get(name) == 0:
            raise InvalidInputError(f"{name} must be greater than 0; None means no limit")
    ignored(**{name: given.get(name) for name in _IGNORED})
    parts = {name: given.get(name) for name in _KNOWN if name not in _IGNORED}
    return cast("_native.CompactionOptionParts", parts)


def _metrics(old: list[FragmentMetadata], new: list[FragmentMetadata]) -> CompactionMetrics:
    def files(fragments: list[FragmentMetadata]) -> int:
        return sum(len(fragment.files) + (fragment.deletion_file is not None) for fragment in fragments)

    return CompactionMetrics(len(old), len(new), files(old), files(new))


def _task(task: CompactionTask) -> dict[str, Any]:
    return {"task": {"fragments": [fragment.to_json() for fragment in task.fragments]}}


def _fragments(parts: list[dict[str, Any]]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(json.dumps(one)) for one in parts]


def _parsed(text: str) -> Any:
    return json.loads(text)
