"""`pennon du`: where the bytes of a table are, and what a vacuum would free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from pennon._field_paths import field_paths
from pennon._text import in_bytes
from pennon.cli import _commits
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, number_of, output_options, size_of

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset

# Lines of a listing if nobody says how many.
_MOST = 20
_TEXT: dict[str, Callable[[Any], str]] = {
    "bytes": size_of,
    "added": lambda value: f"{'+' if value > 0 else '-' if value < 0 else ''}{in_bytes(abs(value))}",
    "vacuum": size_of,
    "rows": number_of,
    "files": number_of,
    "deleted": number_of,
    "time": _commits.time_of,
    "columns": ", ".join,
}


@click.command()
@table_argument()
@click.option(
    "--by",
    type=click.Choice(["kind", "version", "column", "file", "index"]),
    default="kind",
    show_default=True,
    help="What to list: kinds of files, versions, columns, the largest data files, or indices.",
)
@click.option(
    "-n", "--max-count", type=click.IntRange(0), metavar="N", help=f"The most lines; {_MOST} if not given."
)
@click.option("--all", "everything", is_flag=True, help="All lines.")
@output_options()
def command(table: Address, output: Output, by: str, max_count: int | None, everything: bool) -> None:
    """Show where the bytes are.

    By kind it lists all files in the folders of the table, and what a vacuum of all older versions would free: it
    reads all manifests. By version it reads as many manifests as it prints lines, by column the
    metadata of all data files of the version, by file only the manifest.
    """
    opened = table.open()
    most = None if everything else _MOST if max_count is None else max_count
    if by == "kind":
        with explained(table):
            _by_kind(opened, output)
        return
    list_lines = {"version": _by_version, "column": _by_column, "file": _by_file, "index": _by_index}[by]
    records, left, schema = list_lines(opened, most)
    output.records(records, schema, _TEXT)
    if left and output.is_text:
        output.line("more follow (--all shows all)", dim=True)


Lines = tuple[list[dict[str, Any]], bool, pa.Schema]


def _by_kind(opened: LanceDataset, output: Output) -> None:
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    freed: Counter[str] = Counter()
    found = opened.explain_cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False).files
    keys = (found[name].to_pylist() for name in ("kind", "size_bytes", "removed"))
    for kind, size, removed in zip(*keys, strict=True):
        files[kind] += 1
        sizes[kind] += size
        freed[kind] += size if removed else 0
    records = [
        {"kind": kind, "files": files[kind], "bytes": size, "vacuum": freed[kind]}
        for kind, size in sizes.most_common()
    ]
    if output.is_text:
        total = {"files": files.total(), "bytes": sizes.total(), "vacuum": freed.total()}
        records.append({"kind": "total", **total})
    fields = [("kind", pa.utf8()), *((name, pa.int64()) for name in ("files", "bytes", "vacuum"))]
    output.records(records, pa.schema(fields), _TEXT)
    if output.is_text:
        output.line()
        output.line(f"a vacuum of all older versions would free {in_bytes(freed.total())}")


def _by_version(opened: LanceDataset, most: int | None) -> Lines:
    numbers = _commits.numbers_of(opened) if most is None else _commits.newest_numbers(opened, most + 1)
    shown = len(numbers) if most is None else most
    found = _commits.figures(opened, numbers[: shown + 1])
    records = []
    for at, (number, time, figures) in enumerate(found[:shown]):
        before = found[at + 1][2].bytes if at + 1 < len(found) else 0
        values = {"version": number, "time": time, "rows": figures.rows, "files": figures.files}
        records.append({**values, "bytes": figures.bytes, "added": figures.bytes - before})
    fields = [("version", pa.uint64()), ("time", pa.timestamp("us", "UTC"))]
    fields += [(name, pa.int64()) for name in ("rows", "files", "bytes", "added")]
    return records, len(numbers) > shown, pa.schema(fields)


def _by_column(opened: LanceDataset, most: int | None) -> Lines:
    sizes = {entry.id: entry.bytes_on_disk for entry in opened.stats.data_stats().fields}
    records = [
        {"column": path, "type": str(field.to_arrow().type), "bytes": sizes[field.id]}
        for path, field in field_paths(opened.lance_schema.fields())
        if field.id in sizes
    ]
    records.sort(key=lambda record: -int(str(record["bytes"])))
    fields = [("column", pa.utf8()), ("type", pa.utf8()), ("bytes", pa.int64())]
    return _cut(records, most, pa.schema(fields))


def _by_file(opened: LanceDataset, most: int | None) -> Lines:
    records = [
        {
            "file": file.path,
            "fragment": metadata.id,
            "rows": metadata.physical_rows,
            "deleted": metadata.num_deletions,
            "bytes": file.file_size_bytes,
        }
        for metadata in (fragment.metadata for fragment in opened.get_fragments())
        for file in metadata.files
    ]
    records.sort(key=lambda record: -int(record["bytes"] or 0))
    fields = [("file", pa.utf8())]
    fields += [(name, pa.int64()) for name in ("fragment", "rows", "deleted", "bytes")]
    return _cut(records, most, pa.schema(fields))


def _by_index(opened: LanceDataset, most: int | None) -> Lines:
    records = [
        {
            "index": index.name,
            "type": index.index_type,
            "columns": index.field_names,
            "rows": index.num_rows_indexed,
            "bytes": index.total_size_bytes,
        }
        for index in opened.describe_indices()
    ]
    records.sort(key=lambda record: -int(str(record["bytes"])))
    fields = [("index", pa.utf8()), ("type", pa.utf8()), ("columns", pa.list_(pa.utf8()))]
    fields += [(name, pa.int64()) for name in ("rows", "bytes")]
    return _cut(records, most, pa.schema(fields))


def _cut(records: list[dict[str, Any]], most: int | None, schema: pa.Schema) -> Lines:
    return (records, False, schema) if most is None else (records[:most], len(records) > most, schema)
