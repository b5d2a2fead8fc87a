"""Single data files, without a table.

Examples
--------
>>> import pyarrow as pa
>>> from pennon.file import LanceFileReader, LanceFileWriter
>>> with LanceFileWriter("memory://files/a.lance") as writer:
...     writer.write_batch(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
>>> reader = LanceFileReader("memory://files/a.lance", columns=["b"])
>>> reader.read_range(1, 2).to_table().to_pylist()
[{'b': 'y'}, {'b': 'z'}]
>>> reader.metadata().columns[0].pages[0].encoding
'mini-block: flat 64'
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pennon._address import local_path
from pennon._compatibility import ExplainsAbsence, explain_absent_names
from pennon._file_reader import (
    ColumnStatistics,
    LanceBufferDescriptor,
    LanceColumnMetadata,
    LanceFileMetadata,
    LanceFileReader,
    LanceFileStatistics,
    LancePageMetadata,
    ReaderResults,
)
from pennon._file_writer import LanceFileWriter, stable_version
from pennon._options import checked_number, ignored, location, refuse, strings
from pennon.errors import InvalidInputError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.types import FileVersion

__all__ = [
    "ColumnStatistics",
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ListResult",
    "ReaderResults",
    "stable_version",
]

explain_absent_names(__name__)
# In `LanceFileSession` a method has the name.
_Names: TypeAlias = list[str]


@dataclass
class ListResult:
    """What is directly in a folder; paths are relative to the base path of the session.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileSession
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = LanceFileSession(folder)
    ...     with session.open_writer("data/a.lance") as writer:
    ...         writer.write_batch(pa.table({"a": [1, 2]}))
    ...     found = session.list_with_delimiter()
    ...     found.common_prefixes, found.objects
    (['data'], [])
    """

    common_prefixes: list[str]
    """Folders."""
    objects: list[str]
    """Files."""


class LanceFileSession(ExplainsAbsence):
    """Data files and others below one base path.

    Readers and writers take every URI that there is a store for; the other methods need a local base path.

    Parameters
    ----------
    base_path
        A folder or URI. Paths of the methods are relative to it.
    storage_options
        Keys and values for the object store.
    namespace_client, table_id
        Not supported.

    Examples
    --------
    >>> import pyarrow as pa
    >>> session = LanceFileSession("memory://session")
    >>> with session.open_writer("a.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2]}))
    >>> session.open_reader("a.lance").num_rows()
    2
    """

    def __init__(
        self,
        base_path: str | PathLike[str],
        storage_options: dict[str, str] | None = None,
        namespace_client: Any | None = None,
        table_id: _Names | None = None,
    ) -> None:
        refuse(namespace_client=namespace_client, table_id=table_id)
        self._base = location(base_path, "base_path")
        folder = local_path(self._base)
        # Below a relative folder, `~` and `file:` at the beginning of a name would lead out of it.
        self._folder = None if folder is None else folder.absolute()
        self._options = strings(storage_options)

    def __repr__(self) -> str:
        return f"LanceFileSession({self._base!r})"

    def open_reader(self, path: str, columns: _Names | None = None) -> LanceFileReader:
        """A reader of a data file; see [LanceFileReader][pennon.file.LanceFileReader].

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> session = LanceFileSession("memory://session-reader")
        >>> with session.open_writer("a.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2], "b": ["x", "y"]}))
        >>> session.open_reader("a.lance", columns=["b"]).read_all().to_table().to_pydict()
        {'b': ['x', 'y']}
        """
        return LanceFileReader(self._below(path), self._options, columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: FileVersion | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """A writer of a data file; see [LanceFileWriter][pennon.file.LanceFileWriter].

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> session = LanceFileSession("memory://session-writer")
        >>> with session.open_writer("old/a.lance", version="2.1") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2]}))
        >>> session.open_reader("old/a.lance").metadata().version
        '2.1'
        """
        ignored(data_cache_bytes=data_cache_bytes, keep_original_array=keep_original_array)
        return LanceFileWriter(
            self._below(path),
            schema,
            version=version,
            storage_options=self._options,
            max_page_bytes=max_page_bytes,
        )

    def contains(self, path: str) -> bool:
        """Whether there is a file of this path; not whether there is such a folder.

        Examples
        --------
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = LanceFileSession(folder)
        ...     with session.open_writer("data/a.lance") as writer:
        ...         writer.write_batch(pa.table({"a": [1, 2]}))
        ...     session.contains("data/a.lance"), session.contains("data")
        (True, False)
        """
        return self._local(path).is_file()

    def list(self, path: str | None = None) -> _Names:
        """All files below a folder, those of its folders too; none if there is no such folder.

        Examples
        --------
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = LanceFileSession(folder)
        ...     with session.open_writer("data/a.lance") as writer:
        ...         writer.write_batch(pa.table({"a": [1, 2]}))
        ...     session.list(), session.list("missing")
        (['data/a.lance'], [])
        """
        found = [Path(folder) / file for folder, _, files in os.walk(self._local(path)) for file in files]
        return sorted(map(self._relative, found))

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """The folders and files in a folder; none if there is no such folder.

        Examples
        --------
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = LanceFileSession(folder)
        ...     with session.open_writer("data/a.lance") as writer:
        ...         writer.write_batch(pa.table({"a": [1, 2]}))
        ...     session.list_with_delimiter()
        ...     session.list_with_delimiter("data").objects
        ListResult(common_prefixes=['data'], objects=[])
        ['data/a.lance']
        """
        folder = self._local(path)
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        folders = [self._relative(entry) for entry in found if entry.is_dir()]
        return ListResult(folders, [self._relative(entry) for entry in found if entry.is_file()])

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file.

        Parameters
        ----------
        path
            The file.
        offset, length
            The first byte, and the number of bytes.

        Raises
        ------
        pennon.NotFoundError
            There is no such file.
        pennon.InvalidInputError
            The file ends before the range does, or a number is negative.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = LanceFileSession(folder)
        ...     with session.open_writer("data/a.lance") as writer:
        ...         writer.write_batch(pa.table({"a": [1, 2]}))
        ...     size = len(pathlib.Path(folder, "data/a.lance").read_bytes())
        ...     session.read_range("data/a.lance", size - 4, 4)
        b'LANC'
        """
        file = self._existing(path)
        offset, length = checked_number("offset", offset), checked_number("length", length)
        if offset + length > (size := file.stat().st_size):
            raise InvalidInputError(f"{path} has {size} bytes; {length} from {offset} on are wanted")
        with file.open("rb") as opened:
            opened.seek(offset)
            return opened.read(length)

    def delete_file(self, path: str) -> None:
        """Remove a file. Raises `NotFoundError` if there is no such file.

        Examples
        --------
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = LanceFileSession(folder)
        ...     with session.open_writer("data/a.lance") as writer:
        ...         writer.write_batch(pa.table({"a": [1, 2]}))
        ...     session.delete_file("data/a.lance")
        ...     session.list()
        []
        """
        self._existing(path).unlink()

    def upload_file(self, local_path: str | PathLike[str], remote_path: str) -> None:
        """Copy a local file to the base path. Raises `NotFoundError` if there is no such file.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     notes = pathlib.Path(folder, "notes.txt")
        ...     _ = notes.write_text("raw")
        ...     session = LanceFileSession(pathlib.Path(folder, "base"))
        ...     session.upload_file(notes, "docs/notes.txt")
        ...     session.list()
        ['docs/notes.txt']
        """
        if not Path(local_path).is_file():
            raise NotFoundError(f"There is no file {fspath(local_path)}")
        target = self._local(remote_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local_path, target)

    def download_file(self, remote_path: str, local_path: str | PathLike[str]) -> None:
        """Copy a file to the local file system. Raises `NotFoundError` if there is no such file.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileSession
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = LanceFileSession(folder)
        ...     with session.open_writer("data/a.lance") as writer:
        ...         writer.write_batch(pa.table({"a": [1, 2]}))
        ...     session.download_file("data/a.lance", pathlib.Path(folder, "copy.lance"))
        ...     session.open_reader("copy.lance").num_rows()
        2
        """
        shutil.copyfile(self._existing(remote_path), local_path)

    def _parts(self, path: str | None) -> _Names:
        parts = [part for part in location(path or "", "path").split("/") if part]
        if ".." in parts:
            raise InvalidInputError(f"The path {path!r} leads out of the base path")
        return parts

    def _below(self, path: str | None) -> str:
        if self._folder is None:
            return "/".join([self._base.rstrip("/"), *self._parts(path)])
        # A path, also below a URI: what reads and what lists must not differ on `%` or `?` in the name of a file.
        return fspath(self._local(path))

    def _local(self, path: str | None) -> Path:
        if self._folder is None:
            raise UnsupportedError(f"{self._base} is not local: only readers and writers can be opened below it")
        return self._folder.joinpath(*self._parts(path))

    def _existing(self, path: str) -> Path:
        found = self._local(path)
        if not found.is_file():
            raise NotFoundError(f"There is no file {path} below {self._base}")
        return found

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._local(None)).as_posix()
