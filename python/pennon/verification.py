"""`verify`: what is wrong with a table, and which of its files nobody needs."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING

from pennon import _native
from pennon._options import strings
from pennon._text import aligned, in_bytes

if TYPE_CHECKING:
    from pennon._verify import ReportParts

__all__ = ["Finding", "Leftover", "VerifyReport", "verify"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a table."""

    kind: str
    """`torn_manifest`, `damaged_manifest`, `mixed_naming`, `missing_file`, `wrong_size`, `damaged_file`,
    `wrong_data_file`, `wrong_columns`, `wrong_deletions`, `fragment_ids`, `schema`, `flags`, `lineage`,
    `duplicate_row_id`, `row_id_counter`, `index`, `damaged_transaction` or `dangling_tag`."""
    version: int | None
    """The version it is wrong in; of several the newest."""
    fragment: int | None
    """The id of the fragment."""
    path: str | None
    """The file it is about."""
    message: str
    """What was found and what was expected."""


@dataclass(frozen=True)
class Leftover:
    """Files that no version needs, counted. They do no harm and are no finding."""

    kind: str
    """`data`, `deletion`, `index`, `transaction`, `manifest`, `temporary` or `other`."""
    reason: str
    """`unverified`: less than seven days old, so a write may be under way; `orphan`: older; `staged`: a commit
    through a manifest store that was not completed; `foreign`: not a name that a writer of the format makes up."""
    files: int
    """Their number."""
    size_bytes: int
    """Their size together."""


@dataclass(frozen=True)
class VerifyReport:
    """What a verification found; as text a table for people."""

    uri: str
    """Address of the table."""
    version: int
    """The version that was checked down to its rows."""
    versions: int
    """Versions that were read."""
    fragments: int
    """Fragments of the version that was checked."""
    files: int
    """Files that were looked for."""
    findings: list[Finding]
    """What is wrong."""
    leftovers: list[Leftover]
    """What no version needs."""
    notes: list[str]
    """What is worth knowing besides."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @classmethod
    def _of(cls, parts: ReportParts) -> VerifyReport:
        findings = [Finding(**finding) for finding in parts["findings"]]
        leftovers = [Leftover(**leftover) for leftover in parts["leftovers"]]
        return cls(**{**parts, "findings": findings, "leftovers": leftovers})  # type: ignore[arg-type]

    def __str__(self) -> str:
        result = "nothing is wrong" if self.ok else f"{len(self.findings)} finding(s)"
        looked_at = f"version {self.version} of {self.versions}, {self.fragments:,} fragments, {self.files:,} files"
        lines = [f"{self.uri}: {looked_at}: {result}"]
        if self.findings:
            rows = [("finding", "version", "fragment", "what")]
            for found in self.findings:
                place = "" if found.path is None else f"{found.path.removeprefix(self.uri + '/')}: "
                fragment = "" if found.fragment is None else str(found.fragment)
                version = "" if found.version is None else str(found.version)
                rows.append((found.kind, version, fragment, place + found.message))
            lines += ["", *aligned(rows, right=(1, 2))]
        if self.leftovers:
            rows = [("not needed", "why", "files", "bytes")]
            rows += [
                (left.kind, left.reason, f"{left.files:,}", in_bytes(left.size_bytes)) for left in self.leftovers
            ]
            lines += ["", *aligned(rows, right=(2, 3))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def verify(
    uri: str | PathLike[str],
    version: int | None = None,
    *,
    storage_options: dict[str, str] | None = None,
    data: bool = False,
) -> VerifyReport:
    """Look for damage in a table, which may be too damaged to open.

    One version is checked down to its rows: data files open and have the rows, columns and versions that the
    manifest says, deletion files hold what it counts, every row has an id of its own, the feature flags fit. Of
    all others the manifests are read, and the files they refer to have to be there with the size they state. What
    lies in the folders of the table and is needed by no version is counted by its cause.

    Parameters
    ----------
    uri
        Where the table is. Branches are tables of their own, below `tree/`.
    version
        The version to check down to its rows, by default the newest that can be read.
    storage_options
        Keys and values for the object store.
    data
        Whether to decode that version's data as well, and look for the bytes of its blobs: the whole table is read.
        A damaged page is a `damaged_file` that says which column and page; bytes that decode count as sound.

    Raises
    ------
    pennon.NotFoundError
        There is no table, or no such version.
    pennon.CorruptError
        None of its versions can be read.
    pennon.UnsupportedError
        Something of it cannot be read by this release.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://verify", mode="overwrite")
    >>> print(pennon.verify("memory://verify"))
    memory://verify: version 1 of 1, 1 fragments, 2 files: nothing is wrong
    """
    return VerifyReport._of(_native.verify_table(fspath(uri), version, strings(storage_options), data))
