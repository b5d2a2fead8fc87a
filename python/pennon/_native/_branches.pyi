"""What `rust/py/src/branches.rs` exposes."""

import builtins
from collections.abc import Sequence
from typing import TypedDict, final

from pennon._native._arguments import BasePath, Reference
from pennon._native._dataset import Dataset

class BranchParts(TypedDict):
    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]

class BasePathParts(TypedDict):
    path: str
    name: str | None
    is_dataset_root: bool
    id: int

@final
class Branches:
    def __new__(cls, dataset: Dataset) -> Branches: ...
    def list(self) -> dict[str, BranchParts]: ...
    def list_ordered(self, order: str) -> builtins.list[tuple[str, BranchParts]]: ...
    def delete(self, branch: str) -> None: ...
    def replace_metadata(self, branch: str, metadata: dict[str, str]) -> None: ...
    @property
    def current(self) -> str | None: ...

def create_branch(dataset: Dataset, branch: str, reference: Reference | None) -> Dataset: ...
def clone_table(
    dataset: Dataset, target: str, reference: Reference, storage_options: dict[str, str], shallow: bool
) -> Dataset: ...
def base_paths(dataset: Dataset) -> list[BasePathParts]: ...
def add_bases(dataset: Dataset, bases: Sequence[BasePath], properties: dict[str, str]) -> None: ...
def version_refs(dataset: Dataset) -> list[int]: ...
