"""Rows as pandas frames, with blobs as files that are read when they are looked at.

A blob column is one whose field says so (`lance-encoding:blob`), as the descriptions of both kinds of blobs do, and
legacy blobs that were read as bytes. Blobs in structs are found, those in lists are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

import pyarrow as pa

from pennon._optional import require
from pennon._table import rows
from pennon.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from pennon.errors import InvalidInputError, UnsupportedError
from pennon.types import BlobMode

if TYPE_CHECKING:
    from pennon import _native

_ADDRESS = "_rowaddr"


def checked(blob_mode: str) -> BlobMode:
    """The mode. Raises `InvalidInputError` for any other text."""
    if blob_mode not in get_args(BlobMode):
        raise InvalidInputError(f"blob_mode must be one of: 'lazy', 'bytes', 'descriptions'; found {blob_mode!r}")
    return cast(BlobMode, blob_mode)


def blob_paths(table: _native.Dataset, request: _native.ScanRequest, schema: pa.Schema) -> list[tuple[str, ...]]:
    """The paths of the blob columns in the result of a scan, outermost name first."""
    found = [path for field in schema for path in _paths(field, ())]
    if request["blob_handling"] == "all_binary":
        return found
    # A blob with another name does not say that it is one.
    marked = {field.name for field in table.schema if _is_blob(field)}
    renamed = [(name,) for name, source in _sources(request, schema).items() if source in marked]
    return [*found, *(path for path in renamed if path not in found)]


def _is_blob(field: pa.Field) -> bool:
    marks = field.metadata or {}
    # A program that has imported pylance has registered the type.
    kind = getattr(field.type, "extension_name", marks.get(b"ARROW:extension:name", b"").decode())
    return kind == "lance.blob.v2" or marks.get(b"lance-encoding:blob") == b"true"


def _paths(field: pa.Field, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    path = (*parent, field.name)
    if (field.metadata or {}).get(b"lance-encoding:blob") == b"true":
        yield path
    elif pa.types.is_struct(field.type):
        for child in field.type:
            yield from _paths(child, path)


def refuse_legacy_descriptions(
    paths: list[tuple[str, ...]], request: _native.ScanRequest, schema: pa.Schema
) -> None:
    """Refuse legacy blobs, which are read as bytes, where descriptions are wanted."""
    legacy = [".".join(path) for path in paths if pa.types.is_large_binary(_at(schema, path))]
    if legacy and request["blob_handling"] != "all_binary":
        raise UnsupportedError(
            f"Descriptions of the legacy blobs in column {legacy[0]!r} are not supported: "
            "give the blob_mode 'lazy' or 'bytes'"
        )


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


def _at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind
