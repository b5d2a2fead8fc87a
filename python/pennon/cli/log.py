"""`pennon log`: the versions of a table, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import click
import pyarrow as pa

from pennon._text import in_bytes
from pennon.cli._commits import SCHEMA, Commit, Figures, commits, figures, newest_numbers, numbers_of, time_of
from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._values import shown
from pennon.dataset import LanceDataset


@click.command()
@table_argument()
@click.option("-n", "--max-count", type=click.IntRange(0), help="How many; 20 if not given.")
@click.option("--all", "everything", is_flag=True, help="All versions.")
@click.option("--oneline", is_flag=True, help="A line for each version.")
@click.option("--stat", is_flag=True, help="Rows, fragments, files and bytes, and by how much they changed.")
@output_options()
def command(
    table: Address, output: Output, max_count: int | None, everything: bool, oneline: bool, stat: bool
) -> None:
    """List versions, newest first.

    Reads as many manifests as it lists versions.
    """
    if everything and max_count is not None:
        raise click.UsageError("--all and --max-count exclude each other")
    opened = table.open()
    if everything:
        numbers = numbers_of(opened)
        most = len(numbers)
    else:
        most = 20 if max_count is None else max_count
        # One more, for what --stat compares with and to know whether there is one.
        numbers = newest_numbers(opened, most + 1 if stat or max_count is None else most)
    found = commits(opened, numbers[:most], table.branch)
    if not output.is_text:
        batches = (pa.RecordBatch.from_pylist([commit.record()], SCHEMA) for commit in found)
        output.rows(pa.RecordBatchReader.from_batches(SCHEMA, batches))
        return
    oldest = _before(opened, numbers[most : most + 1]) if stat else None
    newest = numbers[0] if numbers and not table.is_pinned else None
    for commit, before in _pairs(found, oldest):
        title = heading(output, commit, is_newest=commit.version == newest)
        if oneline:
            output.line(f"{title} {shown(commit.title)}{message_of(commit)}")
        else:
            output.lines(entry(commit, title))
        if stat:
            output.lines(statistics(output, commit.figures, before))
        if not oneline:
            output.line()
    if len(numbers) > most and max_count is None:
        output.line("older versions follow (--all shows all)", dim=True)


def heading(output: Output, commit: Commit, *, is_newest: bool = False) -> str:
    """The number of a version, with its tags as git decorates."""
    names = [output.style("newest", fg="cyan", bold=True)] if is_newest else []
    names += [output.style(f"tag: {tag}", fg="yellow", bold=True) for tag in commit.tags]
    return output.style(f"version {commit.version}", fg="yellow") + (f" ({', '.join(names)})" if names else "")


def entry(commit: Commit, title: str) -> Iterator[str]:
    """A version as git shows a commit."""
    yield title
    yield f"Date:    {time_of(commit.time)}"
    yield f"Change:  {shown(commit.title)}"
    for key, value in sorted(commit.properties.items()):
        yield f"Note:    {shown(key)}={shown(value)}"
    if commit.message:
        yield ""
        yield from (f"    {shown(part, None)}" for part in commit.message.splitlines())


def statistics(output: Output, now: Figures, before: Figures | None) -> Iterator[str]:
    """What a version consists of, and how that differs from the version before."""
    parts = []
    for name in ("rows", "fragments", "files", "deleted"):
        value: int = getattr(now, name)
        earlier: int | None = None if before is None else getattr(before, name)
        parts.append(f"{value:,} {_noun(name, value)}{_change(output, value, earlier)}")
    size = in_bytes(now.bytes)
    change = _change(output, now.bytes, None if before is None else before.bytes, is_size=True)
    yield f"  {', '.join(parts)}, {size}{change}"


def message_of(commit: Commit) -> str:
    """The first line of the message, for a line that has something before it."""
    first = (commit.message or "").strip().partition("\n")[0]
    return f": {shown(first)}" if first else ""


def _noun(name: str, value: int) -> str:
    return name[:-1] if value == 1 and name.endswith("s") else name


def _change(output: Output, now: int, before: int | None, *, is_size: bool = False) -> str:
    if before is None or now == before:
        return ""
    amount = in_bytes(abs(now - before)) if is_size else f"{abs(now - before):,}"
    sign, colour = ("+", "green") if now > before else ("-", "red")
    return f" ({output.style(f'{sign}{amount}', fg=colour)})"


def _before(table: LanceDataset, numbers: Sequence[int]) -> Figures | None:
    return next((found for _, _, found in figures(table, numbers)), None)


def _pairs(found: Iterator[Commit], oldest: Figures | None) -> Iterator[tuple[Commit, Figures | None]]:
    """Each version with the figures of the one before it."""
    later: Commit | None = None
    for commit in chain(found, [None]):
        if later is not None:
            yield later, oldest if commit is None else commit.figures
        later = commit
