"""Exceptions. Few kinds, chosen by what the caller can do next.

Each class also inherits the builtins that pylance raises for the same mistake, so that handlers
written for it keep working.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AbsentImportError",
    "AbsentNameError",
    "AlreadyExistsError",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptError",
    "InternalError",
    "InvalidInputError",
    "InvalidTypeError",
    "MissingKeyError",
    "MissingPackageError",
    "NoEffectWarning",
    "NotFoundError",
    "PennonError",
    "PositionError",
    "SchemaMismatchError",
    "StoreError",
    "UnsupportedError",
]


class PennonError(Exception):
    """Root of all errors of Pennon.

    Examples
    --------
    >>> import pennon
    >>> try:
    ...     pennon.dataset("memory://there-is-no-such-table")
    ... except pennon.PennonError as error:
    ...     print(type(error).__name__)
    NotFoundError

    Parameters
    ----------
    message
        What was found, what was expected, and where.
    path, version, fragment
        The file, version and fragment it is about, where that is known.
    """

    retryable: bool = False
    """Whether a retry on the newest version may succeed."""
    path: str | None = None
    """The table or file it is about, where that is known."""
    version: int | None = None
    """The version it is about, where that is known."""
    fragment: int | None = None
    """The id of the fragment it is about, where that is known."""

    def __init__(
        self,
        message: str = "",
        *,
        path: str | None = None,
        version: int | None = None,
        fragment: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path, self.version, self.fragment = path, version, fragment


class InvalidInputError(PennonError, ValueError, OSError):
    """The call was wrong: an argument, option, predicate or name. Change the call.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://invalid", mode="overwrite")
    >>> try:
    ...     table.delete("b = 1")
    ... except pennon.InvalidInputError as error:
    ...     print(str(error)[:17])
    No field named b.
    """


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has a type that the call does not take, or a name that it does not know. Change the call.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://invalid-type", mode="overwrite")
    >>> try:
    ...     table.delete(1)
    ... except pennon.InvalidTypeError as error:
    ...     print(error)
    predicate must be SQL text or a pyarrow expression, not int
    """


class MissingKeyError(InvalidInputError, KeyError):
    """A text or dict that describes something lacks a key."""


class MissingPackageError(PennonError, ModuleNotFoundError):
    """A function needs a package that is not installed. Install it; `name` is the module that was looked for."""

    def __init__(self, message: str = "", *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class AbsentNameError(PennonError, AttributeError, NotImplementedError):
    """pylance has this name and Pennon does not; the message says why, and what to use instead.

    Examples
    --------
    >>> import pennon
    >>> hasattr(pennon, "FtsToken")
    False
    >>> try:
    ...     pennon.FtsToken
    ... except pennon.AbsentNameError as error:
    ...     print(error.name)
    FtsToken
    """

    def __init__(self, message: str = "", *, name: str = "", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.name = name


class AbsentImportError(PennonError, ModuleNotFoundError, NotImplementedError):
    """As `AbsentNameError`, for a name or module that is imported."""

    def __init__(self, message: str = "", *, name: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.name = name


class NoEffectWarning(UserWarning):
    """An option was given that pylance has and that has no effect here."""


class NotFoundError(PennonError, ValueError, OSError, KeyError, RuntimeError):
    """A table, version, tag, index, column or file does not exist.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://missing", mode="overwrite")
    >>> try:
    ...     table.checkout_version("gold")
    ... except pennon.NotFoundError as error:
    ...     print(isinstance(error, ValueError))
    True
    """


class AlreadyExistsError(PennonError, OSError, ValueError, RuntimeError):
    """The thing to be created already exists.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://exists", mode="overwrite")
    >>> try:
    ...     pennon.write_dataset({"a": [1]}, "memory://exists")
    ... except pennon.AlreadyExistsError as error:
    ...     print(isinstance(error, OSError))
    True
    """


class PositionError(InvalidInputError, IndexError, OverflowError):
    """There is nothing at this position, or it cannot be one: it is negative or exceeds 64 bits."""


class SchemaMismatchError(PennonError, OSError, ValueError, TypeError):
    """The data does not fit the schema of the table; the message names the field and both types.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://mismatch", mode="overwrite")
    >>> try:
    ...     table.insert({"b": ["x"]})
    ... except pennon.SchemaMismatchError as error:
    ...     print(error.retryable)
    False
    """


class CommitConflictError(PennonError, OSError):
    """Another writer committed first.

    Parameters
    ----------
    message
        What happened.
    retryable
        Whether a retry on the newest version may succeed.

    Examples
    --------
    >>> CommitConflictError()
    CommitConflictError('CommitConflictError: another writer committed first')
    """

    def __init__(self, message: str = "", retryable: bool = True) -> None:
        super().__init__(message or "CommitConflictError: another writer committed first")
        self.retryable = retryable


class CommitUnknownError(PennonError, OSError):
    """It is unknown whether a change was committed: the response of the store was lost, and so was every check.

    No file is removed then. Call [commit_status][pennon.LanceDataset.commit_status] before you repeat the change.

    Parameters
    ----------
    message
        What happened.
    uuid
        The transaction.
    """

    def __init__(self, message: str = "", uuid: str | None = None) -> None:
        super().__init__(message)
        self.uuid = uuid


class UnsupportedError(PennonError, NotImplementedError, OSError):
    """The table, file or option needs something this release does not offer.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://unsupported", mode="overwrite")
    >>> try:
    ...     pennon.dataset("memory://unsupported", namespace_client=object())
    ... except pennon.UnsupportedError as error:
    ...     print("namespace_client" in str(error))
    True
    """


class CorruptError(PennonError, OSError, ValueError):
    """Stored bytes violate the format; the message names the file and, where known, the offset."""


class StoreError(PennonError, OSError):
    """The store failed: network, permissions, disk."""


class InternalError(PennonError, RuntimeError):
    """A bug in Pennon. Please report it."""
