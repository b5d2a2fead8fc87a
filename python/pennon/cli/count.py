"""`pennon count`: the number of rows."""

from __future__ import annotations

import click

from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._select import where_option


@click.command()
@table_argument()
@where_option
@output_options("table", "json")
def command(table: Address, output: Output, where: str | None) -> None:
    """Print the number of rows."""
    rows = table.open().count_rows(where)
    if output.is_text:
        output.line(str(rows))
    else:
        output.record({"rows": rows})
