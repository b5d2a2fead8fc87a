"""What commands print: rows, records and lines, in the format that was asked for."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeVar, Union, cast

import click
import pyarrow as pa

from pennon._text import in_bytes
from pennon.cli._grid import folded, grid
from pennon.cli._values import CsvWriter, as_json, shown, values_of

Format = Literal["table", "json", "csv", "arrow"]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Batches = Union[pa.Table, pa.RecordBatchReader]
_FORMATS: tuple[Format, ...] = ("table", "json", "csv", "arrow")
# Rows of a table that are aligned with each other.
PAGE = 1000
# Columns of terminals that do not say how wide they are.
_WIDTH = 100


@dataclass(frozen=True)
class Output:
    """Where a command prints to, and how."""

    format: Format = "table"
    color: bool = False

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self.format == "table"

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None if it is not a terminal, whose lines may be long."""
        return shutil.get_terminal_size((_WIDTH, 24)).columns if _is_terminal() else None

    def line(self, text: str = "", **style: Any) -> None:
        """Print a line of text, or several."""
        for part in text.split("\n"):
            self._folded(part, len(part) - len(part.lstrip()) + 2, style)

    def values(self, text: str) -> None:
        """Print a line that ends with values of rows, which may be words of any length."""
        self._folded(text, 4, {}, breaks_words=True)

    def style(self, text: str, **style: Any) -> str:
        """Text in a colour, if there are any."""
        return click.style(text, **style) if self.color else text

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines of text."""
        for line in lines:
            self.line(line)

    def rows(
        self,
        data: Batches,
        text: dict[str, Callable[[Any], str]] | None = None,
        null: str = "null",
    ) -> None:
        """Print rows. `text` says how the values of a column look in a table, and `null` what nulls do."""
        batches = data.to_batches(max_chunksize=PAGE) if isinstance(data, pa.Table) else data
        if self.format == "arrow":
            self._arrow(data.schema, batches)
        elif self.format == "csv":
            self._csv(data.schema, batches)
        elif self.format == "json":
            for batch in batches:
                names = batch.schema.names
                for row in zip(*(values_of(column, for_json=True) for column in batch.columns), strict=True):
                    click.echo(as_json(dict(zip(names, row, strict=True))))
        else:
            self._table(data.schema, batches, text or {}, null)

    def records(
        self,
        records: Sequence[dict[str, Any]],
        schema: pa.Schema,
        text: dict[str, Callable[[Any], str]] | None = None,
    ) -> None:
        """Print rows that are dicts."""
        self.rows(pa.Table.from_pylist(list(records), schema), text, "")

    def record(self, record: dict[str, Any]) -> None:
        """Print one record: facts by name."""
        if self.format == "json":
            click.echo(as_json(record))
        elif self.format == "table":
            size = max(map(len, record))
            for name, value in record.items():
                text = f"{self.style(name.ljust(size), bold=True)}  {shown(value, None)}".rstrip()
                self._folded(text, size + 2, {}, breaks_words=True)
        else:
            self.rows(pa.Table.from_pylist([record]))

    def report(self, record: dict[str, Any], text: str) -> None:
        """Print a report: as JSON that is indented, or as it says itself."""
        if self.format == "json":
            click.echo(json.dumps(record, indent=2))
        else:
            self.line(text)

    def _folded(self, text: str, indent: int, style: dict[str, Any], *, breaks_words: bool = False) -> None:
        width = self.width
        for part in [text] if width is None else folded(text, width, indent, breaks_words=breaks_words):
            click.echo(click.style(part, **style) if style else part, color=self.color)

    def _table(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], text: dict[str, Callable[[Any], str]], null: str
    ) -> None:
        right = [at for at, field in enumerate(schema) if _is_number(field.type)]
        ways: list[Callable[[Any], str]] = [text.get(name, shown) for name in schema.names]
        header = [shown(name) for name in schema.names]
        is_empty = True
        for page in _pages(batches, text):
            if not is_empty:
                self.line()
            rows = [
                [null if value is None else way(value) for way, value in zip(ways, row, strict=True)]
                for row in page
            ]
            self.lines(grid(header, rows, right, self.width))
            is_empty = False
        if is_empty:
            self.lines(grid(header, [], right, self.width))

    def _csv(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        sys.stdout.flush()
        with CsvWriter(sys.stdout.buffer, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def _arrow(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        if _is_terminal():
            raise click.UsageError("--format arrow is not for terminals: redirect the output, or pipe it")
        sys.stdout.flush()
        with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)


def output_options(*formats: Format) -> Callable[[FunctionT], FunctionT]:
    """Add `--format`, of these or of all, and `--color`; the command gets them as `output`."""
    allowed = formats or _FORMATS

    def decorate(function: FunctionT) -> FunctionT:
        @click.option(
            "--format",
            "format_",
            type=click.Choice(allowed),
            default="table",
            show_default=True,
            help="What to print: a table for people, a line of JSON for each row, CSV, or an Arrow stream."
            if len(allowed) > 2
            else "What to print: text for people, or JSON.",
        )
        @color_option
        @functools.wraps(function)
        def command(*arguments: Any, format_: Format, color: bool, **options: Any) -> Any:
            return function(*arguments, output=Output(format_, color), **options)

        return cast(FunctionT, command)

    return decorate


def color_option(function: FunctionT) -> FunctionT:
    """Add `--color`; the command gets whether there are colours, as `color`."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        callback=_has_colors,
        help="When to use colours; NO_COLOR in the environment is never.",
    )(function)


def size_of(value: int | None) -> str:
    """Bytes as people read them."""
    return "" if value is None else in_bytes(value)


def number_of(value: int | None) -> str:
    """A number with its thousands apart."""
    return "" if value is None else f"{value:,}"


def _has_colors(context: click.Context, option: click.Parameter, choice: str) -> bool:
    del context, option
    if choice != "auto":
        return choice == "always"
    return _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_terminal() -> bool:
    return bool(getattr(sys.stdout, "isatty", lambda: False)())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _pages(batches: Iterable[pa.RecordBatch], raw: Container[str]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows, so many at a time; columns in `raw` as pyarrow has them."""

    def columns(batch: pa.RecordBatch) -> Iterator[list[Any]]:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            yield column.to_pylist() if name in raw else values_of(column)

    rows = chain.from_iterable(zip(*columns(batch), strict=True) for batch in batches)
    page: list[tuple[Any, ...]] = []
    for row in rows:
        page.append(row)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page
