"""Branches: lines of versions that start at a version of the table."""

from __future__ import annotations

import builtins
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypedDict

from pennon import _native
from pennon._render import Grid, panel
from pennon._table.named import Named
from pennon.errors import PennonError

if TYPE_CHECKING:
    from pennon.types import Order

__all__ = ["Branch", "Branches"]


class Branch(TypedDict):
    """A branch: the version it was made from, and its metadata.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://branch", mode="overwrite")
    >>> _ = table.create_branch("dev")
    >>> branch = table.branches.list()["dev"]
    >>> branch["parent_branch"] is None, branch["parent_version"], branch["metadata"]
    (True, 1, {})
    """

    parent_branch: str | None
    """Branch it was made from; `None` for main."""
    branch_identifier: list[tuple[int, str]]
    """For each step from main, the version it was made from and a random text."""
    parent_version: int
    """Version it was made from."""
    create_at: int
    """When it was created, in seconds since 1970."""
    manifest_size: int
    """Bytes of the manifest it was made from."""
    metadata: dict[str, str]
    """Free text by key."""


class Branches(Named):
    """The branches of a table; see [LanceDataset.branches][pennon.LanceDataset.branches].

    Iterates over their names.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://branches", mode="overwrite")
    >>> dev = table.create_branch("dev")
    >>> dev.insert({"a": [3]})
    >>> dev.count_rows(), table.count_rows()
    (3, 2)
    >>> table.checkout_version(("dev", 1)).count_rows()
    2
    >>> "dev" in table.branches, len(table.branches)
    (True, 1)
    >>> table.branches.delete("dev")
    """

    def __init__(self, dataset: _native.Dataset) -> None:
        self._native: _native.Branches = _native.Branches(dataset)
        self._uri = dataset.uri

    def _repr_html_(self) -> str:
        try:
            found = self.list_ordered()
        except PennonError as error:
            return panel(f"Branches of {self._uri}", {"unreadable": error})
        rows = (
            (name, parts["parent_branch"] or "main", parts["parent_version"], _created(parts))
            for name, parts in found
        )
        grid = Grid(("branch", "made from", "version", "created"), rows, len(found))
        return panel(f"Branches of {self._uri}", {"branches": len(found)}, grid)

    def list(self) -> dict[str, Branch]:
        """All branches by name, without main.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://branches-list", mode="overwrite")
        >>> _ = table.create_branch("trial")
        >>> table.branches.list()["trial"]["parent_version"]
        1
        """
        return {name: _branch(parts) for name, parts in self._native.list().items()}

    def list_ordered(self, order: Order | None = None) -> builtins.list[tuple[str, Branch]]:
        """All branches ordered by the version they were made from.

        Parameters
        ----------
        order
            `"desc"` (default) or `"asc"`.

        Raises
        ------
        pennon.InvalidInputError
            `order` has another value.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://branches-ordered", mode="overwrite")
        >>> _ = table.create_branch("old")
        >>> table.insert({"a": [3]})
        >>> _ = table.create_branch("new")
        >>> [(name, branch["parent_version"]) for name, branch in table.branches.list_ordered()]
        [('new', 2), ('old', 1)]
        """
        return [
            (name, _branch(parts)) for name, parts in self._native.list_ordered("desc" if order is None else order)
        ]

    def delete(self, branch: str) -> None:
        """Remove a branch with its versions and files.

        Raises
        ------
        pennon.NotFoundError
            There is no such branch.
        pennon.AlreadyExistsError
            Tags, other branches or shallow clones refer to it. A clone counts that was made by Pennon, and is there
            or cannot be reached; the error names its record.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://branches-delete", mode="overwrite")
        >>> _ = table.create_branch("trial")
        >>> table.branches.delete("trial")
        >>> table.branches.list()
        {}
        """
        self._native.delete(branch)

    def replace_metadata(self, branch: str, metadata: dict[str, str]) -> None:
        """Replace the metadata of a branch.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://branches-metadata", mode="overwrite")
        >>> _ = table.create_branch("trial")
        >>> table.branches.replace_metadata("trial", {"by": "ada"})
        >>> table.branches.list()["trial"]["metadata"]
        {'by': 'ada'}
        """
        self._native.replace_metadata(branch, metadata)


def _branch(parts: _native.BranchParts) -> Branch:
    return {
        "parent_branch": parts["parent_branch"],
        "branch_identifier": parts["branch_identifier"],
        "parent_version": parts["parent_version"],
        "create_at": parts["create_at"],
        "manifest_size": parts["manifest_size"],
        "metadata": parts["metadata"],
    }


def _created(branch: Branch) -> datetime:
    return datetime.fromtimestamp(branch["create_at"], timezone.utc)
