"""What `rust/py/src/compaction.rs` exposes."""

from collections.abc import Sequence
from typing import TypedDict, final

from pennon._native._arguments import FragmentObject
from pennon._native._dataset import Dataset
from pennon._native._fragment import FragmentParts
from pennon._native._progress import StepCounts

class CompactionOptionParts(TypedDict):
    target_rows_per_fragment: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    defer_index_remap: bool | None
    num_threads: int | None
    compaction_mode: str | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    excluded_fragment_ids: list[int] | None
    data_storage_version: str | None
    max_seconds: float | None
    partial_progress: bool | None

class CompactionMetricsParts(TypedDict):
    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int

class TableStateParts(TypedDict):
    rows: int
    fragments: int
    files: int
    deleted_share: float
    id_bits_per_row: float
    version_bits_per_row: float

@final
class PlannedFragments:
    @property
    def ids(self) -> list[int]: ...
    @property
    def parts(self) -> list[FragmentParts]: ...

def compact(
    dataset: Dataset, parts: CompactionOptionParts, progress: StepCounts | None
) -> tuple[Dataset, CompactionMetricsParts, TableStateParts, TableStateParts]: ...
def plan_compaction(dataset: Dataset, parts: CompactionOptionParts) -> list[PlannedFragments]: ...
def compact_fragments(
    dataset: Dataset, fragments: list[int], parts: CompactionOptionParts
) -> tuple[int, list[FragmentParts], list[FragmentParts]]: ...
def commit_compaction(
    dataset: Dataset,
    results: Sequence[tuple[int, Sequence[FragmentObject], Sequence[FragmentObject]]],
    parts: CompactionOptionParts,
) -> tuple[Dataset, CompactionMetricsParts]: ...
