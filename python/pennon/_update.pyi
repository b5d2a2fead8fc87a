"""What `rust/py/src/update.rs` exposes."""

from datetime import timedelta
from typing import TypedDict

import pyarrow as pa

from pennon._dataset import Dataset

class UpdateRequest(TypedDict):
    conflict_retries: int
    retry_timeout: timedelta
    data_storage_version: str | None

def update(
    dataset: Dataset, assignments: dict[str, str], predicate: str | None, request: UpdateRequest
) -> tuple[int, Dataset]: ...
def update_at(
    dataset: Dataset, addresses: pa.Array, assignments: dict[str, str], request: UpdateRequest
) -> tuple[int, Dataset]: ...
