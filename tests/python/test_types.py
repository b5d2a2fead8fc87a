"""The values that the types of arguments name are those that are accepted, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pennon
import pytest
from pennon import types
from pennon.file import LanceFileWriter

from .conftest import numbers


def written(directory: Path, **options: Any) -> object:
    return pennon.write_dataset(numbers(3), directory / "new", **options)


def wider(table: pennon.LanceDataset) -> pennon.LanceDataset:
    """The table with a column that a source does not have."""
    if "more" not in table.schema.names:
        table.add_columns({"more": "id"})
    return table


CALLS: dict[str, list[Callable[[pennon.LanceDataset, Path, Any], object]]] = {
    "WriteMode": [
        lambda table, path, value: written(path, mode=value),
        lambda table, path, value: pennon.fragment.write_fragments(numbers(1), path / "new", mode=value),
        lambda table, path, value: pennon.LanceFragment.create(path / "new", numbers(1), mode=value),
    ],
    "Durability": [
        lambda table, path, value: pennon.dataset(table.uri, durability=value),
        lambda table, path, value: written(path, durability=value),
        lambda table, path, value: LanceFileWriter(path / "file", numbers(0).schema, durability=value).close(),
    ],
    "FileVersion": [
        lambda table, path, value: written(path, data_storage_version=value),
        lambda table, path, value: table.update({"id": "id"}, data_storage_version=value),
    ],
    "ExternalBlobMode": [lambda table, path, value: written(path, external_blob_mode=value)],
    "BlobHandling": [
        lambda table, path, value: table.to_table(blob_handling=value),
        lambda table, path, value: table.get_fragments()[0].to_table(blob_handling=value),
    ],
    "BlobMode": [lambda table, path, value: table.to_pandas(blob_mode=value)],
    "ChangeColumns": [lambda table, path, value: table.changes(0, columns_of=value).read_all()],
    "ChangeMode": [lambda table, path, value: table.changes(0, mode=value).read_all()],
    "ChangeImages": [lambda table, path, value: table.changes(0, images=value).read_all()],
    "Missing": [lambda table, path, value: table.take_rows([1], missing=value)],
    "Order": [
        lambda table, path, value: table.tags.list_ordered(value),
        lambda table, path, value: table.branches.list_ordered(value),
    ],
    "RewriteMode": [
        lambda table, path, value: table.update({"id": "id"}, mode=value),
        lambda table, path, value: (
            wider(table).merge_insert("id").when_matched_update_all().write_mode(value).execute(numbers(1))
        ),
    ],
}
# What is a value, and cannot be used in these calls.
REFUSED = {
    "FileVersion": {"legacy", "0.1", "2.3", "next"},
}


def test_every_set_of_values_is_tried() -> None:
    literals = {name for name in types.__all__ if isinstance(get_args(getattr(types, name))[:1], tuple)}
    named = {name for name in literals if all(isinstance(value, str) for value in get_args(getattr(types, name)))}
    assert set(CALLS) == {name for name in named if get_args(getattr(types, name))} - {"TakeBy"}


@pytest.mark.parametrize(("name", "number"), [(n, i) for n, calls in CALLS.items() for i in range(len(calls))])
def test_values(table: pennon.LanceDataset, tmp_path: Path, name: str, number: int) -> None:
    call, values = CALLS[name][number], get_args(getattr(types, name))
    for value in values:
        directory = tmp_path / value
        directory.mkdir()
        if value in REFUSED.get(name, ()):
            with pytest.raises(pennon.UnsupportedError):
                call(table, directory, value)
        else:
            call(table, directory, value)
    for wrong in ("nonsense", "", values[0].upper() + " "):
        with pytest.raises(pennon.InvalidInputError):
            call(table, tmp_path / "wrong", wrong)
    assert not [path for path in (tmp_path / "wrong").rglob("*") if path.is_file()]
