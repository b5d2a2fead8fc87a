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
    name: str

@final
class Fragment:
    @property
    def id(self) -> int: ...
    @property
    def physical_rows(self) -> int: ...
    @property
    def num_deletions(self) -> int: ...
    @property
    def files(self) -> list[DataFileParts]: ...
    @property
    def inline_lineage(self) -> dict[str, bytes]: ...
    @property
    def deletion_file(self) -> DeletionFileParts | None: ...
