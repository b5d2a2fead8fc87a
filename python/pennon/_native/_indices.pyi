"""What `rust/py/src/indices.rs` exposes."""

from collections.abc import Sequence
from typing import TypedDict

from pennon._native._arguments import IndexObject
from pennon._native._dataset import Dataset
from pennon._native._progress import StageCounts

class IndexRequest(TypedDict):
    column: str
    kind: str
    name: str | None
    replace: bool
    train: bool
    uuid: str | None
    page_rows: int | None
    zone_rows: int | None
    probability: float | None

class IndexFileParts(TypedDict):
    path: str
    size_bytes: int

class IndexParts(TypedDict):
    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: set[int] | None
    index_version: int | None
    created_at: int | None
    base_id: int | None
    files: list[IndexFileParts] | None
    index_details: tuple[str, bytes] | None
    covering_fields: list[int]

class IndexSegmentParts(TypedDict):
    entry: IndexParts
    covered: list[int]
    rows: int
    size_bytes: int

class VectorDetailsParts(TypedDict):
    metric: int
    target_partition_size: int
    hnsw: tuple[int, int, int] | None
    storage: tuple[str, int, int] | None
    runtime_hints: dict[str, str]

class IndexDescriptionParts(TypedDict):
    name: str
    kind: str
    vectors: VectorDetailsParts | None
    fields: list[str]
    segments: list[IndexSegmentParts]
    indexed_fragments: int
    indexed_rows: int
    unindexed_fragments: int
    unindexed_rows: int

class IndexStatisticsParts(TypedDict):
    num_pages: int | None
    page_rows: int | None
    min: str | None
    max: str | None
    num_bitmaps: int | None
    num_zones: int | None
    rows_per_zone: int | None
    type: str | None
    num_blocks: int | None
    number_of_items: int | None
    probability: float | None
    num_ngrams: int | None

def create_index(dataset: Dataset, request: IndexRequest, progress: StageCounts | None) -> Dataset: ...
def create_index_segment(
    dataset: Dataset, request: IndexRequest, fragments: Sequence[int], progress: StageCounts | None
) -> IndexParts: ...
def commit_index_segments(dataset: Dataset, name: str, column: str, segments: Sequence[IndexObject]) -> Dataset: ...
def merge_index_segments(dataset: Dataset, segments: Sequence[IndexObject]) -> IndexParts: ...
def drop_index(dataset: Dataset, name: str) -> Dataset: ...
def describe_indices(dataset: Dataset) -> list[IndexDescriptionParts]: ...
def index_statistics(dataset: Dataset, name: str) -> list[IndexStatisticsParts]: ...
def prewarm_index(dataset: Dataset, name: str) -> None: ...
def optimize_indices(
    dataset: Dataset,
    names: Sequence[str] | None,
    merged_segments: int | None,
    rebuild: bool,
    progress: StageCounts | None,
) -> Dataset: ...
