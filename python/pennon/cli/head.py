"""`pennon head`: the first rows."""

from __future__ import annotations

import click

from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._select import columns_option, where_option


@click.command()
@table_argument()
@click.option("-n", "--rows", type=click.IntRange(0, 2**63 - 1), default=10, show_default=True, help="How many.")
@click.option("--offset", type=click.IntRange(0, 2**63 - 1), default=0, help="How many to leave out before them.")
@columns_option
@where_option
@click.option("--row-id", is_flag=True, help="Print the ids of the rows as well.")
@output_options()
def command(
    table: Address,
    output: Output,
    rows: int,
    offset: int,
    columns: list[str] | None,
    where: str | None,
    row_id: bool,
) -> None:
    """Print the first rows."""
    scan = table.open().scanner(columns=columns, filter=where, limit=rows, offset=offset, with_row_id=row_id)
    output.rows(scan.to_reader())
