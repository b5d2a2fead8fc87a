"""Errors of this package are those of `pennon`, which is imported where one is raised: see `tables`."""

from __future__ import annotations


def invalid(message: str) -> Exception:
    """The call, an option or a frame is wrong: a `ValueError` too."""
    from pennon.errors import InvalidInputError

    return InvalidInputError(message)


def mismatch(message: str) -> Exception:
    """A frame does not fit the table: a `ValueError` too."""
    from pennon.errors import SchemaMismatchError

    return SchemaMismatchError(message)


def exists(message: str, uri: str) -> Exception:
    """There is a table already: a `ValueError` too."""
    from pennon.errors import AlreadyExistsError

    return AlreadyExistsError(message, path=uri)


def internal(message: str) -> Exception:
    """Spark did what it does not do, or this package is wrong: a `RuntimeError` too."""
    from pennon.errors import InternalError

    return InternalError(message)


def missing(message: str, uri: str) -> Exception:
    """A table or version is not there: a `ValueError` too."""
    from pennon.errors import NotFoundError

    return NotFoundError(message, path=uri)
