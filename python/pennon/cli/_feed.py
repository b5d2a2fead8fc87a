"""The change feed as text: `+` a row that was inserted, `-` deleted, `~` updated, with what changed of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._text import counted
from pennon.cli._commits import time_of
from pennon.cli._output import Output
from pennon.cli._values import shown, values_of

if TYPE_CHECKING:
    from pennon.cli._open import Name
    from pennon.dataset import LanceDataset

SYSTEM = ("_change_type", "_rowid", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True)
class Counts:
    """Rows that changed."""

    inserted: int = 0
    deleted: int = 0
    updated: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.inserted + self.deleted + self.updated

    def text(self, output: Output) -> str:
        """As git counts lines."""
        if not self.total:
            return "no row changed"
        parts = [
            output.style(f"{self.inserted:,} inserted (+)", fg="green"),
            output.style(f"{self.deleted:,} deleted (-)", fg="red"),
            output.style(f"{self.updated:,} updated (~)", fg="yellow"),
        ]
        return f"{counted(self.total, 'row')} changed: {', '.join(parts)}"


def count(table: LanceDataset, begin: Name, end: Name | None, each: bool = False) -> Counts:
    """The rows that changed. Reads no values."""
    kinds: Counter[str] = Counter()
    for batch in table.changes(begin, end, columns=[], mode="each" if each else "net"):
        for entry in batch["_change_type"].value_counts().to_pylist():
            kinds[entry["values"]] += entry["counts"]
    return Counts(kinds["insert"], kinds["delete"], kinds["update_postimage"])


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Rows of batches as dicts."""
    for batch in batches:
        names = batch.schema.names
        columns = [
            column.to_pylist() if _is_system(name) else values_of(column)
            for name, column in zip(names, batch.columns, strict=True)
        ]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def changes(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Changes of a feed with both images: the row before an update, if there is one, and the row of the feed."""
    before = None
    for row in rows:
        if row["_change_type"] == "update_preimage":
            before = row
            continue
        yield before, row
        before = None


def line(output: Output, before: Mapping[str, Any] | None, row: Mapping[str, Any]) -> str:
    """A change as a line."""
    kind = row["_change_type"]
    if kind == "insert":
        return output.style(f"+ {row['_rowid']}  {values(row)}", fg="green")
    if kind == "delete":
        return output.style(f"- {row['_rowid']}  {values(row)}", fg="red")
    return f"{output.style('~', fg='yellow')} {row['_rowid']}  {differences(output, before or {}, row)}"


def heading(output: Output, row: Mapping[str, Any]) -> str:
    """The line above the changes of a version."""
    moment = row["_commit_timestamp"]
    when = "" if moment is None else f", {time_of(moment)}"
    return output.style(f"@@ version {row['_commit_version']}{when} @@", fg="cyan")


def values(row: Mapping[str, Any]) -> str:
    """The values of a row by column."""
    return ", ".join(f"{shown(name)}: {_value(value)}" for name, value in row.items() if not _is_system(name))


def differences(output: Output, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The columns that changed, with the values before and after."""
    parts = []
    for name, new in after.items():
        old = before.get(name)
        if _is_system(name) or _same(old, new):
            continue
        was, now = output.style(_value(old), fg="red"), output.style(_value(new), fg="green")
        parts.append(f"{shown(name)}: {was} → {now}")
    return ", ".join(parts) or "(no value changed)"


def _is_system(name: str) -> bool:
    return name in SYSTEM or name in ("_operation", "_commit_message", "_rowaddr")


def _same(old: Any, new: Any) -> bool:
    return bool(old == new) or (old != old and new != new)


def _value(value: Any) -> str:
    return "null" if value is None else shown(value) or "''"
