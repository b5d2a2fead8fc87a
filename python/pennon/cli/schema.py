"""`pennon schema`: the columns of a table."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from pennon._field_paths import field_paths
from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, output_options
from pennon.schema import LanceField

_SCHEMA = pa.schema(
    [
        pa.field("column", pa.utf8()),
        pa.field("type", pa.utf8()),
        pa.field("nullable", pa.bool_()),
        pa.field("id", pa.int32()),
        pa.field("metadata", pa.map_(pa.utf8(), pa.utf8())),
    ]
)


@click.command()
@table_argument()
@output_options()
def command(table: Address, output: Output) -> None:
    """Print the columns.

    Members of structs and items of lists have lines of their own. The id of a column stays when it is renamed.
    """
    opened = table.open()
    records = [_record(path, field) for path, field in field_paths(opened.lance_schema.fields())]
    schema = _SCHEMA
    if output.is_text and not any(record["metadata"] for record in records):
        schema = pa.schema([field for field in _SCHEMA if field.name != "metadata"])
        records = [{name: record[name] for name in schema.names} for record in records]
    output.records(records, schema, {"metadata": lambda pairs: ", ".join(f"{key}={value}" for key, value in pairs)})


def _record(path: str, field: LanceField) -> dict[str, Any]:
    arrow = field.to_arrow()
    return {
        "column": path,
        "type": str(arrow.type),
        "nullable": arrow.nullable,
        "id": field.id,
        "metadata": [(_text(key), _text(value)) for key, value in (arrow.metadata or {}).items()],
    }


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
