"""What `rust/py/src/repair.rs` exposes."""

from typing import TypedDict

from pennon._native._progress import StepCounts
from pennon._native._verify import FindingParts

class ActionParts(TypedDict):
    kind: str
    path: str | None
    version: int | None
    fragment: int | None
    message: str
    row_ids: list[tuple[int, int]]

class RepairParts(TypedDict):
    uri: str
    findings: list[FindingParts]
    actions: list[ActionParts]
    remaining: list[FindingParts]

def repair_table(
    uri: str, storage_options: dict[str, str], copy: str | None, apply: bool, progress: StepCounts | None
) -> RepairParts: ...
