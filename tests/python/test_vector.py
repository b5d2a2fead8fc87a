"""`vec_to_table`, next to that of pylance."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pennon
import pytest
from pennon.vector import vec_to_table

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)
GOOD: list[tuple[Any, dict[str, Any]]] = [
    ({"a": [1, 2], "b": [3, 4]}, {}),
    ({"a": np.array([1, 2]), "b": [3, 4]}, {"names": ["x", "y"]}),
    ({1: [1, 2]}, {}),
    ([[1, 2], [3, 4]], {}),
    ([[1, 2], [3, 4]], {"names": "v"}),
    ([[1, 2], [3, 4]], {"names": ["v"]}),
    ([[1, 2], [3, 4]], {"ndim": 2}),
    ([[1, 2], [3, 4]], {"ndim": 1, "check_ndim": False}),
    ([[1, 2], [3, 4]], {"ndim": 4, "check_ndim": False}),
    ([[1, None], [1e300, 16777217]], {}),
    ([np.array([1.0, 2.0]), (3.0, 4.0)], {}),
    (MATRIX, {}),
    (MATRIX.T, {}),
    (MATRIX.astype(np.float64) / 3, {}),
    (MATRIX.astype(np.float16), {}),
    (MATRIX.astype(np.int8), {}),
    (np.zeros((2, 2, 2)), {}),
]
BAD: list[tuple[Any, dict[str, Any], str]] = [
    ({"a": [1, 2]}, {"names": "x"}, "expected 2 for the columns"),
    ({"a": [1, 2]}, {"names": ["x", "y", "z"]}, "expected 2 for the columns"),
    ([[1, 2]], {"names": 5}, "names are 5"),
    ([[1, 2], [3]], {}, "Vector 1 has 1 dimensions, expected 2"),
    ([[1, 2], [3]], {"check_ndim": False}, "Vector 1 has 1 dimensions"),
    ([[1, 2], [3, 4]], {"ndim": 3}, "Vector 0 has 2 dimensions, expected 3"),
    ([[1, 2], [3, 4]], {"ndim": 3, "check_ndim": False}, "4 numbers cannot be divided"),
    ([[1, 2], [3, 4]], {"ndim": 0, "check_ndim": False}, "vectors of 0 dimensions"),
    ([1, 2], {}, "Vector 0 is a int"),
    ([None, [1, 2]], {}, "Vector 0 is a NoneType"),
    (MATRIX[0], {}, "Vector 0 is a float32"),
    ([["a", "b"]], {}, "not numbers"),
    ([], {}, "no vectors"),
    ({}, {}, "no vectors"),
    (np.zeros((0, 4)), {}, "no vectors"),
]
OTHER = [5, "ab", ((1, 2), (3, 4))]


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("tqdm") is None:
            # The module of the reference imports it, for other functions than this one.
            patch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
            patch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=None))
        yield importlib.import_module("lance.vector").vec_to_table


@pytest.mark.parametrize(("data", "options"), GOOD)
@pytest.mark.filterwarnings("ignore:overflow")
def test_as_in_the_reference(theirs: Any, data: Any, options: dict[str, Any]) -> None:
    mine, other = vec_to_table(data, **options), theirs(data, **options)
    assert mine.schema == other.schema
    assert repr(mine.to_pydict()) == repr(other.to_pydict())


@pytest.mark.parametrize(("data", "options", "message"), BAD)
def test_what_is_wrong(theirs: Any, data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=message):
        vec_to_table(data, **options)
    with pytest.raises((TypeError, ValueError, StopIteration, ZeroDivisionError)):
        theirs(data, **options)


@pytest.mark.parametrize("data", OTHER, ids=str)
def test_other_data(theirs: Any, data: Any) -> None:
    with pytest.raises(pennon.UnsupportedError, match="expected a dict, a list or a numpy array"):
        vec_to_table(data)
    with pytest.raises(NotImplementedError):
        theirs(data)


def test_same_parameters(theirs: Any) -> None:
    mine, other = (inspect.signature(function).parameters.values() for function in (vec_to_table, theirs))
    assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in other]
