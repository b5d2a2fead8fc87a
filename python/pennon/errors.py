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
    "RepeatedRowError",
    "SchemaMismatchError",
    "StoreError",
    "TooFewVectorsError",
    "UnsupportedError",
]


class PennonError(Exception):
    """Root of all errors of Pennon.

    Parameters
    ----------
    message
        What was found, what was expected, and where.
    path, version, fragment
        The file, version and fragment it is about, where that is known.

    Examples
    --------
    >>> import pennon
    >>> try:
    ...     pennon.dataset("memory://there-is-no-such-table")
    ... except pennon.PennonError as error:
    ...     print(type(error).__name__, error.path, error.retryable)
    NotFoundError memory://there-is-no-such-table False
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

    def __reduce__(self) -> tuple[type[PennonError], tuple[Any, ...], dict[str, Any]]:
        # Those of `OSError` and `BaseException` leave out `name`; and tblib, which Dask uses, would call the
        # `__new__` of another builtin for a class that has one of them and an `__init__`.
        name = getattr(self, "name", None)
        return type(self), self.args, self.__dict__ if name is None else {**self.__dict__, "name": name}


class InvalidInputError(PennonError, ValueError, OSError):
    """The call was wrong: an argument, option, predicate or name. Change the call.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://invalid", mode="overwrite")
    >>> table.delete("b = 1")
    Traceback (most recent call last):
        ...
    pennon.errors.InvalidInputError: No field named b. Valid fields are a, _rowid, _rowaddr, _rowoffset,
    _row_created_at_version, _row_last_updated_at_version.
    """


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has a type that the call does not take, or a name that it does not know. Change the call.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://invalid-type", mode="overwrite")
    >>> table.delete(1)
    Traceback (most recent call last):
        ...
    pennon.errors.InvalidTypeError: predicate must be SQL text or a pyarrow expression, not int
    """


class RepeatedRowError(InvalidInputError):
    """Several of the given rows change one row of the table. Give one of them.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://repeated", mode="overwrite")
    >>> table.update_rows([0, 0], {"a": [4, 5]})
    Traceback (most recent call last):
        ...
    pennon.errors.RepeatedRowError: 1 row ids come more than once; the first is 0
    """


class TooFewVectorsError(InvalidInputError):
    """A column has too few vectors to train the parts of an index. Make the index in one part.

    Examples
    --------
    >>> import pennon
    >>> from pennon.indices import IndicesBuilder
    >>> from pennon.vector import vec_to_table
    >>> none = vec_to_table([[0.0, 1.0]]).slice(0, 0)
    >>> table = pennon.write_dataset(none, "memory://too-few", mode="overwrite")
    >>> IndicesBuilder(table, "vector").train_ivf(4)
    Traceback (most recent call last):
        ...
    pennon.errors.TooFewVectorsError: Column 'vector' has too few vectors to train an index of the kind IVF_FLAT
    """


class MissingKeyError(InvalidInputError, KeyError):
    """A text or dict that describes something lacks a key.

    Examples
    --------
    >>> import pennon
    >>> pennon.FragmentMetadata.from_json('{"id": 0}')
    Traceback (most recent call last):
        ...
    pennon.errors.MissingKeyError: Could not load FragmentMetadata: it lacks the key 'files'
    """


