"""What `rust/py/src/verify.rs` exposes."""

from typing import TypedDict

from pennon._native._dataset import Dataset
from pennon._native._progress import StepCounts

class PageParts(TypedDict):
    column: str
    page: int
    rows: tuple[int, int] | None

class FindingParts(TypedDict):
    kind: str
    version: int | None
    fragment: int | None
    path: str | None
    message: str
    bytes: tuple[int, int] | None
    pages: list[PageParts]

class LeftoverParts(TypedDict):
    kind: str
    reason: str
    files: int
    size_bytes: int

class ReportParts(TypedDict):
    uri: str
    version: int
    versions: int
    fragments: int
    files: int
    findings: list[FindingParts]
    leftovers: list[LeftoverParts]
    without_checksums: int
    notes: list[str]

def verify(dataset: Dataset, data: bool, progress: StepCounts | None) -> ReportParts: ...
def verify_table(
    uri: str, version: int | None, storage_options: dict[str, str], data: bool, progress: StepCounts | None
) -> ReportParts: ...
