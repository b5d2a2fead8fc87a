"""`seal`: checksums for files whose writers left none in them."""

from __future__ import annotations

from dataclasses import dataclass

from pennon import _native
from pennon._options import located
from pennon._progress import ProgressLike, Reporter
from pennon._render import Report
from pennon._table.handles import TableAddress, address_of
from pennon._text import counted, in_bytes
from pennon.verification import Finding, tabulated

__all__ = ["SealReport", "seal"]


@dataclass(frozen=True, repr=False)
class SealReport(Report):
    """What became of the files of all versions of a table. `str(report)` is for people.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://seal-report", mode="overwrite")
    >>> report = pennon.seal("memory://seal-report")
    >>> report.sealed, report.with_checksums, report.findings
    (0, 3, [])
    """

    sealed: int
    """Number of files that were sealed."""
    size_bytes: int
    """Total size of these files in bytes."""
    sealed_before: int
    """Number of files that had a seal before."""
    with_checksums: int
    """Number of files that have checksums in them."""
    elsewhere: int
    """Number of files below other base paths, which are those of another table and were left as they are."""
    findings: list[Finding]
    """The faults of the table; files that they name were not sealed."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pennon
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
        >>> next(pathlib.Path(table.uri, "data").iterdir()).unlink()
        >>> report = pennon.seal(table.uri)
        >>> report.ok, report.findings[0].kind
        (False, 'missing_file')
        >>> folder.cleanup()
        """
        return not self.findings

    def __str__(self) -> str:
        files = counted(self.sealed, "file")
        parts = [f"{files} sealed ({in_bytes(self.size_bytes)})", f"{self.sealed_before} sealed before"]
        parts.append(f"{self.with_checksums} with checksums")
        if self.elsewhere:
            parts.append(f"{self.elsewhere} below other base paths")
        lines = [f"{self.uri}: {', '.join(parts)}"]
        return "\n".join([*lines, *tabulated(self.findings, self.uri, "not sealed")])


def seal(
    uri: TableAddress,
    *,
    storage_options: dict[str, str] | None = None,
    progress: ProgressLike = None,
) -> SealReport:
    """Seal the files of a table that have no checksums, such as those that `pylance` wrote.

    The seal of a file has the checksums of all its bytes, and lies below `_seals`, where `pylance` does not look.
    No file of the table is written again, and no version is made. `verify` with `data=True` compares files with
    their seals, and so do reads with the storage option `verify_reads="pages"`. A cleanup by Pennon removes seals
    with their files; a cleanup by `pylance` leaves them for a later one by Pennon.

    The table is verified first, with its data. A seal says what the bytes of a file were when it was sealed.

    Parameters
    ----------
    uri
        Where the table is, or a dataset. A branch is sealed by its own URI, below `tree/`.
    storage_options
        Keys and values for the object store, in addition to those of a dataset.
    progress
        A function that hears of files that were sealed; what it raises ends the call, and seals that were written
        stay. Otherwise as in [jobs.run][pennon.jobs.run].

    Raises
    ------
    pennon.NotFoundError
        There is no table.
    pennon.StoreError
        A file could not be read, or a seal not be written.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://seal", mode="overwrite")
    >>> print(pennon.seal("memory://seal"))
    memory://seal: 0 files sealed (0 B), 0 sealed before, 3 with checksums
    >>> pennon.seal(table).with_checksums
    3
    """
    address, options = address_of(uri, storage_options)
    with located(address), Reporter("seal", progress) as report:
        parts = _native.seal_table(address, options, report.counts)
        return SealReport(
            address,
            sealed=parts["sealed"],
            size_bytes=parts["size_bytes"],
            sealed_before=parts["sealed_before"],
            with_checksums=parts["with_checksums"],
            elsewhere=parts["elsewhere"],
            findings=[Finding._of(finding) for finding in parts["findings"]],
        )
