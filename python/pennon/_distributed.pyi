"""What `rust/py/src/distributed.rs` exposes."""

import pyarrow as pa

from pennon._dataset import Dataset
from pennon._write import WriteOptions

def write_fragments(
    dataset: Dataset, reader: pa.RecordBatchReader, options: WriteOptions
) -> tuple[bytes, int]: ...
def write_new_fragments(
    uri: str, reader: pa.RecordBatchReader, options: WriteOptions
) -> tuple[bytes, int]: ...
def commit_append(dataset: Dataset, written: list[bytes], uuid: str | None) -> Dataset: ...
def commit_new(
    uri: str, written: list[bytes], schema: pa.Schema, uuid: str | None, options: WriteOptions
) -> Dataset: ...
def matching_rows(
    dataset: Dataset, predicate: str, fragments: list[int] | None
) -> list[tuple[int, int, bytes]]: ...
def commit_delete(
    dataset: Dataset, matches: list[tuple[int, int, bytes]], predicate: str, uuid: str | None
) -> tuple[int, Dataset]: ...
