"""`pennon diff`: the rows that changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from pennon.cli import _feed
from pennon.cli._changes import print_changes
from pennon.cli._commits import version_before
from pennon.cli._errors import found_something
from pennon.cli._open import VERSION, Address, Name, branch_of, explained, needs_ids, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._select import columns_option

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset

# Changes that are printed for people if they do not say how many they want.
_MOST = 100


class Range(click.ParamType):  # type: ignore[type-arg]
    """Two versions: `A..B`, or `A` for `A..newest`."""

    name = "range"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Name, Name | None]:
        """The two versions; None for the newest."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        begin, dots, end = value.partition("..")
        if not begin or end.startswith("."):
            self.fail(f"{value!r} is not a range: expected A..B, A.. or A", param, ctx)
        return VERSION.convert(begin, param, ctx), VERSION.convert(end, param, ctx) if dots and end else None


@click.command()
@table_argument(pinned=False)
@click.argument("versions", metavar="[A..B]", type=Range(), required=False)
@click.option("--stat", is_flag=True, help="Count the rows that changed; reads no values.")
@click.option("--limit", type=click.IntRange(0), help=f"The most changes to print; {_MOST} as text, or else all.")
@click.option("--all", "everything", is_flag=True, help="Print all changes.")
@click.option("--each", is_flag=True, help="The changes of each version, not those between the two ends.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if rows changed.")
@columns_option
@output_options()
def command(
    table: Address,
    output: Output,
    versions: tuple[Name, Name | None] | None,
    stat: bool,
    limit: int | None,
    everything: bool,
    each: bool,
    exit_code: bool,
    columns: list[str] | None,
) -> int:
    """Show the rows that changed between two versions.

    A and B are numbers, tags, or BRANCH:NUMBER; A alone means up to the newest of its branch, and without versions
    the last commit is shown. `+` is a row that was inserted, `-` one that was deleted, `~` one that was updated,
    each with its id. The formats for programs print the rows of the change feed, updated rows twice: before and
    after.
    """
    opened = table.open()
    needs_ids(opened, "diff")
    if versions is None:
        versions = (version_before(opened, table.uri, table.branch), None)
    begin, end = versions
    # Number 0 is the table before its first version.
    for name in (name for name in versions if name not in (None, 0)):
        table.checkout(opened, name)
    if end is None:
        opened = _newest_after(begin, opened, table)
    with explained(table):
        changed = _print(output, opened, begin, end, stat, None if everything else limit, everything, each, columns)
    return found_something() if changed and exit_code else 0


def _newest_after(begin: Name, opened: LanceDataset, table: Address) -> LanceDataset:
    """The newest version of the branch that a version is on."""
    own = table.branch or "main"
    branch = branch_of(begin, opened, own)
    return opened if branch == own else table.checkout(opened, (branch, None))


def _print(
    output: Output,
    opened: Any,
    begin: Name,
    end: Name | None,
    stat: bool,
    limit: int | None,
    everything: bool,
    each: bool,
    columns: list[str] | None,
) -> int:
    if output.is_text:
        most = _MOST if limit is None and not everything else limit
        return print_changes(output, opened, begin, end, stat=stat, limit=most, columns=columns, each=each)
    if stat:
        counts = _feed.count(opened, begin, end, each)
        output.record({"inserted": counts.inserted, "deleted": counts.deleted, "updated": counts.updated})
        return counts.total
    feed = opened.changes(begin, end, columns=columns, mode="each" if each else "net", images="both")
    printed = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal printed
        left = limit
        for batch in feed:
            part = batch if left is None else _first(batch, left)
            printed += part.num_rows
            yield part
            if left is not None:
                left -= _changes_in(part)
                if left <= 0:
                    return

    output.rows(pa.RecordBatchReader.from_batches(feed.schema, batches()))
    return printed


def _changes_in(batch: pa.RecordBatch) -> int:
    return sum(kind != "update_preimage" for kind in batch["_change_type"].to_pylist())


def _first(batch: pa.RecordBatch, changes: int) -> pa.RecordBatch:
    """The rows of the first changes of a batch."""
    for at, kind in enumerate(batch["_change_type"].to_pylist()):
        if changes == 0:
            return batch.slice(0, at)
        changes -= kind != "update_preimage"
    return batch
