"""Texts that show what a version of a table consists of, for people who look for a fault.

Nobody should parse them: they change when there is something better to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from pennon._field_paths import field_paths
from pennon.errors import InvalidInputError
from pennon.metadata import FragmentMetadata
from pennon.schema import LanceField, LanceSchema

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]

_INDENT = "  "


def format_schema(dataset: LanceDataset) -> str:
    """The fields of a table: ids, names, types in the table format, and metadata.

    Raises
    ------
    pennon.InvalidInputError
        `dataset` is something else.

    Examples
    --------
    >>> import pennon
    >>> from pennon.debug import format_schema
    >>> table = pennon.write_dataset({"a": [1], "b": [{"c": "x"}]}, "memory://format-schema", mode="overwrite")
    >>> print(format_schema(table))
    Schema
      0 a: int64
      1 b: struct
        2 c: string
    """
    return _text(_schema(_checked(dataset).lance_schema))


def format_manifest(dataset: LanceDataset) -> str:
    """A version of a table: its number, schema, settings and fragments.

    Raises
    ------
    pennon.InvalidInputError
        `dataset` is something else.

    Examples
    --------
    >>> import pennon
    >>> from pennon.debug import format_manifest
    >>> table = pennon.write_dataset({"a": [1]}, "memory://format-manifest", mode="overwrite")
    >>> print(format_manifest(table))
    Manifest
      uri: memory://format-manifest
      version: 1
      rows: 1
      data_storage_version: 2.2
      Schema
        0 a: int64
      Fragment 0
        rows: 1
        ...
    """
    schema = _checked(dataset).lance_schema
    lines = ["Manifest"]
    parts = {
        "uri": dataset.uri,
        "version": dataset.version,
        "rows": dataset.count_rows(),
        "data_storage_version": dataset.data_storage_version,
        "config": dataset.config(),
        "metadata": dataset.metadata,
    }
    for name, value in parts.items():
        lines += _indented(_named(name, value))
    lines += _indented(_schema(schema))
    for fragment in dataset.get_fragments():
        lines += _indented(_fragment(fragment.metadata, schema))
    return _text(lines)


def format_fragment(fragment: FragmentMetadata, dataset: LanceDataset) -> str:
    """A fragment: its rows, and its files with the names of their columns.

    Parameters
    ----------
    fragment
        The metadata, or a `LanceFragment`.
    dataset
        The table, for the names.

    Raises
    ------
    pennon.InvalidInputError
        One of them is something else.

    Examples
    --------
    >>> import pennon
    >>> from pennon.debug import format_fragment
    >>> table = pennon.write_dataset({"a": [1]}, "memory://format-fragment", mode="overwrite")
    >>> table.delete("a = 2")
    {'num_deleted_rows': 0}
    >>> print(format_fragment(table.get_fragment(0).metadata, table))
    Fragment 0
      rows: 1
      DataFile ...
    """
    schema = _checked(dataset).lance_schema
    found = getattr(fragment, "metadata", fragment)
    if not isinstance(found, FragmentMetadata):
        raise InvalidInputError(f"The fragment is a {type(fragment).__name__}, expected its FragmentMetadata")
    return _text(_fragment(found, schema))


def list_transactions(dataset: LanceDataset, max_transactions: int = 10) -> list[str]:
    """The transactions of the newest versions, newest first.

    Parameters
    ----------
    dataset
        The table.
    max_transactions
        How many, at most.

    Returns
    -------
    list of str
        One text each; versions whose transaction was not kept are left out.

    Raises
    ------
    pennon.InvalidInputError
        `dataset` is something else, or the number is negative.

    Examples
    --------
    >>> import pennon
    >>> from pennon.debug import list_transactions
    >>> table = pennon.write_dataset({"a": [1]}, "memory://transactions", mode="overwrite")
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> print(list_transactions(table, 1)[0])
    Transaction
      read_version: 1
      operation: Delete
        ...
    """
    _checked(dataset)
    if max_transactions < 0:
        raise InvalidInputError(f"max_transactions is {max_transactions}, expected 0 or more")
    if max_transactions == 0:
        return []
    found = dataset.get_transactions(max_transactions)
    return [_text(_value(transaction)) for transaction in found if transaction is not None]


def _checked(dataset: LanceDataset) -> LanceDataset:
    from pennon.dataset import LanceDataset

    if not isinstance(dataset, LanceDataset):
        raise InvalidInputError(f"The dataset is a {type(dataset).__name__}, expected a pennon.LanceDataset")
    return dataset


def _text(lines: list[str]) -> str:
    return "\n".join(lines)


def _indented(lines: list[str]) -> list[str]:
    return [_INDENT + line for line in lines]


def _schema(schema: LanceSchema) -> list[str]:
    lines = ["Schema"]
    for field in schema.fields():
        lines += _indented(_field(field))
    return lines + _indented(_named("metadata", schema.metadata))


def _field(field: LanceField) -> list[str]:
    lines = [f"{field.id} {field.name}: {field.logical_type}{'' if field.nullable else ' not null'}"]
    lines += _indented(_named("metadata", field.metadata))
    for child in field.children():
        lines += _indented(_field(child))
    return lines


def _fragment(fragment: FragmentMetadata, schema: LanceSchema) -> list[str]:
    names = {field.id: path for path, field in field_paths(schema.fields())}
    parts = [f"rows: {fragment.num_rows}"]
    for file in fragment.files:
        parts.append(f"DataFile {file.path}")
        version = f"{file.file_major_version}.{file.file_minor_version}"
        columns = ", ".join(names.get(number, f"field {number}, not in the schema") for number in file.fields)
        bytes = "unknown" if file.file_size_bytes is None else file.file_size_bytes
        parts += _indented([f"version: {version}", f"bytes: {bytes}", f"columns: {columns}"])
    shown = {"id", "files"}
    for field in fields(fragment):
        if field.name not in shown and not field.name.startswith("_"):
            parts += _named(field.name, getattr(fragment, field.name))
    return [f"Fragment {fragment.id}", *_indented(parts)]


def _named(name: str, value: Any) -> list[str]:
    """An attribute; nothing if it has no value."""
    if value is None or (not value and isinstance(value, Mapping | list | tuple | set | frozenset)):
        return []
    first, *rest = _value(value)
    return [f"{name}: {first}", *rest]


def _value(value: Any) -> list[str]:
    """A value: what it is in the first line, its parts below."""
    if isinstance(value, LanceSchema):
        return _schema(value)
    if is_dataclass(value) and not isinstance(value, type):
        lines = [type(value).__name__]
        for field in fields(value):
            if not field.name.startswith("_"):
                lines += _indented(_named(field.name, getattr(value, field.name)))
        return lines
    if isinstance(value, Mapping):
        lines = [f"{len(value)}"]
        for key, item in value.items():
            lines += _indented(_named(str(key), item))
        return lines
    if isinstance(value, list | tuple | set | frozenset) and any(is_dataclass(item) for item in value):
        lines = [f"{len(value)}"]
        for item in value:
            lines += _indented(_value(item))
        return lines
    if isinstance(value, bytes | bytearray):
        return [f"{len(value)} bytes"]
    return [str(value)]
