"""What `rust/py/src/found.rs` exposes."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa
from pennon._native._dataset import Dataset
from pennon._native._update import UpdateRequest

FindRows: TypeAlias = Callable[[Dataset], pa.Array]

def delete_found(
    dataset: Dataset, find: FindRows, predicate: str, conflict_retries: int, retry_timeout: timedelta
) -> tuple[int, Dataset]: ...
def update_found(
    dataset: Dataset, find: FindRows, assignments: dict[str, str], request: UpdateRequest
) -> tuple[int, Dataset]: ...
