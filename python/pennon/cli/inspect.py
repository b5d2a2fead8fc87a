"""`pennon inspect`: the parts of a data file or a table, as data and as text."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import pyarrow as pa

from pennon._text import aligned, counted, in_bytes
from pennon.errors import NotFoundError
from pennon.file import LanceFileReader
from pennon.open import dataset

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from pennon.dataset import LanceDataset
    from pennon.schema import LanceField

# Pages of a column and fragments of a table are shown up to this number.
SHOWN = 10


class PageReport(TypedDict):
    """A page of a column."""

    rows: int
    bytes: int
    buffers: list[int]
    encoding: str


class ColumnReport(TypedDict):
    """A column of a file.

    `ratio` is bytes in memory divided by bytes in the file; `None` if values of the type vary in size.
    """

    name: str | None
    type: str | None
    rows: int
    bytes: int
    ratio: float | None
    pages: list[PageReport]


class FileReport(TypedDict):
    """A data file."""

    kind: Literal["file"]
    path: str
    version: str
    rows: int
    bytes: int
    data_bytes: int
    column_metadata_bytes: int
    global_buffers: list[int]
    columns: list[ColumnReport]


class FragmentReport(TypedDict):
    """A fragment of a table."""

    id: int
    rows: int
    deleted: int
    files: list[str]
    bytes: int


class FieldReport(TypedDict):
    """A column of a table, over all its files. `encodings` has the number of pages of each encoding."""

    name: str
    type: str
    bytes: int
    ratio: float | None
    pages: int
    encodings: dict[str, int]


class TableReport(TypedDict):
    """The newest version of a table. Files below other base paths are not counted."""

    kind: Literal["table"]
    path: str
    version: int
    file_version: str
    stable_row_ids: bool
    rows: int
    deleted: int
    schema: list[str]
    fragments: list[FragmentReport]
    columns: list[FieldReport]


def register(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "inspect",
        help="show the parts of a data file or a table",
        description="Shows the columns, pages, encodings and sizes of a data file, or the version, schema,"
        " fragments and columns of a table. A ratio is bytes in memory divided by bytes in the file.",
    )
    parser.add_argument("file", help="path or URI of a data file, or of the directory of a table")
    parser.add_argument("--json", action="store_true", help="print JSON, with every page and fragment")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> tuple[str, int]:
    """The report; the exit status is 0."""
    found = report(options.file)
    return json.dumps(found, indent=2) if options.json else text(found), 0


def report(path: str) -> FileReport | TableReport:
    """What is at a path or URI: a data file, or the directory of a table."""
    if Path(path).is_dir():
        return _table(dataset(path))
    try:
        return _file(path, LanceFileReader(path))
    except NotFoundError as error:
        if "://" not in path:
            raise
        try:
            return _table(dataset(path))
        except NotFoundError:
            raise error from None


def _file(path: str, reader: LanceFileReader) -> FileReport:
    found = reader.metadata()
    types = dict(_leaves(found.schema))
    columns: list[ColumnReport] = []
    for column in found.columns:
        kind = types.get(column.name or "")
        pages: list[PageReport] = [
            {
                "rows": page.num_rows,
                "bytes": sum(buffer.size for buffer in page.buffers),
                "buffers": [buffer.size for buffer in page.buffers],
                "encoding": page.encoding,
            }
            for page in column.pages
        ]
        size = sum(page["bytes"] for page in pages)
        columns.append(
            {
                "name": column.name,
                "type": None if kind is None else str(kind),
                "rows": sum(page["rows"] for page in pages),
                "bytes": size,
                "ratio": _ratio(column.name, kind, found.num_rows, size),
                "pages": pages,
            }
        )
    return {
        "kind": "file",
        "path": path,
        "version": found.version,
        "rows": found.num_rows,
        "bytes": found.size_bytes,
        "data_bytes": found.num_data_bytes,
        "column_metadata_bytes": found.num_column_metadata_bytes,
        "global_buffers": [buffer.size for buffer in found.global_buffers],
        "columns": columns,
    }


def _table(table: LanceDataset) -> TableReport:
    names = dict(_field_names(table.lance_schema.fields()))
    sizes: Counter[str] = Counter()
    pages: dict[str, Counter[str]] = {}
    rows: Counter[str] = Counter()
    fragments: list[FragmentReport] = []
    for fragment in table.get_fragments():
        metadata = fragment.metadata
        total = 0
        for file in metadata.files:
            if file.base_id is not None:
                continue
            part = _file(file.path, LanceFileReader(f"{table.uri}/data/{file.path}", table._native.storage_options))
            total += part["bytes"]
            for field, index in zip(file.fields, file.column_indices, strict=True):
                name = names.get(field)
                if name is None or not 0 <= index < len(part["columns"]):
                    continue
                column = part["columns"][index]
                sizes[name] += column["bytes"]
                rows[name] += part["rows"]
                pages.setdefault(name, Counter()).update(page["encoding"] for page in column["pages"])
        fragments.append(
            {
                "id": metadata.id,
                "rows": metadata.physical_rows,
                "deleted": metadata.num_deletions,
                "files": [file.path for file in metadata.files],
                "bytes": total,
            }
        )
    columns: list[FieldReport] = [
        {
            "name": name,
            "type": str(kind),
            "bytes": sizes[name],
            "ratio": _ratio(name, kind, rows[name], sizes[name]),
            "pages": sum(pages.get(name, Counter()).values()),
            "encodings": dict(pages.get(name, Counter()).most_common()),
        }
        for name, kind in _leaves(table.schema)
    ]
    return {
        "kind": "table",
        "path": table.uri,
        "version": table.version,
        "file_version": table.data_storage_version,
        "stable_row_ids": table.has_stable_row_ids,
        "rows": table.count_rows(),
        "deleted": sum(fragment["deleted"] for fragment in fragments),
        "schema": [_field_text(field) for field in table.schema],
        "fragments": fragments,
        "columns": columns,
    }


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    def visit(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
        if pa.types.is_struct(kind) and kind.num_fields:
            for member in kind:
                yield from visit(f"{name}.{_quoted(member.name)}", member.type)
        elif pa.types.is_map(kind):
            for member in (kind.key_field, kind.item_field):
                yield from visit(f"{name}.entries.{_quoted(member.name)}", member.type)
        elif (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or (pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type))
        ):
            yield from visit(f"{name}.{_quoted(kind.value_field.name)}", kind.value_type)
        else:
            yield name, kind

    for field in schema:
        yield from visit(_quoted(field.name), field.type)


def _field_text(field: pa.Field) -> str:
    return f"{field.name}: {field.type}" + ("" if field.nullable else " not null")


def _field_names(fields: Sequence[LanceField], parent: str = "") -> Iterator[tuple[int, str]]:
    for field in fields:
        name = f"{parent}{_quoted(field.name)}"
        yield field.id, name
        yield from _field_names(field.children(), f"{name}.")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


def _ratio(name: str | None, kind: pa.DataType | None, rows: int, size: int) -> float | None:
    """Also `None` inside a list, where the number of values is not the number of rows."""
    width = 1
    while kind is not None and pa.types.is_fixed_size_list(kind):
        width, kind = width * kind.list_size, kind.value_type
    if (
        kind is None
        or name is None
        or size == 0
        or pa.types.is_nested(kind)
        or ".item" in name
        or ".entries" in name
    ):
        return None
    try:
        return round(int(kind.bit_width) * rows * width / 8 / size, 2)
    except ValueError:  # the width varies
        return None


def text(found: FileReport | TableReport) -> str:
    """The report as text."""
    if found["kind"] == "file":
        return "\n".join(_file_text(found))
    return "\n".join(_table_text(found))


def _file_text(found: FileReport) -> Iterator[str]:
    rows, size = counted(found["rows"], "row"), in_bytes(found["bytes"])
    yield f"{found['path']}: data file of version {found['version']}, {rows}, {size}"
    buffers = ", ".join(in_bytes(size) for size in found["global_buffers"])
    yield (
        f"data {in_bytes(found['data_bytes'])}, column metadata {in_bytes(found['column_metadata_bytes'])},"
        f" global buffers {buffers}"
    )
    yield ""
    lines = [("column", "type", "rows", "bytes", "ratio", "buffers", "encoding")]
    for number, column in enumerate(found["columns"]):
        name = column["name"] or f"(column {number})"
        head = (
            name,
            column["type"] or "",
            f"{column['rows']:,}",
            in_bytes(column["bytes"]),
            _times(column["ratio"]),
        )
        pages = column["pages"]
        if len(pages) == 1:
            lines.append((*head, _sizes(pages[0]["buffers"]), pages[0]["encoding"]))
            continue
        lines.append((*head, "", f"{len(pages)} pages"))
        for at, page in enumerate(pages[:SHOWN]):
            rows, size = f"{page['rows']:,}", in_bytes(page["bytes"])
            lines.append((f"  page {at}", "", rows, size, "", _sizes(page["buffers"]), page["encoding"]))
        if len(pages) > SHOWN:
            lines.append((f"  and {len(pages) - SHOWN} more", "", "", "", "", "", ""))
    yield from aligned(lines, right=(2, 3, 4))


def _table_text(found: TableReport) -> Iterator[str]:
    ids = "stable row ids" if found["stable_row_ids"] else "no stable row ids"
    yield (
        f"{found['path']}: table, version {found['version']},"
        f" {counted(found['rows'], 'row')} ({found['deleted']:,} deleted),"
        f" files of version {found['file_version']}, {ids}"
    )
    yield ""
    yield from (f"  {field}" for field in found["schema"])
    yield ""
    lines = [("fragment", "rows", "deleted", "bytes", "files")]
    lines += [
        (str(f["id"]), f"{f['rows']:,}", f"{f['deleted']:,}", in_bytes(f["bytes"]), " ".join(f["files"]))
        for f in found["fragments"][:SHOWN]
    ]
    if len(found["fragments"]) > SHOWN:
        lines.append((f"and {len(found['fragments']) - SHOWN} more", "", "", "", ""))
    yield from aligned(lines, right=(1, 2, 3))
    yield ""
    rows = [("column", "type", "bytes", "ratio", "pages", "encodings")]
    for column in found["columns"]:
        encodings = "; ".join(f"{count} x {name}" for name, count in column["encodings"].items())
        figures = (in_bytes(column["bytes"]), _times(column["ratio"]), f"{column['pages']:,}")
        rows.append((column["name"], column["type"], *figures, encodings))
    yield from aligned(rows, right=(2, 3, 4))


def _sizes(counts: list[int]) -> str:
    return " + ".join(in_bytes(count) for count in counts)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
