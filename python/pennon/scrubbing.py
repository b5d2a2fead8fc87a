"""`scrub`: all files of a table compared with their checksums, slowly and with breaks."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from pennon import _native
from pennon._options import checked_number, located
from pennon._progress import Progress, ProgressLike, Reporter
from pennon._render import Report
from pennon._table.handles import TableAddress, address_of
from pennon._text import counted, in_bytes
from pennon._whole_files import replacing
from pennon.errors import CorruptError, InvalidInputError, StoreError
from pennon.verification import Finding, tabulated

if TYPE_CHECKING:
    from pennon._native import ScrubbedParts

__all__ = ["ScrubReport", "scrub"]

_SAVE_SECONDS = 5.0
"""The state is written at most this often, and at the end."""


@dataclass(frozen=True, repr=False)
class ScrubReport(Report):
    """What a scrub found. `str(report)` is for people.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scrub-report", mode="overwrite")
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> report = pennon.scrub("memory://scrub-report")
    >>> report.files, report.without_checksums, report.findings
    (6, 0, [])
    """

    files: int
    """Number of files that were looked at, now and before in the same pass."""
    size_bytes: int
    """Total size of these files in bytes."""
    resumed: int
    """Number of them that were looked at before, by the state."""
    gone: int
    """Number of files that were removed meanwhile, with the versions that refer to them."""
    without_checksums: int
    """Number of files that have neither checksums nor a seal."""
    findings: list[Finding]
    """The faults that were found, of this pass."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pennon
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
        >>> (file,) = pathlib.Path(table.uri, "data").iterdir()
        >>> _ = file.write_bytes(b"?" + file.read_bytes()[1:])
        >>> pennon.scrub(table.uri).ok
        False
        >>> folder.cleanup()
        """
        return not self.findings

    @classmethod
    def _of(cls, uri: str, entries: Collection[ScrubbedParts], resumed: int) -> ScrubReport:
        found = [entry for entry in entries if entry["size_bytes"] is not None]
        return cls(
            uri,
            files=len(found),
            size_bytes=sum(entry["size_bytes"] or 0 for entry in found),
            resumed=resumed,
            gone=sum(entry["size_bytes"] is None and not entry["findings"] for entry in entries),
            without_checksums=sum(not entry["has_checksums"] for entry in found),
            findings=[Finding._of(parts) for entry in entries for parts in entry["findings"]],
        )

    def __str__(self) -> str:
        result = "nothing is wrong" if self.ok else counted(len(self.findings), "finding")
        lines = [f"{self.uri}: {counted(self.files, 'file')}, {in_bytes(self.size_bytes)}: {result}"]
        lines += tabulated(self.findings, self.uri)
        if self.resumed:
            lines.append(f"note: {counted(self.resumed, 'file')} looked at before")
        if self.gone:
            lines.append(f"note: {counted(self.gone, 'file')} removed meanwhile, with their versions")
        if self.without_checksums:
            lines.append(f"note: {counted(self.without_checksums, 'file')} without checksums; seal adds them")
        return "\n".join(lines)


def scrub(
    uri: TableAddress,
    *,
    bytes_per_second: int | None = None,
    state: str | PathLike[str] | None = None,
    storage_options: dict[str, str] | None = None,
    progress: ProgressLike = None,
) -> ScrubReport:
    """Compare all files of all versions of a table with their checksums, at a bounded rate.

    Files are looked at one after the other. Data files of the newest version without checksums are decoded. What is
    committed meanwhile is not looked at; a file that is removed meanwhile with its version has nothing wrong.

    Parameters
    ----------
    uri
        Where the table is, or a dataset. A branch is scrubbed by its own URI, below `tree/`.
    bytes_per_second
        The most bytes to read in a second, on average; as many as can be had by default.
    state
        A JSON file on a local disk that remembers which files are done, written every few seconds. A scrub that was
        interrupted goes on there when it is called with the same file; after a complete pass the next call begins a
        new one.
    storage_options
        Keys and values for the object store, in addition to those of a dataset.
    progress
        A function that hears of files that were looked at; what it raises ends the scrub. Otherwise as in
        [jobs.run][pennon.jobs.run].

    Raises
    ------
    pennon.NotFoundError
        There is no table.
    pennon.CorruptError
        The newest version cannot be read (`verify` looks at tables that cannot be opened), or the state is no
        state of a scrub.
    pennon.InvalidInputError
        The state is that of another table, or the rate is below 1.
    pennon.StoreError
        A file could not be looked at, or the state not be written.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://scrub", mode="overwrite")
    >>> pennon.scrub("memory://scrub").ok, pennon.scrub(table).files
    (True, 3)
    """
    if bytes_per_second is not None:
        bytes_per_second = checked_number("bytes_per_second", bytes_per_second, 1)
    address, options = address_of(uri, storage_options)
    with located(address), Reporter("scrub", progress) as report:
        files = _native.Scrub(address, options)
        resumed = size_bytes = 0
        with _State.opened(state, files.uri) as kept:
            for at, path in enumerate(files.paths):
                entry = kept.done.get(path)
                if entry is None:
                    entry = files.check(at, bytes_per_second)
                    kept.add(path, entry)
                else:
                    resumed += 1
                size_bytes += entry["size_bytes"] or 0
                report(Progress(tasks=at + 1, of_tasks=len(files.paths), bytes=size_bytes))
            kept.complete = True
        return ScrubReport._of(files.uri, [kept.done[path] for path in files.paths], resumed)


class _State:
    """Which files of a pass are done, in memory and in a file."""

    def __init__(self, path: Path | None, uri: str) -> None:
        self.complete = False
        self.done: dict[str, ScrubbedParts] = {}
        self._path = path
        self._uri = uri
        self._saved = time.monotonic()

    @classmethod
    @contextmanager
    def opened(cls, path: str | PathLike[str] | None, uri: str) -> Iterator[_State]:
        """The state of a file; what it is in the end is written, also after an error."""
        state = cls(None if path is None else Path(path), uri)
        state._load()
        try:
            yield state
        finally:
            state._save()

    def add(self, path: str, entry: ScrubbedParts) -> None:
        self.done[path] = entry
        if time.monotonic() - self._saved >= _SAVE_SECONDS:
            self._save()

    def _load(self) -> None:
        if self._path is None:
            return
        if self._path.exists():
            self._take(self._path)
        # That it can be written is found out before anything is read.
        self._save()

    def _take(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text())
            uri, complete, done = kept["uri"], kept["complete"], dict(kept["done"])
            ScrubReport._of(uri, done.values(), 0)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptError(f"{path} is not the state of a scrub: {error!r}") from error
        if uri != self._uri:
            raise InvalidInputError(f"{path} is the state of a scrub of {uri}, expected {self._uri}")
        if not complete:
            # What had a fault may have been repaired.
            self.done = {name: entry for name, entry in done.items() if not entry["findings"]}

    def _save(self) -> None:
        if self._path is None:
            return
        saved = datetime.now(timezone.utc).isoformat(timespec="seconds")
        kept = {"uri": self._uri, "complete": self.complete, "saved": saved, "done": self.done}
        try:
            with replacing(self._path) as part:
                part.write_text(json.dumps(kept))
        except OSError as error:
            raise StoreError(f"the state of a scrub cannot be written to {self._path}: {error}") from error
        self._saved = time.monotonic()
