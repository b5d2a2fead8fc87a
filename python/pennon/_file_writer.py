"""Writing one data file: `LanceFileWriter`."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import pennon.blob  # noqa: F401  # registers the Arrow type of blobs
from pennon import _native
from pennon._options import checked_text, ignored, location, refuse, refuse_unknown, strings
from pennon.errors import InvalidTypeError

if TYPE_CHECKING:
    from types import TracebackType

    from pennon.types import Durability, FileVersion


def stable_version() -> str:
    """The file version that `"stable"` stands for, and that new tables get.

    Examples
    --------
    >>> import pennon
    >>> from pennon.file import stable_version
    >>> stable_version()
    '2.2'
    >>> table = pennon.write_dataset({"a": [1]}, "memory://stable-version", mode="overwrite")
    >>> table.data_storage_version == stable_version()
    True
    """
    return _native.stable_version()


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
            location(path, "path"),
            schema,
            {
                "version": None if version is None else checked_text("version", version),
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

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/write-batch.lance", pa.schema({"a": pa.int64()})) as writer:
        ...     writer.write_batch(pa.table({"a": [1, 2], "b": ["x", "y"]}))
        ...     writer.write_batch(pa.record_batch({"a": [3]}))
        >>> LanceFileReader("memory://files/write-batch.lance").read_all().to_table().to_pydict()
        {'a': [1, 2, 3]}
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

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileWriter
        >>> writer = LanceFileWriter("memory://files/close.lance")
        >>> writer.write_batch(pa.table({"a": [1, 2]}))
        >>> writer.close(), writer.closed, writer.close()
        (2, True, None)
        """
        if self.closed:
            return None
        self.closed = True
        rows, self.size_bytes = self._writer.finish()
        return rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Set a key of the schema's metadata.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileReader, LanceFileWriter
        >>> with LanceFileWriter("memory://files/schema-metadata.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1]}))
        ...     writer.add_schema_metadata("source", "sensors")
        >>> LanceFileReader("memory://files/schema-metadata.lance").metadata().schema.metadata
        {b'source': b'sensors'}
        """
        self._writer.add_schema_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Store bytes in the file, next to the rows. Returns their index, which is 1 for the first.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.file import LanceFileWriter
        >>> with LanceFileWriter("memory://files/add-buffer.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [1]}))
        ...     writer.add_global_buffer(b"a model"), writer.add_global_buffer(b"another")
        (1, 2)
        """
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
