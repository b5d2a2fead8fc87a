"""What `rust/py/src/update.rs` exposes."""

from datetime import timedelta
from typing import TypedDict

import pyarrow as pa
from pennon._native._dataset import Dataset
from pennon._native._fragment import FragmentParts

class UpdateRequest(TypedDict):
    conflict_retries: int
    retry_timeout: timedelta
    data_storage_version: str | None
    mode: str

def update(
    dataset: Dataset, assignments: dict[str, str], predicate: str | None, request: UpdateRequest
) -> tuple[int, Dataset]: ...
def update_rows(dataset: Dataset, data: pa.RecordBatchReader, request: UpdateRequest) -> tuple[int, Dataset]: ...
def update_columns_in_fragment(
    dataset: Dataset, fragment: int, data: pa.RecordBatchReader, left_on: str, right_on: str
) -> tuple[FragmentParts, list[int], bytes]: ...
