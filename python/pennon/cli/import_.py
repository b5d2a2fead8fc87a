"""`pennon import`: files as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from pennon._address import local_path
from pennon._text import counted
from pennon.cli._files import FORMATS, TEXTS, FileFormat, format_of, reading
from pennon.cli._open import Address, table_argument, what_is_at
from pennon.cli._output import Output, color_option
from pennon.cli._progress import watched
from pennon.errors import InvalidInputError, NotFoundError
from pennon.open import dataset
from pennon.write import write_dataset

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.types import WriteMode

# Directories of a table without versions, whose first write failed.
_LEFTOVERS = {"data", "_transactions", "_deletions", "_indices"}


def _known_encoding(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            "a".encode(value)
    except LookupError:
        raise click.BadParameter(f"{value!r} is not an encoding of text", ctx=ctx, param=param) from None
    return value


@click.command()
@table_argument(pinned=False)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--mode",
    type=click.Choice(["create", "append", "overwrite"]),
    default="create",
    show_default=True,
    help="What to do with a table that is there: fail, add rows, or replace all rows in a new version.",
)
@click.option(
    "--input-format", type=click.Choice(FORMATS), help="Format of the files, if their names do not say it."
)
@click.option(
    "--encoding",
    metavar="NAME",
    callback=_known_encoding,
    help="Encoding of CSV and JSON, if it is not UTF-8: latin-1, cp1252, utf-16.",
)
@click.option("-m", "--message", metavar="TEXT", help="A message for the log.")
@color_option
def command(
    table: Address,
    files: tuple[str, ...],
    mode: WriteMode,
    input_format: FileFormat | None,
    encoding: str | None,
    message: str | None,
    color: bool,
) -> None:
    """Write files to a table.

    The files are Parquet, CSV, Arrow, or JSON with an object in each line; `-` is standard input. They become one
    version, or none if one of them cannot be read. Types of CSV and JSON are those of the table, if rows are added,
    or what the first megabytes look like; what is bytes in a table that is there is read as base64. Later files
    must have the columns of the first.
    """
    formats = [format_of(name, input_format, "--input-format") for name in files]
    if encoding is not None and not set(formats) <= set(TEXTS):
        raise click.UsageError("--encoding is for CSV and JSON: other formats say what their texts are")
    target = None if mode == "create" and table.branch is None else _present(table)
    if target is None:
        _check_destination(table.uri)
    known = None if target is None else target.schema
    schema = known if mode == "append" else None
    count = 0
    with ExitStack() as opened, watched("import") as progress:
        first, batches = opened.enter_context(reading(files[0], formats[0], schema, known, encoding))
        if known is None and formats[0] not in TEXTS:
            known = first

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal count
            parts = batches
            for at, (name, file_format) in enumerate(zip(files, formats, strict=True)):
                if at > 0:
                    opened.close()
                    _, parts = opened.enter_context(reading(name, file_format, schema or first, known, encoding))
                for batch in parts:
                    count += batch.num_rows
                    yield batch

        written = write_dataset(
            rows(),
            table.uri if target is None else target,
            first,
            mode,
            storage_options=None if target is not None else table.storage_options,
            commit_message=message,
            progress=progress,
        )
    Output(color=color).line(f"version {written.version}: {counted(count, 'row')}")


def _present(table: Address) -> LanceDataset | None:
    """The table; None if there is none yet."""
    if table.branch is not None:
        return table.open()
    try:
        return dataset(table.uri, storage_options=table.storage_options)
    except NotFoundError:
        return None


def _check_destination(uri: str) -> None:
    """Raises `InvalidInputError` if a local path has neither a table nor what a failed write left."""
    path = local_path(uri)
    if path is None or not path.exists():
        return
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else None
    if names is None or not ("_versions" in names or names <= _LEFTOVERS):
        raise InvalidInputError(what_is_at(uri) or uri)
