"""What `rust/py/src/changes.rs` exposes."""

from datetime import timedelta
from typing import TypedDict

import pyarrow as pa
from pennon._native._arguments import Reference
from pennon._native._dataset import Dataset
from pennon._native._scan import Batches

class ChangesRequest(TypedDict):
    begin: Reference | tuple[int, int]
    end: Reference | tuple[int, int] | None
    columns: list[str] | None
    columns_of: str
    mode: str
    images: str
    drop_unchanged: bool
    part: tuple[int, int] | None

def changes(dataset: Dataset, request: ChangesRequest) -> Batches: ...
def fragments_since(dataset: Dataset, older: int) -> list[int]: ...
def history(dataset: Dataset, row_id: int) -> pa.RecordBatch: ...
def restore_rows(
    dataset: Dataset, row_ids: list[int], version: Reference, conflict_retries: int, retry_timeout: timedelta
) -> tuple[int, Dataset]: ...
