"""Checks of options: those of pylance without support or effect, commit locks and maps of strings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from pennon.errors import NoEffectWarning, UnsupportedError

_warned: set[str] = set()


def refuse(**given: Any) -> None:
    """Refuse every option that was given a value."""
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"The option {name!r} is not supported by this release")


def ignored(**given: Any) -> None:
    """Warn of every option that was given a value, which has no effect: once in a process for each."""
    for name, value in given.items():
        if value is not None and name not in _warned:
            _warned.add(name)
            _warn(f"The option {name!r} is accepted as by pylance, and has no effect", NoEffectWarning)


def unless(value: Any, default: Any) -> Any:
    """The value, or `None` if it is the default."""
    return None if value == default else value


def deprecated(name: str, instead: str) -> None:
    """Warn whoever calls Pennon that they use something deprecated."""
    _warn(f"{name} is deprecated: use {instead}", DeprecationWarning)


def file_version(use_legacy_format: bool | None, data_storage_version: str | None) -> str | None:
    """The version of data files, which the deprecated `use_legacy_format` overrules."""
    if use_legacy_format is None:
        return data_storage_version
    deprecated("use_legacy_format", "data_storage_version")
    if use_legacy_format:
        raise UnsupportedError("Data files of version 0.1 cannot be written: use_legacy_format is not supported")
    return "stable"


def _warn(message: str, category: type[Warning]) -> None:
    """Warn of the line outside of the package that the call came from."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pennon":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


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
