"""Checks of what is given: options without support or effect, and the types and ranges of arguments."""

from __future__ import annotations

import operator
import os
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, TypeAlias

from pennon.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingKeyError,
    NoEffectWarning,
    PennonError,
    PositionError,
    UnsupportedError,
)

_warned: set[str] = set()

Lock: TypeAlias = Callable[[int], AbstractContextManager[object]]

_READ_PARAMETERS = ("cache_repetition_index", "validate_on_decode")


def refuse(**given: Any) -> None:
    """Refuse every option that was given a value."""
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"The option {name!r} is not supported by this release")


def refuse_unknown(function: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuse what a function is given beyond its parameters.

    Raises
    ------
    pennon.InvalidTypeError
        There is something, which Python itself would refuse with a `TypeError`.
    """
    for name in keywords:
        raise InvalidTypeError(f"{function} got an unexpected keyword argument {name!r}")
    if arguments:
        raise InvalidTypeError(f"{function} got {len(arguments)} positional arguments too many")


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


def converted(name: str) -> None:
    """Warn that a float was given for a whole number."""
    _warn(f"{name} is float, converting to int", UserWarning)


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


def check_read_params(read_params: Mapping[str, Any] | None) -> None:
    """Refuse unknown parameters of reading; those of pylance have no effect on what is read."""
    for name, value in dict(read_params or {}).items():
        if name not in _READ_PARAMETERS:
            raise InvalidInputError(f"Unknown read parameter {name!r}: there are {', '.join(_READ_PARAMETERS)}")
        if not isinstance(value, bool):
            raise InvalidInputError(f"The read parameter {name!r} must be true or false, got {value!r}")


def lock(commit_lock: Lock | None) -> Lock | None:
    """The commit lock, or `None`. Raises `InvalidTypeError` if it is neither `None` nor callable."""
    if commit_lock is not None and not callable(commit_lock):
        raise InvalidTypeError(f"commit_lock must be a function, got {type(commit_lock)}")
    return commit_lock


def strings(mapping: Mapping[Any, Any] | None, name: str = "storage_options") -> dict[str, str]:
    """A map of strings. Raises `InvalidTypeError` for anything else, without its values, which may be secrets."""
    try:
        found = {} if mapping is None else dict(mapping)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be a dict of strings, found {type(mapping).__name__}") from None
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidTypeError(f"{name} must be a dict of strings, found {key!r}: {type(value).__name__}")
    return found


def checked_text(name: str, value: Any) -> str:
    """A text. Raises `InvalidTypeError` for anything else."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be text, found {_found(value)}")
    return unicode(name, value)


def unicode(name: str, text: str) -> str:
    """A text that UTF-8 can represent. Raises `InvalidInputError` for another, as names of files may be."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # What an address has in full may be a secret.
        found = text[error.start : error.end]
        raise InvalidInputError(f"{name} must be text in UTF-8, found {found!r} at {error.start}") from None
    return text


def checked_names(name: str, value: Any) -> list[str]:
    """A list of texts. Raises `InvalidTypeError` for anything else, a single text too."""
    found = None if isinstance(value, str | bytes) or not isinstance(value, Iterable) else list(value)
    if found is None or not all(isinstance(item, str) for item in found):
        raise InvalidTypeError(f"{name} must be a list of texts, found {_found(value)}")
    return found


def checked_numbers(name: str, value: Any) -> list[int]:
    """A list of whole numbers. Raises `InvalidTypeError` for anything else, and as `checked_number` for each."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{name} must be a list of whole numbers, found {_found(value)}")
    return [checked_number(name, number) for number in value]


def checked_number(name: str, value: Any, least: int = 0, most: int = 2**64 - 1) -> int:
    """A whole number. Raises `InvalidTypeError` for anything else, and `PositionError` outside of the bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"{name} must be a whole number, found {_found(value)}") from None
    if number < 0 == least:
        raise PositionError(f"{name} must be non-negative, got {number}")
    if not least <= number <= most:
        raise PositionError(f"{name} must be between {least} and {most}, got {number}")
    return number


def checked_duration(name: str, duration: Any) -> timedelta:
    """A `timedelta`. Raises `InvalidTypeError` for anything else, and `InvalidInputError` for a negative one."""
    if not isinstance(duration, timedelta):
        raise InvalidTypeError(f"{name} must be a timedelta, found {reprlib.repr(duration)}")
    if duration < timedelta(0):
        raise InvalidInputError(f"{name} must not be negative, got {duration.total_seconds():g} seconds")
    return duration


def checked_reference(name: str, version: Any) -> Any:
    """A version: a number, a tag, a tuple with a branch, or none. Raises as `checked_number` for anything else."""
    return None if version is None else required_reference(name, version)


def required_reference(name: str, version: Any) -> Any:
    """As `checked_reference`, where a version must be given."""
    if isinstance(version, str):
        return version
    if isinstance(version, tuple) and len(version) == 2 and isinstance(version[0], str | None):
        return version[0], checked_reference(name, version[1])
    if not hasattr(version, "__index__"):
        raise InvalidTypeError(
            f"{name} must be an int, a tag (str) or a tuple of branch and version, found {_found(version)}"
        )
    return checked_number(name, version)


def _found(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Says of what the text is that is not as it must be.

    Raises
    ------
    pennon.MissingKeyError
        A `KeyError` was raised.
    pennon.InvalidInputError
        Something else was raised that wrong values lead to.
    """
    try:
        yield
    except PennonError:
        raise
    except KeyError as error:
        raise MissingKeyError(f"Could not load {what}: it lacks the key {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"Could not load {what}: {error}") from error


@contextmanager
def located(path: str, version: object = None) -> Iterator[None]:
    """Says of an error which table, or file, and which version it is about, where it does not say so itself.

    A tag or a branch is not a version; the message names it.
    """
    try:
        yield
    except PennonError as error:
        error.path = path if error.path is None else error.path
        if error.version is None and isinstance(version, int):
            error.version = version
        raise


def location(path: str | os.PathLike[str], name: str = "uri") -> str:
    """A path or URI as text. Raises `InvalidTypeError` for anything else, bytes too, and as `unicode`."""
    found = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(found, str):
        raise InvalidTypeError(f"{name} must be text or a path, found {_found(found)}")
    return unicode(name, found)
