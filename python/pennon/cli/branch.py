"""`pennon branch`: lines of versions."""

from __future__ import annotations

from datetime import datetime, timezone

import click
import pyarrow as pa

from pennon._text import counted
from pennon.cli._commits import time_of
from pennon.cli._confirm import is_agreed, yes_option
from pennon.cli._open import VERSION, Address, Name, explained, table_argument
from pennon.cli._output import Output, color_option, output_options
from pennon.errors import NotFoundError

_SCHEMA = pa.schema(
    [
        pa.field("branch", pa.utf8()),
        pa.field("parent", pa.utf8()),
        pa.field("version", pa.uint64()),
        pa.field("created", pa.timestamp("us", "UTC")),
    ]
)


@click.group()
def command() -> None:
    """List, create and delete branches."""


@command.command("list")
@table_argument(pinned=False, branch=False)
@output_options()
def list_branches(table: Address, output: Output) -> None:
    """List branches, with the version that each was made from."""
    records = [
        {
            "branch": name,
            "parent": branch["parent_branch"] or "main",
            "version": branch["parent_version"],
            "created": datetime.fromtimestamp(branch["create_at"], timezone.utc),
        }
        for name, branch in table.open().branches.list_ordered()
    ]
    output.records(records, _SCHEMA, {"created": time_of})


@command.command()
@table_argument(pinned=False, branch=False)
@click.argument("name")
@click.argument("reference", metavar="[VERSION]", type=VERSION, required=False)
@color_option
def create(table: Address, name: str, reference: Name | None, color: bool) -> None:
    """Create a branch from a version, by default from the newest."""
    opened = table.open()
    if reference is not None:
        opened = table.checkout(opened, reference)
    with explained(table):
        made = opened.create_branch(name, opened.version if reference is None else reference)
    Output(color=color).line(f"branch {name}: version {made.version}")


@command.command()
@table_argument(pinned=False, branch=False)
@click.argument("name")
@yes_option
@color_option
def delete(table: Address, name: str, yes: bool, color: bool) -> None:
    """Delete a branch with its versions and files."""
    opened = table.open()
    if name not in opened.branches:
        raise NotFoundError(f"{table.uri} has no branch {name!r}")
    versions = len(table.checkout(opened, (name, None)).version_refs())
    count = counted(versions, "version")
    hint = f"`{table.command('log', branch=name)}` shows them"
    if is_agreed(f"Delete branch {name} with {count} and their files?", yes, hint):
        opened.branches.delete(name)
        Output(color=color).line(f"deleted branch {name} ({count})")
