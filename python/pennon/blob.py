"""Blob v2 columns (`lance.blob.v2`): how to create them, and their values as files."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._compatibility import explain_absent_names
from pennon._registration import register
from pennon.errors import InvalidInputError, InvalidTypeError, PositionError

if TYPE_CHECKING:
    from pennon import _native

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobFile",
    "BlobType",
    "blob_array",
    "blob_field",
]

explain_absent_names(__name__)

DEFAULT_BLOB_BUFFER_SIZE = 512 * 1024
"""Bytes that smaller reads of a [BlobFile][pennon.BlobFile] fetch at once."""

_STORAGE = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.utf8()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)


@dataclass(frozen=True)
class Blob:
    """A value of a blob column: bytes, or a URI with an optional range.

    Examples
    --------
    >>> Blob.from_uri("s3://bucket/file", 10, 5)
    Blob(data=None, uri='s3://bucket/file', position=10, size=5)
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.data is None and self.uri is None:
            raise InvalidInputError("A blob must set `data` or `uri`; use None for a null blob")
        if self.data is not None and self.uri is not None:
            raise InvalidInputError("A blob cannot have both data and uri")
        if self.uri == "":
            raise InvalidInputError("Blob uri cannot be empty")
        if (self.position is None) != (self.size is None):
            raise InvalidInputError("A range of an external blob needs both a position and a size")
        if self.position is not None and self.uri is None:
            raise InvalidInputError("Only an external blob, which has a uri, can have a position and a size")
        if (self.position or 0) < 0:
            raise InvalidInputError(f"The position of an external blob must be non-negative, got {self.position}")
        if self.size is not None and self.size <= 0:
            raise InvalidInputError(f"The size of a range must be greater than zero, got {self.size}")

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """A blob of these bytes.

        Examples
        --------
        >>> import pennon
        >>> pennon.Blob.from_bytes(b"abc")
        Blob(data=b'abc', uri=None, position=None, size=None)
        """
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """A blob with the bytes at a URI, or a range of them.

        Examples
        --------
        >>> import pennon
        >>> pennon.Blob.from_uri("s3://bucket/film.mp4", position=100, size=50)
        Blob(data=None, uri='s3://bucket/film.mp4', position=100, size=50)
        >>> pennon.Blob.from_uri("s3://bucket/film.mp4").size is None
        True
        """
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """An empty blob, which is not null.

        Examples
        --------
        >>> import pennon
        >>> pennon.Blob.empty()
        Blob(data=b'', uri=None, position=None, size=None)
        """
        return Blob(data=b"")


class BlobType(pa.ExtensionType):
    """The Arrow type of blobs that are written: bytes, or a URI with an optional range.

    Examples
    --------
    >>> BlobType().extension_name
    'lance.blob.v2'
    """

    def __init__(self) -> None:
        super().__init__(_STORAGE, "lance.blob.v2")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BlobType:
        """The type of blobs that are stored so; raises `InvalidTypeError` for any other storage."""
        del serialized
        parts = list(storage_type) if pa.types.is_struct(storage_type) else []
        members, known = ([(part.name, part.type) for part in found] for found in (parts, _STORAGE))
        # pylance also has blobs without ranges.
        if members not in (known, known[:2]) or not all(part.nullable for part in parts[:2]):
            raise InvalidTypeError(
                f"BlobType storage must be {_STORAGE}, or its first two fields, not {storage_type}"
            )
        found = cls.__new__(cls)
        pa.ExtensionType.__init__(found, storage_type, "lance.blob.v2")
        return found

    def __arrow_ext_class__(self) -> type[BlobArray]:
        return BlobArray

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__arrow_ext_deserialize__, (self.storage_type, b"")


class BlobArray(pa.ExtensionArray):
    """An array of blobs; [blob_array][pennon.blob_array] makes them.

    Examples
    --------
    >>> import pennon
    >>> blobs = pennon.BlobArray.from_pylist([b"abc", None])
    >>> blobs.type.extension_name, blobs.null_count
    ('lance.blob.v2', 1)
    >>> blobs.storage[0].as_py()
    {'data': b'abc', 'uri': None, 'position': None, 'size': None}
    """

    @classmethod
    def from_pylist(cls, values: Sequence[Any]) -> BlobArray:
        """Blobs from bytes, URIs (`str`), `Blob` values and `None`, as [blob_array][pennon.blob_array].

        Examples
        --------
        >>> import pennon
        >>> blobs = pennon.BlobArray.from_pylist([b"abc", "s3://bucket/film.mp4"])
        >>> blobs.storage.field("uri").to_pylist()
        [None, 's3://bucket/film.mp4']
        """
        return blob_array(values)


