"""`optimizeIndices`: rows taken into indices by Spark's tasks.

| step | where |
|---|---|
| which fragments an index does not cover, and what further segments of it are built with | driver |
| segments over some of these fragments each | tasks |
| where the wheel keeps an index in one segment, that of all segments | a task for each index |
| one commit for all indices | driver |

The segments that an index has stay, and get neighbours. They are merged if they may name rows that are in other
fragments now: readers that mask segments together would find these rows by their old values.

The wheel on the driver does the rest: few rows, which it takes into the newest segment, so that small appends leave
no small segments behind; scalar quantization, whose bounds cannot be given to a task; all indices while a deferred
compaction says where their rows are; files that are not as this release writes them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark_pennon import tables
from pyspark_pennon.indices import models as index_models
from pyspark_pennon.indices.tasks import BuildSegment, MergeSegments
from pyspark_pennon.spark_api import parallelism
from pyspark_pennon.tasks.executor import run_tasks
from pyspark_pennon.tasks.orphans import committing
from pyspark_pennon.tasks.retries import commit_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from pyspark_pennon.options.source import ReadOptions

_LEAST_ROWS = 1 << 17
"""A task for fewer rows costs more than it gains, and leaves a small segment."""

_REUSE = "__lance_frag_reuse"
"""The entry that says where a deferred compaction moved rows."""

_BY_ADDRESS = ("BTree", "ZoneMap", "BloomFilter")
"""Kinds that name rows by their addresses also where these have stable ids."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Plan:
    """What becomes of one index.

    Attributes
    ----------
    merged
        Entries that become one with the new segments; the new ones stay apart if there are none.
    removed
        Entries that are replaced.
    """

    name: str
    column: str
    kind: Any
    groups: list[list[int]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    merged: list[Any] = field(default_factory=list)
    removed: list[Any] = field(default_factory=list)


def optimize(
    spark: SparkSession, read: ReadOptions, names: list[str] | None, *, retrain: bool, progress: bool | None
) -> None:
    """One attempt on the newest version: see `LanceTable.optimizeIndices`."""
    table = tables.open_table(read)
    pinned = replace(read, version=int(table.version))
    indices = {index.name: index for index in table.describe_indices()}
    if not {*indices}.issuperset(names or ()):
        # The wheel says which one there is not.
        table.optimize.optimize_indices(index_names=names)
    chosen = sorted(indices) if names is None else sorted({*names})
    rows = {part.fragment_id: int(part.count_rows()) for part in table.get_fragments()}
    plans, others = [], []
    for name in chosen:
        plan = None
        if _REUSE not in indices:
            plan = _planned(table, pinned, indices[name], rows, parallelism(spark), retrain=retrain)
        if plan is None:
            others.append(name)
        else:
            plans.append(plan)
    if plans:
        new, removed, refused = _built(spark, pinned, plans, progress)
        others += refused
        if new:
            with committing(new):
                commit_entries(table, new, removed, str(uuid4()))
            table.checkout_latest()
    table.optimize.optimize_indices(index_names=others, retrain=retrain)


def _planned(
    table: Any, read: ReadOptions, index: Any, rows: Mapping[int, int], tasks: int, *, retrain: bool
) -> _Plan | None:
    """What tasks do for an index; None if they do nothing."""
    from pennon import CorruptError, NotFoundError, UnsupportedError

    covered = {fragment for segment in index.segments for fragment in segment.fragment_ids}
    wanted = {*rows} if retrain else {*rows} - covered
    tasks = min(tasks, sum(rows[fragment] for fragment in wanted) // _LEAST_ROWS)
    groups = tables.fragment_groups(table, tasks, among=wanted) if tasks > 1 else []
    # Files of a clone or a branch may be those of another table.
    if len(groups) < 2 or len(index.field_names) != 1 or any(part.base_id is not None for part in index.segments):
        return None
    try:
        return _with_parameters(table, index, groups, retrain=retrain)
    except (CorruptError, NotFoundError, UnsupportedError) as error:
        _log.info("The index %s of %s is taken care of on the driver: %s", index.name, read.uri, error)
        return None


def _with_parameters(table: Any, index: Any, groups: list[list[int]], *, retrain: bool) -> _Plan | None:
    config = table.index_config(index.name)
    entries = table.index_entries(index.name)
    live = [segment for segment in index.segments if segment.fragment_ids]
    kind: Any = config.index_type
    parameters: Mapping[str, Any] | None = {}
    if kind in index_models.VALUE_KINDS:
        kind = config
    elif not live:
        return None
    elif retrain:
        parameters = index_models.retrained(table, index.field_names[0], config)
    else:
        parameters = index_models.model(config)
    if parameters is None:
        return None
    plan = _Plan(index.name, index.field_names[0], kind, groups, parameters)
    if retrain:
        return replace(plan, removed=entries)
    newest = max((max(entry.fragment_ids or (-1,)) for entry in entries), default=-1)
    has_ids = table.has_stable_row_ids and index.index_type not in _BY_ADDRESS
    added = {number for group in groups for number in group}
    if has_ids or min(added) <= newest or _were_there(table, entries, added):
        covering = {segment.uuid for segment in live}
        return replace(plan, removed=entries, merged=[entry for entry in entries if entry.uuid in covering])
    return plan


def _were_there(table: Any, entries: list[Any], fragments: set[int]) -> bool:
    """Whether one of some fragments was there in a version that an entry was made for, which may name its rows:
    values that were replaced in place since then are not covered any more.
    """
    versions = {entry.dataset_version or table.version for entry in entries}
    return any(not fragments.isdisjoint(_known(table, version, fragments)) for version in versions)


def _known(table: Any, version: int, fragments: set[int]) -> Any:
    """The fragments of a version. Of a version that is gone those with several data files, as most have in which
    values were replaced in place.
    """
    from pennon import NotFoundError

    try:
        return table.checkout_version(version).fragment_ids()
    except NotFoundError:
        return [number for number in fragments if len(table.get_fragment(number).metadata.files) > 1]


def _built(
    spark: SparkSession, read: ReadOptions, plans: list[_Plan], progress: bool | None
) -> tuple[list[Any], list[Any], list[str]]:
    """The new entries, those that they replace, and the names of indices that could not be merged."""
    tasks = [
        BuildSegment(read, plan.column, plan.kind, plan.name, fragments, plan.parameters)
        for plan in plans
        for fragments in plan.groups
    ]
    what = f"{len(plans)} indices of {read.uri}" if len(plans) > 1 else f"index {plans[0].name} of {read.uri}"
    built = iter(run_tasks(spark, tasks, what, progress=progress))
    parts = {plan.name: [next(built) for _ in plan.groups] for plan in plans}
    merging = [plan for plan in plans if plan.merged]
    merges = [MergeSegments(read, [*plan.merged, *parts[plan.name]]) for plan in merging]
    refused = []
    results = run_tasks(spark, merges, f"merge segments of {what}", progress=progress)
    for plan, merged in zip(merging, results, strict=True):
        parts[plan.name] = [merged]
        if merged is None:
            refused.append(plan.name)
    done = [plan for plan in plans if plan.name not in refused]
    return (
        [segment for plan in done for segment in parts[plan.name]],
        [entry for plan in done for entry in plan.removed],
        refused,
    )
