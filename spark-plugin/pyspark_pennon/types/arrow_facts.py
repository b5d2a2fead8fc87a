"""What a table's schema says and Spark's types do not, kept in the metadata of Spark's fields.

A frame that was read remembers that a column of `array<float>` is a list of 128 float16 values, so that a new table
that is written from it gets that type again. Spark keeps the metadata of a field through `select`, `where`, joins
and `alias`, and drops it where a value is computed.

| key | value |
|---|---|
| `fixed_size_list` | the size of the lists; people may set it, by `withMetadata`, for a column of arrays |
| `pennon.arrow` | the Arrow field as an IPC schema in base64, if Spark's type does not imply it |
| `comment` | what people wrote about the column, as Spark's `DESCRIBE` shows it; so in the Arrow field |
| `pennon.read` | what a frame of `spark.read.format("pennon")` reads, see [pyspark_pennon.reads.reader][] |
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon.errors import invalid
from pyspark_pennon.types.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

FIXED_SIZE_LIST = "fixed_size_list"
COMMENT = "comment"
ARROW = "pennon.arrow"
READ = "pennon.read"


def metadata_of(column: pa.Field, implied: pa.DataType) -> dict[str, Any]:
    """The metadata of the Spark field of `column`, whose type would restore the Arrow type `implied`."""
    facts: dict[str, Any] = {}
    if pa.types.is_fixed_size_list(column.type):
        facts[FIXED_SIZE_LIST] = column.type.list_size
    # The comment is the one of Spark's field, which may be changed and removed.
    plain = _commented(column, None)
    if plain.metadata or not column.type.equals(implied):
        encoded = pa.schema([plain]).serialize().to_pybytes()
        facts[ARROW] = base64.b64encode(encoded).decode()
    comment = _comment_of(column)
    if comment is not None:
        facts[COMMENT] = comment.decode()
    return facts


def with_comment(column: pa.Field, field: StructField) -> pa.Field:
    """The Arrow field with the comment of the Spark field, if that has one."""
    comment = (field.metadata or {}).get(COMMENT)
    return _commented(column, comment.encode()) if isinstance(comment, str) and comment else column


def with_comments_of(columns: pa.Schema, others: pa.Schema) -> pa.Schema:
    """The columns with the comments, or without one, that those of the same names have in another schema."""
    known = {column.name: _comment_of(column) for column in others}
    return pa.schema([_commented(column, known.get(column.name)) for column in columns], columns.metadata)


def _comment_of(column: pa.Field) -> bytes | None:
    return (column.metadata or {}).get(COMMENT.encode())


def _commented(column: pa.Field, comment: bytes | None) -> pa.Field:
    others = {key: value for key, value in (column.metadata or {}).items() if key != COMMENT.encode()}
    metadata = others if comment is None else {**others, COMMENT.encode(): comment}
    return column.with_metadata(metadata) if metadata else column.remove_metadata()


def restored(field: StructField, implied: Callable[[], pa.DataType]) -> pa.Field:
    """The Arrow field of a new table for a Spark field: what its metadata says if that still fits its type.

    Raises
    ------
    ValueError
        `fixed_size_list` is not a size, or the column is not an array.
    """
    text = field.metadata.get(ARROW)
    if isinstance(text, str):
        known = _decoded(text)
        if known is not None and _same_type(spark_type(known), field.dataType):
            return known.with_name(field.name).with_nullable(field.nullable)
    kind = implied()
    size = field.metadata.get(FIXED_SIZE_LIST)
    if size is not None and not pa.types.is_fixed_size_list(kind):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1 or not pa.types.is_list(kind):
            raise invalid(
                f"column '{field.name}' has the metadata {FIXED_SIZE_LIST}={size!r} and the type "
                f"{field.dataType.simpleString()}: expected a size of at least 1, and an array"
            )
        kind = pa.list_(kind.value_field, size)
    return pa.field(field.name, kind, field.nullable)


def _decoded(text: str) -> pa.Field | None:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0)
    except (ValueError, pa.ArrowInvalid, IndexError):
        return None


def _same_type(known: Any, found: Any) -> bool:
    # Only the types count: expressions may have made members nullable.
    return bool(known.simpleString() == found.simpleString())
