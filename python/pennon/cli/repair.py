"""`pennon repair`: what can be had of damaged files."""

from __future__ import annotations

from dataclasses import asdict

import click

from pennon.cli._errors import found_something
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._progress import watched
from pennon.repairing import repair


@click.command()
@table_argument(pinned=False, branch=False)
@click.option("--from", "copy", metavar="URI", help="Take files from this copy of the table.")
@click.option("--yes", is_flag=True, help="Do it; without, the table stays as it is.")
@output_options("table", "json")
def command(table: Address, output: Output, copy: str | None, yes: bool) -> int:
    """Repair a damaged table as far as that can be done.

    Verifies a table with its data and prints what repairs it; does that with --yes. Exit status: 0 if nothing is
    wrong, or nothing is wrong any more, 1 if something is, 3 if the table could not be verified.
    """
    with explained(table), watched("repair") as progress:
        report = repair(table.uri, copy=copy, apply=yes, storage_options=table.storage_options, progress=progress)
    status = 0 if report.ok else found_something()
    hint = "" if yes or not report.actions else "\nnothing was changed: --yes does this"
    output.report(asdict(report), f"{report}{hint}".replace(report.uri, table.uri))
    return status
