"""Columns of a table: what is added and altered, in the forms of the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon import _native
from pennon.errors import InvalidInputError, InvalidTypeError
from pennon.udf import BatchUDF, applied, normalize_transform

if TYPE_CHECKING:
    from pennon._protocols import Scannable, ScannedFragment
    from pennon.types import AlterColumn


def add(
    table: _native.Dataset,
    transforms: Any,
    source: Scannable,
    fragments: Callable[[], Sequence[ScannedFragment]],
    read_columns: list[str] | None,
    reader_schema: pa.Schema | None,
    batch_size: int | None,
) -> _native.Dataset:
    """The table with new columns; `source` and `fragments` are what a function reads."""
    if isinstance(transforms, pa.Field):
        transforms = [transforms]
    if isinstance(transforms, list) and transforms and isinstance(transforms[0], pa.Field):
        transforms = pa.schema(transforms)
    if isinstance(transforms, pa.Schema):
        return _native.add_nulls(table, transforms)
    new = normalize_transform(transforms, source, read_columns, reader_schema)
    if isinstance(new, dict):
        return _native.add_expressions(table, list(new.items()), batch_size)
    if not isinstance(new, BatchUDF):
        return _native.add_values(table, new)
    evolved = _native.add_values(table, applied(new, fragments(), read_columns, batch_size))
    if new.cache is not None:
        new.cache.cleanup()
    return evolved


def alteration(alteration: AlterColumn) -> tuple[str, str | None, bool | None, pa.DataType | None]:
    """A change to a column: path, name, nullable, type."""
    if not isinstance(alteration, Mapping):
        raise InvalidTypeError(f"An alteration must be a dict with path and its changes, found {alteration!r}")
    given: dict[str, Any] = dict(alteration)
    if "path" not in given:
        raise InvalidInputError(f"path is required, found {given!r}")
    path = given.pop("path")
    for key in given:
        if key not in ("name", "nullable", "data_type"):
            raise InvalidInputError(f"Unknown key: {key}. Valid keys are name, nullable, and data_type.")
    if not given:
        raise InvalidInputError(f"At least one of name, nullable, or data_type must be specified for {path!r}")
    return path, given.get("name"), given.get("nullable"), given.get("data_type")
