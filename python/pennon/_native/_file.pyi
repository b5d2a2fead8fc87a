"""What `rust/py/src/file.rs` exposes."""

from typing import TypedDict, final

import pyarrow as pa
from pennon._native._scan import Batches

class PageParts(TypedDict):
    num_rows: int
    encoding: str
    buffers: list[tuple[int, int]]

class ColumnParts(TypedDict):
    name: str | None
    pages: list[PageParts]

class FileParts(TypedDict):
    schema: pa.Schema
    num_rows: int
    size: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[tuple[int, int]]
    columns: list[ColumnParts]
    version: str
    footer_version: tuple[int, int]

class FileWriteOptions(TypedDict):
    version: str | None
    max_page_bytes: int | None
    storage_options: dict[str, str]
    durability: str

@final
class FileReader:
    def __new__(cls, uri: str, columns: list[str] | None, storage_options: dict[str, str]) -> FileReader: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def schema(self) -> pa.Schema: ...
    def metadata(self) -> FileParts: ...
    def batches(
        self, range: tuple[int, int] | None, indices: list[int] | None, batch_size: int, batch_readahead: int
    ) -> Batches: ...
    def read_global_buffer(self, index: int) -> bytes: ...

@final
class FileWriter:
    def __new__(cls, uri: str, schema: pa.Schema | None, options: FileWriteOptions) -> FileWriter: ...
    def write_batch(self, batch: pa.RecordBatch) -> None: ...
    def finish(self) -> tuple[int, int]: ...
    def abandon(self) -> None: ...
    def add_schema_metadata(self, key: str, value: str) -> None: ...
    def add_global_buffer(self, data: bytes | bytearray) -> int: ...

def stable_version() -> str: ...
