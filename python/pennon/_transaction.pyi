"""What `rust/py/src/transaction.rs` exposes."""

from typing import TypedDict

from pennon._dataset import SchemaField
from pennon._fragment import Fragment

class TransactionParts(TypedDict):
    read_version: int
    uuid: str
    properties: dict[str, str]
    operation: str
    fragments: list[Fragment] | None
    schema: list[SchemaField] | None
    deleted_fragment_ids: list[int] | None
    predicate: str | None
    version: int | None
