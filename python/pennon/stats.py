"""Figures about a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pennon import _native

__all__ = ["DatasetStats", "LanceStats"]


class DatasetStats(TypedDict):
    """Figures about the fragments of a table."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


class LanceStats:
    """Figures about a table; see [LanceDataset.stats][pennon.LanceDataset.stats]."""

    def __init__(self, dataset: _native.Dataset) -> None:
        self._native = dataset

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Deleted rows, fragments, and fragments with fewer rows than `max_rows_per_group`."""
        fragments = self._native.fragments
        return {
            "num_deleted_rows": sum(fragment.num_deletions for fragment in fragments),
            "num_fragments": len(fragments),
            "num_small_files": sum(fragment.physical_rows < max_rows_per_group for fragment in fragments),
        }