def _registered() -> pa.ExtensionType:
    """The type that schemas have: pylance's if it is imported, as pyarrow casts neither of them to the other."""
    theirs = getattr(sys.modules.get("lance.blob"), "BlobType", None)
    return BlobType() if theirs is None else theirs()


def blob_array(values: Sequence[Any]) -> BlobArray:
    """A column of blobs from bytes, URIs (`str`), `Blob` values and `None`.

    Examples
    --------
    >>> blob_array([b"abc", None]).is_null().to_pylist()
    [False, True]
    """

    def blob(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if isinstance(value, str):
            value = Blob(uri=value)
        elif isinstance(value, bytes | bytearray | memoryview):
            value = Blob(data=bytes(value))
        if not all(hasattr(value, name) for name in ("data", "uri", "position", "size")):
            raise InvalidTypeError(f"A blob must be bytes, a URI, a Blob or None; found {type(value)}")
        return {"data": value.data, "uri": value.uri, "position": value.position, "size": value.size}

    storage = pa.array([blob(value) for value in values], _STORAGE)
    found: BlobArray = pa.ExtensionArray.from_storage(_registered(), storage)
    return found


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """A field of blobs.

    Parameters
    ----------
    name, nullable
        As for every field.
    inline_size_threshold
        The most bytes of a blob that is stored in the data file; 64 KiB if not given.
    dedicated_size_threshold
        Bytes above which a blob gets a file of its own; 4 MiB if not given.
    pack_file_size_threshold
        Bytes after which a new file for several blobs is started; 1 GiB if not given.

    Examples
    --------
    >>> import pennon
    >>> pennon.blob_field("picture").name
    'picture'
    """
    metadata = {}
    given = {
        "inline": inline_size_threshold,
        "dedicated": dedicated_size_threshold,
        "pack-file": pack_file_size_threshold,
    }
    for key, value in given.items():
        if value is None:
            continue
        name_of = f"{key.replace('-', '_')}_size_threshold"
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidTypeError(f"{name_of} must be an int, got {type(value).__name__}")
        if value < (0 if key == "inline" else 1):
            wanted = "non-negative" if key == "inline" else "positive"
            raise InvalidInputError(f"{name_of} must be {wanted}, got {value}")
        if value >= 2**64:
            raise PositionError(f"{name_of} must fit in 64 bits, got {value}")
        metadata[f"lance-encoding:blob-{key}-size-threshold"] = str(value)
    return pa.field(name, _registered(), nullable=nullable, metadata=metadata or None)


def end_of_range(offset: int, length: int, size: int) -> int:
    """The end of a range of a blob of `size` bytes. Raises `InvalidInputError` if the blob ends before."""
    end = offset + length
    if end >= 2**64:
        raise InvalidInputError(f"offset + length overflowed: {offset} + {length}")
    if end > size:
        raise InvalidInputError(f"The range exceeds blob size: it ends at {end} of a blob of {size} bytes")
    return end


def checked_buffer(buffer_size: int) -> int:
    """The bytes that smaller reads fetch at once. Raises `InvalidInputError` if they are negative."""
    if isinstance(buffer_size, bool) or not isinstance(buffer_size, int):
        raise InvalidTypeError(f"buffer_size must be an int, got {type(buffer_size).__name__}")
    if buffer_size < 0:
        raise InvalidInputError(f"buffer_size must be non-negative, got {buffer_size}")
    return buffer_size


class BlobFile(io.BufferedIOBase):
    """A blob as a read-only file; see [LanceDataset.take_blobs][pennon.LanceDataset.take_blobs].

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
    >>> table = pennon.write_dataset(data, "memory://blob-file", mode="overwrite")
    >>> (file,) = table.take_blobs("image", indices=[0])
    >>> file.read(2), file.read()
    (b'ab', b'cdef')
    >>> file
    <BlobFile size=6>
    """

    def __init__(self, inner: _native.Blob, buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE) -> None:
        super().__init__()
        self._inner = inner
        self._buffer_size = checked_buffer(buffer_size)
        self._position = 0
        # Buffered bytes, and the position of the first byte.
        self._held, self._held_at = b"", 0

    def readable(self) -> bool:
        """Always true: a blob can be read.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-readable", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.readable(), file.writable()
        (True, False)
        """
        return True

    def seekable(self) -> bool:
        """Always true: reads can start at any byte.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-seekable", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.seekable()
        True
        """
        return True

    def size(self) -> int:
        """Size of the blob in bytes.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-size", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.size()
        6
        """
        return self._inner.size

    def tell(self) -> int:
        """The position of the next read, in bytes from the start of the blob.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-tell", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.read(4)
        b'abcd'
        >>> file.tell()
        4
        """
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read, and return it in bytes from the start of the blob.

        Parameters
        ----------
        offset
            Bytes from the point that `whence` names.
        whence
            `io.SEEK_SET`, the start of the blob, `io.SEEK_CUR`, the present position, or `io.SEEK_END`, its end.

        Raises
        ------
        pennon.InvalidInputError
            The position is before the start of the blob, or `whence` has another value.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-seek", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> import io
        >>> file.seek(-2, io.SEEK_END)
        4
        >>> file.read()
        b'ef'
        """
        self._check_open()
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}
        if whence not in starts:
            raise InvalidInputError(f"Invalid whence: {whence}, expected SEEK_SET, SEEK_CUR or SEEK_END")
        position = starts[whence] + offset
        if position < 0:
            raise InvalidInputError(f"Negative seek position {position}")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes from the position of the next read; if it is negative or `None`, all up to the end.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-read", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.read(4), file.read(4), file.read(4)
        (b'abcd', b'ef', b'')
        """
        return self.readall() if size is None or size < 0 else self._take(size)

    def read1(self, size: int = -1) -> bytes:
        """The same as `read`; text wrappers such as `io.TextIOWrapper` call it.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-read1", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> import io
        >>> io.TextIOWrapper(file).read(3)
        'abc'
        """
        return self.read(size)

    def readinto(self, b: Any) -> int:
        """Read as many bytes as fit into a buffer, and return their number, which is smaller at the end.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-readinto", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> buffer = bytearray(4)
        >>> file.readinto(buffer), buffer
        (4, bytearray(b'abcd'))
        """
        view = memoryview(b).cast("B")
        data = self._take(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """The bytes from the position of the next read to the end.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-readall", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.seek(3)
        3
        >>> file.readall()
        b'def'
        """
        return self._take(max(self.size() - self._position, 0))

    def read_range(self, offset: int, length: int) -> bytes:
        """A range of bytes; the position of the next read does not change.

        Raises
        ------
        pennon.InvalidInputError
            The range ends after the blob.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-read-range", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.read_range(2, 3), file.tell()
        (b'cde', 0)
        """
        self._check_open()
        return self._inner.read(offset, end_of_range(offset, length, self.size()))

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges, each given by offset and length; the position does not change.

        Raises
        ------
        pennon.InvalidInputError
            A range ends after the blob.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abcdef"])})
        >>> table = pennon.write_dataset(data, "memory://blob-read-ranges", mode="overwrite")
        >>> (file,) = table.take_blobs("image", indices=[0])
        >>> file.read_ranges([(4, 2), (0, 1)])
        [b'ef', b'a']
        """
        return [self.read_range(offset, length) for offset, length in ranges]

    def _take(self, length: int) -> bytes:
        self._check_open()
        start = self._position
        end = max(min(start + length, self.size()), start)
        held_end = self._held_at + len(self._held)
        if end - start >= self._buffer_size and start < end:
            self._position = end
            return self._inner.read(start, end)
        if not (self._held_at <= start and end <= held_end):
            more = min(start + self._buffer_size, self.size())
            self._held, self._held_at = self._inner.read(min(start, more), more), start
        self._position = end
        return self._held[start - self._held_at : end - self._held_at]

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidInputError("I/O operation on closed file")

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"


class BlobColumn:
    """A column of binary values as files.

    Examples
    --------
    >>> [file.read() for file in BlobColumn(pa.array([b"a", b"bc"]))]
    [b'a', b'bc']
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        if not isinstance(blob_column, pa.Array | pa.ChunkedArray):
            raise InvalidInputError(f"Expected a pyarrow.Array or pyarrow.ChunkedArray, got {type(blob_column)}")
        if blob_column.type not in (pa.binary(), pa.large_binary()):
            raise InvalidInputError(f"Expected a binary array, got {blob_column.type}")
        self.blob_column = blob_column

    def __iter__(self) -> Iterator[io.BytesIO | None]:
        for value in self.blob_column:
            yield io.BytesIO(value.as_py()) if value.is_valid else None


register([BlobType()])
