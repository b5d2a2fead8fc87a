"""Transactions of versions, read in pages and few kept in memory; a vacuum may remove versions meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

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
        Neighbours among the versions that are left, newest first. Those that are gone when they are read are left
        out.
    """
    start, size = 0, FIRST_PAGE
    while start < len(versions):
        yield from _page(table, versions[start : start + size])
        start, size = start + size, min(4 * size, MOST_OF_A_PAGE)


def _page(table: Any, versions: Sequence[int]) -> list[tuple[int, Any]]:
    import pennon

    newest = versions[0]
    with suppress(pennon.NotFoundError):
        last = table if int(table.version) == newest else table.checkout_version(newest)
        found = last.get_transactions(len(versions))
        if {entry["version"] for entry in table.version_refs()}.issuperset(versions):
            return list(zip(versions, found, strict=True))
    # What was found may be of other versions.
    left = []
    for version in versions:
        with suppress(pennon.NotFoundError):
            left.append((version, table.read_transaction(version)))
    return left
