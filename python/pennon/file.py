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

import itertools
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import pennon.blob  # noqa: F401  # registers the Arrow type of blobs
from pennon import _native
from pennon._compatibility import ExplainsAbsence, explain_absent_names
from pennon._native import stable_version
from pennon._options import ignored, located, refuse, refuse_unknown, strings
from pennon.errors import InvalidInputError, InvalidTypeError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from types import TracebackType

    from pennon.types import Durability, FileVersion

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


@dataclass(frozen=True)
class LanceBufferDescriptor:
    """The position and size of some bytes in a file."""

    position: int
    size: int


@dataclass(frozen=True)
class LancePageMetadata:
    """A page of a column: positions of its buffers, and their encoding."""

    buffers: list[LanceBufferDescriptor]
    encoding: str
    """A readable form: layout, then codecs from the outside in. pylance prints its messages here."""
    num_rows: int
    """Not in pylance."""


@dataclass(frozen=True)
class LanceColumnMetadata:
    """A column of a file, which is a leaf of the schema."""

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]
    name: str | None
    """Path of the field; not in pylance."""


@dataclass(frozen=True)
class LanceFileMetadata:
    """The metadata of a file."""

    schema: pa.Schema
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    """The first is the schema; the others were added by the writer of the file."""
    columns: list[LanceColumnMetadata]
    major_version: int
    """As in the footer: a file of version 2.0 has 0 and 3."""
    minor_version: int
    version: str
    """The version by name, such as `2.1`; not in pylance."""
    size_bytes: int
    """Bytes of the file; not in pylance."""


@dataclass(frozen=True)
class ColumnStatistics:
    """Pages and bytes of a column."""

    num_pages: int
    size_bytes: int


@dataclass(frozen=True)
class LanceFileStatistics:
    """Figures for each column of a file."""

    columns: list[ColumnStatistics]


class ReaderResults:
    """The rows read, as a stream or a table. They can be consumed once."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows, batch by batch."""
        return self.reader

    def to_table(self) -> pa.Table:
        """The rows, all at once."""
        return self.reader.read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.reader.schema.__arrow_c_schema__()


