"""`pennon vacuum`: old versions and their files removed."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from pennon._text import counted, in_bytes
from pennon.cleanup import CleanupStats
from pennon.cli._confirm import is_agreed, yes_option
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, output_options, size_of
from pennon.cli._progress import watched

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Age(click.ParamType):  # type: ignore[type-arg]
    """An age: `14d`, `12h`, `0`."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The text of an argument as an age."""
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"(\d{1,9})([smhdw])|0", value)
        if found is None:
            self.fail(f"{value!r} is not an age: expected 14d, 12h, 30m, 2w or 0", param, ctx)
        return timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found[1] else timedelta(0)


@click.command()
@table_argument(pinned=False)
@click.option(
    "--older-than",
    type=Age(),
    metavar="AGE",
    help="Remove versions older than this, such as 12h or 0; default 14d, unless --keep is given.",
)
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep this number of newest versions.")
@click.option(
    "--orphans", is_flag=True, help="Remove files too that no version needs and that are younger than 7 days."
)
@click.option("--rate", type=click.IntRange(1), metavar="N", help="The most files to remove in a second.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed; remove nothing.")
@click.option("--files", is_flag=True, help="With --dry-run list the files, with the reasons.")
@yes_option
@output_options()
def command(
    table: Address,
    output: Output,
    older_than: timedelta | None,
    keep: int | None,
    orphans: bool,
    rate: int | None,
    dry_run: bool,
    files: bool,
    yes: bool,
) -> None:
    """Remove old versions and their files.

    Removed are versions that are older than 14 days, or that fit all conditions given, and the files that only they
    need. Versions with tags, those that branches or clones stand on, and the newest are kept. What is removed
    cannot be brought back: it asks before, unless --yes is given.
    """
    if files and not dry_run:
        raise click.UsageError("--files is for --dry-run")
    opened = table.open()
    conditions: dict[str, Any] = {
        "older_than": older_than,
        "retain_versions": keep,
        "delete_unverified": orphans,
        "error_if_tagged_old_versions": False,
    }
    with explained(table):
        if dry_run or not yes:
            explanation = opened.explain_cleanup_old_versions(**conditions)
            if files:
                found = explanation.files
                output.rows(found.filter(found["removed"]).drop_columns(["removed"]), {"size_bytes": size_of})
                return
            if dry_run:
                _print(output, explanation.stats, "would remove")
                return
            if not any(asdict(explanation.stats).values()):
                _print(output, explanation.stats, "removed")
                return
            if not is_agreed(f"Remove {_text(explanation.stats)}?", yes, "--dry-run shows it"):
                return
        with watched("vacuum") as progress:
            done = opened.cleanup_old_versions(**conditions, delete_rate_limit=rate, progress=progress)
    _print(output, done, "removed")
    if done.failed_deletes:
        click.echo(f"pennon: {counted(done.failed_deletes, 'file')} could not be removed", err=True)


def _print(output: Output, stats: CleanupStats, verb: str) -> None:
    if output.is_text:
        output.line(f"{verb} {_text(stats)}")
    else:
        output.record(asdict(stats))


def _text(stats: CleanupStats) -> str:
    kinds = {
        "data": stats.data_files_removed,
        "deletion": stats.deletion_files_removed,
        "index": stats.index_files_removed,
        "transaction": stats.transaction_files_removed,
    }
    parts = [counted(stats.old_versions, "version")]
    parts += [counted(count, f"{kind} file") for kind, count in kinds.items() if count]
    return f"{', '.join(parts)}: {in_bytes(stats.bytes_removed)}"
