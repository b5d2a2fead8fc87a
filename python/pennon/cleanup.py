"""Cleanup of old versions: what was removed, and what would be removed and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon._options import checked_duration, checked_number, checked_numbers
from pennon._render import MOST_ROWS, Grid, listed, panel
from pennon.errors import InvalidInputError
from pennon.types import AutoCleanupConfig

if TYPE_CHECKING:
    from pennon import _native

__all__ = [
    "AutoCleanupConfig",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
]


def auto_cleanup_config(options: AutoCleanupConfig) -> dict[str, str]:
    """The table config of an automatic cleanup.

    Raises
    ------
    pennon.InvalidInputError
        An option is not known, or is not a whole number, 0 or more.
    """
    known = sorted(AutoCleanupConfig.__annotations__)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidInputError(f"Options of automatic cleanup: unknown {unknown}, expected {known}")
    defaults = {"interval": 20, "older_than_seconds": 14 * 24 * 3600}
    given = {name: value for name, value in options.items() if value is not None}
    interval, seconds = (checked_number(name, given.get(name, default)) for name, default in defaults.items())
    return {"lance.auto_cleanup.interval": str(interval), "lance.auto_cleanup.older_than": f"{seconds}s"}


@dataclass(frozen=True)
class CleanupStats:
    """What a cleanup removed, or would remove.

    Examples
    --------
    >>> import pennon
    >>> from datetime import timedelta
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://cleanup-stats", mode="overwrite")
    >>> table.truncate_table()
    >>> stats = table.cleanup_old_versions(timedelta(0))
    >>> stats.old_versions, stats.bytes_removed > 0
    (1, True)
    """

    bytes_removed: int
    """Bytes of all removed files, manifests included."""
    old_versions: int
    """Number of versions removed."""
    data_files_removed: int
    """Number of data files removed."""
    transaction_files_removed: int
    """Number of transaction files removed."""
    index_files_removed: int
    """Number of files of indices removed."""
    deletion_files_removed: int
    """Number of deletion files removed."""
    failed_deletes: int
    """Number of files that could not be removed, although no version refers to them."""

    def _repr_html_(self) -> str:
        return panel("CleanupStats", asdict(self))


@dataclass(frozen=True)
class CleanupCandidateFile:
    """A file that would be removed.

    Examples
    --------
    >>> import pennon
    >>> from datetime import timedelta
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://cleanup-candidate", mode="overwrite")
    >>> table.truncate_table()
    >>> plan = table.explain_cleanup_old_versions(timedelta(0), include_files=True)
    >>> sorted((file.kind, file.unverified) for file in plan.candidate_files)
    [('data', False), ('manifest', False), ('transaction', False)]
    """

    path: str
    """Path relative to the root of the table."""
    kind: str
    """`manifest`, `data`, `deletion`, `index`, `transaction` or `temporary`."""
    unverified: bool
    """Whether no version refers to the file, including versions that would be removed."""
    size_bytes: int
    """Size of the file in bytes."""


@dataclass(frozen=True)
class CleanupReferencedBranch:
    """A branch that was made from a version of this one.

    Examples
    --------
    >>> import pennon
    >>> from datetime import timedelta
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://cleanup-branch", mode="overwrite")
    >>> _ = table.create_branch("dev")
    >>> table.insert({"a": [4]})
    >>> table.explain_cleanup_old_versions(timedelta(0)).referenced_branches
    [CleanupReferencedBranch(name='dev', referenced_version=1, cleanup_candidate=False)]
    """

    name: str
    """Name of the branch."""
    referenced_version: int
    """The version it was made from, which is kept."""
    cleanup_candidate: bool = False
    """Always false: a branch is not cleaned up."""


@dataclass(frozen=True)
class CleanupExplanation:
    """What a cleanup would do.

    Examples
    --------
    >>> import pennon
    >>> from datetime import timedelta
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://cleanup-explanation", mode="overwrite")
    >>> table.truncate_table()
    >>> plan = table.explain_cleanup_old_versions(timedelta(0))
    >>> plan.read_version, plan.stats.old_versions, plan.stats.data_files_removed
    (2, 1, 1)
    >>> [(file["kind"], file["reason"]) for file in plan.files.to_pylist() if file["removed"]]
    [('transaction', 'old_file'), ('manifest', 'old_version'), ('data', 'old_file')]
    """

    read_version: int
    """Version of the dataset."""
    stats: CleanupStats
    """What would be removed, in numbers."""
    candidate_files: list[CleanupCandidateFile]
    """The files that would be removed, if `include_files` was true."""
    candidate_files_truncated: bool
    """Whether `candidate_files` is incomplete, because of `max_files`."""
    candidate_file_limit: int
    """The value of `max_files`."""
    referenced_branches: list[CleanupReferencedBranch]
    """Branches that were made from versions of this one."""
    warnings: list[str]
    """Remarks, one per line."""
    files: pa.Table
    """Every file in the table's folders: `path`, `kind`, `size_bytes`, `last_modified`, `removed`, `reason`, and
    `by`: the version, branch, clone or tag that the reason is about."""

    def __repr__(self) -> str:
        candidates = listed(self.candidate_files, len(self.candidate_files))
        files = f"{self.files.num_rows} files"
        return (
            f"CleanupExplanation(read_version={self.read_version}, stats={self.stats}, "
            f"candidate_files={candidates}, files=<{files}>)"
        )

    def _repr_html_(self) -> str:
        shown = ("path", "kind", "size_bytes", "removed", "reason", "by")
        rows = (tuple(row[name] for name in shown) for row in self.files.slice(0, MOST_ROWS).to_pylist())
        facts = {"read version": self.read_version, **asdict(self.stats)}
        grid = Grid(shown, rows, self.files.num_rows)
        return panel("CleanupExplanation", facts, grid, notes=self.warnings)


def options(
    older_than: timedelta | None,
    retain_versions: int | None,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: int | None,
    versions: list[int] | None,
    delete_concurrency: int | None = None,
) -> _native.CleanupRequest:
    """The options in the form of the core: 14 days if no condition is given."""
    limits = {
        "retain_versions": retain_versions,
        "delete_rate_limit": delete_rate_limit,
        "delete_concurrency": delete_concurrency,
    }
    for name, limit in limits.items():
        if limit is not None:
            checked_number(name, limit)
    if older_than is None and retain_versions is None and versions is None:
        older_than = timedelta(days=14)
    return {
        "older_than": None if older_than is None else checked_duration("older_than", older_than),
        "retain_versions": retain_versions,
        "versions": None if versions is None else checked_numbers("versions", versions),
        "delete_unverified": delete_unverified,
        "error_if_tagged_old_versions": error_if_tagged_old_versions,
        "delete_rate_limit": delete_rate_limit,
        "delete_concurrency": delete_concurrency,
    }


def explanation(parts: _native.CleanupExplanationParts, include_files: bool, max_files: int) -> CleanupExplanation:
    """The explanation, from that of the core."""
    files = parts["files"]
    candidates = [file for file in files if file["removed"]]
    shown = candidates[:max_files] if include_files else []
    times = [seconds * 1_000_000 + nanos // 1000 for seconds, nanos in (file["last_modified"] for file in files)]
    columns = {
        "path": pa.array([file["path"] for file in files], pa.utf8()),
        "kind": pa.array([file["kind"] for file in files], pa.utf8()),
        "size_bytes": pa.array([file["size_bytes"] for file in files], pa.uint64()),
        "last_modified": pa.array(times, pa.timestamp("us", "UTC")),
        "removed": pa.array([file["removed"] for file in files], pa.bool_()),
        "reason": pa.array([file["reason"] for file in files], pa.utf8()),
        "by": pa.array([file["by"] or None for file in files], pa.utf8()),
    }
    return CleanupExplanation(
        read_version=parts["read_version"],
        stats=CleanupStats(**parts["stats"]),
        candidate_files=[
            CleanupCandidateFile(f["path"], f["kind"], f["reason"] == "orphan", f["size_bytes"]) for f in shown
        ],
        candidate_files_truncated=include_files and len(shown) < len(candidates),
        candidate_file_limit=max_files,
        referenced_branches=[CleanupReferencedBranch(name, version) for name, version in parts["branches"]],
        warnings=parts["warnings"],
        files=pa.table(columns),
    )
