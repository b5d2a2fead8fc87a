"""Signatures of the modules that are as pylance's, next to those of the installed one, and why some differ."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

MODULES = ("arrow", "sampler", "progress")
ABSENT = {
    "progress.IndexProgress": "no indices are built",
    "sampler.PrioritizedItem": "a part of their reservoir",
    "sampler.reservoir_sampling": "a part of their filtered sampler",
}
OURS = {
    "arrow.PandasBFloat16Type": "the dtype of the array that both have; theirs is in a private module",
    "arrow.BFloat16Scalar": "theirs is in a private module",
    "sampler.ShardedBatchIterator": "theirs is in a private module",
}
DIFFERENT = {
    "arrow.FixedShapeImageTensorArray.to_numpy": "takes the parameter that pyarrow's method has",
    "arrow.PandasBFloat16Array.to_numpy": "takes the parameters that pandas gives it",
    "sampler.Sampler.__call__": "the dataset has one name in all samplers",
    "sampler.FragmentSampler.iter_fragments": "the dataset has one name in all samplers",
    "sampler.FullScanSampler.iter_fragments": "takes what the method that it overrides takes",
    "sampler.ShardedFragmentSampler.iter_fragments": "takes what the method that it overrides takes",
    "sampler.ShardedBatchSampler.__call__": "with_row_id has the default of all samplers",
    "sampler.ShardedFixedBatchSampler.__call__": "with_row_id has the default of all samplers",
}
NATIVE = {"arrow.BFloat16", "arrow.bfloat16_array"}


def own(module: Any, name: str) -> dict[str, Any]:
    """The classes and functions that a module or its package defines."""
    package = module.__name__.partition(".")[0]
    # Those that are made when they are asked for are not in `dir`.
    names = sorted({*dir(module), *getattr(module, "__all__", ())})
    return {
        key: value
        for key, value in ((key, getattr(module, key)) for key in names)
        if (inspect.isclass(value) or inspect.isroutine(value))
        and ((value.__module__ or "").startswith(package) or f"{name}.{key}" in NATIVE)
        and not (key.startswith("_") and key not in ("__call__",))
    }


def members(module: Any, name: str) -> dict[str, Any]:
    """What is called, by its name."""
    found: dict[str, Any] = {}
    for key, value in own(module, name).items():
        found[f"{name}.{key}"] = value
        if inspect.isclass(value) and f"{name}.{key}" not in NATIVE:
            package = module.__name__.partition(".")[0]
            classes = [parent for parent in reversed(value.__mro__) if parent.__module__.startswith(package)]
            methods = {method: function for parent in classes for method, function in vars(parent).items()}
            for method, function in methods.items():
                if method in ("__init__", "__call__") or not method.startswith("_"):
                    function = getattr(function, "__func__", function)
                    if inspect.isfunction(function):
                        found[f"{name}.{key}.{method}"] = function
    return found


def parameters(function: Any) -> list[tuple[str, str, str]] | None:
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    # What the names of the arguments that remain are does not matter to a caller.
    return [
        ("" if p.kind.name.startswith("VAR") else p.name, p.kind.name, repr(p.default))
        for p in found
        if p.name not in ("self", "cls")
    ]


@pytest.mark.parametrize("name", MODULES)
def test_names_and_parameters(name: str) -> None:
    ours, theirs = (members(importlib.import_module(f"{package}.{name}"), name) for package in ("pennon", "lance"))
    public = importlib.import_module(f"pennon.{name}").__all__
    beyond = {f"{name}.{key}" for key in public} - set(theirs)
    assert beyond == {key for key in OURS if key.startswith(f"{name}.")}
    for key, function in theirs.items():
        if any(key == absent or key.startswith(f"{absent}.") for absent in ABSENT):
            assert key not in ours
            continue
        assert key in ours, key
        expected = parameters(function)
        if key in DIFFERENT:
            assert parameters(ours[key]) != expected, f"{key} is no longer different"
        elif expected is not None and not inspect.isclass(function):
            assert parameters(ours[key]) == expected, key


@pytest.mark.parametrize("name", sorted(OURS))
def test_names_that_only_we_have(name: str) -> None:
    module, _, key = name.partition(".")
    assert hasattr(importlib.import_module(f"pennon.{module}"), key)
    assert not hasattr(importlib.import_module(f"lance.{module}"), key)
