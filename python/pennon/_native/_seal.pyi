"""What `rust/py/src/seal.rs` exposes."""

from typing import TypedDict, final

from pennon._native._progress import StepCounts
from pennon._native._verify import FindingParts

class SealParts(TypedDict):
    sealed: int
    size_bytes: int
    sealed_before: int
    with_checksums: int
    elsewhere: int
    findings: list[FindingParts]

class ScrubbedParts(TypedDict):
    findings: list[FindingParts]
    size_bytes: int | None
    has_checksums: bool

def seal_table(uri: str, storage_options: dict[str, str], progress: StepCounts | None) -> SealParts: ...

@final
class Scrub:
    def __new__(cls, uri: str, storage_options: dict[str, str]) -> Scrub: ...
    @property
    def uri(self) -> str: ...
    @property
    def paths(self) -> list[str]: ...
    def check(self, at: int, bytes_per_second: int | None) -> ScrubbedParts: ...
