"""References to versions of branches: what to say of a branch that does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pennon import _native
from pennon._render import listed
from pennon.errors import NotFoundError, PennonError

_MAIN = "main"


@contextmanager
def naming_branch(table: _native.Dataset, *references: object) -> Iterator[None]:
    """Says that there is no such branch, where a version of one was not found: the core looks for files only.

    Branches are listed only after such an error.

    Raises
    ------
    pennon.NotFoundError
        A reference is to a branch that does not exist; else the error of the core.
    """
    try:
        yield
    except NotFoundError:
        message = _absence(table, *references)
        if message is None:
            raise
        raise NotFoundError(message, path=table.uri) from None


def open_native(address: str, request: _native.OpenRequest) -> _native.Dataset:
    """Open a table. Raises as `naming_branch`."""
    try:
        return _native.Dataset.open(address, request)
    except NotFoundError:
        if not isinstance(request["version"], tuple):
            raise
        newest = _native.Dataset.open(address, {**request, "version": None, "asof": None})
        message = _absence(newest, request["version"])
        if message is None:
            raise
        raise NotFoundError(message, path=newest.uri) from None


def _absence(table: _native.Dataset, *references: object) -> str | None:
    """What to say of the first branch that does not exist; `None` if there is none."""
    named = [reference[0] for reference in references if isinstance(reference, tuple)]
    named = [name for name in named if isinstance(name, str) and name != _MAIN]
    if not named:
        return None
    try:
        existing = sorted(_native.Branches(table).list())
    except PennonError:  # the first error is the one to show
        return None
    for name in named:
        if name not in existing:
            found = f"the branches are {listed(existing, len(existing))}" if existing else "the table has none"
            return f"Ref not found error: branch {name} does not exist; {found}"
    return None
