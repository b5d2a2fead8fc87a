"""`verify`: what is wrong with a table, and which of its files no version needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon import _native
from pennon._options import located
from pennon._progress import ProgressLike, Reporter
from pennon._render import Report
from pennon._table.handles import TableAddress, address_of, handle_of
from pennon._text import aligned, counted, in_bytes
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon._native._verify import FindingParts, ReportParts

__all__ = ["DamagedPage", "Finding", "Leftover", "VerifyReport", "verify"]


def _bounds(pair: Sequence[int] | None) -> tuple[int, int] | None:
    return None if pair is None else (pair[0], pair[1])


@dataclass(frozen=True)
class DamagedPage:
    """A page of a column that has bytes which are not as they were written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
    >>> (file,) = pathlib.Path(table.uri, "data").iterdir()
    >>> _ = file.write_bytes(b"?" + file.read_bytes()[1:])
    >>> pennon.verify(table.uri, data=True).findings[0].pages
    (DamagedPage(column='a', page=0, rows=(0, 3)),)
    >>> folder.cleanup()
    """

    column: str
    """The name of the column, with those of the structs around it."""
    page: int
    """The number of the page in its column, from 0."""
    rows: tuple[int, int] | None
    """First and last offset, the last not included, of its rows in the fragment; None if the file does not tell."""


@dataclass(frozen=True)
class Finding:
    """A fault of a table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
    >>> next(pathlib.Path(table.uri, "data").iterdir()).unlink()
    >>> (finding,) = pennon.verify(table.uri).findings
    >>> finding.kind, finding.version, finding.fragment, finding.message
    ('missing_file', 1, None, 'the file is not there')
    >>> folder.cleanup()
    """

    kind: str
    """`torn_manifest`, `damaged_manifest`, `mixed_naming`, `missing_file`, `wrong_size`, `damaged_file`,
    `wrong_data_file`, `wrong_type`, `wrong_columns`, `wrong_deletions`, `fragment_ids`, `schema`, `flags`,
    `lineage`, `duplicate_row_id`, `row_id_counter`, `index`, `damaged_transaction`, `dangling_tag` or
    `damaged_reference`."""
    version: int | None
    """The version with the fault; the newest, if several have it."""
    fragment: int | None
    """The id of the fragment, if the fault is in one."""
    path: str | None
    """The file, if the fault is in one."""
    message: str
    """What was found and what was expected."""
    bytes: tuple[int, int] | None = None
    """First and last position, the last not included, of bytes of the file that were changed, if that is known."""
    pages: tuple[DamagedPage, ...] = ()
    """The pages of a data file that have some of these bytes."""

    @classmethod
    def _of(cls, parts: FindingParts) -> Finding:
        """That of the core; from JSON, which has lists for tuples, as well."""
        pages = tuple(DamagedPage(page["column"], page["page"], _bounds(page["rows"])) for page in parts["pages"])
        return cls(**{**parts, "bytes": _bounds(parts["bytes"]), "pages": pages})  # type: ignore[arg-type]


def tabulated(findings: Sequence[Finding], uri: str, head: str = "finding") -> list[str]:
    """The lines of a table of findings, after an empty one; none if nothing is wrong."""
    rows = [(head, "version", "fragment", "what")]
    for found in findings:
        file = "" if found.path is None else f"{found.path.removeprefix(f'{uri}/')}: "
        version, fragment = ("" if number is None else str(number) for number in (found.version, found.fragment))
        rows.append((found.kind, version, fragment, file + found.message))
    return ["", *aligned(rows, right=(1, 2))] if findings else []


@dataclass(frozen=True)
class Leftover:
    """Files that no version needs, counted. They do no harm and are not a finding.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
    >>> _ = pathlib.Path(table.uri, "data", "notes.txt").write_text("not a data file")
    >>> pennon.verify(table.uri).leftovers
    [Leftover(kind='other', reason='foreign', files=1, size_bytes=15)]
    >>> folder.cleanup()
    """

    kind: str
    """`data`, `deletion`, `index`, `transaction`, `manifest`, `temporary` or `other`."""
    reason: str
    """`unverified`: less than seven days old, so a write may be in flight; `orphan`: older; `staged`: a commit
    through a manifest store that was not completed; `foreign`: not a name that a writer of the format generates."""
    files: int
    """Number of files."""
    size_bytes: int
    """Total size of the files in bytes."""


@dataclass(frozen=True, repr=False)
class VerifyReport(Report):
    """The result of a verification. `str(report)` is a table for people.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://verify-report", mode="overwrite")
    >>> pennon.verify("memory://verify-report").ok
    True
    """

    version: int
    """The version that was checked down to its rows."""
    versions: int
    """Number of versions that were read."""
    fragments: int
    """Number of fragments of the version that was checked."""
    files: int
    """Number of files that were looked for."""
    findings: list[Finding]
    """The faults that were found."""
    leftovers: list[Leftover]
    """Files that no version needs, by kind and reason."""
    without_checksums: int
    """With `data`, number of files that have neither checksums nor a seal."""
    notes: list[str]
    """Remarks, one per line."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. Files that no version needs do no harm.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pennon
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
        >>> _ = pathlib.Path(table.uri, "data", "notes.txt").write_text("not a data file")
        >>> pennon.verify(table.uri).ok
        True
        >>> folder.cleanup()
        """
        return not self.findings

    @classmethod
    def _of(cls, parts: ReportParts) -> VerifyReport:
        findings = [Finding._of(finding) for finding in parts["findings"]]
        leftovers = [Leftover(**leftover) for leftover in parts["leftovers"]]
        return cls(**{**parts, "findings": findings, "leftovers": leftovers})  # type: ignore[arg-type]

    def __str__(self) -> str:
        result = "nothing is wrong" if self.ok else counted(len(self.findings), "finding")
        checked = ", ".join(
            (
                f"version {self.version}",
                counted(self.fragments, "fragment"),
                counted(self.files, "file"),
                f"{counted(self.versions, 'version')} read",
            )
        )
        lines = [f"{self.uri}: {checked}: {result}"]
        lines += tabulated(self.findings, self.uri)
        if self.leftovers:
            rows = [("not needed", "why", "files", "bytes")]
            rows += [
                (left.kind, left.reason, f"{left.files:,}", in_bytes(left.size_bytes)) for left in self.leftovers
            ]
            lines += ["", *aligned(rows, right=(2, 3))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def verify(
    uri: TableAddress,
    version: int | None = None,
    *,
    storage_options: dict[str, str] | None = None,
    data: bool = False,
    progress: ProgressLike = None,
) -> VerifyReport:
    """Look for damage in a table, which may be too damaged to open.

    One version is checked down to its rows: data files open and have the rows, columns and versions that the
    manifest records, deletion files have its number of rows, every row has its own id, the feature flags fit. Of
    all others the manifests are read, and the files they refer to must exist with the recorded size. Files in the
    folders of the table that no version needs are counted, by reason.

    Parameters
    ----------
    uri
        Where the table is, or a dataset, of which its version is checked down to its rows. A branch is verified by
        its own URI, below `tree/`: the report has a note if there are any.
    version
        The version to check down to its rows, by default the newest that can be read.
    storage_options
        Keys and values for the object store, in addition to those of a dataset.
    data
        Whether to compare the files of all versions with their checksums, to check fragments of all versions as
        those of that one, to decode their data, and to check that the bytes of its blobs exist: the whole table is
        read. Bytes that were changed, and pages that do not decode, are `damaged_file` findings that name columns
        and pages; a column of another type than its field has is a `wrong_type` finding. Of files without
        checksums, which other writers make, bytes that decode are considered sound.
    progress
        A function that hears of fragments and rows that were looked at; what it raises ends the verification.
        Otherwise as in [jobs.run][pennon.jobs.run].

    Raises
    ------
    pennon.NotFoundError
        There is no table, or no such version.
    pennon.CorruptError
        None of its versions can be read.
    pennon.UnsupportedError
        The table uses a feature that this release cannot read.
    pennon.InvalidInputError
        A version was given for a dataset, which has one.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://verify", mode="overwrite")
    >>> print(pennon.verify("memory://verify"))
    memory://verify: version 1, 1 fragment, 2 files, 1 version read: nothing is wrong
    >>> pennon.verify(table).ok
    True
    """
    address, options = address_of(uri, storage_options)
    handle = handle_of(uri)
    if handle is not None:
        if version is not None:
            raise InvalidInputError("A version was given for a dataset, which has one: check it out, or give a URI")
        version = handle.version
    with located(address, version), Reporter("verify", progress) as report:
        return VerifyReport._of(_native.verify_table(address, version, options, data, report.counts))
