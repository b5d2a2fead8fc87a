"""What `rust/py/src/merge_insert.rs` exposes."""

from datetime import timedelta
from typing import TypedDict

import pyarrow as pa
from pennon._native._dataset import Dataset
from pennon._native._transaction import TransactionParts

class MergeRequest(TypedDict):
    on: list[str]
    when_matched: str
    condition: str | None
    insert: bool
    delete_unmatched: bool
    delete_condition: str | None
    write_mode: str
    conflict_retries: int
    retry_timeout: timedelta
    memory_limit: int | None
    source_in_memory: bool
    use_index: bool
    data_storage_version: str | None
    target_bases: list[str] | None
    target_all_bases: bool | None

def merge_keys(dataset: Dataset, on: list[str]) -> list[str]: ...
def merge_insert(
    dataset: Dataset, reader: pa.RecordBatchReader, request: MergeRequest
) -> tuple[tuple[int, int, int], Dataset]: ...
def merge_insert_uncommitted(
    dataset: Dataset, reader: pa.RecordBatchReader, request: MergeRequest
) -> tuple[tuple[int, int, int], TransactionParts]: ...
def explain_merge_insert(dataset: Dataset, schema: pa.Schema | None, request: MergeRequest) -> str: ...
def analyze_merge_insert(dataset: Dataset, reader: pa.RecordBatchReader, request: MergeRequest) -> str: ...
