"""Methods of `LanceTable` for names and copies of versions: tags, branches and clones."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark_pennon.handle import TableHandle
from pyspark_pennon.options.source import checked_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self

_TAGS = "tag string, version long, branch string, createdAt timestamp_ltz"
_BRANCHES = "branch string, location string, parentBranch string, parentVersion long, createdAt timestamp_ltz"


class ReferenceMethods(TableHandle):
    """The methods of `LanceTable` for tags, branches and clones."""

    def tags(self) -> DataFrame:
        """The names of versions.

        Returns
        -------
        DataFrame
            A row for each tag, by version: `tag`, `version`, `branch`, whose version it is (null for the main one),
            and `createdAt`.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createTag("audited")
        >>> table.tags().select("tag", "version", "branch").collect()
        [Row(tag='audited', version=1, branch=None)]
        """
        found = self._target.open().tags.list_ordered("asc")
        rows = [(name, tag["version"], tag["branch"], tag["created_at"]) for name, tag in found]
        return self._frame(rows, _TAGS)

    def createTag(self, name: str, version: int | str | None = None) -> None:  # noqa: N802 - as Delta spells names
        """Name a version, by number or another tag, by default the newest. A tagged version is kept by `vacuum`.

        Raises
        ------
        pennon.AlreadyExistsError
            The tag exists; see `updateTag`.
        pennon.NotFoundError
            There is no such version.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createTag("gold")
        >>> deleted = table.delete("id = 1")
        >>> table.toDF(tag="gold").count(), table.count()
        (3, 2)
        """
        self._target.open().tags.create(name, checked_version(version))

    def updateTag(self, name: str, version: int | str | None = None) -> None:  # noqa: N802
        """Point a tag at another version, by number or tag, by default the newest.

        Raises
        ------
        pennon.NotFoundError
            There is no such tag or version.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createTag("gold")
        >>> deleted = table.delete("id = 1")
        >>> table.updateTag("gold")
        >>> table.toDF(tag="gold").count()
        2
        """
        self._target.open().tags.update(name, checked_version(version))

    def deleteTag(self, name: str) -> None:  # noqa: N802
        """Remove a tag; a vacuum may then remove its version.

        Raises
        ------
        pennon.NotFoundError
            There is no such tag.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createTag("gold")
        >>> table.deleteTag("gold")
        >>> table.tags().count()
        0
        """
        self._target.open().tags.delete(name)

    def branches(self) -> DataFrame:
        """The branches, without the main one.

        Returns
        -------
        DataFrame
            `branch`, `location`, by which it is read and written like any table, `parentBranch` (null for the main
            one), `parentVersion`, the version it was made from, and `createdAt`.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> dev = table.createBranch("dev")
        >>> branch = table.branches().first()
        >>> branch.branch, branch.parentBranch, branch.parentVersion, branch.location == dev.uri
        ('dev', None, 1, True)
        """
        table = self._target.open()
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
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> dev = table.createBranch("dev")
        >>> done = write(spark.range(3, 5), dev.uri, mode="append")
        >>> dev.count(), table.count()
        (5, 3)
        """
        made = self._target.open().create_branch(name, checked_version(version))
        return type(self)(self._target.spark, made.uri, self._target.storage_options)

    def deleteBranch(self, name: str) -> None:  # noqa: N802
        """Remove a branch with its versions and files.

        Raises
        ------
        pennon.NotFoundError
            There is no such branch.
        pennon.AlreadyExistsError
            Tags or other branches refer to it.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> dev = table.createBranch("dev")
        >>> table.deleteBranch("dev")
        >>> LanceTable.isLanceTable(spark, dev.uri)
        False
        """
        self._target.open().branches.delete(name)

    def clone(
        self,
        target: str,
        isShallow: bool = True,  # noqa: N803
        *,
        version: int | str | None = None,
    ) -> Self:
        """Make a table elsewhere whose first version is a version of this one.

        The rows that it starts with are in no change feed of the clone.

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

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> trial = table.clone(f"{folder}/trial.lance")
        >>> deleted = trial.delete("id = 1")
        >>> trial.count(), table.count()
        (2, 3)
        """
        chosen = checked_version(version)
        table = self._target.open()
        make = table.shallow_clone if isShallow else table.deep_clone
        made = make(target, table.version if chosen is None else chosen)
        return type(self)(self._target.spark, made.uri, self._target.storage_options)
