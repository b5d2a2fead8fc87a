"""Objects as HTML for notebooks, and lists in texts: escaped, and bounded in size whatever is shown.

Only what an object holds or its manifest records is shown; to show one, no data file is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 20
MOST_ITEMS = 8
_MOST_CHARACTERS = 160


def shortened(value: object) -> str:
    """The text of a value on one line, cut where it is long; that of `None` is empty."""
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    text = " ".join(text[: _MOST_CHARACTERS + 1].split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def listed(items: Iterable[object], count: int) -> str:
    """The first of `count` items in brackets, and how many more there are."""
    texts = [shortened(repr(item)) for item in islice(items, MOST_ITEMS)]
    more = count - len(texts)
    return f"[{', '.join([*texts, *([f'... {more:,} more'] if more > 0 else [])])}]"


@dataclass(frozen=True)
class Grid:
    """Rows below their heads. `count` is the number of rows, of which not all need to be given."""

    heads: Sequence[str]
    rows: Iterable[Sequence[object]]
    count: int


def columns_of(schema: pa.Schema) -> Grid:
    """The columns of a schema: name, type, and whether they may be null."""
    rows = ((field.name, field.type, "yes" if field.nullable else "no") for field in schema)
    return Grid(("column", "type", "nullable"), rows, len(schema))


def panel(title: object, facts: Mapping[str, object] | None = None, *grids: Grid, notes: Iterable[str] = ()) -> str:
    """A title, facts by name, tables and notes as HTML.

    Examples
    --------
    >>> panel("Tags of <x>", {"version": 3})
    '<div><strong>Tags of &lt;x&gt;</strong><table><tr><th>version</th><td>3</td></tr></table></div>'
    """
    parts = [f"<strong>{_cell(title)}</strong>"]
    if facts:
        lines = (f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in facts.items())
        parts.append(f"<table>{''.join(lines)}</table>")
    parts += [_grid(grid) for grid in grids if grid.count]
    parts += [f"<p>{_cell(note)}</p>" for note in islice(notes, MOST_ROWS)]
    return f"<div>{''.join(parts)}</div>"


@dataclass(frozen=True)
class Report(ABC):
    """The base of what `verify`, `seal`, `scrub` and `repair` return: numbers, lists of dataclasses, `notes`."""

    uri: str
    """URI of the table."""

    @property
    @abstractmethod
    def ok(self) -> bool:
        """Whether nothing is wrong."""

    def __repr__(self) -> str:
        shown = [f"{name}={value}" for name, value in {"ok": self.ok, **self._numbers()}.items()]
        shown += [f"{name}={listed(items, len(items))}" for name, items in self._lists().items()]
        return f"{type(self).__name__}({self.uri!r}, {', '.join(shown)})"

    def _repr_html_(self) -> str:
        flags = {"nothing is wrong": self.ok, **self._numbers()}
        facts = {name: ("no", "yes")[value] if isinstance(value, bool) else value for name, value in flags.items()}
        return panel(
            f"{type(self).__name__} of {self.uri}",
            facts,
            *(_items(name, items) for name, items in self._lists().items()),
            notes=getattr(self, "notes", ()),
        )

    def _numbers(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}

    def _lists(self) -> dict[str, list[Any]]:
        return {name: value for name, value in vars(self).items() if isinstance(value, list) and name != "notes"}


def _items(name: str, items: Sequence[Any]) -> Grid:
    """Dataclasses as rows, below the names of their fields; that of the list stands for the first."""
    names = [field.name for field in fields(items[0])] if items else []
    return Grid((name, *names[1:]), ([getattr(item, at) for at in names] for item in items), len(items))


def _grid(grid: Grid) -> str:
    heads = "".join(f"<th>{_cell(head)}</th>" for head in grid.heads)
    rows = [
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in islice(grid.rows, MOST_ROWS)
    ]
    more = grid.count - len(rows)
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>{rest}"


def _cell(value: object) -> str:
    from html import escape  # costs a millisecond to import

    return escape(shortened(value))
