"""Maintenance of a table: branches, clones, base paths, compaction and cleanup."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._options import strings
from pennon._reading import ReadableDataset
from pennon.branches import Branches
from pennon.cleanup import CleanupExplanation, CleanupStats, explanation, options
from pennon.optimize import DatasetOptimizer
from pennon.transaction import DatasetBasePath

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.types import Reference, VersionRef


class UpkeepDataset(ReadableDataset):
    """The part of `LanceDataset` that manages versions and files."""

    # Branches and clones.

    @property
    def branches(self) -> Branches:
        """The branches of the table."""
        return Branches(self._native)

    def version_refs(self) -> list[VersionRef]:
        """The numbers of all versions of this branch, oldest first; reads no manifest."""
        return [{"version": version} for version in _native.version_refs(self._native)]

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> LanceDataset:
        """Create a branch and return a dataset on it.

        Commits to the branch are stored below `tree/` in the directory of the table. The branch refers to the files
        of its start version until a rewrite replaces them.

        Parameters
        ----------
        branch
            Letters, digits, `.`, `-`, `_`, and `/` between segments; not `main`.
        reference
            The version to start from, by default this one: a number on this branch, a tag, or a pair of branch and
            version.
        storage_options
            Accepted, without effect: a branch is in the store of its table.

        Raises
        ------
        pennon.InvalidInputError
            The name is not allowed.
        pennon.AlreadyExistsError
            The branch exists.
        pennon.NotFoundError
            There is no such version.
        """
        del storage_options
        return self._like(_native.create_branch(self._native, branch, reference))

    def shallow_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> LanceDataset:
        """Make a table at another location whose first version is a version of this one, with the same files.

        A note under `_refs/clones` of this table keeps its cleanup from removing these files. A read-only table has
        no such note.

        Parameters
        ----------
        target_path
            Where the clone will be.
        reference
            The version: a number on this branch, a tag, or a pair of branch and version.
        storage_options
            Keys and values for the store of the clone; by default those of this table.

        Raises
        ------
        pennon.AlreadyExistsError
            There is a table at `target_path`.
        pennon.NotFoundError
            There is no such version.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://source", mode="overwrite")
        >>> clone = table.shallow_clone("memory://source/clones/one", 1)
        >>> clone.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> clone.count_rows(), table.count_rows()
        (1, 2)
        """
        return self._clone(target_path, reference, storage_options, True, kwargs)

    def deep_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> LanceDataset:
        """Make a table at another location whose first version is a version of this one, with copies of its files.

        Parameters and errors as for `shallow_clone`.
        """
        return self._clone(target_path, reference, storage_options, False, kwargs)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Further roots of the files of this version, by id."""
        return {base["id"]: DatasetBasePath(**base) for base in _native.base_paths(self._native)}

    def add_bases(
        self,
        new_bases: list[DatasetBasePath],
        transaction_properties: dict[str, str] | None = None,
    ) -> LanceDataset:
        """Register further roots that data files may be written to, and move to the new version.

        Parameters
        ----------
        new_bases
            The roots. A relative path is resolved against the current working directory.
        transaction_properties
            Key-value pairs to keep in the transaction.

        Returns
        -------
        LanceDataset
            This dataset.

        Raises
        ------
        pennon.InvalidInputError
            A name or path is registered already, or a path is invalid: it contains `..`, is inside the table,
            or no store can open it.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://based", mode="overwrite")
        >>> base = pennon.DatasetBasePath("memory://archive", name="archive")
        >>> pennon.write_dataset({"a": [2]}, table.add_bases([base]), mode="append", target_bases=["archive"])
        LanceDataset('memory://based', version=3, rows=2)
        """
        _native.add_bases(self._native, new_bases, strings(transaction_properties))
        return self

    def _clone(
        self,
        target: str | os.PathLike[str],
        reference: Reference,
        storage_options: dict[str, str] | None,
        shallow: bool,
        more: dict[str, Any],
    ) -> LanceDataset:
        from pennon.dataset import LanceDataset

        options = strings(storage_options) if storage_options is not None else self._native.storage_options
        native = _native.clone_table(self._native, os.fspath(target), reference, options, shallow)
        if more:
            return LanceDataset(native.uri, storage_options=options, **more)
        return LanceDataset._wrap(native)

    def _like(self, native: _native.Dataset) -> LanceDataset:
        from pennon.dataset import LanceDataset

        defaults = self._default_scan_options
        return LanceDataset._wrap(native, default_scan_options=defaults)

    # Compaction and cleanup.

    @property
    def optimize(self) -> DatasetOptimizer:
        """Maintenance that keeps the table small and fast, such as `optimize.compact_files()`."""
        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions, and the files that only they refer to.

        A version is removed if it meets every condition given. The version of this object, later versions, tagged
        versions and start versions of branches are kept, and so is every file that a version of this table, of a
        branch or of a clone made by Pennon refers to. Manifests are removed before files: an interrupted cleanup
        leaves orphans, and never a version without its files.

        Parameters
        ----------
        older_than
            Only versions older than this; 14 days if no condition is given.
        retain_versions
            Keep this number of newest versions.
        delete_unverified
            Also remove young files that no version refers to. By default they are removed once they are seven days
            old, because a younger one may belong to a write in flight.
        error_if_tagged_old_versions
            Whether a tagged version that meets the conditions is an error; it is kept in any case.
        delete_rate_limit
            The most files deleted per second.
        versions
            Only these versions.
        delete_concurrency
            The most delete requests in flight.

        Raises
        ------
        pennon.InvalidInputError
            A limit is 0, or a tagged version meets the conditions.
        pennon.CorruptError
            A version cannot be read, so the files it refers to are unknown. Nothing was removed.

        Examples
        --------
        >>> import pennon
        >>> from datetime import timedelta
        >>> table = pennon.write_dataset({"a": [1]}, "memory://cleanup", mode="overwrite")
        >>> table.insert({"a": [2]}, mode="overwrite")
        >>> table.cleanup_old_versions(timedelta(0)).old_versions
        1
        """
        given = options(
            older_than,
            retain_versions,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
            versions,
            delete_concurrency,
        )
        return CleanupStats(**_native.cleanup(self._native, given))

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """Report what `cleanup_old_versions` would remove, and for every file why it is removed or kept.

        Further parameters and errors as for `cleanup_old_versions`.

        Parameters
        ----------
        include_files
            Whether `candidate_files` is filled.
        max_files
            The most files in `candidate_files`. The table `files` has all of them in any case.

        Examples
        --------
        >>> import pennon
        >>> from datetime import timedelta
        >>> table = pennon.write_dataset({"a": [1]}, "memory://explain", mode="overwrite")
        >>> table.truncate_table()
        >>> found = table.explain_cleanup_old_versions(timedelta(0)).files
        >>> [row["reason"] for row in found.to_pylist() if row["kind"] == "manifest"]
        ['current_version', 'old_version']
        """
        given = options(
            older_than,
            retain_versions,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
            versions,
        )
        return explanation(_native.explain_cleanup(self._native, given), include_files, max_files)
