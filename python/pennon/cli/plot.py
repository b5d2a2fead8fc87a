"""`pennon plot`: fragments and versions as pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pennon._text import counted, in_bytes
from pennon._whole_files import replacing
from pennon.cli import _page
from pennon.cli._charts import charts
from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, color_option
from pennon.cli._sketch import sketch

# Columns of a sketch that no terminal limits.
_WIDTH = 80


@click.command()
@table_argument()
@click.option("-o", "--output", "target", metavar="FILE", help="Write an HTML page or a PNG instead of a sketch.")
@click.option(
    "--versions", type=click.IntRange(1), default=64, show_default=True, help="The most versions to read."
)
@color_option
def command(table: Address, target: str | None, versions: int, color: bool) -> None:
    """Draw fragments and versions.

    Rows, bytes and deleted shares of fragments; rows, bytes, fragments and deleted rows by version, and versions by
    time, of as many versions as --versions says, evenly spaced. A PNG needs matplotlib: pip install 'pennon[plot]'.
    """
    kind = "" if target is None else Path(target).suffix.lower()
    if kind not in ("", ".html", ".htm", ".png") or (target is not None and not kind):
        raise click.UsageError(f"{target!r} is neither .html nor .png")
    opened = table.open()
    found = charts(opened, versions)
    facts = f"version {opened.version}, {counted(len(opened), 'row')}"
    if target is None:
        output = Output(color=color)
        unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
        for at, chart in enumerate(found):
            lines = sketch(chart, output.width or _WIDTH, unicode)
            if at:
                output.line()
            output.line(next(lines), bold=True)
            output.lines(lines)
        return
    path = Path(target)
    with replacing(path) as part:
        if kind == ".png":
            _page.png(part, table.uri, facts, found)
        else:
            part.write_text(_page.html(table.uri, facts, found), encoding="utf-8")
    click.echo(f"{target}: {in_bytes(path.stat().st_size)}")
