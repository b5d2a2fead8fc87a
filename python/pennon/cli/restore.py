"""`pennon restore`: an older version, or rows of it, as the newest."""

from __future__ import annotations

import click

from pennon._text import counted
from pennon.cli import _feed
from pennon.cli._open import VERSION, Address, Name, branch_of, table_argument
from pennon.cli._output import Output, color_option
from pennon.errors import InvalidInputError


@click.command()
@table_argument(pinned=False)
@click.argument("reference", metavar="VERSION", type=VERSION)
@click.option(
    "--row", "rows", metavar="ID", type=click.IntRange(0, 2**64 - 1), multiple=True, help="Restore only this row."
)
@click.option("--dry-run", is_flag=True, help="Say what would change.")
@color_option
def command(table: Address, rows: tuple[int, ...], dry_run: bool, reference: Name, color: bool) -> None:
    """Make an older version the newest again.

    Versions in between stay: a restore is a new version, and can be undone by another one. With --row only these
    rows get their older values back, or exist again.
    """
    output = Output(color=color)
    newest = table.open()
    older = table.checkout(newest, reference)
    own = table.branch or "main"
    branch = branch_of(reference, newest, own)
    if branch != own:
        raise click.UsageError(f"The version is one of branch {branch}; versions of branch {own} can be restored")
    if rows:
        if dry_run:
            found = older.take_rows(list(dict.fromkeys(rows)), columns=["_rowid"]).num_rows
            output.line(f"would restore {counted(found, 'row')} of version {older.version}")
            return
        count = newest.restore_rows(list(rows), reference)["num_restored_rows"]
        output.line(f"version {newest.version} has {counted(count, 'row')} of version {older.version} again")
        return
    if newest.has_stable_row_ids and not older.has_stable_row_ids:
        raise InvalidInputError(
            f"version {older.version} is from before the table had stable row ids, and cannot be restored"
        )
    difference = ""
    if newest.has_stable_row_ids and older.version <= newest.version:
        forward = _feed.count(newest, reference, None)
        back = _feed.Counts(inserted=forward.deleted, deleted=forward.inserted, updated=forward.updated)
        difference = f": {back.text(output)}"
    if dry_run:
        output.line(f"would restore version {older.version}{difference}")
        return
    before, restored = newest.version, older.version
    older.restore()
    output.line(f"version {older.version} has the rows of version {restored} again{difference}")
    output.line(f"{table.command('restore', before)} undoes this", dim=True)
