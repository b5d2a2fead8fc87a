"""`pennon inspect`: the parts of a data file or a table, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, TypedDict
from urllib.parse import urlsplit, urlunsplit

import click
import pyarrow as pa

from pennon._address import local_path
from pennon._field_paths import field_paths, quoted
from pennon._text import counted, in_bytes
from pennon.cli._grid import grid
from pennon.cli._open import Address, kind_of_file, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._values import shown
from pennon.errors import CorruptError, InvalidInputError, NotFoundError
from pennon.file import LanceFileReader
from pennon.open import dataset

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.metadata import FragmentMetadata

# Pages of a column and fragments of a table are shown up to this number.
SHOWN = 10
# Data files that are opened at the same time.
AT_A_TIME = 16
# Schemes of tables whose versions are in an external store.
_OWN_SCHEMES = ("s3+", "file+")


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
    """A version of a table. Files below other base paths are not counted.

    `columns` are those of the files of `fragments_read`; bytes of other fragments are what the manifest records.
    """

    kind: Literal["table"]
    path: str
    version: int
    file_version: str
    stable_row_ids: bool
    rows: int
    deleted: int
    schema: list[str]
    fragments: list[FragmentReport]
    fragments_read: int
    columns: list[FieldReport]


@click.command()
@table_argument(metavar="FILE|TABLE")
@click.option(
    "--all", "everything", is_flag=True, help="Open all data files of a table, not those of ten fragments."
)
@output_options("table", "json")
def command(table: Address, output: Output, everything: bool) -> None:
    """Show the parts of a data file or a table.

    Shows the columns, pages, encodings and sizes of a data file, or the version, schema, fragments and columns of a
    table. A ratio is bytes in memory divided by bytes in the file. JSON has every page and fragment.
    """
    found = report(table, None if everything or output.format == "json" else SHOWN)
    output.report({**found}, text(found, output.width))


def report(address: Address, most: int | None = None) -> FileReport | TableReport:
    """What is at a path or URI: a data file, or the directory of a table, of which this many fragments are read."""
    path = address.uri
    local = local_path(path)
    if (
        address.is_pinned
        or address.branch is not None
        or path.startswith(_OWN_SCHEMES)
        or (local and local.is_dir())
    ):
        return _table(address.open(), most)
    try:
        return _file(path, LanceFileReader(path, address.storage_options))
    except (CorruptError, InvalidInputError):
        kind = kind_of_file(local) if local and local.suffix != ".lance" else None
        if kind is None:
            raise
        raise InvalidInputError(f"{path} is {kind}, not a data file") from None
    except NotFoundError as error:
        if local:
            raise NotFoundError(f"Not found: {path}") from None
        try:
            return _table(dataset(path, storage_options=address.storage_options), most)
        except NotFoundError:
            raise error from None


def _file(path: str, reader: LanceFileReader) -> FileReport:
    found = reader.metadata()
    leaves = {name: (kind, is_repeated) for name, kind, is_repeated in _leaves(found.schema)}
    columns: list[ColumnReport] = []
    for column in found.columns:
        kind, is_repeated = leaves.get(column.name or "", (None, True))
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
                "ratio": None if is_repeated else _ratio(kind, found.num_rows, size),
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


def _table(table: LanceDataset, most: int | None) -> TableReport:
    names = {field.id: path for path, field in field_paths(table.lance_schema.fields())}
    sizes: Counter[str] = Counter()
    pages: dict[str, Counter[str]] = {}
    rows: Counter[str] = Counter()
    every = [fragment.metadata for fragment in table.get_fragments()]
    read = every if most is None else every[:most]
    own = [(metadata.id, file) for metadata in read for file in metadata.files if file.base_id is None]
    totals: Counter[int] = Counter()
    for (id, file), part in zip(own, _opened(table, [file.path for _, file in own]), strict=True):
        totals[id] += part["bytes"]
        for field, index in zip(file.fields, file.column_indices, strict=True):
            name = names.get(field)
            if name is None or not 0 <= index < len(part["columns"]):
                continue
            column = part["columns"][index]
            sizes[name] += column["bytes"]
            rows[name] += part["rows"]
            pages.setdefault(name, Counter()).update(page["encoding"] for page in column["pages"])
    opened = {metadata.id for metadata in read}
    fragments: list[FragmentReport] = [
        {
            "id": metadata.id,
            "rows": metadata.physical_rows,
            "deleted": metadata.num_deletions,
            "files": [file.path for file in metadata.files],
            "bytes": totals[metadata.id] if metadata.id in opened else _recorded(metadata),
        }
        for metadata in every
    ]
    columns: list[FieldReport] = [
        {
            "name": name,
            "type": str(kind),
            "bytes": sizes[name],
            "ratio": None if is_repeated else _ratio(kind, rows[name], sizes[name]),
            "pages": sum(pages.get(name, Counter()).values()),
            "encodings": dict(pages.get(name, Counter()).most_common()),
        }
        for name, kind, is_repeated in _leaves(table.schema)
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
        "fragments_read": len(read),
        "columns": columns,
    }


def _opened(table: LanceDataset, paths: Sequence[str]) -> Iterator[FileReport]:
    """The data files at these paths in the table, which are opened at the same time."""
    parts = urlsplit(table.uri)
    root = table.uri
    if parts.scheme.startswith(_OWN_SCHEMES):
        root = urlunsplit(parts._replace(scheme=parts.scheme.partition("+")[0], query=""))
    options = table._native.storage_options

    def read(path: str) -> FileReport:
        return _file(path, LanceFileReader(f"{root}/data/{path}", options))

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield from pool.map(read, paths)


def _recorded(metadata: FragmentMetadata) -> int:
    return sum(file.file_size_bytes or 0 for file in metadata.files if file.base_id is None)


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType, bool]]:
    """Name and type of each leaf, and whether a row has any number of its values, as in lists."""

    def visit(name: str, kind: pa.DataType, is_repeated: bool) -> Iterator[tuple[str, pa.DataType, bool]]:
        if pa.types.is_struct(kind) and kind.num_fields:
            for member in kind:
                yield from visit(f"{name}.{quoted(member.name)}", member.type, is_repeated)
        elif pa.types.is_map(kind):
            for member in (kind.key_field, kind.item_field):
                yield from visit(f"{name}.entries.{quoted(member.name)}", member.type, True)
        elif (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or (pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type))
        ):
            yield from visit(f"{name}.{quoted(kind.value_field.name)}", kind.value_type, True)
        else:
            yield name, kind, is_repeated

    for field in schema:
        yield from visit(quoted(field.name), field.type, False)


def _field_text(field: pa.Field) -> str:
    return f"{field.name}: {field.type}" + ("" if field.nullable else " not null")


def _ratio(kind: pa.DataType | None, rows: int, size: int) -> float | None:
    width = 1
    while kind is not None and pa.types.is_fixed_size_list(kind):
        width, kind = width * kind.list_size, kind.value_type
    if kind is None or size == 0 or pa.types.is_nested(kind):
        return None
    try:
        return round(int(kind.bit_width) * rows * width / 8 / size, 2)
    except ValueError:  # the width varies
        return None


def text(found: FileReport | TableReport, width: int | None = None) -> str:
    """The report as text, with tables of this width."""
    if found["kind"] == "file":
        return "\n".join(_file_text(found, width))
    return "\n".join(_table_text(found, width))


def _file_text(found: FileReport, width: int | None) -> Iterator[str]:
    rows, size = counted(found["rows"], "row"), in_bytes(found["bytes"])
    yield f"{shown(found['path'], None)}: data file of version {found['version']}, {rows}, {size}"
    buffers = ", ".join(in_bytes(size) for size in found["global_buffers"])
    yield (
        f"data {in_bytes(found['data_bytes'])}, column metadata {in_bytes(found['column_metadata_bytes'])},"
        f" global buffers {buffers}"
    )
    yield ""
    lines = [("column", "type", "rows", "bytes", "ratio", "buffers", "encoding")]
    for number, column in enumerate(found["columns"]):
        name = f"(column {number})" if column["name"] is None else shown(column["name"])
        head = (
            name,
            shown(column["type"], None),
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
    yield from grid(lines[0], lines[1:], (2, 3, 4), width)


def _table_text(found: TableReport, width: int | None) -> Iterator[str]:
    ids = "stable row ids" if found["stable_row_ids"] else "no stable row ids"
    yield (
        f"{shown(found['path'], None)}: table, version {found['version']},"
        f" {counted(found['rows'], 'row')} ({found['deleted']:,} deleted),"
        f" files of version {found['file_version']}, {ids}"
    )
    yield ""
    yield from (f"  {shown(field, None)}" for field in found["schema"])
    yield ""
    lines = [("fragment", "rows", "deleted", "bytes", "files")]
    lines += [
        (str(f["id"]), f"{f['rows']:,}", f"{f['deleted']:,}", in_bytes(f["bytes"]), " ".join(f["files"]))
        for f in found["fragments"][:SHOWN]
    ]
    if len(found["fragments"]) > SHOWN:
        lines.append((f"and {len(found['fragments']) - SHOWN} more", "", "", "", ""))
    yield from grid(lines[0], lines[1:], (1, 2, 3), width)
    yield ""
    if found["fragments_read"] < len(found["fragments"]):
        read, every = found["fragments_read"], len(found["fragments"])
        yield f"columns, in the first {read} of {every:,} fragments (--all reads all):"
    rows = [("column", "type", "bytes", "ratio", "pages", "encodings")]
    for column in found["columns"]:
        encodings = "; ".join(f"{count} x {name}" for name, count in column["encodings"].items())
        figures = (in_bytes(column["bytes"]), _times(column["ratio"]), f"{column['pages']:,}")
        rows.append((shown(column["name"]), shown(column["type"], None), *figures, encodings))
    yield from grid(rows[0], rows[1:], (2, 3, 4), width)


def _sizes(counts: list[int]) -> str:
    return " + ".join(in_bytes(count) for count in counts)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
