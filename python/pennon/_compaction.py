"""Values of compactions: options, plans, tasks and results, with their JSON, which pylance reads and writes too.

Plans and tasks of pylance have a value for each option. Here an option that is not given is read from the table
config, so the JSON has the options twice: as `options` with the defaults that pylance needs, and as `given_options`
without them, which pylance skips.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from pennon import _native
from pennon._options import checked_number, ignored, loading
from pennon._render import Grid, listed, panel
from pennon.errors import InvalidInputError
from pennon.metadata import FragmentMetadata

if TYPE_CHECKING:
    from pennon._protocols import Handle
    from pennon.types import FileVersion


class CompactionOptions(TypedDict, total=False):
    """Options of a compaction; see [compact_files][pennon.optimize.DatasetOptimizer.compact_files].

    Examples
    --------
    >>> import pennon
    >>> from pennon.optimize import Compaction, CompactionOptions
    >>> data = {"a": range(6)}
    >>> table = pennon.write_dataset(data, "memory://compaction-options", mode="overwrite", max_rows_per_file=2)
    >>> options = CompactionOptions(target_rows_per_fragment=3)
    >>> Compaction.execute(table, options).fragments_added
    2
    """

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
_COUNTS = (
    "target_rows_per_fragment",
    "max_bytes_per_file",
    "num_threads",
    "max_source_rows",
    "max_source_bytes",
    "max_source_fragments",
)
_NEEDED_BY_PYLANCE = {
    "target_rows_per_fragment": 1024 * 1024,
    "max_rows_per_group": 1024,
    "materialize_deletions": True,
    "materialize_deletions_threshold": 0.1,
    "defer_index_remap": False,
    "enable_binary_copy": False,
    "enable_binary_copy_force": False,
}
# How pylance copies and remaps, which has no counterpart here.
_ONLY_IN_PYLANCE = (
    "enable_binary_copy",
    "enable_binary_copy_force",
    "has_eager_remappable_index",
    "index_remap_mode",
)
_MODES_IN_PYLANCE = {
    "reencode": "Reencode",
    "try_binary_copy": "TryBinaryCopy",
    "force_binary_copy": "ForceBinaryCopy",
}


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

    Examples
    --------
    >>> import pennon
    >>> from pennon.optimize import Compaction
    >>> data = {"a": range(6)}
    >>> table = pennon.write_dataset(data, "memory://compaction-metrics", mode="overwrite", max_rows_per_file=2)
    >>> done = table.optimize.compact_files()
    >>> done.fragments_removed, done.fragments_added, done.after.rows
    (3, 1, 6)
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
    """The result of a task. It can be pickled, and turned into JSON by `json`.

    Examples
    --------
    >>> import pennon
    >>> from pennon.optimize import Compaction
    >>> data = {"a": range(6)}
    >>> table = pennon.write_dataset(data, "memory://compaction-result", mode="overwrite", max_rows_per_file=2)
    >>> (task,) = Compaction.plan(table).tasks
    >>> result = task.execute(table)
    >>> [part.id for part in result.original_fragments], [part.num_rows for part in result.new_fragments]
    ([0, 1, 2], [6])
    """

    read_version: int
    metrics: CompactionMetrics
    original_fragments: list[FragmentMetadata]
    new_fragments: list[FragmentMetadata]

    def json(self) -> str:
        """The result as JSON text, for the process that commits.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-result-json", mode="overwrite", max_rows_per_file=2
        ... )
        >>> import json
        >>> (task,) = Compaction.plan(table).tasks
        >>> json.loads(task.execute(table).json())["metrics"]
        {'fragments_removed': 3, 'fragments_added': 1, 'files_removed': 3, 'files_added': 1}
        """
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
        """The inverse of `json`. Raises `InvalidInputError` for other text.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction, RewriteResult
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-result-from-json", mode="overwrite", max_rows_per_file=2
        ... )
        >>> sent = [task.execute(table).json() for task in Compaction.plan(table).tasks]
        >>> Compaction.commit(table, [RewriteResult.from_json(text) for text in sent]).fragments_added
        1
        """
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

    Examples
    --------
    >>> import pennon
    >>> from pennon.optimize import Compaction
    >>> data = {"a": range(6)}
    >>> table = pennon.write_dataset(data, "memory://compaction-task", mode="overwrite", max_rows_per_file=2)
    >>> (task,) = Compaction.plan(table).tasks
    >>> task
    CompactionTask(read_version=1, fragments=[0, 1, 2])
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
        """The fragments as the version has them; made when they are asked for.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-task-fragments", mode="overwrite", max_rows_per_file=2
        ... )
        >>> (task,) = Compaction.plan(table).tasks
        >>> sum(fragment.num_rows for fragment in task.fragments)
        6
        """
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

        Raises
        ------
        pennon.NotFoundError
            The version was removed since.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-task-execute", mode="overwrite", max_rows_per_file=2
        ... )
        >>> (task,) = Compaction.plan(table).tasks
        >>> result = task.execute(table)
        >>> result.metrics.fragments_added, table.latest_version
        (1, 1)
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
        """The task as JSON text, for a process that executes it.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-task-json", mode="overwrite", max_rows_per_file=2
        ... )
        >>> import json
        >>> (task,) = Compaction.plan(table, {"target_rows_per_fragment": 100}).tasks
        >>> json.loads(task.json())["given_options"]
        {'target_rows_per_fragment': 100}
        """
        return json.dumps({**_task(self), "read_version": self.read_version, **_options_parts(self.options)})

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """The inverse of `json`. Raises `InvalidInputError` for other text.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction, CompactionTask
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-task-from-json", mode="overwrite", max_rows_per_file=2
        ... )
        >>> (task,) = Compaction.plan(table).tasks
        >>> CompactionTask.from_json(task.json()).execute(table).metrics.fragments_removed
        3
        """
        with loading("CompactionTask"):
            parts = _parsed(json)
            fragments = _fragments(parts["task"]["fragments"])
            return CompactionTask(parts["read_version"], fragments, _given_options(parts))


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
        """Number of tasks.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-plan-num-tasks", mode="overwrite", max_rows_per_file=2
        ... )
        >>> Compaction.plan(table).num_tasks(), Compaction.plan(table, {"target_rows_per_fragment": 1}).num_tasks()
        (1, 0)
        """
        return len(self.tasks)

    def json(self) -> str:
        """The plan with all its tasks as JSON text.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-plan-json", mode="overwrite", max_rows_per_file=2
        ... )
        >>> import json
        >>> parts = json.loads(Compaction.plan(table).json())
        >>> parts["read_version"], len(parts["tasks"])
        (1, 1)
        """
        tasks = [_task(task)["task"] for task in self.tasks]
        return json.dumps({"tasks": tasks, "read_version": self.read_version, **_options_parts(self.options)})

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """The inverse of `json`. Raises `InvalidInputError` for other text.

        Examples
        --------
        >>> import pennon
        >>> from pennon.optimize import Compaction, CompactionPlan
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://compaction-plan-from-json", mode="overwrite", max_rows_per_file=2
        ... )
        >>> plan = CompactionPlan.from_json(Compaction.plan(table).json())
        >>> plan.tasks
        [CompactionTask(read_version=1, fragments=[0, 1, 2])]
        """
        with loading("CompactionPlan"):
            parts = _parsed(json)
            version, options = parts["read_version"], _given_options(parts)
            tasks = [CompactionTask(version, _fragments(task["fragments"]), options) for task in parts["tasks"]]
            return CompactionPlan(version, tasks, options)


def known_options(options: Any) -> CompactionOptions:
    for name in options:
        if name not in _KNOWN:
            raise InvalidInputError(f"Invalid compaction option: {name}")
    return cast(CompactionOptions, {name: value for name, value in options.items() if value is not None})


def option_parts(options: CompactionOptions) -> _native.CompactionOptionParts:
    given = known_options(options)
    for name in _COUNTS:
        if name in given:
            checked_number(name, given[name])  # type: ignore[literal-required]
    for name in ("max_source_rows", "max_source_bytes", "max_source_fragments"):
        if given.get(name) == 0:
            raise InvalidInputError(f"{name} must be greater than 0; None means no limit")
    ignored(**{name: given.get(name) for name in _IGNORED})
    parts = {name: given.get(name) for name in _KNOWN if name not in _IGNORED}
    return cast("_native.CompactionOptionParts", parts)


def _options_parts(options: CompactionOptions) -> dict[str, Any]:
    """The options in the JSON of a plan or a task."""
    given = known_options(options)
    for_pylance = {**_NEEDED_BY_PYLANCE, **given}
    if "compaction_mode" in given:
        mode = given["compaction_mode"]
        for_pylance["compaction_mode"] = _MODES_IN_PYLANCE.get(str(mode), mode)
    return {"options": for_pylance, "given_options": given}


def _given_options(parts: dict[str, Any]) -> CompactionOptions:
    """The options of a plan or a task, of which pylance may have written the JSON."""
    if "given_options" in parts:
        return known_options(parts["given_options"])
    skipped = {*_ONLY_IN_PYLANCE, *_IGNORED}
    given = {name: value for name, value in parts["options"].items() if name not in skipped}
    modes = {theirs: ours for ours, theirs in _MODES_IN_PYLANCE.items()}
    if "compaction_mode" in given:
        given["compaction_mode"] = modes.get(given["compaction_mode"], given["compaction_mode"])
    return known_options(given)


def _metrics(old: list[FragmentMetadata], new: list[FragmentMetadata]) -> CompactionMetrics:
    def files(fragments: list[FragmentMetadata]) -> int:
        return sum(len(fragment.files) + (fragment.deletion_file is not None) for fragment in fragments)

    return CompactionMetrics(len(old), len(new), files(old), files(new))


def _task(task: CompactionTask) -> dict[str, Any]:
    return {"task": {"fragments": [fragment.to_json() for fragment in task.fragments]}}


def _fragments(parts: list[dict[str, Any]]) -> list[FragmentMetadata]:
    with loading("FragmentMetadata"):
        return [FragmentMetadata._of_json(one) for one in parts]


def _parsed(text: str) -> Any:
    return json.loads(text)
