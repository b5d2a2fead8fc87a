"""What `rust/py/src/cleanup.rs` exposes."""

from datetime import timedelta
from typing import TypedDict

from pennon._native._dataset import Dataset
from pennon._native._progress import StepCounts

class CleanupRequest(TypedDict):
    older_than: timedelta | None
    retain_versions: int | None
    versions: list[int] | None
    delete_unverified: bool
    error_if_tagged_old_versions: bool
    delete_rate_limit: int | None
    delete_concurrency: int | None

class CleanupStatsParts(TypedDict):
    bytes_removed: int
    old_versions: int
    data_files_removed: int
    transaction_files_removed: int
    index_files_removed: int
    deletion_files_removed: int
    failed_deletes: int

class FateParts(TypedDict):
    path: str
    kind: str
    size_bytes: int
    last_modified: tuple[int, int]
    removed: bool
    reason: str
    by: str

class CleanupExplanationParts(TypedDict):
    read_version: int
    stats: CleanupStatsParts
    files: list[FateParts]
    branches: list[tuple[str, int]]
    warnings: list[str]

def cleanup(dataset: Dataset, request: CleanupRequest, progress: StepCounts | None) -> CleanupStatsParts: ...
def explain_cleanup(dataset: Dataset, request: CleanupRequest) -> CleanupExplanationParts: ...
