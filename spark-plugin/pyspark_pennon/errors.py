"""Errors of this package are those of `pennon`, which is imported where one is raised: see `wheel`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

_RAISED = re.compile(r"^pennon\.errors\.(\w+): (.+)$", re.MULTILINE)


def invalid(message: str) -> Exception:
    """The call, an option or a frame is wrong: a `ValueError` too."""
    from pennon.errors import InvalidInputError

    return InvalidInputError(message)


def wrong_type(message: str) -> Exception:
    """An argument has a type that the call does not take: a `TypeError` and a `ValueError` too."""
    from pennon.errors import InvalidTypeError

    return InvalidTypeError(message)


def mismatch(message: str) -> Exception:
    """A frame does not fit the table: a `ValueError` too."""
    from pennon.errors import SchemaMismatchError

    return SchemaMismatchError(message)


def exists(message: str, uri: str) -> Exception:
    """There is a table already: a `ValueError` too."""
    from pennon.errors import AlreadyExistsError

    return AlreadyExistsError(message, path=uri)


def unsupported(message: str) -> Exception:
    """What was asked for cannot be done here: a `NotImplementedError` too."""
    from pennon.errors import UnsupportedError

    return UnsupportedError(message)


def internal(message: str) -> Exception:
    """Spark did what it does not do, or this package is wrong: a `RuntimeError` too."""
    from pennon.errors import InternalError

    return InternalError(message)


def raised_in_task(error: Exception) -> Exception | None:
    """The error of `pennon` that made a task fail, from the text that Spark has of it; None if there is none."""
    import pennon.errors

    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(pennon.errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, pennon.errors.PennonError):
        return None
    return kind(message)


def missing(message: str, uri: str) -> Exception:
    """A table or version is not there: a `ValueError` too."""
    from pennon.errors import NotFoundError

    return NotFoundError(message, path=uri)


def store_error(message: str) -> Exception:
    """The store, or what gives access to it, failed: an `OSError` too. Another attempt may succeed."""
    from pennon.errors import StoreError

    return StoreError(message)


def suggestion(name: str, known: Mapping[str, str], cutoff: float = 0.6) -> str:
    """The part of a message that says what a caller may have meant, or nothing; `known` has names by spelling."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return f"did you mean '{known[near[0]]}'? " if near else ""
