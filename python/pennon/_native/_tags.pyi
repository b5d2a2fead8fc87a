"""What `rust/py/src/tags.rs` exposes."""

import builtins
from typing import TypedDict, final

from pennon._native._arguments import Reference

class TagParts(TypedDict):
    branch: str | None
    version: int
    created_at: tuple[int, int] | None
    updated_at: tuple[int, int] | None
    manifest_size: int
    metadata: dict[str, str]

@final
class Tags:
    def list(self) -> dict[str, TagParts]: ...
    def list_ordered(self, order: str) -> builtins.list[tuple[str, TagParts]]: ...
    def get_version(self, tag: str) -> int: ...
    def create(self, tag: str, reference: Reference | None) -> None: ...
    def update(self, tag: str, reference: Reference | None) -> None: ...
    def delete(self, tag: str) -> None: ...
    def replace_metadata(self, tag: str, metadata: dict[str, str]) -> None: ...
