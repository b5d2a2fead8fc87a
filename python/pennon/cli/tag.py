"""`pennon tag`: names of versions."""

from __future__ import annotations

import click
import pyarrow as pa

from pennon.cli._commits import time_of
from pennon.cli._open import VERSION, Address, Name, explained, table_argument
from pennon.cli._output import Output, color_option, output_options
from pennon.errors import NotFoundError

_SCHEMA = pa.schema(
    [
        pa.field("tag", pa.utf8()),
        pa.field("version", pa.uint64()),
        pa.field("branch", pa.utf8()),
        pa.field("created", pa.timestamp("us", "UTC")),
        pa.field("updated", pa.timestamp("us", "UTC")),
    ]
)


@click.group()
def command() -> None:
    """List, create, move and delete tags.

    A tag names a version, which vacuum keeps as long as it has the tag.
    """


@command.command("list")
@table_argument(pinned=False, branch=False)
@output_options()
def list_tags(table: Address, output: Output) -> None:
    """List tags, newest version first."""
    records = [
        {
            "tag": name,
            "version": tag["version"],
            "branch": tag["branch"] or "main",
            "created": tag["created_at"],
            "updated": tag["updated_at"],
        }
        for name, tag in table.open().tags.list_ordered()
    ]
    output.records(records, _SCHEMA, {"created": time_of, "updated": time_of})


@command.command()
@table_argument(pinned=False)
@click.argument("name")
@click.argument("reference", metavar="[VERSION]", type=VERSION, required=False)
@color_option
def create(table: Address, name: str, reference: Name | None, color: bool) -> None:
    """Create a tag of a version, by default of the newest."""
    opened = table.open()
    if reference is not None:
        opened = table.checkout(opened, reference)
    with explained(table):
        opened.tags.create(name, (table.branch, opened.version) if reference is None else reference)
    Output(color=color).line(f"tag {name}: version {opened.version}")


@command.command()
@table_argument(pinned=False)
@click.argument("name")
@click.argument("reference", metavar="VERSION", type=VERSION)
@color_option
def update(table: Address, name: str, reference: Name, color: bool) -> None:
    """Move a tag to another version."""
    opened = table.open()
    before = opened.tags.list().get(name)
    if before is None:
        raise NotFoundError(f"{table.uri} has no tag {name!r}")
    moved = table.checkout(opened, reference)
    moved.tags.update(name, reference)
    Output(color=color).line(f"tag {name}: version {moved.version} (was {before['version']})")


@command.command()
@table_argument(pinned=False, branch=False)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@color_option
def delete(table: Address, names: tuple[str, ...], color: bool) -> None:
    """Delete tags. Their versions stay until a vacuum removes them."""
    opened = table.open()
    found = opened.tags.list()
    for name in names:
        if name not in found:
            raise NotFoundError(f"{table.uri} has no tag {name!r}")
    for name in names:
        opened.tags.delete(name)
        Output(color=color).line(f"deleted tag {name} (was version {found[name]['version']})")
