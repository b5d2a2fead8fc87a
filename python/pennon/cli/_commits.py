"""Versions as people and programs read them: time, operation, message, tags and figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.cli._open import first_version, history_of
from pennon.errors import NotFoundError
from pennon.transaction import LANCE_COMMIT_MESSAGE_KEY, LanceOperation, Transaction

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset

# Versions that are read at the same time, and before the first of them is printed.
AT_A_TIME = 16
# Versions of which it is tried whether they are there.
FEW = 64
# The numbers of detached versions begin here.
DETACHED = 2**63
_ASSIGNS_ROW_IDS = "pennon.assigns_row_ids"
SCHEMA = pa.schema(
    [
        pa.field("version", pa.uint64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("operation", pa.utf8()),
        pa.field("detail", pa.utf8()),
        pa.field("message", pa.utf8()),
        pa.field("tags", pa.list_(pa.utf8())),
        pa.field("rows", pa.int64()),
        pa.field("fragments", pa.int64()),
        pa.field("files", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("deleted", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Figures:
    """What a version consists of. `bytes` are those of its data files; `deleted`, its deleted rows."""

    rows: int
    fragments: int
    files: int
    bytes: int
    deleted: int

    @classmethod
    def of(cls, summary: dict[str, str]) -> Figures:
        """From what `get_version` says."""

        def figure(name: str) -> int:
            return int(summary.get(f"total_{name}", 0))

        return cls(
            figure("rows"),
            figure("fragments"),
            figure("data_files") + figure("deletion_files"),
            figure("files_size"),
            figure("deletion_file_rows"),
        )


@dataclass(frozen=True)
class Commit:
    """A version and what made it."""

    version: int
    time: datetime
    figures: Figures
    operation: str | None = None
    detail: str | None = None
    message: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What happened, in a line."""
        name = self.operation or "(its transaction was not kept)"
        return f"{name} {self.detail}" if self.detail else name

    def record(self) -> dict[str, Any]:
        """For programs."""
        return {
            "version": self.version,
            "timestamp": self.time,
            "operation": self.operation,
            "detail": self.detail,
            "message": self.message,
            "tags": self.tags,
            **{name: getattr(self.figures, name) for name in Figures.__dataclass_fields__},
        }


def time_of(moment: datetime) -> str:
    """A time as git shows it, in the zone of the machine."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def tags_of(table: LanceDataset, branch: str | None) -> dict[int, list[str]]:
    """The tags of a branch by version."""
    found = defaultdict(list)
    for name, tag in sorted(table.tags.list().items()):
        if (tag["branch"] or "main") == (branch or "main"):
            found[tag["version"]].append(name)
    return dict(found)


def read(table: LanceDataset, number: int, tags: dict[int, list[str]]) -> Commit | None:
    """One version; None if it was removed meanwhile."""
    try:
        at = table.checkout_version(number)
        entry = at.get_version()
        transaction = at.read_transaction(number)
    except NotFoundError:
        return None
    made = _made(transaction)
    return Commit(
        number,
        entry["timestamp"].astimezone(),
        Figures.of(entry["metadata"]),
        tags=tags.get(number, []),
        **made,
    )


def figures(table: LanceDataset, numbers: Sequence[int]) -> list[tuple[int, datetime, Figures]]:
    """Number, time and figures of versions, without what made them."""

    def look(number: int) -> tuple[int, datetime, Figures] | None:
        try:
            entry = table.checkout_version(number).get_version()
        except NotFoundError:
            return None
        return number, entry["timestamp"].astimezone(), Figures.of(entry["metadata"])

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return [found for found in pool.map(look, numbers) if found is not None]


def commits(table: LanceDataset, numbers: Sequence[int], branch: str | None) -> Iterator[Commit]:
    """Versions in this order, a few at a time: those that nobody asks for are not read."""
    tags = tags_of(table, branch)
    left = iter(numbers)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        while group := list(islice(left, AT_A_TIME)):
            found = pool.map(lambda number: read(table, number, tags), group)
            yield from (commit for commit in found if commit is not None)


def numbers_of(table: LanceDataset) -> list[int]:
    """The versions up to this one, newest first; reads the manifests of detached ones only."""
    detached, newest = _detached(table)
    return detached + [entry["version"] for entry in reversed(table.version_refs()) if entry["version"] <= newest]


def newest_numbers(table: LanceDataset, most: int) -> list[int]:
    """The newest versions up to this one, newest first, at most so many.

    Versions are numbered one after the other unless some were removed: if the manifests of that many numbers are
    there, which are read next anyway, the versions need not be listed, of which there may be thousands.
    """
    newest = table.version
    likely = range(newest, max(0, newest - most), -1)
    if len(likely) <= FEW:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            if all(pool.map(lambda number: _is_there(table, number), likely)):
                return list(likely)
    return numbers_of(table)[:most]


def version_before(table: LanceDataset, uri: str, branch: str | None) -> int:
    """The number of the version before this one, 0 for the first of a table.

    Raises `NotFoundError` if it was removed, is one of another branch or table, or if this version is detached.
    """
    number = table.version - 1
    history = history_of(uri, branch)
    if table.version >= DETACHED:
        raise NotFoundError(f"version {table.version} is detached: it is not in the history of {history}")
    if number and _is_there(table, number):
        return number
    first, is_cloned = first_version(table, branch)
    if table.version > first:
        raise NotFoundError(f"version {number} of {history} was removed, and nothing is there to compare with")
    if is_cloned:
        raise NotFoundError(f"version {first} is the first of {history}: it has the rows of what it was made from")
    return 0


def _detached(table: LanceDataset) -> tuple[list[int], int]:
    """This version and those that it was made on, newest first, as far as they are detached; the one they follow.

    The latter is 0 if that is not known any more.
    """
    found: list[int] = []
    number = table.version
    while number >= DETACHED and number not in found:  # a damaged one may name itself
        found.append(number)
        try:
            made = table.checkout_version(number).read_transaction(number)
        except NotFoundError:
            made = None
        number = 0 if made is None else made.read_version
    return found, number


def _is_there(table: LanceDataset, number: int) -> bool:
    try:
        table.checkout_version(number)
    except NotFoundError:
        return False
    return True


def _made(transaction: Transaction | None) -> dict[str, Any]:
    if transaction is None:
        return {}
    properties = dict(transaction.transaction_properties or {})
    message = properties.pop(LANCE_COMMIT_MESSAGE_KEY, None)
    operation = transaction.operation
    return {
        "operation": type(operation).__name__,
        "detail": "stable row ids" if _ASSIGNS_ROW_IDS in properties else _detail(operation),
        "message": message,
        "properties": properties,
    }


def _detail(operation: LanceOperation.BaseOperation) -> str | None:
    if isinstance(operation, LanceOperation.Delete):
        return f"where {operation.predicate}" if operation.predicate else None
    if isinstance(operation, LanceOperation.CreateIndex):
        return ", ".join(sorted({index.name for index in operation.new_indices})) or None
    if isinstance(operation, LanceOperation.Restore):
        return f"of version {operation.version}"
    if isinstance(operation, LanceOperation.UpdateConfig):
        update = operation.config_updates
        return ", ".join(sorted(update.updates)) if update is not None else None
    return None
