"""CSV as `import` reads it. It is UTF-8: whatever else it is has an error that names the column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from pennon.cli._bytes import is_bytes
from pennon.cli._types import is_nested, nested_in_csv
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow.csv

# Bytes of CSV and JSON that are parsed at once.
BYTES = 4 << 20
NOT_UTF8 = "not UTF-8: say which encoding it is, as in --encoding latin-1"
"""The end of a message about text that is something else."""

# How pyarrow says it, with the number of the column.
_INVALID = re.compile(r"column #(\d+): .*invalid UTF8")


class _WholeLineEnds(io.RawIOBase):
    """A file whose blocks do not end with CR: pyarrow would drop the LF after it, also that of a text."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._held = file, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._held + self._file.read(size - len(self._held))
        self._held = b"\r" if len(data) > 1 and data.endswith(b"\r") else b""
        return data[: len(data) - len(self._held)]


def read_csv(
    file: IO[bytes], schema: pa.Schema | None, wanted: pa.Schema | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns and rows of a file, whose columns in `schema` have these types.

    A column that is nested in `wanted` is an error, before pyarrow has a thread that reads ahead.
    """
    nested = {} if wanted is None else {field.name: field.type for field in wanted if is_nested(field.type)}
    for name in _first_names(file) if nested else ():
        if name in nested:
            raise InvalidInputError(f"Column {name!r}: {nested_in_csv(nested[name])}")
    try:
        with _names_in_utf8():
            opened = _opened(file, schema)
            found: pa.Schema = opened.schema
            names: list[str] = found.names
    except pa.ArrowInvalid as error:
        raise _by_name(error, _header(file) if _INVALID.search(str(error)) else ()) from None
    # Bytes are what pyarrow takes other text for.
    typed = () if schema is None else schema.names
    for field in found:
        if is_bytes(field.type) and field.name not in typed:
            raise _not_utf8(repr(field.name))

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from opened
        except pa.ArrowInvalid as error:
            raise _by_name(error, names) from None

    return found, batches()


def _opened(file: IO[bytes], schema: pa.Schema | None) -> pyarrow.csv.CSVStreamingReader:
    import pyarrow.csv

    # Words such as NA and NULL are text, and NaN is a number.
    options = pyarrow.csv.ConvertOptions(
        column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return pyarrow.csv.open_csv(
        _WholeLineEnds(file),
        pyarrow.csv.ReadOptions(block_size=BYTES),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        options,
    )


def _first_names(file: IO[bytes]) -> Sequence[str]:
    """The names of the columns of a file of which nothing was read, which stays so."""
    begin = b""
    if file.seekable():
        at = file.tell()
        begin = file.read(BYTES)
        file.seek(at)
    elif isinstance(file, io.BufferedReader):
        begin = file.peek()
    text = io.StringIO(begin.decode("utf-8-sig", errors="replace"), newline="")
    try:
        return next(filter(None, csv.reader(text)), ())
    except csv.Error:
        return ()


def _header(file: IO[bytes]) -> Sequence[str]:
    """The names of the columns of a file that was read before; none of a pipe."""
    if not file.seekable():
        return ()
    file.seek(0)
    with _names_in_utf8():
        names: list[str] = _opened(file, None).schema.names
        return names


@contextmanager
def _names_in_utf8() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        if error.encoding != "utf-8":  # that which the file was said to have
            raise
        raise InvalidInputError(f"The names of columns are {NOT_UTF8}") from None


def _by_name(error: Exception, names: Sequence[str]) -> Exception:
    """The error of a text that is not UTF-8, by the name of its column; others as they are."""
    found = _INVALID.search(str(error))
    if found is None:
        return error
    number = int(found[1])
    return _not_utf8(repr(names[number]) if names else f"number {number + 1}")


def _not_utf8(column: str) -> InvalidInputError:
    return InvalidInputError(f"Column {column} has text that is {NOT_UTF8}")
