"""Tags: names of versions."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

from pennon._options import checked_reference, checked_text
from pennon._render import Grid, panel
from pennon._table.named import Named
from pennon._table.references import naming_branch
from pennon._time import utc
from pennon.errors import PennonError

if TYPE_CHECKING:
    from pennon import _native
    from pennon.types import Order, Reference

__all__ = ["Tag", "Tags"]


class Tag(TypedDict):
    """A tag: the version it names, and its metadata. Times are in UTC.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tag", mode="overwrite")
    >>> table.tags.create("gold")
    >>> tag = table.tags.list()["gold"]
    >>> tag["version"], tag["branch"], tag["metadata"], tag["created_at"].tzname()
    (1, None, {}, 'UTC')
    """

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


class Tags(Named):
    """The tags of a table; see [LanceDataset.tags][pennon.LanceDataset.tags].

    Iterates over their names.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://tags", mode="overwrite")
    >>> table.tags.create("gold", table.version)
    >>> table.tags
    Tags('memory://tags', ['gold'])
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> pennon.dataset("memory://tags", version="gold").count_rows()
    2
    >>> table.tags.delete("gold")
    """

    def __init__(self, dataset: _native.Dataset) -> None:
        self._native: _native.Tags = dataset.tags
        self._table = dataset
        self._uri = dataset.uri

    def _repr_html_(self) -> str:
        try:
            found = self.list_ordered()
        except PennonError as error:
            return panel(f"Tags of {self._uri}", {"unreadable": error})
        rows = ((name, parts["version"], parts["branch"] or "main", parts["created_at"]) for name, parts in found)
        grid = Grid(("tag", "version", "branch", "created"), rows, len(found))
        return panel(f"Tags of {self._uri}", {"tags": len(found)}, grid)

    def list(self) -> dict[str, Tag]:
        """All tags by name.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-list", mode="overwrite")
        >>> table.tags.create("gold", 1)
        >>> table.tags.list()["gold"]["version"]
        1
        """
        return {name: _tag(parts) for name, parts in self._native.list().items()}

    def list_ordered(self, order: Order | None = None) -> builtins.list[tuple[str, Tag]]:
        """All tags ordered by version.

        Parameters
        ----------
        order
            `"desc"` (default) or `"asc"`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-ordered", mode="overwrite")
        >>> table.tags.create("b", 1)
        >>> table.tags.create("a", 1)
        >>> [name for name, _ in table.tags.list_ordered("asc")]
        ['a', 'b']
        """
        return [
            (name, _tag(parts)) for name, parts in self._native.list_ordered("desc" if order is None else order)
        ]

    def get_version(self, tag: str) -> int:
        """The version that a tag names.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-get", mode="overwrite")
        >>> table.tags.create("gold", 1)
        >>> table.tags.get_version("gold")
        1
        """
        return self._native.get_version(checked_text("tag", tag))

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Create a tag of a version, by default of the version of the dataset.

        Raises
        ------
        pennon.AlreadyExistsError
            The tag exists.
        pennon.NotFoundError
            There is no such version, or a cleanup removed it meanwhile.
        pennon.CommitConflictError
            A cleanup is removing the version, and does not end; try again later.
        pennon.InvalidInputError
            The name is empty or has characters other than ASCII letters, digits, `.`, `-` and `_`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-create", mode="overwrite")
        >>> table.tags.create("gold")
        >>> pennon.dataset("memory://tags-create", version="gold").version
        1
        """
        name, version = checked_text("tag", tag), checked_reference("reference", reference)
        with naming_branch(self._table, version):
            self._native.create(name, version)

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Point a tag at another version.

        Raises
        ------
        pennon.NotFoundError
            There is no such tag or version, or a cleanup removed the version meanwhile.
        pennon.CommitConflictError
            A cleanup is removing the version, and does not end; try again later.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-update", mode="overwrite")
        >>> table.tags.create("gold")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.tags.update("gold", 2)
        >>> table.tags.get_version("gold")
        2
        """
        name, version = checked_text("tag", tag), checked_reference("reference", reference)
        with naming_branch(self._table, version):
            self._native.update(name, version)

    def delete(self, tag: str) -> None:
        """Remove a tag.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-delete", mode="overwrite")
        >>> table.tags.create("gold")
        >>> table.tags.delete("gold")
        >>> table.tags.list()
        {}
        """
        self._native.delete(checked_text("tag", tag))

    def replace_metadata(self, tag: str, metadata: dict[str, str]) -> None:
        """Replace the metadata of a tag.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://tags-metadata", mode="overwrite")
        >>> table.tags.create("gold", 1)
        >>> table.tags.replace_metadata("gold", {"by": "ada"})
        >>> table.tags.list()["gold"]["metadata"]
        {'by': 'ada'}
        """
        self._native.replace_metadata(tag, metadata)


def _tag(parts: _native.TagParts) -> Tag:
    created, updated = parts["created_at"], parts["updated_at"]
    return {
        "branch": parts["branch"],
        "version": parts["version"],
        "created_at": None if created is None else utc(created),
        "updated_at": None if updated is None else utc(updated),
        "manifest_size": parts["manifest_size"],
        "metadata": parts["metadata"],
    }
