"""Transactions of versions, read in pages and few kept in memory; a vacuum may remove versions meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

COMMIT_MESSAGE = "__lance_commit_message"
"""The property of a transaction with its message."""

FIRST_PAGE = 16
MOST_OF_A_PAGE = 2048
"""Transactions that are read at once: more and more, as far as the caller goes."""


def transactions(table: Any, versions: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Version and transaction of some versions; None for a transaction that was not kept.

    Parameters
    ----------
    table
        At any version.
    versions
        Neighbours among the versions that are left, newest first. Those that are gone when they are read, or torn,
        are left out.
    """
    start, size = 0, FIRST_PAGE
    while start < len(versions):
        yield from _page(table, versions[start : start + size])
        start, size = start + size, min(4 * size, MOST_OF_A_PAGE)


def up_to(table: Any) -> Iterator[Any]:
    """The transactions of the versions up to that of a table, newest first; None for one that was not kept.

    Of many, the first few may come once more: a caller that needs no others lists the versions once.
    """
    import pennon

    with suppress(pennon.NotFoundError):
        yield from table.get_transactions(FIRST_PAGE)
    newest = int(table.version)
    kept = [entry["version"] for entry in table.version_refs() if entry["version"] <= newest]
    yield from (transaction for _, transaction in transactions(table, kept[::-1]))


def _page(table: Any, versions: Sequence[int]) -> list[tuple[int, Any]]:
    import pennon

    newest = versions[0]
    with suppress(pennon.NotFoundError):
        last = table if int(table.version) == newest else table.checkout_version(newest)
        found = last.get_transactions(len(versions))
        is_all = {entry["version"] for entry in table.version_refs()}.issuperset(versions)
        if is_all and len(found) == len(versions):
            return list(zip(versions, found, strict=True))
    # What was found may be of other versions.
    left = []
    for version in versions:
        with suppress(pennon.NotFoundError):
            try:
                left.append((version, table.read_transaction(version)))
            except pennon.CorruptError:
                # Those that a crash has torn are not among the versions.
                if any(entry["version"] == version for entry in table.versions()):
                    raise
    return left
