"""Rows as pandas frames, with blobs as files that are read when they are looked at.

A blob column is one of descriptions, which its field says (`lance-encoding:blob`). Blobs in structs are found,
those in lists are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

import pyarrow as pa

from pennon._optional import require
from pennon._table import rows
from pennon.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from pennon.errors import InvalidInputError
from pennon.types import BlobMode

if TYPE_CHECKING:
    from pennon import _native

_ADDRESS = "_rowaddr"


def checked(blob_mode: str) -> BlobMode:
    """The mode. Raises `InvalidInputError` for any other text."""
    if blob_mode not in get_args(BlobMode):
        raise InvalidInputError(f"blob_mode must be one of: 'lazy', 'bytes', 'descriptions'; found {blob_mode!r}")
    return cast(BlobMode, blob_mode)


def blob_paths(schema: pa.Schema) -> list[tuple[str, ...]]:
    """The paths of the blob columns in the result of a scan, outermost name first."""
    return [path for field in schema for path in _paths(field, ())]


def _paths(field: pa.Field, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    path = (*parent, field.name)
    if not pa.types.is_struct(field.type) or not field.type.num_fields:
        return  # no description, whatever is marked
    if (field.metadata or {}).get(b"lance-encoding:blob") == b"true":
        yield path
        return
    for child in field.type:
        yield from _paths(child, path)


def with_files(
    table: _native.Dataset,
    request: _native.ScanRequest,
    schema: pa.Schema,
    paths: list[tuple[str, ...]],
    scan: Callable[[_native.ScanRequest], pa.Table],
    options: Mapping[str, Any],
) -> Any:
    """The rows of a scan, whose columns `schema` has, as a frame; `scan` reads those of a changed request."""
    pd = require("pandas", "pandas", "to_pandas")
    top_level = [path[0] for path in paths if len(path) == 1]
    is_asked = _ADDRESS in schema.names
    read = _columns(request, schema, top_level)
    found = scan({**request, "columns": read, "with_row_address": request["with_row_address"] or not is_asked})
    addresses = found[_ADDRESS]
    kept = found if is_asked else found.drop_columns([_ADDRESS])
    result = kept.to_pandas(**options) if kept.num_columns else pd.DataFrame(index=range(found.num_rows))
    sources = _sources(request, schema)
    for path in paths:
        source = ".".join((sources[path[0]], *path[1:]))
        blobs = dict(rows.take_blobs(table, source, None, addresses, None))
        files = [_file(blobs.get(address)) for address in addresses.to_pylist()]
        if len(path) == 1:
            at = sum(name in result.columns for name in schema.names[: schema.names.index(path[0])])
            result.insert(at, path[0], pd.Series(files, index=result.index, dtype=object))
        else:
            for value, file in zip(result[path[0]], files, strict=True):
                _put(value, path[1:], file)
    return result


def _columns(
    request: _native.ScanRequest, schema: pa.Schema, blobs: list[str]
) -> list[str] | list[tuple[str, str]] | None:
    """What is read besides the blobs."""
    columns = request["columns"]
    if columns is None:
        system = ("_rowid", _ADDRESS)
        return [name for name in schema.names if name not in blobs and name not in system]
    if columns and isinstance(columns[0], tuple):
        return [pair for pair in columns if pair[0] not in blobs]
    return [name for name in cast("list[str]", columns) if name not in blobs]


def _sources(request: _native.ScanRequest, schema: pa.Schema) -> dict[str, str]:
    """The column of the table behind each of the result."""
    columns = request["columns"]
    if columns and isinstance(columns[0], tuple):
        return {name: source.strip("`") for name, source in columns}
    return {name: name for name in schema.names}


def _file(blob: _native.Blob | None) -> BlobFile | None:
    return None if blob is None else BlobFile(blob, DEFAULT_BLOB_BUFFER_SIZE)


def _put(value: Any, path: tuple[str, ...], file: BlobFile | None) -> None:
    """Puts a file into the value of a struct, which may be null."""
    for name in path[:-1]:
        value = None if value is None else value[name]
    if value is not None:
        value[path[-1]] = file
