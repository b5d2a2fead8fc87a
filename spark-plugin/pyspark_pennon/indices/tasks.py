"""Segments of indices, as Spark's tasks make them: entries that the driver commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_pennon import tables
from pyspark_pennon.options.source import ReadOptions


@dataclass(frozen=True)
class BuildSegment:
    """A segment over some fragments of a version."""

    read: ReadOptions
    column: str
    kind: Any
    name: str
    fragments: list[int]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> Any:
        """The entry of the segment, which is not committed."""
        return tables.open_table(self.read).create_index_uncommitted(
            self.column, self.kind, self.name, replace=True, fragment_ids=self.fragments, **self.parameters
        )


@dataclass(frozen=True)
class MergeSegments:
    """One segment of several."""

    read: ReadOptions
    segments: list[Any]

    def run(self) -> Any:
        """The entry of the segment, which is not committed; None if a segment cannot be read."""
        from pennon import UnsupportedError

        try:
            return tables.open_table(self.read).merge_existing_index_segments(self.segments)
        except UnsupportedError:
            return None
