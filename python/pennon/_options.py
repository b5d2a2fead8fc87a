"""Checks of options: those of pylance that this release does not support, commit locks and maps of strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pennon.errors import UnsupportedError


def refuse(**given: Any) -> None:
    """Refuse every option that was given a value."""
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"The option {name!r} is not supported by this release")


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
