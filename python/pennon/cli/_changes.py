"""Printing the changes between two versions, for `diff` and `show`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pennon.cli import _feed
from pennon.cli._output import Output

if TYPE_CHECKING:
    from pennon.cli._open import Name
    from pennon.dataset import LanceDataset


def print_changes(
    output: Output,
    table: LanceDataset,
    begin: Name,
    end: Name | None,
    *,
    stat: bool = False,
    limit: int | None = None,
    columns: list[str] | None = None,
    each: bool = False,
) -> int:
    """Print changes as text, and how many were left out. Returns how many there are, or more than 0."""
    if stat:
        counts = _feed.count(table, begin, end, each)
        output.line(counts.text(output))
        return counts.total
    feed = table.changes(begin, end, columns=columns, mode="each" if each else "net", images="both")
    found = _feed.changes(_feed.rows_of(feed))
    printed, version = 0, None
    for before, row in found if limit is None else islice(found, limit):
        if each and row["_commit_version"] != version:
            version = row["_commit_version"]
            output.line(_feed.heading(output, row))
        output.values(_feed.line(output, before, row))
        printed += 1
    if next(found, None) is not None:
        left = _feed.count(table, begin, end, each).total - printed
        output.line(f"and {left:,} more (--limit prints more)", dim=True)
    elif not printed:
        output.line("no row changed")
    return printed or (1 if limit == 0 else 0)
