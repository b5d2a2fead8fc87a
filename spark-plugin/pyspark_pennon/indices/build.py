"""`createIndex`: segments that Spark's tasks build, committed at once, after a conflict again.

Segments over fragments that nobody changed are kept for the next attempt. The commit has one uuid in all attempts,
so that it happens once, whatever answers are lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.errors import exists
from pyspark_pennon.indices.models import shared_model
from pyspark_pennon.indices.tasks import BuildSegment
from pyspark_pennon.spark_api import parallelism
from pyspark_pennon.tasks.executor import run_tasks
from pyspark_pennon.tasks.orphans import committing
from pyspark_pennon.tasks.retries import commit_entries

if TYPE_CHECKING:
    from pyspark_pennon.target import Target


@dataclass
class IndexBuild:
    """An index that is made.

    Attributes
    ----------
    kind
        Its kind, over values with parameters.
    vectors
        The parameters of an index over vectors; None of others.
    """

    target: Target
    column: str
    kind: Any
    name: str
    vectors: Mapping[str, Any] | None
    replaces: bool
    progress: bool | None
    _uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    _shared: dict[str, Any] | None = None
    _built: list[tuple[Any, Any]] = field(default_factory=list)
    """Segments, each with the version that it was built over."""
    _is_unknown: bool = False

    def attempt(self) -> None:
        """Build what is missing over the newest version, and commit it; raises a conflict."""
        import pennon

        table = self.target.open()
        if self._is_unknown and table.commit_status(self._uuid).committed:
            return
        self._is_unknown = False
        try:
            self._build(table)
        except pennon.CommitUnknownError as error:
            self._is_unknown, self._uuid = True, error.uuid or self._uuid
            raise

    def _build(self, table: Any) -> None:
        replaced = self._replaced(table)
        self._built = [
            (segment, read) for segment, read in self._built if _is_as_built(segment, read, table, self.column)
        ]
        if not self._built:
            self._shared = {}
            if self.vectors is not None:
                self._shared = shared_model(table, self.column, self.kind, dict(self.vectors))
        covered = {number for segment, _ in self._built for number in segment.fragment_ids}
        wanted = {fragment.fragment_id for fragment in table.get_fragments()} - covered
        groups = tables.fragment_groups(table, parallelism(self.target.spark), among=wanted)
        if self._shared is None or not (groups or covered):
            self._build_on_driver(table)
            return
        self._built += [(segment, table) for segment in self._segments(table, groups, self._shared)]
        self._commit(table, replaced)

    def _replaced(self, table: Any) -> list[Any]:
        """The entries of an index with the name. Refuses one that may not be replaced, or is of another column."""
        if not any(index["name"] == self.name for index in table.list_indices()):
            return []
        found: list[Any] = table.index_entries(self.name)
        uri = self.target.uri
        if not self.replaces:
            raise exists(f"Index name '{self.name}' already exists: give another one, or replace=True", uri)
        known = table.lance_schema.field(self.column)
        if known is not None and any(entry.fields != [known.id] for entry in found):
            raise exists(
                f"Index name '{self.name}' already exists with different fields, please specify a different name",
                uri,
            )
        return found

    def _build_on_driver(self, table: Any) -> None:
        """Make the index of a table without rows, or with too few vectors for parts."""
        if self.vectors is not None:
            table.create_index(self.column, self.kind, self.name, replace=True, **self.vectors)
        else:
            table.create_scalar_index(self.column, self.kind, self.name)

    def _segments(self, table: Any, groups: list[list[int]], shared: Mapping[str, Any]) -> list[Any]:
        read = self.target.options(version=int(table.version))
        tasks = [BuildSegment(read, self.column, self.kind, self.name, fragments, shared) for fragments in groups]
        title = f"index {self.name} of {self.target.uri}"
        return run_tasks(self.target.spark, tasks, title, progress=self.progress)

    def _commit(self, table: Any, replaced: list[Any]) -> None:
        segments = [segment for segment, _ in self._built]
        with committing(segments):
            commit_entries(table, segments, replaced, self._uuid)


def _is_as_built(segment: Any, read: Any, table: Any, column: str) -> bool:
    """Whether a version has the fragments of a segment as those were that it was built over, and its column.

    Rows that were deleted from them may be in others now, and readers would find these by their old values.
    """
    known = table.lance_schema.field(column)
    if known is None or segment.fields != [known.id]:
        return False
    pairs = [(read.get_fragment(number), table.get_fragment(number)) for number in segment.fragment_ids]
    return all(now is not None and old.metadata == now.metadata for old, now in pairs)
