"""Files that `import` reads and `export` writes, a few megabytes at a time."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import click
import pyarrow as pa

from pennon._address import local_path
from pennon.cli._bytes import is_bytes
from pennon.cli._csv import read_csv
from pennon.cli._json import read_json
from pennon.cli._types import TextFormat, converted, member_types, text_types
from pennon.cli._values import CsvWriter, as_json, values_of
from pennon.errors import InvalidInputError

FileFormat = Literal["parquet", "csv", "arrow", "jsonl"]
FORMATS: tuple[FileFormat, ...] = ("parquet", "csv", "arrow", "jsonl")
SUFFIXES: dict[str, FileFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
# Those that have bytes as base64.
TEXTS: tuple[FileFormat, ...] = ("csv", "jsonl")
# Rows of a batch of Parquet.
ROWS = 16_384

Rows = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def format_of(name: str, given: FileFormat | None, option: str) -> FileFormat:
    """The format of a file, by its name unless it is given."""
    if given is not None:
        return given
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise click.UsageError(f"{name!r} does not say its format ({known}): give it with {option}")
    return SUFFIXES[suffix]


def check_local(name: str) -> None:
    """Raises `UsageError` for the address of an object store."""
    if local_path(name) is None and not Path(name).exists():
        raise click.UsageError(f"{name!r} is not a local file: only tables can be in an object store")


@contextmanager
def reading(
    name: str,
    file_format: FileFormat,
    schema: pa.Schema | None,
    known: pa.Schema | None,
    encoding: str | None = None,
) -> Iterator[Rows]:
    """The rows of a file, of standard input for `-`. With `schema` text is read as these types.

    Columns that are bytes in `known` are base64 in text, which is UTF-8 unless there is an `encoding`.
    """
    if name == "-":
        if file_format == "parquet":
            raise click.UsageError("Parquet cannot be read from standard input: its metadata is at the end")
        yield _named(name, sys.stdin.buffer, file_format, schema, known, encoding)
        return
    check_local(name)
    with open(name, "rb") as file:
        yield _named(name, file, file_format, schema, known, encoding)


def _named(
    name: str,
    file: IO[bytes],
    file_format: FileFormat,
    schema: pa.Schema | None,
    known: pa.Schema | None,
    encoding: str | None,
) -> Rows:
    """The rows; errors say which file has them."""
    with _naming(name, encoding):
        types, batches = _read(_recoded(file, encoding), file_format, schema, known)

    def rows() -> Iterator[pa.RecordBatch]:
        with _naming(name, encoding):
            yield from batches

    return types, rows()


@contextmanager
def _naming(name: str, encoding: str | None) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, InvalidInputError) as error:
        raise InvalidInputError(f"{name}: {str(error).rstrip()}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        # Pyarrow's own, for damaged files.
        raise InvalidInputError(f"{name}: {str(error).rstrip()}") from None
    except UnicodeDecodeError as error:
        found = error.object[error.start : error.end].hex()
        raise InvalidInputError(f"{name}: The bytes 0x{found} are no text in {encoding}") from None


def _recoded(file: IO[bytes], encoding: str | None) -> IO[bytes]:
    """A file of text in UTF-8."""
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return file
    raw: Any = pa.transcoding_input_stream(pa.PythonFile(file, "r"), encoding, "utf-8")
    return io.BufferedReader(raw)


def _read(file: IO[bytes], file_format: FileFormat, schema: pa.Schema | None, known: pa.Schema | None) -> Rows:
    wanted = known if schema is None else schema
    text: TextFormat | None = None
    if file_format == "csv" or file_format == "jsonl":
        text = file_format
        asked = schema
        if schema is None and known is not None and text == "csv":
            # Base64 can look like a number, and CSV takes types of single columns.
            asked = pa.schema([field for field in known if is_bytes(field.type)])
        asked = None if asked is None else text_types(asked, text)
        types, batches = read_csv(file, asked, schema) if text == "csv" else read_json(file, asked, schema)
    else:
        types, batches = (_parquet if file_format == "parquet" else _arrow)(file)
    if wanted is None:
        return types, batches

    def as_wanted(batch: pa.RecordBatch) -> pa.RecordBatch:
        return converted(batch, wanted, text=text, only_bytes=schema is None)

    return as_wanted(pa.RecordBatch.from_pylist([], types)).schema, map(as_wanted, batches)


def _parquet(file: IO[bytes]) -> Rows:
    import pyarrow.parquet

    opened = pyarrow.parquet.ParquetFile(file)
    types = opened.schema_arrow
    if not any(map(_has_nested_dictionary, types.types)):
        return types, opened.iter_batches(ROWS)
    # Pyarrow cannot join the dictionaries of several row groups in nested values.
    groups = range(opened.num_row_groups)
    return types, (batch for at in groups for batch in opened.iter_batches(ROWS, row_groups=[at]))


def _has_nested_dictionary(kind: pa.DataType) -> bool:
    return any(pa.types.is_dictionary(member) or _has_nested_dictionary(member) for member in member_types(kind))


def _arrow(file: IO[bytes]) -> Rows:
    types, batches = _opened_arrow(file)

    def valid() -> Iterator[pa.RecordBatch]:
        # Pyarrow believes what a file says about its buffers; whoever reads these values would crash.
        for batch in batches:
            batch.validate(full=True)
            yield batch

    return types, valid()


def _opened_arrow(file: IO[bytes]) -> Rows:
    if file.seekable():
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        if is_file:
            opened = pa.ipc.open_file(file)
            return opened.schema, (opened.get_batch(at) for at in range(opened.num_record_batches))
    stream = pa.ipc.open_stream(file)
    return stream.schema, iter(stream)


class BatchWriter(Protocol):
    """What writes rows to a file."""

    def write_batch(self, batch: pa.RecordBatch) -> object:
        """Write a batch."""
        ...


class _JsonWriter:
    def __init__(self, target: Any, schema: pa.Schema) -> None:
        self._target, self._names = target, schema.names

    def write_batch(self, batch: pa.RecordBatch) -> None:
        rows = zip(*(values_of(column, for_json=True) for column in batch.columns), strict=True)
        lines = (as_json(dict(zip(self._names, row, strict=True))) + "\n" for row in rows)
        self._target.write("".join(lines).encode())

    def __enter__(self) -> _JsonWriter:
        return self

    def __exit__(self, *error: object) -> None:
        return


def writing(
    target: IO[bytes], file_format: FileFormat, schema: pa.Schema, *, is_pipe: bool
) -> AbstractContextManager[BatchWriter]:
    """What writes rows in a format. Arrow is a stream in a pipe, and a file in a file."""
    if file_format == "parquet":
        import pyarrow.parquet

        writer: Any = pyarrow.parquet.ParquetWriter(target, schema)
    elif file_format == "csv":
        writer = CsvWriter(target, schema)
    elif file_format == "jsonl":
        writer = _JsonWriter(target, schema)
    else:
        writer = (pa.ipc.new_stream if is_pipe else pa.ipc.new_file)(target, schema)
    return writer  # type: ignore[no-any-return]
