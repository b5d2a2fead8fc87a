"""`pennon index`: indices over values and vectors."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from pennon._text import counted
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, color_option, number_of, output_options, size_of
from pennon.cli._progress import stages
from pennon.errors import AlreadyExistsError

_SCHEMA = pa.schema(
    [
        pa.field("index", pa.utf8()),
        pa.field("type", pa.utf8()),
        pa.field("columns", pa.list_(pa.utf8())),
        pa.field("rows", pa.int64()),
        pa.field("segments", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)


@click.group()
def command() -> None:
    """List, create, extend and drop indices."""


@command.command("list")
@table_argument()
@output_options()
def list_indices(table: Address, output: Output) -> None:
    """List indices, with the rows that they cover."""
    records = [
        {
            "index": index.name,
            "type": index.index_type,
            "columns": index.field_names,
            "rows": index.num_rows_indexed,
            "segments": len(index.segments),
            "bytes": index.total_size_bytes,
        }
        for index in table.open().describe_indices()
    ]
    output.records(records, _SCHEMA, {"columns": ", ".join, "rows": number_of, "bytes": size_of})


@command.command()
@table_argument(pinned=False)
@click.argument("column")
@click.option(
    "--type",
    "kind",
    default="BTREE",
    show_default=True,
    metavar="KIND",
    help="BTREE, BITMAP, LABEL_LIST, ZONEMAP or BLOOMFILTER; over vectors IVF_FLAT, IVF_PQ and others.",
)
@click.option("--name", help="Its name; the column and `_idx` if not given.")
@click.option("--replace", is_flag=True, help="Replace an index of this name.")
@click.option("--metric", default="l2", show_default=True, help="Distance of vectors: l2, cosine, dot, hamming.")
@click.option("--partitions", type=click.IntRange(1), help="Partitions of an index over vectors.")
@click.option("--sub-vectors", type=click.IntRange(1), help="Codes for each vector of IVF_PQ and IVF_HNSW_PQ.")
@color_option
def create(
    table: Address,
    column: str,
    kind: str,
    name: str | None,
    replace: bool,
    metric: str,
    partitions: int | None,
    sub_vectors: int | None,
    color: bool,
) -> None:
    """Create an index over a column, in a new version."""
    opened = table.open()
    before = {index.name for index in opened.describe_indices()}
    usual = name or f"{column}_idx"
    if not replace and usual in before:
        raise AlreadyExistsError(f"{table.uri} has an index {usual}: --replace replaces it")
    with explained(table), stages("index") as progress:
        if kind.upper().startswith("IVF_"):
            opened.create_index(
                column,
                kind,
                name,
                metric,
                replace,
                num_partitions=partitions,
                num_sub_vectors=sub_vectors,
                progress_callback=progress,
            )
        else:
            opened.create_scalar_index(column, kind, name, replace=replace, progress_callback=progress)
    made = name or ", ".join(sorted({index.name for index in opened.describe_indices()} - before)) or usual
    Output(color=color).line(f"version {opened.version}: index {made}")


@command.command()
@table_argument(pinned=False)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--retrain", is_flag=True, help="Make them again from all rows.")
@color_option
def optimize(table: Address, names: tuple[str, ...], retrain: bool, color: bool) -> None:
    """Take rows that were added since into indices; into all if none is named. Says which rows it cannot take."""
    opened = table.open()
    before = opened.version
    with stages("index") as progress:
        opened.optimize.optimize_indices(
            index_names=list(names) or None, retrain=retrain, progress_callback=progress
        )
    rows = opened.count_rows()
    left = {
        index.name: rows - index.num_rows_indexed
        for index in opened.describe_indices()
        if index.num_rows_indexed < rows
        and (index.name in names if names else not index.name.startswith("__lance_"))
    }
    changed = f"version {opened.version}" if opened.version != before else "nothing to do"
    line = "; ".join(f"{counted(count, 'row')} not in {name}" for name, count in left.items())
    Output(color=color).line(f"{changed}: {line or 'all rows are in ' + (', '.join(names) or 'the indices')}")


@command.command()
@table_argument(pinned=False)
@click.argument("name")
@color_option
def drop(table: Address, name: str, color: bool) -> None:
    """Remove an index, in a new version. Its files stay until a vacuum."""
    opened = table.open()
    opened.drop_index(name)
    Output(color=color).line(f"version {opened.version}: dropped index {name}")


@command.command()
@table_argument()
@click.argument("name")
@output_options("table", "json")
def stats(table: Address, name: str, output: Output) -> None:
    """Print figures about an index."""
    found: dict[str, Any] = table.open().index_statistics(name)
    output.record(found)
