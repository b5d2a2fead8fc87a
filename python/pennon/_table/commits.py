"""Commits to a table: transactions, and updates of its maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon._options import checked_number, checked_text, strings, unicode
from pennon.errors import InvalidInputError, InvalidTypeError
from pennon.transaction import LANCE_COMMIT_MESSAGE_KEY, LanceOperation, Transaction

if TYPE_CHECKING:
    from pennon import _native


def read(table: _native.Dataset, version: int) -> Transaction | None:
    """The transaction that made a version; `None` if it was not kept."""
    parts = table.read_transaction(checked_number("version", version))
    return None if parts is None else Transaction._of(parts)


def newest(table: _native.Dataset, count: int) -> list[Transaction | None]:
    """The transactions of the newest versions, newest first."""
    checked = checked_number("recent_transactions", count)
    return [None if parts is None else Transaction._of(parts) for parts in table.get_transactions(checked)]


def transaction_of(
    operation: LanceOperation.BaseOperation | Transaction, read_version: int | None, message: str | None
) -> Transaction:
    """What to commit as a transaction."""
    if isinstance(operation, Transaction):
        if message is not None:
            raise InvalidInputError(
                "commit_message cannot be given with a Transaction: set the message in its transaction_properties, "
                f"under {LANCE_COMMIT_MESSAGE_KEY!r}"
            )
        check_read_version(operation.read_version)
        return operation
    if not isinstance(operation, LanceOperation.BaseOperation):
        raise InvalidTypeError(
            f"operation must be a LanceOperation.BaseOperation or Transaction, got {type(operation)}"
        )
    on_newest = (LanceOperation.Overwrite, LanceOperation.Restore)
    if read_version is None and not isinstance(operation, on_newest):
        raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
    check_read_version(read_version)
    properties = {} if message is None else {LANCE_COMMIT_MESSAGE_KEY: message}
    # Without a version the core takes the newest.
    return Transaction(read_version, operation, transaction_properties=properties)  # type: ignore[arg-type]


def check_read_version(version: int | None) -> None:
    """Raises as `checked_number` for a read version that is none."""
    if version is not None:
        checked_number("read_version", version)


def stable_row_ids(transaction: Transaction, asked: bool | None) -> bool:
    """Whether rows of a table that the commit creates keep their ids."""
    if asked is not None:
        return asked
    fragments = getattr(transaction.operation, "fragments", [])
    return all(fragment._stable_row_ids is not False for fragment in fragments)


def with_causes(error: TypeError) -> InvalidTypeError:
    """The same error with the path of the wrong value, and what it should be; one that names it as it is."""
    if isinstance(error, InvalidTypeError):
        return error
    path: list[str] = []
    found: BaseException = error
    while found.__cause__ is not None:
        path.append(str(found).rpartition(".")[2])
        found = found.__cause__
    return InvalidTypeError(f"{'.'.join(path)}: {found}" if path else str(found))


def updates(values: dict[str, str | None], name: str = "values") -> dict[str, str | None]:
    """New values of a map; `None` removes a key."""
    if not isinstance(values, dict):
        raise InvalidTypeError(f"{name} must be a dict of strings, found {values!r}")
    found = strings({key: "" if value is None else value for key, value in values.items()}, name)
    for text in (*found, *found.values()):
        unicode(name, text)
    return values


def field_updates(values: dict[str, dict[str, str | None]]) -> dict[str, dict[str, str | None]]:
    """New values of the maps of fields by their paths."""
    if not isinstance(values, dict):
        raise InvalidTypeError(f"field_updates must be a dict of dicts by path of a field, found {values!r}")
    return {
        checked_text("a path of field_updates", path): updates(of_field, f"field_updates[{path!r}]")
        for path, of_field in values.items()
    }
