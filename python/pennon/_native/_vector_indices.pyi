"""What `rust/py/src/vector_indices.rs` exposes."""

from collections.abc import Sequence
from typing import TypedDict

import pyarrow as pa
from pennon._native._dataset import Dataset
from pennon._native._indices import IndexParts
from pennon._native._progress import StageCounts

class VectorIndexRequest(TypedDict):
    column: str
    kind: str
    metric: str
    name: str | None
    replace: bool
    train: bool
    uuid: str | None
    num_partitions: int | None
    target_partition_size: int | None
    ivf_centroids: pa.FixedSizeListArray | None
    pq_codebook: pa.FixedSizeListArray | None
    num_sub_vectors: int | None
    num_bits: int | None
    max_iters: int | None
    sample_rate: int | None
    m: int | None
    ef_construction: int | None
    max_level: int | None

class ModelParts(TypedDict):
    ivf_centroids: pa.FixedSizeListArray
    pq_codebook: pa.FixedSizeListArray | None

class VectorStatisticsParts(TypedDict):
    uuid: str
    directory: str
    kind: str
    metric: str
    dimension: int
    partitions: list[int]
    centroids: list[list[float]]
    loss: float | None
    product: tuple[int, int] | None
    bounds: tuple[float, float] | None

def vector_index_statistics(dataset: Dataset, name: str) -> list[VectorStatisticsParts]: ...
def vector_index_model(dataset: Dataset, name: str) -> ModelParts | None: ...
def create_vector_index(dataset: Dataset, request: VectorIndexRequest, progress: StageCounts | None) -> Dataset: ...
def create_vector_index_segment(
    dataset: Dataset, request: VectorIndexRequest, fragments: Sequence[int], progress: StageCounts | None
) -> IndexParts: ...
def train_vector_index(
    dataset: Dataset, request: VectorIndexRequest, fragments: Sequence[int] | None
) -> ModelParts | None: ...
