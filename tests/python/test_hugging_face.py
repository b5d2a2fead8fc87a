"""Datasets of Hugging Face are data, with the rows that they select and the features that they have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pennon
import PIL.Image
import pyarrow as pa
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


def test_rows_with_nulls_before_values(tmp_path: Path) -> None:
    """Rows that a generator gives have the types of the features, or those that the first rows have together."""

    def rows() -> Iterator[dict[str, object]]:
        for number in range(1200):
            yield {"number": number, "text": "a" if number in (900, 1100) else None}

    features = datasets.Features({"number": datasets.Value("int32"), "text": datasets.Value("string")})
    given = {
        "known": datasets.IterableDataset.from_generator(rows, features=features),
        "cast": datasets.IterableDataset.from_generator(rows).cast(features),
        "unknown": datasets.IterableDataset.from_generator(rows),
    }
    for name, data in given.items():
        table = pennon.write_dataset(data, tmp_path / name)
        assert table.schema.types == [pa.int64() if name == "unknown" else pa.int32(), pa.string()]
        assert table.to_table().to_pylist() == list(rows())


def test_features_of_rows_of_a_generator(tmp_path: Path) -> None:
    """They are written as those of a dataset that is on disk: images with their bytes."""
    PIL.Image.effect_noise((16, 16), 50).save(file := BytesIO(), "JPEG")

    def rows() -> Iterator[dict[str, object]]:
        yield {"image": None, "kind": "cat", "grid": np.ones((2, 2), np.float32), "list": None}
        yield {"image": {"bytes": file.getvalue()}, "kind": 1, "grid": np.zeros((2, 2), np.float32), "list": [2]}

    features = datasets.Features(
        image=datasets.Image(),
        kind=datasets.ClassLabel(names=["cat", "dog"]),
        grid=datasets.Array2D((2, 2), "float32"),
        list=datasets.List(datasets.Value("int16")),
    )
    stored = datasets.Dataset.from_list(list(rows()), features=features)
    expected = pennon.write_dataset(stored, tmp_path / "stored").to_table()
    assert expected["image"].to_pylist()[1]["bytes"] == file.getvalue()
    data = datasets.IterableDataset.from_generator(rows, features=features)
    for name, given in {"all": data, "numpy": data.with_format("numpy"), "taken": data.take(2)}.items():
        found = pennon.write_dataset(given, tmp_path / name).to_table()
        assert found.equals(expected, check_metadata=True)


def test_a_dict_of_datasets_is_none(tmp_path: Path) -> None:
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_dict(VALUES)})
    with pytest.raises(pennon.InvalidTypeError, match="DatasetDict: write its splits singly"):
        pennon.write_dataset(splits, tmp_path / "t")
