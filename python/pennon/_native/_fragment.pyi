"""What `rust/py/src/fragment.rs` exposes."""

from typing import TypedDict, final

class DataFileParts(TypedDict):
    path: str
    fields: list[int]
    column_indices: list[int]
    file_major_version: int
    file_minor_version: int
    file_size_bytes: int | None
    base_id: int | None

class DeletionFileParts(TypedDict):
    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None

class LineageParts(TypedDict):
    inline: bytes | None

class FragmentParts(TypedDict):
    id: int
    files: list[DataFileParts]
    physical_rows: int
    deletion_file: DeletionFileParts | None
    row_id_meta: LineageParts | None
    created_at_version_meta: LineageParts | None
    last_updated_at_version_meta: LineageParts | None
    overlays: list[bytes]

@final
class Fragment:
    @property
    def id(self) -> int: ...
    @property
    def physical_rows(self) -> int: ...
    @property
    def num_deletions(self) -> int: ...
    @property
    def parts(self) -> FragmentParts: ...

def encode_row_ids(row_ids: list[int]) -> bytes: ...
def count_row_ids(inline: bytes) -> int: ...
def decode_row_ids(inline: bytes) -> list[int]: ...
