"""What becomes of an error: one sentence, and the exit status."""

from __future__ import annotations

import os
import re
import sys

import click

from pennon.errors import InternalError, NotFoundError, PennonError, StoreError

FINDING, USAGE, FAILED = 1, 2, 3
"""Exit statuses of what was found, of invalid arguments and of failures."""

# What the stores answer to strangers, and where they ask for the credentials of a machine.
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied"
    r"|credential|Unauthenticated|Unauthorized|AuthenticationFailed|\b40[13]\b",
    re.IGNORECASE,
)
_status = 0


def found_something() -> int:
    """The exit status of a finding; it is kept if nobody reads what is printed about it."""
    global _status
    _status = FINDING
    return FINDING


def rows_missing(kind: str, missing: list[str]) -> int:
    """Say which ids or positions no row has; the exit status."""
    named = f"{', '.join(missing[:10])}{', …' if len(missing) > 10 else ''}"
    click.echo(f"pennon: no row has the {kind} {named}", err=True)
    return found_something()


def nothing_found() -> None:
    """A command begins."""
    global _status
    _status = 0


def status_so_far() -> int:
    """The exit status of a command whose reader has gone away."""
    return _status


def sentence(error: Exception) -> str:
    """An error as one line."""
    if isinstance(error, StoreError) and _NO_CREDENTIALS.search(str(error)):
        where = str(error).split(": ")[0]
        return (
            f"{where}: the store asks for credentials, or refuses those it got; give them with --storage-option"
            " or in variables of the environment"
        )
    if isinstance(error, NotFoundError):
        # The store's own words follow, which say the same.
        before, found, _ = str(error).partition(" was not found: Not found: ")
        return _line(f"{before} was not found" if found else before)
    if isinstance(error, PennonError) and not isinstance(error, InternalError):
        return _line(str(error)) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return _line(error.strerror if error.filename is None else f"{error.filename}: {error.strerror}")
    if isinstance(error, getattr(sys.modules.get("pyarrow"), "ArrowException", ())):
        return _line(str(error))
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return _line(f"{type(error).__name__}: {error} (PENNON_TRACEBACK=1 shows where)")


def print_error(error: Exception) -> None:
    """Print the sentence of an error to standard error."""
    try:
        click.echo(f"pennon: {sentence(error)}", err=True)
    except OSError:  # nobody listens
        return


def discard_output() -> None:
    """Let nothing be written to standard output any more, at exit least of all."""
    try:
        target = os.open(os.devnull, os.O_WRONLY)
        os.dup2(target, sys.stdout.fileno())
        os.close(target)
    except (OSError, ValueError, AttributeError):  # it is not a file
        return


def _line(text: str) -> str:
    """Text without line breaks and control characters."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in " ".join(text.split()))
