"""`pennon compact`: small fragments and deleted rows rewritten."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pennon._text import counted, in_bytes
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._progress import watched
from pennon.optimize import Compaction

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset


@click.command()
@table_argument(pinned=False)
@click.option("--rows", type=click.IntRange(1), metavar="N", help="Rows of a fragment, as far as possible.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Tasks in flight; the number of cores.")
@click.option("--max-seconds", type=click.FloatRange(0), metavar="S", help="Start no task after this time.")
@click.option("--dry-run", is_flag=True, help="Say what would be rewritten.")
@output_options("table", "json")
def command(
    table: Address,
    output: Output,
    rows: int | None,
    threads: int | None,
    max_seconds: float | None,
    dry_run: bool,
) -> None:
    """Rewrite small fragments and deleted rows.

    Rows keep their ids. The old files stay until a vacuum removes the versions that need them.
    """
    opened = table.open()
    if dry_run:
        _plan(opened, output, rows)
        return
    before = opened.version
    with explained(table), watched("compact") as progress:
        done = opened.optimize.compact_files(
            target_rows_per_fragment=rows, num_threads=threads, max_seconds=max_seconds, progress=progress
        )
    if not output.is_text:
        output.record({"version": opened.version, **asdict(done)})
    elif opened.version == before:
        output.line("nothing to do")
    else:
        removed, added = counted(done.fragments_removed, "fragment"), counted(done.fragments_added, "fragment")
        output.line(f"version {opened.version}: {removed} rewritten to {added.split()[0]}")


def _plan(opened: LanceDataset, output: Output, rows: int | None) -> None:
    plan = Compaction.plan(opened, {"target_rows_per_fragment": rows})
    fragments = [fragment for task in plan.tasks for fragment in task.fragments]
    found: dict[str, Any] = {
        "tasks": len(plan.tasks),
        "fragments": len(fragments),
        "rows": sum(fragment.physical_rows - fragment.num_deletions for fragment in fragments),
        "deleted": sum(fragment.num_deletions for fragment in fragments),
        "bytes": sum(file.file_size_bytes or 0 for fragment in fragments for file in fragment.files),
    }
    if not output.is_text:
        output.record(found)
    elif not fragments:
        output.line("nothing to do")
    else:
        parts = f"{counted(found['fragments'], 'fragment')} with {counted(found['rows'], 'row')}"
        output.line(f"would rewrite {parts}, {in_bytes(found['bytes'])}, in {counted(found['tasks'], 'task')}")
