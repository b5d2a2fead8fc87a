"""Models of pydantic as rows, compared with pylance."""

from __future__ import annotations

import importlib
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pydantic import BaseModel, Field, ValidationError, create_model


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Position(BaseModel):
    x: int
    label: str | None = None


class Person(BaseModel):
    name: str
    age: int | None = None


class Employee(Person):
    salary: int = 0


def both(name: str) -> list[ModuleType]:
    return [importlib.import_module(f"{library}.{name}") for library in ("pennon", "lance")]


def test_the_schema_of_a_model_is_that_of_pylance() -> None:
    def model(module: ModuleType) -> type[BaseModel]:
        fields: dict[str, Any] = {
            "whole": (int, ...),
            "number": (float, 3.0),
            "text": (str, ...),
            "flag": (bool | None, None),
            "data": (bytes, ...),
            "day": (date, ...),
            "at": (datetime, ...),
            "at_utc": (datetime, Field(json_schema_extra={"tz": "UTC"})),
            "list": (list[int], ...),
            "holes": (list[int | None], ...),
            "pair": (tuple[float, ...], ...),
            "position": (Position | None, None),
            "path": (list[Position], ...),
            "color": (Color, ...),
            "level": (Level, ...),
            "mixed": (Mixed, ...),
            "vector": (module.Vector(3), ...),
            "small": (module.Vector(2, pa.float16(), False), ...),
            "patches": (module.MultiVector(2), ...),
            "maybe": (module.Vector(2) | None, None),
        }
        return create_model("Everything", **fields)

    ours, theirs = (module.pydantic_to_schema(model(module)) for module in both("pydantic"))
    assert ours == theirs
    assert [ours.field(name).nullable for name in ("whole", "number", "flag", "small")] == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("annotation", [list, dict, set[int], int | str])
def test_types_that_no_column_has_are_refused(annotation: Any) -> None:
    for module in both("pydantic"):
        with pytest.raises(TypeError, match="unsupported type"):
            module.pydantic_to_schema(create_model("Wrong", field=(annotation, ...)))


def test_extras_of_fields() -> None:
    model = create_model("Extras", a=(int, Field(json_schema_extra={"unit": "m"})), b=(int, 0))
    for module in both("pydantic"):
        extras = [module.get_extras(field, "unit") for field in model.model_fields.values()]
        assert extras == ["m", None]
        assert not module.is_nullable(model.model_fields["b"])


def test_a_vector_has_its_length() -> None:
    for module in both("pydantic"):
        model = create_model("Vectors", one=(module.Vector(2), ...), several=(module.MultiVector(2), ...))
        assert model(one=[1.0, 2.0], several=[[1.0, 2.0]]).one == [1.0, 2.0]
        for one, several in (([1.0], []), ([1.0, 2.0], [[1.0]])):
            with pytest.raises(ValidationError):
                model(one=one, several=several)


def test_models_are_rows(tmp_path: Path) -> None:
    found = []
    for module, library in zip(both("pydantic"), (pennon, lance), strict=True):
        model = create_model("Row", id=(int, ...), vector=(module.Vector(2), ...), at=(Position, ...))
        data = [model(id=at, vector=[at, 0.5], at=Position(x=at)) for at in range(3)]
        uri = str(tmp_path / library.__name__)
        table = library.write_dataset(data, uri)
        table.insert(data[:1])
        found.append((table.schema, table.to_table().to_pylist()))
    assert found[0] == found[1]
    assert found[0][1][2] == {"id": 2, "vector": [2.0, 0.5], "at": {"x": 2, "label": None}}


def test_members_of_enumerations_are_their_values(tmp_path: Path) -> None:
    model = create_model("Row", color=(Color, ...), level=(Level | None, None))
    data = [model(color="blue"), model(color="red", level=2)]
    table = pennon.write_dataset(data, tmp_path / "t")
    assert table.to_table().to_pylist() == [{"color": "blue", "level": None}, {"color": "red", "level": 2}]
    assert lance.dataset(table.uri).to_table() == table.to_table()


def test_a_column_that_is_null_in_all_rows_has_its_type(tmp_path: Path) -> None:
    table = pennon.write_dataset([Person(name="Ada")], tmp_path / "t")
    assert table.schema.field("age") == pa.field("age", pa.int64())
    table.insert([Person(name="Bob", age=3)])
    assert table.to_table()["age"].to_pylist() == [None, 3]


def test_a_table_is_named_after_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class DataPoint(BaseModel):
        x: int

    monkeypatch.chdir(tmp_path)
    for library in (pennon, lance):
        table = library.LanceDataset.from_pydantic_model(DataPoint, [DataPoint(x=1)], mode="overwrite")
        assert Path(table.uri).resolve() == tmp_path / "data_point"
    appended = pennon.LanceDataset.from_pydantic_model(
        DataPoint, [DataPoint(x=2)], "data_point", mode="append", commit_message="more"
    )
    assert appended.to_table()["x"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "wrong", [{"name": "Eve"}, Position(x=1), Employee(name="Eve")], ids=lambda item: type(item).__name__
)
def test_items_of_another_class_are_refused(tmp_path: Path, wrong: Any) -> None:
    data, uri = [Person(name="Ada"), wrong], tmp_path / "t"
    for library in (pennon, lance):
        with pytest.raises(TypeError, match=r"data\[1\].*exactly"):
            library.write_dataset(data, uri)
        with pytest.raises(TypeError, match=r"data\[1\].*exactly"):
            library.LanceDataset.from_pydantic_model(Person, data, uri)
    assert not uri.exists()


def test_what_is_no_list_of_models_is_refused(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    for library in (pennon, lance):
        make = library.LanceDataset.from_pydantic_model
        with pytest.raises(TypeError, match="BaseModel subclass"):
            make(dict, [{"a": 1}], uri)
        with pytest.raises(TypeError, match="must be provided as a list"):
            make(Person, (Person(name=name) for name in "ab"), uri)
        with pytest.raises(ValueError, match="empty"):
            make(Person, [], uri)
    assert not uri.exists()
