"""`pennon config`: settings that a table keeps."""

from __future__ import annotations

import click
import pyarrow as pa

from pennon.cli._errors import FINDING
from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, color_option, output_options

_SCHEMA = pa.schema([pa.field("key", pa.utf8()), pa.field("value", pa.utf8())])


@click.group()
def command() -> None:
    """List and change settings of a table."""


@command.command("list")
@table_argument()
@output_options()
def list_settings(table: Address, output: Output) -> None:
    """List all settings."""
    records = [{"key": key, "value": value} for key, value in sorted(table.open().config().items())]
    output.records(records, _SCHEMA)


@command.command()
@table_argument()
@click.argument("key")
@color_option
def get(table: Address, key: str, color: bool) -> int:
    """Print a setting. Exit status 1 if there is none of this name."""
    value = table.open().config().get(key)
    if value is None:
        return FINDING
    Output(color=color).line(value)
    return 0


@command.command("set")
@table_argument(pinned=False)
@click.argument("key")
@click.argument("value")
@color_option
def set_setting(table: Address, key: str, value: str, color: bool) -> None:
    """Change a setting, in a new version."""
    opened = table.open()
    before = opened.config().get(key)
    opened.update_config({key: value})
    was = "" if before is None else f" (was {before})"
    Output(color=color).line(f"version {opened.version}: {key}={value}{was}")


@command.command()
@table_argument(pinned=False)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@color_option
def unset(table: Address, keys: tuple[str, ...], color: bool) -> int:
    """Remove settings, in a new version. Exit status 1 if there is none of these names."""
    opened = table.open()
    known = opened.config()
    found = [key for key in dict.fromkeys(keys) if key in known]
    if not found:
        return FINDING
    opened.update_config(dict.fromkeys(found))
    Output(color=color).line(f"version {opened.version}: removed {', '.join(found)}")
    return 0
