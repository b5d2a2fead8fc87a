"""Versions of a dataset: tags, branches, clones."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._methods.base import DatasetT, TableMethods
from pennon._options import (
    checked_reference,
    checked_text,
    ignored,
    located,
    location,
    required_reference,
    strings,
)
from pennon._table.references import naming_branch
from pennon._time import local
from pennon.branches import Branches
from pennon.errors import InvalidTypeError
from pennon.tags import Tags
from pennon.types import CommitStatus, Versions

if TYPE_CHECKING:
    from pennon.types import Reference, Version, VersionRef


class VersionMethods(TableMethods):
    """The methods of `LanceDataset` for its versions."""

    @property
    def tags(self) -> Tags:
        """The tags of the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-of", mode="overwrite")
        >>> table.tags.create("gold", 1)
        >>> table.checkout_version("gold").version
        1
        """
        return Tags(self._native)

    def versions(self) -> list[Version]:
        """All versions, oldest first; timestamps are naive and local.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://versions", mode="overwrite")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> [one["version"] for one in table.versions()]
        [1, 2]
        """
        return Versions(_version(entry) for entry in self._native.versions())

    def get_version(self) -> Version:
        """This version as `versions` shows it.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://get-version", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> found = table.get_version()
        >>> found["version"], found["timestamp"].year > 2000
        (2, True)
        """
        return _version(self._native.version_info())

    def checkout_version(self: DatasetT, version: Reference) -> DatasetT:
        """Another version, as a new object.

        Raises
        ------
        pennon.NotFoundError
            There is no such version, tag or branch.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://checkout", mode="overwrite")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.checkout_version(1).count_rows(), table.count_rows()
        (3, 2)
        """
        version = required_reference("version", version)
        with located(self._native.uri, version), naming_branch(self._native, version):
            return self._like(self._native.checkout(version))

    def checkout_latest(self) -> None:
        """Move to the newest version.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://checkout-latest", mode="overwrite")
        >>> other = pennon.dataset("memory://checkout-latest")
        >>> other.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.checkout_latest()
        >>> table
        LanceDataset('memory://checkout-latest', version=2, rows=2)
        """
        self._native.checkout_latest()

    def restore(self) -> None:
        """Commit this version again as the newest one.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://restore", mode="overwrite")
        >>> table.truncate_table()
        >>> table = table.checkout_version(1)
        >>> table.restore()
        >>> table
        LanceDataset('memory://restore', version=3, rows=2)
        """
        self._native.restore()

    def commit_status(self, uuid: str) -> CommitStatus:
        """Whether a transaction was committed to this branch, according to its current versions.

        Call it after a [CommitUnknownError][pennon.CommitUnknownError], or to check a commit of another process.

        Parameters
        ----------
        uuid
            The transaction, such as `error.uuid`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://commit-status", mode="overwrite")
        >>> table.commit_status(table.read_transaction(1).uuid)
        CommitStatus(committed=True, version=1)
        >>> table.commit_status("8d2f0b7a-0000-4000-8000-000000000000").committed
        False
        """
        version, known = self._native.commit_status(uuid)
        return CommitStatus(committed=(version is not None) if known else None, version=version)

    # Branches and clones.

    @property
    def branches(self) -> Branches:
        """The branches of the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://branches-of", mode="overwrite")
        >>> _ = table.create_branch("trial")
        >>> list(table.branches.list())
        ['trial']
        """
        return Branches(self._native)

    def version_refs(self) -> list[VersionRef]:
        """The numbers of all versions of this branch, oldest first; reads no manifest.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://version-refs", mode="overwrite")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.version_refs()
        [{'version': 1}, {'version': 2}]
        """
        return [{"version": version} for version in _native.version_refs(self._native)]

    def create_branch(
        self: DatasetT,
        branch: str,
        reference: Reference | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> DatasetT:
        """Create a branch and return a dataset on it.

        Commits to the branch are stored below `tree/` in the directory of the table. The branch refers to the files
        of its start version until a rewrite replaces them.

        Parameters
        ----------
        branch
            ASCII letters, digits, `.`, `-`, `_`, and `/` between segments; not `main`.
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

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://create-branch", mode="overwrite")
        >>> trial = table.create_branch("trial")
        >>> trial.delete("a > 1")
        {'num_deleted_rows': 2}
        >>> trial.count_rows(), table.count_rows()
        (1, 3)
        """
        ignored(storage_options=storage_options)
        name, version = checked_text("branch", branch), checked_reference("reference", reference)
        with naming_branch(self._native, version):
            return self._like(_native.create_branch(self._native, name, version))

    def shallow_clone(
        self: DatasetT,
        target_path: str | os.PathLike[str],
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> DatasetT:
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
        kwargs
            Refused: there are no further options.

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
        return _clone(self, target_path, reference, storage_options, True, kwargs)

    def deep_clone(
        self: DatasetT,
        target_path: str | os.PathLike[str],
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> DatasetT:
        """Make a table at another location whose first version is a version of this one, with copies of its files.

        Parameters and errors as for `shallow_clone`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://deep-clone", mode="overwrite")
        >>> table.deep_clone("memory://deep-copy", 1).count_rows()
        3
        """
        return _clone(self, target_path, reference, storage_options, False, kwargs)


def _clone(
    table: DatasetT,
    target: str | os.PathLike[str],
    reference: Reference,
    storage_options: dict[str, str] | None,
    shallow: bool,
    more: dict[str, Any],
) -> DatasetT:
    try:
        inspect.signature(type(table)).bind(target, storage_options=None, **more)
    except TypeError as error:  # before there is a clone
        raise InvalidTypeError(f"The options of a clone are those of a dataset: {error}") from error
    options = strings(storage_options) if storage_options is not None else table._native.storage_options
    version = required_reference("reference", reference)
    with naming_branch(table._native, version):
        native = _native.clone_table(table._native, location(target, "target_path"), version, options, shallow)
    if more:
        return type(table)(native.uri, storage_options=options, **more)
    return table._wrap(native)


def _version(entry: _native.VersionEntry) -> Version:
    return {
        "version": entry["version"],
        "timestamp": local(entry["timestamp"]),
        "metadata": entry["metadata"],
    }
