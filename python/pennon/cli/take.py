"""`pennon take`: rows by id, position or address."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from pennon.cli._errors import rows_missing
from pennon.cli._open import Address, needs_ids, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._select import columns_option

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset


@click.command()
@table_argument()
@click.argument("ids", metavar="ID...", type=click.IntRange(0, 2**64 - 1), nargs=-1, required=True)
@click.option("--position", is_flag=True, help="The numbers are positions in the table, from 0, and not ids.")
@columns_option
@output_options()
def command(table: Address, output: Output, ids: tuple[int, ...], position: bool, columns: list[str] | None) -> int:
    """Print rows by id or position.

    Exit status 1 if rows are missing: those that there are come in the order of their numbers on the line.
    """
    opened = table.open()
    if position:
        known: Container[int] = range(opened.count_rows())
        found = opened.take([id for id in ids if id in known], columns=columns)
    else:
        needs_ids(opened, "take", ": name positions, with --position")
        found = _by_id(opened, ids, columns)
        known = set(found["_rowid"].to_pylist())
    output.rows(found)
    missing = [str(id) for id in dict.fromkeys(ids) if id not in known]
    return rows_missing("position" if position else "id", missing) if missing else 0


def _by_id(opened: LanceDataset, ids: tuple[int, ...], columns: list[str] | None) -> pa.Table:
    names = opened.schema.names if columns is None else columns
    return opened.take_rows(list(ids), ["_rowid", *(name for name in names if name != "_rowid")])
