"""`pennon verify`: damage in a table."""

from __future__ import annotations

from dataclasses import asdict

import click

from pennon.cli._errors import found_something
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._progress import watched
from pennon.verification import verify


@click.command()
@table_argument(pinned=False, branch=False)
@click.option(
    "--version", type=click.IntRange(0, 2**64 - 1), metavar="N", help="Check this version down to its rows."
)
@click.option("--data", is_flag=True, help="Read the files of all versions as well.")
@output_options("table", "json")
def command(table: Address, output: Output, data: bool) -> int:
    """Look for damage in a table.

    Checks the newest version down to its rows and looks for the files of all others; counts the files that no
    version needs. Exit status: 0 if nothing is wrong, 1 if something is, 3 if the table could not be verified.
    """
    with explained(table), watched("verify") as progress:
        options = {"storage_options": table.storage_options, "data": data, "progress": progress}
        report = verify(table.uri, table.version, **options)  # type: ignore[arg-type]
    status = 0 if report.ok else found_something()
    output.report(asdict(report), str(report).replace(report.uri, table.uri))
    return status
