"""`repair`: what can be had of damaged files."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from pennon import _native
from pennon._options import located, location
from pennon._progress import ProgressLike, Reporter
from pennon._render import Report
from pennon._table.handles import TableAddress, address_of
from pennon._text import counted
from pennon.verification import Finding, tabulated

if TYPE_CHECKING:
    from pennon._native._repair import ActionParts

__all__ = ["RepairAction", "RepairReport", "repair"]


@dataclass(frozen=True)
class RepairAction:
    """Something that repairs a table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
    >>> next(pathlib.Path(table.uri, "_transactions").iterdir()).unlink()
    >>> [(action.kind, action.version) for action in pennon.repair(table.uri).actions]
    [('rebuild_file', 1)]
    >>> folder.cleanup()
    """

    kind: str
    """`copy_file`, `rebuild_file`, `rebuild_index`, `quarantine_fragment` or `restore_rows`."""
    path: str | None
    """The file that it replaces."""
    version: int | None
    """The version of that file, or that rows come from."""
    fragment: int | None
    """The id of the fragment whose rows it restores or leaves out."""
    message: str
    """What it does."""
    row_ids: tuple[tuple[int, int], ...]
    """The ids of the rows that are restored or lost: first and last of each run, the last not included. Row
    addresses in a table without stable row ids, and where the ids are lost."""

    @classmethod
    def _of(cls, parts: ActionParts) -> RepairAction:
        return cls(**{**parts, "row_ids": tuple(parts["row_ids"])})  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class RepairReport(Report):
    """What is wrong with a table, and what was or can be done. `str(report)` is for people.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
    >>> next(pathlib.Path(table.uri, "data").iterdir()).unlink()
    >>> report = pennon.repair(table.uri)
    >>> report.applied, report.findings[0].kind, report.actions[0].kind
    (False, 'missing_file', 'quarantine_fragment')
    >>> folder.cleanup()
    """

    applied: bool
    """Whether the actions were carried out."""
    findings: list[Finding]
    """What was wrong before."""
    actions: list[RepairAction]
    """What repairs it, in order."""
    remaining: list[Finding]
    """What nothing repairs; after a repair what is wrong still, older versions included."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, or nothing is wrong any more.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pennon
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
        >>> next(pathlib.Path(table.uri, "_transactions").iterdir()).unlink()
        >>> pennon.repair(table.uri).ok, pennon.repair(table.uri, apply=True).ok
        (False, True)
        >>> folder.cleanup()
        """
        return not (self.remaining if self.applied else self.findings)

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.uri}: nothing is wrong"
        done = "done" if self.applied else "can be done"
        lines = [f"{self.uri}: {counted(len(self.findings), 'finding')}"]
        lines += [f"{done}: {action.message}" for action in self.actions]
        return "\n".join([*lines, *tabulated(self.remaining, self.uri, "not repaired")])


def repair(
    uri: TableAddress,
    *,
    copy: str | PathLike[str] | None = None,
    apply: bool = False,
    storage_options: dict[str, str] | None = None,
    progress: ProgressLike = None,
) -> RepairReport:
    """Repair a damaged table as far as that can be done.

    The table is verified with its data. Then, for what is damaged or missing:

    - any file: the same file of a copy of the table, if that is as it was written;
    - a manifest: made again from the version before and the transaction whose file it names;
    - a transaction file: the copy in the manifest;
    - a deletion file: another version of which as many rows of the fragment are deleted, or the predicate of the
      delete that wrote it, or the rows that an update moved: as many as the manifest says;
    - files of an index of the newest version: the index is built again;
    - a data file of the newest version: of a table with stable row ids the rows in damaged pages, all rows if the
      file cannot be opened, are restored under their ids as far as an older version has them as they were.

    Rows that are lost are left out of a new version, whose transaction names their ids in the property
    `pennon.quarantined`: those in damaged pages are deleted, and of a file that cannot be opened the fragment is
    removed. If it is not known which rows of a fragment were deleted, the fragment is removed and nothing restored.

    Nothing is removed from disk: files that are replaced are kept below `_damaged/<uuid>` in the table's directory,
    and files of rows that are left out stay until a cleanup removes the versions that refer to them.

    Parameters
    ----------
    uri
        Where the table is, or a dataset.
    copy
        A table with the same files: a copy of the directory. A shallow clone has no files of its own.
    apply
        Whether to do it. By default the table is only looked at.
    storage_options
        Keys and values for the object store of both, in addition to those of a dataset.
    progress
        A function that hears of fragments and rows that were verified. Otherwise as in [jobs.run][pennon.jobs.run].

    Raises
    ------
    pennon.NotFoundError
        There is no table, or no copy.
    pennon.CorruptError
        None of its versions can be read.
    pennon.InvalidInputError
        A fragment was changed by another writer meanwhile; call it again.
    pennon.StoreError
        Something could not be read or written, such as on a full disk. What was repaired stays so; call it again.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://repair", mode="overwrite")
    >>> print(pennon.repair("memory://repair"))
    memory://repair: nothing is wrong
    >>> pennon.repair(table).ok
    True
    """
    of = None if copy is None else location(copy, "copy")
    address, options = address_of(uri, storage_options)
    with located(address), Reporter("repair", progress) as report:
        parts = _native.repair_table(address, options, of, apply, report.counts)
        return RepairReport(
            parts["uri"],
            apply,
            [Finding._of(finding) for finding in parts["findings"]],
            [RepairAction._of(action) for action in parts["actions"]],
            [Finding._of(finding) for finding in parts["remaining"]],
        )