class MissingPackageError(PennonError, ModuleNotFoundError):
    """A function needs a package that is not installed. Install it; `name` is the module that was looked for.

    Examples
    --------
    >>> import sys, unittest.mock
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://missing-package", mode="overwrite")
    >>> with unittest.mock.patch.dict(sys.modules, {"datafusion": None}):  # as if it were not installed
    ...     table.sql("SELECT 1").build().to_batch_records()
    Traceback (most recent call last):
        ...
    pennon.errors.MissingPackageError: LanceDataset.sql needs the package datafusion, which is not installed: pip
    install datafusion
    """

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
    >>> pennon.FtsToken
    Traceback (most recent call last):
        ...
    pennon.errors.AbsentNameError: pylance's `FtsToken` is not offered by Pennon: there is no search for words. Use
    pylance, which can search the same table
    """

    def __init__(self, message: str = "", *, name: str = "", **fields: Any) -> None:
        super().__init__(message, **fields)
        self.name = name


class AbsentImportError(PennonError, ModuleNotFoundError, NotImplementedError):
    """As [AbsentNameError][pennon.AbsentNameError], for a name or module that is imported.

    Examples
    --------
    >>> from pennon import FtsToken
    Traceback (most recent call last):
        ...
    pennon.errors.AbsentImportError: pylance's `FtsToken` is not offered by Pennon: there is no search for words.
    Use pylance, which can search the same table
    """

    def __init__(self, message: str = "", *, name: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.name = name


class NoEffectWarning(UserWarning):
    """An option was given that pylance has and that has no effect here: once in a process for each option.

    Examples
    --------
    >>> import warnings
    >>> import pennon
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", pennon.NoEffectWarning)
    ...     session = pennon.Session(index_cache_size_bytes=1 << 20)
    >>> session.index_cache_size_bytes()
    0
    """


class NotFoundError(PennonError, ValueError, OSError, KeyError, RuntimeError):
    """A table, version, tag, index, column or file does not exist.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://missing", mode="overwrite")
    >>> table.checkout_version("gold")
    Traceback (most recent call last):
        ...
    pennon.errors.NotFoundError: Ref not found error: tag gold does not exist
    """


class AlreadyExistsError(PennonError, OSError, ValueError, RuntimeError):
    """The thing to be created already exists.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://exists", mode="overwrite")
    >>> pennon.write_dataset({"a": [1]}, "memory://exists")
    Traceback (most recent call last):
        ...
    pennon.errors.AlreadyExistsError: Dataset already exists: memory://exists
    """


class PositionError(InvalidInputError, IndexError, OverflowError):
    """There is nothing at this position, or it cannot be one: it is negative or exceeds 64 bits.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://position", mode="overwrite")
    >>> table.take([-1])
    Traceback (most recent call last):
        ...
    pennon.errors.PositionError: Rows to take must not be negative nor exceed 64 bits, found -1
    """


class SchemaMismatchError(PennonError, OSError, ValueError, TypeError):
    """The data does not fit the schema of the table; the message names the field and both types.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://mismatch", mode="overwrite")
    >>> table.insert({"a": ["x"]})
    Traceback (most recent call last):
        ...
    pennon.errors.SchemaMismatchError: Append with different schema: `a` should have type int64 but type was string
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
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://conflict", mode="overwrite")
    >>> late = pennon.dataset("memory://conflict")
    >>> table.insert({"a": [4]}, mode="overwrite")
    >>> try:
    ...     late.delete("a = 1")
    ... except pennon.CommitConflictError as error:
    ...     print(error.retryable, error)
    False Commit conflict for version 2: this Delete was preempted by ... the table this was made for was replaced
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

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://unknown", mode="overwrite")
    >>> try:  # a write, whose response is lost
    ...     raise pennon.CommitUnknownError("The response was lost", table.read_transaction(1).uuid)
    ... except pennon.CommitUnknownError as error:
    ...     print(table.commit_status(error.uuid))
    CommitStatus(committed=True, version=1)
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
    >>> pennon.dataset("memory://unsupported", namespace_client=object())
    Traceback (most recent call last):
        ...
    pennon.errors.UnsupportedError: The option 'namespace_client' is not supported by this release
    """


class CorruptError(PennonError, OSError, ValueError):
    """Stored bytes violate the format; the message names the file and, where known, the offset.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, f"{folder.name}/table")
    >>> (file,) = pathlib.Path(table.uri, "data").iterdir()
    >>> _ = file.write_bytes(file.read_bytes()[:-4] + b"oops")
    >>> table.to_table()
    Traceback (most recent call last):
        ...
    pennon.errors.CorruptError: fragment 0: data file ...: the metadata was changed after it was written: ...
    >>> folder.cleanup()
    """


class StoreError(PennonError, OSError):
    """The store failed: network, permissions, disk.

    Examples
    --------
    >>> import pennon
    >>> pennon.write_dataset({"a": [1, 2, 3]}, "/" + 300 * "x")
    Traceback (most recent call last):
        ...
    pennon.errors.StoreError: /xxx...xxx/_versions: File name too long (os error ...)
    """


class InternalError(PennonError, RuntimeError):
    """A bug in Pennon. Please report it."""
