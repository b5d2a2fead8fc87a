"""What `rust/py/src/transaction.rs` exposes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypedDict

from pennon._native._arguments import TransactionObject
from pennon._native._dataset import Dataset

class TransactionParts(TypedDict):
    read_version: int
    uuid: str
    properties: dict[str, str]
    operation: str
    parts: dict[str, Any]

class CommitOptions(TypedDict):
    storage_options: dict[str, str]
    durability: str
    max_retries: int
    timeout: timedelta
    enable_stable_row_ids: bool
    enable_v2_manifest_paths: bool
    detached: bool
    commit_lock: Any | None

def commit(
    uri: str, dataset: Dataset | None, transaction: TransactionObject, options: CommitOptions
) -> Dataset: ...
def merge_appends(transactions: Sequence[TransactionObject]) -> TransactionParts: ...
