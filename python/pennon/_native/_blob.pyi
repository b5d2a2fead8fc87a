"""What `rust/py/src/blob.rs` exposes."""

from typing import final

@final
class Blob:
    @property
    def size(self) -> int: ...
    def read(self, start: int, end: int) -> bytes: ...
