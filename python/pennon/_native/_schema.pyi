"""What `rust/py/src/schema.rs` exposes."""

from typing import TypedDict

import pyarrow as pa
from pennon._native._arguments import SchemaObject

class SchemaField(TypedDict):
    name: str
    id: int
    logical_type: str
    nullable: bool
    metadata: dict[str, str]
    children: list[SchemaField]
    keys: tuple[bool, int, bool, int]

class SchemaParts(TypedDict):
    fields: list[SchemaField]
    metadata: dict[str, str]

def path_names(path: str) -> list[str] | None: ...
def schema_from_arrow(schema: pa.Schema) -> SchemaParts: ...
def schema_to_arrow(schema: SchemaObject) -> pa.Schema: ...
