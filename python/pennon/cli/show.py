"""`pennon show`: one version, and what it changed."""

from __future__ import annotations

import click

from pennon.cli import _commits
from pennon.cli._changes import print_changes
from pennon.cli._open import VERSION, Address, Name, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli.log import entry, heading, statistics
from pennon.errors import NotFoundError


@click.command()
@table_argument(pinned=False)
@click.argument("name", metavar="[VERSION]", type=VERSION, required=False)
@click.option("--stat", is_flag=True, help="Count the rows that changed; do not print them.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="The most changes to print.")
@output_options("table", "json")
def command(table: Address, output: Output, name: Name | None, stat: bool, limit: int) -> None:
    """Show one version.

    By default the newest: what made it, what it consists of, and the rows that it changed. VERSION is a number, a
    tag, or BRANCH:NUMBER.
    """
    opened = table.open()
    if name is not None:
        opened = table.checkout(opened, name)
    branch = name[0] if isinstance(name, tuple) else table.branch
    if isinstance(name, str):
        branch = opened.tags.list()[name]["branch"]
    commit = _commits.read(opened, opened.version, _commits.tags_of(opened, branch))
    if commit is None:  # it was opened, so it is there
        return
    if not output.is_text:
        output.record(commit.record())
        return
    output.lines(entry(commit, heading(output, commit)))
    output.line()
    try:
        begin = _commits.version_before(opened, table.uri, branch)
    except NotFoundError as error:
        output.lines(statistics(output, commit.figures, None))
        output.line()
        output.line(f"no changes are shown: {error}", dim=True)
        return
    earlier = _commits.figures(opened, [begin] if begin else [])
    output.lines(statistics(output, commit.figures, earlier[0][2] if earlier else None))
    if opened.has_stable_row_ids:
        output.line()
        print_changes(output, opened, begin, None, stat=stat, limit=limit)
