"""`pennon export`: rows as a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from pennon._text import counted, in_bytes
from pennon._whole_files import replacing
from pennon.cli._files import FORMATS, FileFormat, check_local, format_of, writing
from pennon.cli._open import Address, table_argument
from pennon.cli._progress import watched
from pennon.cli._select import columns_option, where_option
from pennon.errors import AlreadyExistsError


@click.command()
@table_argument()
@click.argument("file")
@click.option(
    "--format", "file_format", type=click.Choice(FORMATS), help="The format, if the name does not say it."
)
@click.option("--limit", type=click.IntRange(0, 2**63 - 1), metavar="N", help="The most rows.")
@click.option("--row-id", is_flag=True, help="Write the ids of the rows as well.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@columns_option
@where_option
def command(
    table: Address,
    file: str,
    file_format: FileFormat | None,
    limit: int | None,
    row_id: bool,
    force: bool,
    columns: list[str] | None,
    where: str | None,
) -> None:
    """Write rows to a file.

    FILE is Parquet, CSV, Arrow, or JSON with an object in each line, by its name; `-` is standard output. It
    appears complete or not at all. In CSV nested values are JSON; bytes, which blobs are too, are base64.
    """
    chosen = format_of(file, file_format, "--format")
    if file == "-" and chosen in ("parquet", "arrow") and sys.stdout.isatty():
        raise click.UsageError(f"{chosen} is not for terminals: redirect the output, or pipe it")
    if file != "-":
        check_local(file)
    opened = table.open()
    scan = opened.scanner(
        columns=columns, filter=where, limit=limit, with_row_id=row_id, blob_handling="all_binary"
    )
    total = None if where is not None else min(len(opened), len(opened) if limit is None else limit)
    reader = scan.to_reader()
    rows = 0
    with (
        watched("export") as progress,
        _target(file, force) as target,
        writing(target, chosen, reader.schema, is_pipe=file == "-") as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
            if progress:
                progress.stage("export", rows, total, "rows")
    if file != "-":
        click.echo(f"{file}: {counted(rows, 'row')}, {in_bytes(Path(file).stat().st_size)}")


@contextmanager
def _target(name: str, force: bool) -> Iterator[IO[bytes]]:
    """The file to write to, which gets its name at the end."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    if path.exists() and not path.is_file():
        # A device or a pipe; a directory is an error that says so.
        with path.open("wb") as file:
            yield file
        return
    if path.exists() and not force:
        raise AlreadyExistsError(f"{name} exists: --force replaces it")
    with replacing(path) as part:
        try:
            file = part.open("wb")
        except OSError as error:
            error.filename = name
            raise
        with file:
            yield file
