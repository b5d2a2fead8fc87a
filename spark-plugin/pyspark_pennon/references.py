"""Methods of `LanceTable` for names and copies of versions: tags, branches and clones."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark_pennon.handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self

_TAGS = "tag string, version long, branch string, createdAt timestamp"
_BRANCHES = "branch string, location string, parentBranch string, parentVersion long, createdAt timestamp"


class ReferenceMethods(TableHandle):
    """The methods of `LanceTable` for tags, branches and clones."""

    def tags(self) -> DataFrame:
        """The tags: `tag`, `version`, `branch` (null for the main one) and `createdAt`, by version."""
        found = self._open().tags.list_ordered("asc")
        rows = [(name, tag["version"], tag["branch"], tag["created_at"]) for name, tag in found]
        return self._frame(rows, _TAGS)

    def createTag(self, name: str, version: int | None = None) -> None:  # noqa: N802 - as Delta spells names
        """Name a version, by default the newest. A tagged version is kept by `vacuum`.

        Raises
        ------
        pennon.AlreadyExistsError
            The tag exists; see `updateTag`.
        pennon.NotFoundError
            There is no such version.

        Examples
        --------
        >>> table.createTag("gold")
        >>> table.toDF(tag="gold").count()
        336776
        """
        self._open().tags.create(name, version)

    def updateTag(self, name: str, version: int | None = None) -> None:  # noqa: N802
        """Point a tag at another version, by default the newest. Raises `NotFoundError` if either is missing."""
        self._open().tags.update(name, version)

    def deleteTag(self, name: str) -> None:  # noqa: N802
        """Remove a tag. Raises `NotFoundError` if there is none."""
        self._open().tags.delete(name)

    def branches(self) -> DataFrame:
        """The branches, without the main one.

        Returns
        -------
        DataFrame
            `branch`, `location`, by which it is read and written like any table, `parentBranch` (null for the main
            one), `parentVersion`, the version it was made from, and `createdAt`.
        """
        table = self._open()
        rows = []
        for name, branch in table.branches.list_ordered("asc"):
            made = datetime.fromtimestamp(branch["create_at"], timezone.utc)
            location = table.checkout_version((name, None)).uri
            rows.append((name, location, branch["parent_branch"], branch["parent_version"], made))
        return self._frame(rows, _BRANCHES)

    def createBranch(self, name: str, version: int | str | None = None) -> Self:  # noqa: N802
        """Create a branch from a version, by number or tag, by default the newest.

        Returns
        -------
        LanceTable
            The branch: a table of its own, with a URI of its own, that shares the files it started with.

        Raises
        ------
        pennon.AlreadyExistsError
            The branch exists.
        pennon.NotFoundError
            There is no such version.

        Examples
        --------
        >>> dev = table.createBranch("dev")
        >>> frame.write.format("pennon").mode("append").save(dev.uri)
        """
        made = self._open().create_branch(name, version)
        return type(self)(self._spark, made.uri, self._storage_options)

    def deleteBranch(self, name: str) -> None:  # noqa: N802
        """Remove a branch with its versions and files.

        Raises
        ------
        pennon.NotFoundError
            There is no such branch.
        pennon.AlreadyExistsError
            Tags or other branches refer to it.
        """
        self._open().branches.delete(name)

    def clone(
        self,
        target: str,
        isShallow: bool = True,  # noqa: N803
        *,
        version: int | str | None = None,
    ) -> Self:
        """Make a table elsewhere whose first version is a version of this one.

        Parameters
        ----------
        target
            Where the clone will be.
        isShallow
            Refer to the files of this table instead of copying them; `vacuum` of this table keeps them. A deep
            clone copies on the driver.
        version
            A number or a tag; the newest by default.

        Returns
        -------
        LanceTable
            The clone.

        Raises
        ------
        pennon.AlreadyExistsError
            There is a table at `target`.
        pennon.NotFoundError
            There is no such version.
        """
        table = self._open()
        make = table.shallow_clone if isShallow else table.deep_clone
        made = make(target, table.version if version is None else version)
        return type(self)(self._spark, made.uri, self._storage_options)
