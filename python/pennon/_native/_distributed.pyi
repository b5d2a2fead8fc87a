"""What `rust/py/src/distributed.rs` exposes."""

import pyarrow as pa
from pennon._native._dataset import Dataset
from pennon._native._fragment import Fragment
from pennon._native._write import WriteOptions

def rewrite_fragments(
    dataset: Dataset, fragments: list[int], options: WriteOptions
) -> tuple[bytes, list[Fragment]]: ...
def commit_new(
    uri: str, written: list[bytes], schema: pa.Schema, uuid: str | None, options: WriteOptions
) -> Dataset: ...
