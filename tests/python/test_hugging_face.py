"""Datasets of Hugging Face are data, with the rows that they select and the features that they have."""

from __future__ import annotations

import json
from pathlib import Path

import pennon
import pytest

# The pinned release of a package it needs does not run on Python 3.10.
datasets = pytest.importorskip("datasets")

VALUES = {"i": [0, 1, 2, 3], "text": ["a", "b", "c", "d"]}


def test_datasets_are_written(tmp_path: Path) -> None:
    data = datasets.Dataset.from_dict(VALUES)
    for name, given in {"all": data, "streamed": data.to_iterable_dataset()}.items():
        table = pennon.write_dataset(given, tmp_path / name)
        assert table.to_table().to_pydict() == VALUES
        features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
        assert {name: feature["_type"] for name, feature in features.items()} == {"i": "Value", "text": "Value"}


def test_selected_rows_in_their_order(tmp_path: Path) -> None:
    """pylance writes all rows of a dataset that selects some, in another order."""
    data = datasets.Dataset.from_dict(VALUES)
    table = pennon.write_dataset(data.select([3, 1]), tmp_path / "t")
    assert table.to_table()["i"].to_pylist() == [3, 1]
    table.insert(data.select([0]))
    assert table.merge_insert("i").when_matched_delete().execute(data.select([1]))["num_deleted_rows"] == 1
    assert table.to_table()["text"].to_pylist() == ["d", "a"]


def test_unknown_features_are_those_of_the_first_rows(tmp_path: Path) -> None:
    data = datasets.Dataset.from_dict(VALUES).to_iterable_dataset()
    data = data.map(lambda row: row)
    assert data.features is None
    assert pennon.write_dataset(data, tmp_path / "t").to_table().to_pydict() == VALUES


def test_a_dict_of_datasets_is_none(tmp_path: Path) -> None:
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_dict(VALUES)})
    with pytest.raises(pennon.InvalidTypeError, match="DatasetDict: write its splits singly"):
        pennon.write_dataset(splits, tmp_path / "t")
