"""`pennon blame`: the history of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from pennon._text import counted
from pennon.cli import _feed
from pennon.cli._commits import time_of
from pennon.cli._errors import found_something, rows_missing
from pennon.cli._open import Address, needs_ids, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._select import where_option
from pennon.cli._values import shown
from pennon.errors import NotFoundError

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset


@click.command()
@table_argument()
@click.argument("ids", metavar="[ID...]", type=click.IntRange(0, 2**64 - 1), nargs=-1)
@where_option
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="The most rows with --where.")
@output_options()
def command(table: Address, output: Output, ids: tuple[int, ...], where: str | None, limit: int) -> int:
    """Show the history of a row.

    For each version that changed it: when, by what, and the columns that changed. Rows are named by their ids, or
    with --where by a condition. An option that names an older version is for the condition: that version may have
    a row which was deleted since. Exit status 1 if rows are missing: the others are shown.
    """
    if bool(ids) == (where is not None):
        raise click.UsageError("Name rows by their ids or with --where")
    newest = table.newest()
    needs_ids(newest, "blame")
    wanted = list(dict.fromkeys(ids))
    if where is not None:
        wanted, more = _found(table.open(), where, limit)
        if not wanted:
            click.echo("pennon: no row fits the condition", err=True)
            return found_something()
        if more:
            click.echo(f"pennon: only the first {counted(limit, 'row')} of those that fit (--limit)", err=True)
    found = {id: _history(newest, table.branch, id) for id in wanted}
    histories = {id: history for id, history in found.items() if history is not None}
    if output.is_text:
        for at, (id, history) in enumerate(histories.items()):
            if at:
                output.line()
            _print(output, id, history)
    elif histories:
        tables = [
            history.add_column(0, "_rowid", pa.array([id] * history.num_rows, pa.uint64()))
            for id, history in histories.items()
        ]
        output.rows(pa.concat_tables(tables))
    missing = [str(id) for id in wanted if id not in histories]
    return rows_missing("id", missing) if missing else 0


def _history(table: LanceDataset, branch: str | None, id: int) -> pa.Table | None:
    """The history of a row, which is that of the parent before a branch began; None if no row ever had this id."""
    try:
        own = table.history(id)
    except NotFoundError as error:
        if error.path is None:
            return None
        raise  # a file of the table is missing
    if branch is None or branch == "main":
        return own
    made = table.branches.list()[branch]
    parent, number = made["parent_branch"], made["parent_version"]
    try:
        begin = _history(table.checkout_version((parent or "main", number)), parent, id)
    except NotFoundError:  # the version was removed
        return own
    if begin is None:
        return own
    later = own.filter(pc.field("_commit_version") > number)
    return pa.concat_tables([_with_columns(begin, own.schema), later])


def _with_columns(history: pa.Table, schema: pa.Schema) -> pa.Table:
    """A history with the columns of a later one; those that had other types are null."""
    types = {field.name: field.type for field in history.schema}
    columns = [
        history[field.name] if types.get(field.name) == field.type else pa.nulls(history.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _found(table: LanceDataset, where: str, limit: int) -> tuple[list[int], bool]:
    scan = table.scanner(columns=["_rowid"], filter=where, limit=limit + 1)
    ids: list[int] = scan.to_table()["_rowid"].to_pylist()
    return ids[:limit], len(ids) > limit


def _print(output: Output, id: int, history: pa.Table) -> None:
    output.line(output.style(f"row {id}", bold=True))
    before: dict[str, Any] = {}
    rows = _feed.rows_of(history.to_batches())
    for row in rows:
        moment = row["_commit_timestamp"]
        when = "(version was removed)" if moment is None else time_of(moment)
        title = output.style(f"version {row['_commit_version']}", fg="yellow")
        message = (row["_commit_message"] or "").strip().partition("\n")[0]
        said = f": {shown(message)}" if message else ""
        output.line(f"{title}  {when}  {row['_operation'] or row['_change_type']}{said}")
        kind = row["_change_type"]
        if kind == "insert" and row["_rowaddr"] is None:  # its values are not known any more
            continue
        if kind == "delete":
            output.values("  " + output.style(f"- {_feed.values(before)}", fg="red"))
        elif kind == "insert":
            output.values("  " + output.style(f"+ {_feed.values(row)}", fg="green"))
        else:
            output.values(f"  {output.style('~', fg='yellow')} {_feed.differences(output, before, row)}")
        before = row
