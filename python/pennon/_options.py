"""Checks of options: those of pylance that this release does not support, commit locks and maps of strings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pennon.errors import InvalidInputError, UnsupportedError

_READ_PARAMETERS = ("cache_repetition_index", "validate_on_decode")


def refuse(**given: Any) -> None:
    """Refuse every option that was given a value."""
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"The option {name!r} is not supported by this release")


def deprecated(name: str, instead: str, *, depth: int = 1) -> None:
    """Warn the caller of the function that calls this; `depth` counts the functions between them."""
    warnings.warn(f"{name} is deprecated: use {instead}", DeprecationWarning, stacklevel=2 + depth)


def storage_version(data_storage_version: str | None, use_legacy_format: bool | None) -> str | None:
    """The version of data files; warns the caller of the function that calls this about the older option."""
    if use_legacy_format is None:
        return data_storage_version
    deprecated("use_legacy_format", "data_storage_version", depth=2)
    return "legacy" if use_legacy_format else "stable"


def check_read_params(read_params: Mapping[str, Any] | None) -> None:
    """Refuse parameters of reading that there are not; those of pylance have no effect on what is read."""
    for name, value in dict(read_params or {}).items():
        if name not in _READ_PARAMETERS:
            raise InvalidInputError(f"Unknown read parameter {name!r}: there are {', '.join(_READ_PARAMETERS)}")
        if not isinstance(value, bool):
            raise InvalidInputError(f"The read parameter {name!r} must be true or false, got {value!r}")


def lock(commit_lock: Any) -> Any:
    """The commit lock, or `None`. Raises `TypeError` if it is neither `None` nor callable."""
    if commit_lock is not None and not callable(commit_lock):
        raise TypeError(f"commit_lock must be a function, got {type(commit_lock)}")
    return commit_lock


def strings(mapping: Mapping[Any, Any] | None) -> dict[str, str]:
    """A map of strings. Raises `TypeError` for other keys or values."""
    found = dict(mapping or {})
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"Keys and values must be strings: found {key!r}: {value!r}")
    return found
