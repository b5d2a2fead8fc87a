"""What `rust/py/src/write.rs` exposes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypedDict

import pyarrow as pa
from pennon._native._arguments import BasePath
from pennon._native._dataset import Dataset
from pennon._native._session import Session
from pennon._native._transaction import TransactionParts

class WriteOptions(TypedDict):
    mode: str
    max_rows_per_file: int
    max_bytes_per_file: int
    max_page_bytes: int | None
    data_storage_version: str | None
    enable_stable_row_ids: bool
    enable_v2_manifest_paths: bool
    config: dict[str, str]
    initial_bases: Sequence[BasePath]
    target_bases: list[str] | None
    target_all_bases: bool | None
    commit_message: str | None
    transaction_properties: dict[str, str]
    storage_options: dict[str, str]
    durability: str | None
    external_blob_mode: str
    allow_external_blob_outside_bases: bool
    blob_pack_file_size_threshold: int | None
    commit_lock: Any | None
    commit_timeout: timedelta | None
    max_retries: int | None
    session: Session | None

def write(reader: pa.RecordBatchReader | pa.Table, uri: str, options: WriteOptions) -> Dataset: ...
def write_uncommitted(
    reader: pa.RecordBatchReader | pa.Table, uri: str, options: WriteOptions
) -> TransactionParts: ...
