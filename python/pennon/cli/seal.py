"""`pennon seal`: checksums for files whose writers left none in them."""

from __future__ import annotations

from dataclasses import asdict

import click

from pennon.cli._errors import found_something
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._progress import watched
from pennon.sealing import seal


@click.command()
@table_argument(pinned=False, branch=False)
@output_options("table", "json")
def command(table: Address, output: Output) -> int:
    """Add checksums to files that have none.

    Verifies the table with its data, then writes the checksums of files that have none into files of their own,
    below `_seals`. Nothing else of the table is changed. Exit status: 0 if nothing is wrong with the table, 1 if
    something is, and those files were not sealed, 3 if the table could not be sealed.
    """
    with explained(table), watched("seal") as progress:
        report = seal(table.uri, storage_options=table.storage_options, progress=progress)
    status = 0 if report.ok else found_something()
    output.report(asdict(report), str(report))
    return status