class LanceFileReader:
    """Reads one data file.

    Parameters
    ----------
    path
        A local path, or a URI with the scheme `file`, `memory`, `s3`, `gs` or `az`.
    storage_options
        Keys and values for the object store.
    columns
        Names of columns and paths of nested fields, such as `a.b`, or through a list `a.item.b`; all if not given.
    namespace_client, table_id
        Not supported.

    Raises
    ------
    pennon.NotFoundError
        There is no such file.
    pennon.InvalidInputError
        Unknown columns.
    pennon.CorruptError
        It is not a data file, or it is truncated or damaged.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        storage_options: dict[str, str] | None = None,
        columns: list[str] | None = None,
        *,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        _inner_reader: _native.FileReader | None = None,
    ) -> None:
        refuse(namespace_client=namespace_client, table_id=table_id)
        if isinstance(columns, str):
            raise InvalidTypeError(f"columns must be a list of names, not the string {columns!r}")
        self._path = path
        address, options = _address(path), strings(storage_options)
        with located(address):
            names = None if columns is None else list(columns)
            self._reader = _inner_reader or _native.FileReader(address, names, options)

    def __repr__(self) -> str:
        return f"LanceFileReader({str(self._path)!r}, rows={self.num_rows()})"

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """All rows, in batches of `batch_size`.

        Examples
        --------
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> import pyarrow as pa
        >>> with LanceFileWriter("memory://files/all.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/all.lance")
        >>> reader.read_all().to_table()["a"].to_pylist()
        [1, 2, 3]
        """
        return self._read(None, None, batch_size, batch_readahead)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Consecutive rows; it is an error if the file does not have all of them.

        Examples
        --------
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> import pyarrow as pa
        >>> with LanceFileWriter("memory://files/range.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/range.lance")
        >>> reader.read_range(1, 2).to_table()["a"].to_pylist()
        [2, 3]
        """
        return self._read((start, num_rows), None, batch_size, batch_readahead)

    def take_rows(
        self, indices: Sequence[int], *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Rows by number. The numbers must be strictly ascending.

        Examples
        --------
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/take.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [10, 11, 12, 13]}))
        >>> LanceFileReader("memory://files/take.lance").take_rows([0, 3]).to_table().to_pylist()
        [{'a': 10}, {'a': 13}]
        """
        listed = indices.to_pylist() if isinstance(indices, pa.Array | pa.ChunkedArray) else list(indices)
        for before, after in itertools.pairwise(listed):
            if before > after:
                raise InvalidInputError(
                    f"Indices must be sorted in ascending order for file API, got {before} > {after}"
                )
        return self._read(None, listed, batch_size, batch_readahead)

    def _read(
        self, range: tuple[int, int] | None, indices: list[int] | None, batch_size: int, batch_readahead: int
    ) -> ReaderResults:
        batches = self._reader.batches(range, indices, batch_size, batch_readahead)
        return ReaderResults(pa.RecordBatchReader.from_batches(batches.schema, batches))

    def metadata(self) -> LanceFileMetadata:
        """The metadata of the whole file, whichever `columns` are read.

        Examples
        --------
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> import pyarrow as pa
        >>> with LanceFileWriter("memory://files/meta.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/meta.lance")
        >>> reader.metadata().num_rows, len(reader.metadata().columns)
        (3, 1)
        """
        parts = self._reader.metadata()
        major, minor = parts["footer_version"]
        return LanceFileMetadata(
            schema=parts["schema"],
            num_rows=parts["num_rows"],
            num_data_bytes=parts["num_data_bytes"],
            num_column_metadata_bytes=parts["num_column_metadata_bytes"],
            num_global_buffer_bytes=parts["num_global_buffer_bytes"],
            global_buffers=_buffers(parts["global_buffers"]),
            columns=[
                LanceColumnMetadata(
                    column_buffers=[],
                    pages=[
                        LancePageMetadata(_buffers(page["buffers"]), page["encoding"], page["num_rows"])
                        for page in column["pages"]
                    ],
                    name=column["name"],
                )
                for column in parts["columns"]
            ],
            major_version=major,
            minor_version=minor,
            version=parts["version"],
            size_bytes=parts["size"],
        )

    def file_statistics(self) -> LanceFileStatistics:
        """Pages and bytes of each column."""
        return LanceFileStatistics(
            [
                ColumnStatistics(
                    num_pages=len(column["pages"]),
                    size_bytes=sum(size for page in column["pages"] for _, size in page["buffers"]),
                )
                for column in self._reader.metadata()["columns"]
            ]
        )

    def read_global_buffer(self, index: int) -> bytes:
        """The bytes of a global buffer; 0 is the schema, the others were added by the writer of the file."""
        return self._reader.read_global_buffer(index)

    def num_rows(self) -> int:
        """Rows in the file."""
        return self._reader.num_rows


class LanceFileWriter:
    """Writes one data file, which appears under its name when it is closed. A file of that name is replaced.

    As a context manager it closes the file, unless the body raises: then nothing is written, and an existing file
    of that name is kept. (pylance closes it in that case too, and a file with some of the rows looks complete.)

    Parameters
    ----------
    path
        A local path, or a URI with the scheme `file`, `memory`, `s3`, `gs` or `az`.
    schema
        The schema; by default that of the first batch.
    version
        Version of the file: `"2.0"`, `"2.1"`, `"2.2"`, or `"stable"`, which is 2.2 and the default.
    storage_options
        Keys and values for the object store.
    max_page_bytes
        Bytes of values after which a page of a column is written.
    durability
        What a closed file survives: a power cut (`"full"`), or a crash of the process (`"os"`).
    data_cache_bytes
        Accepted, without effect, as is `keep_original_array`.
    namespace_client, table_id
        Not supported.

    Raises
    ------
    pennon.UnsupportedError
        A type or a file version that cannot be written.

    Examples
    --------
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> writer = LanceFileWriter("memory://files/metadata.lance")
    >>> writer.write_batch(pa.table({"a": [1]}))
    >>> writer.add_schema_metadata("made by", "hand")
    >>> writer.add_global_buffer(b"anything")
    1
    >>> writer.close()
    1
    >>> LanceFileReader("memory://files/metadata.lance").read_global_buffer(1)
    b'anything'
    """

    def __init__(
        self,
        path: str | PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: FileVersion | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        max_page_bytes: int | None = None,
        _inner_writer: _native.FileWriter | None = None,
        durability: Durability = "full",
        **kwargs: Any,
    ) -> None:
        refuse(namespace_client=namespace_client, table_id=table_id)
        ignored(data_cache_bytes=data_cache_bytes, keep_original_array=kwargs.pop("keep_original_array", None))
        refuse_unknown("LanceFileWriter", (), kwargs)
        self._path = path
        self._writer = _inner_writer or _native.FileWriter(
            _address(path),
            schema,
            {
                "version": version,
                "max_page_bytes": max_page_bytes,
                "storage_options": strings(storage_options),
                "durability": durability,
            },
        )
        self.closed = False
        self.size_bytes: int | None = None

    def __repr__(self) -> str:
        return f"LanceFileWriter({str(self._path)!r}, {'closed' if self.closed else 'open'})"

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. Columns are found by name; columns that the schema does not have are left out.

        Raises
        ------
        pennon.SchemaMismatchError
            A column is missing or has another type.
        pennon.InvalidInputError
            A null in a column that is not nullable.
        """
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise InvalidTypeError(f"Expected a pyarrow RecordBatch or Table, got {type(batch)}")
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            self._writer.write_batch(part)

    def close(self) -> int | None:
        """Complete the file under its name. Returns the number of rows, or `None` if it was already closed.

        Raises
        ------
        pennon.InvalidInputError
            There is neither a schema nor a row, or an earlier write failed.
        """
        if self.closed:
            return None
        self.closed = True
        rows, self.size_bytes = self._writer.finish()
        return rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Set a key of the schema's metadata."""
        self._writer.add_schema_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Store bytes in the file, next to the rows. Returns their index, which is 1 for the first."""
        return self._writer.add_global_buffer(data)

    def __enter__(self) -> LanceFileWriter:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        elif not self.closed:
            self.closed = True
            self._writer.abandon()


@dataclass
class ListResult:
    """What is directly in a folder; paths are relative to the base path of the session."""

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
        self._base = _address(base_path)
        self._options = strings(storage_options)

    def __repr__(self) -> str:
        return f"LanceFileSession({self._base!r})"

    def open_reader(self, path: str, columns: _Names | None = None) -> LanceFileReader:
        """A reader of a data file; see [LanceFileReader][pennon.file.LanceFileReader]."""
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
        """A writer of a data file; see [LanceFileWriter][pennon.file.LanceFileWriter]."""
        ignored(data_cache_bytes=data_cache_bytes, keep_original_array=keep_original_array)
        return LanceFileWriter(
            self._below(path),
            schema,
            version=version,
            storage_options=self._options,
            max_page_bytes=max_page_bytes,
        )

    def contains(self, path: str) -> bool:
        """Whether there is such a file."""
        return self._local(path).is_file()

    def list(self, path: str | None = None) -> _Names:
        """All files below a folder, those of its folders too; none if there is no such folder."""
        found = [Path(folder) / file for folder, _, files in os.walk(self._local(path)) for file in files]
        return sorted(map(self._relative, found))

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """The folders and files in a folder; none if there is no such folder."""
        folder = self._local(path)
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        folders = [self._relative(entry) for entry in found if entry.is_dir()]
        return ListResult(folders, [self._relative(entry) for entry in found if entry.is_file()])

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file.

        Raises
        ------
        pennon.NotFoundError
            There is no such file.
        pennon.InvalidInputError
            The file ends before the range does.
        """
        file = self._existing(path)
        if offset < 0 or length < 0 or offset + length > file.stat().st_size:
            found = file.stat().st_size
            raise InvalidInputError(f"{path} has {found} bytes; {length} from {offset} on are wanted")
        with file.open("rb") as opened:
            opened.seek(offset)
            return opened.read(length)

    def delete_file(self, path: str) -> None:
        """Remove a file. Raises `NotFoundError` if there is no such file."""
        self._existing(path).unlink()

    def upload_file(self, local_path: str | PathLike[str], remote_path: str) -> None:
        """Copy a local file to the base path. Raises `NotFoundError` if there is no such file."""
        if not Path(local_path).is_file():
            raise NotFoundError(f"There is no file {fspath(local_path)}")
        target = self._local(remote_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local_path, target)

    def download_file(self, remote_path: str, local_path: str | PathLike[str]) -> None:
        """Copy a file to the local file system. Raises `NotFoundError` if there is no such file."""
        shutil.copyfile(self._existing(remote_path), local_path)

    def _below(self, path: str | None) -> str:
        parts = [part for part in _address(path or "").split("/") if part]
        if ".." in parts:
            raise InvalidInputError(f"The path {path!r} leads out of the base path")
        return "/".join([self._base.rstrip("/"), *parts])

    def _local(self, path: str | None) -> Path:
        address = self._below(path)
        scheme, separator, rest = address.partition("://")
        if separator and scheme not in ("file", "file-object-store"):
            raise UnsupportedError(f"{self._base} is not local: only readers and writers can be opened below it")
        return Path(rest if separator else address)

    def _existing(self, path: str) -> Path:
        found = self._local(path)
        if not found.is_file():
            raise NotFoundError(f"There is no file {path} below {self._base}")
        return found

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._local(None)).as_posix()


def _address(path: str | PathLike[str]) -> str:
    address = fspath(path)
    if not isinstance(address, str):
        raise InvalidTypeError(f"path must be text, not {type(address).__name__}")
    return address


def _buffers(parts: list[tuple[int, int]]) -> list[LanceBufferDescriptor]:
    return [LanceBufferDescriptor(position, size) for position, size in parts]
