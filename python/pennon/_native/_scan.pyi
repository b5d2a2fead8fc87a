"""What `rust/py/src/scan.rs` exposes."""

from collections.abc import Iterator
from typing import TypedDict, final

import pyarrow as pa

class NearestRequest(TypedDict):
    column: str
    q: pa.Array
    vectors: int | None
    k: int | None
    metric: str | None
    use_index: bool
    minimum_nprobes: int | None
    maximum_nprobes: int | None
    search_effort: float | None
    refine_factor: int | None
    ef: int | None
    distance_range: tuple[float | None, float | None]
    prefilter: bool
    disable_scoring_autoprojection: bool

class FirstRowsRequest(TypedDict):
    column: str
    ascending: bool
    nulls_first: bool
    rows: int

class ScanRequest(TypedDict):
    columns: list[str] | list[tuple[str, str]] | None
    filter: str | None
    limit: int | None
    offset: int | None
    batch_size: int | None
    batch_size_bytes: int | None
    strict_batch_size: bool
    with_row_id: bool
    with_row_address: bool
    fragments: list[int] | None
    scan_in_order: bool
    include_deleted_rows: bool
    use_stats: bool
    use_scalar_index: bool
    fast_search: bool
    strict_indices: bool
    blob_handling: str | None
    nearest: NearestRequest | None
    first: FirstRowsRequest | None

@final
class Scan:
    @property
    def schema(self) -> pa.Schema: ...
    def batches(self) -> Batches: ...
    def count_rows(self) -> int: ...
    def analyze(self, only_count: bool) -> str: ...
    def explain(self) -> str: ...

@final
class Batches(Iterator[pa.RecordBatch]):
    @property
    def schema(self) -> pa.Schema: ...
    def __next__(self) -> pa.RecordBatch: ...
    def close(self) -> None: ...
