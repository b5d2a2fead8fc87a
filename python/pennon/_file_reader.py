"""Reading one data file: `LanceFileReader`, and what it says of the file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import pyarrow as pa

import pennon.blob  # noqa: F401  # registers the Arrow type of blobs
from pennon import _native
from pennon._options import located, location, refuse, strings
from pennon.errors import InvalidInputError, InvalidTypeError


@dataclass(frozen=True)
class LanceBufferDescriptor:
    """The position of some bytes in a file, and their number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/buffer.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
    >>> reader = LanceFileReader("memory://files/buffer.lance")
    >>> first, *_ = reader.metadata().global_buffers
    >>> len(reader.read_global_buffer(0)) == first.size
    True
    """

    position: int
    size: int


@dataclass(frozen=True)
class LancePageMetadata:
    """A page of a column: positions of its buffers, and their encoding.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/page.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
    >>> reader = LanceFileReader("memory://files/page.lance")
    >>> (page,) = reader.metadata().columns[0].pages
    >>> page.num_rows, page.encoding, len(page.buffers)
    (3, 'mini-block: flat 64', 2)
    """

    buffers: list[LanceBufferDescriptor]
    encoding: str
    """A readable form: layout, then codecs from the outside in. pylance prints its messages here."""
    num_rows: int
    """Not in pylance."""


@dataclass(frozen=True)
class LanceColumnMetadata:
    """A column of a file, which is a leaf of the schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/column.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1], "s": [{"x": 1, "y": "b"}]}))
    >>> reader = LanceFileReader("memory://files/column.lance")
    >>> [(column.name, len(column.pages)) for column in reader.metadata().columns]
    [('a', 1), ('s.x', 1), ('s.y', 1)]
    """

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]
    name: str | None
    """Path of the field; not in pylance."""


@dataclass(frozen=True)
class LanceFileMetadata:
    """The metadata of a file.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/whole-metadata.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
    >>> reader = LanceFileReader("memory://files/whole-metadata.lance")
    >>> metadata = reader.metadata()
    >>> metadata.num_rows, metadata.schema.names, metadata.version, len(metadata.columns)
    (3, ['a'], '2.2', 1)
    >>> metadata.num_data_bytes < metadata.size_bytes
    True
    """

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
    """Pages and bytes of a column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/column-statistics.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
    >>> reader = LanceFileReader("memory://files/column-statistics.lance")
    >>> (column,) = reader.file_statistics().columns
    >>> column.num_pages, column.size_bytes > 0
    (1, True)
    """

    num_pages: int
    size_bytes: int


@dataclass(frozen=True)
class LanceFileStatistics:
    """Figures for each column of a file.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/statistics.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2], "b": ["x", "y" * 1000]}))
    >>> reader = LanceFileReader("memory://files/statistics.lance")
    >>> a, b = reader.file_statistics().columns
    >>> a.size_bytes < b.size_bytes
    True
    """

    columns: list[ColumnStatistics]


class ReaderResults:
    """The rows read, as a stream or a table. They can be consumed once. Has `__arrow_c_stream__`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/results.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
    >>> reader = LanceFileReader("memory://files/results.lance")
    >>> pa.table(reader.read_all())["a"].to_pylist()
    [1, 2, 3]
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows, batch by batch.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/to-batches.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/to-batches.lance")
        >>> [batch.num_rows for batch in reader.read_all(batch_size=2).to_batches()]
        [2, 1]
        """
        return self.reader

    def to_table(self) -> pa.Table:
        """The rows, all at once.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/to-table.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/to-table.lance")
        >>> reader.read_range(0, 2).to_table()["a"].to_pylist()
        [1, 2]
        """
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

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.file import LanceFileReader, LanceFileWriter
    >>> with LanceFileWriter("memory://files/reader.lance") as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    >>> reader = LanceFileReader("memory://files/reader.lance", columns=["b"])
    >>> reader.read_all().to_table().to_pydict()
    {'b': ['x', 'y', 'z']}
    >>> reader
    LanceFileReader('memory://files/reader.lance', rows=3)
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
        address, options = location(path, "path"), strings(storage_options)
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
        """Pages of each column, and bytes of their buffers.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/file-statistics.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/file-statistics.lance")
        >>> reader.file_statistics().columns
        [ColumnStatistics(num_pages=1, size_bytes=36)]
        """
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
        """The bytes of a global buffer.

        Parameters
        ----------
        index
            0 is the schema; the others were added by the writer of the file, which got their indices.

        Raises
        ------
        pennon.InvalidInputError
            The file has fewer buffers.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/read-buffer.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1]}))
        ...     number = writer.add_global_buffer(b"anything")
        >>> LanceFileReader("memory://files/read-buffer.lance").read_global_buffer(number)
        b'anything'
        """
        return self._reader.read_global_buffer(index)

    def num_rows(self) -> int:
        """The number of rows in the file.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/num-rows.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
        >>> reader = LanceFileReader("memory://files/num-rows.lance")
        >>> reader.num_rows()
        3
        """
        return self._reader.num_rows


def _buffers(parts: list[tuple[int, int]]) -> list[LanceBufferDescriptor]:
    return [LanceBufferDescriptor(position, size) for position, size in parts]
