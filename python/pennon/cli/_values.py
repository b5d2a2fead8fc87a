"""Values as text, JSON and CSV: what a terminal must not see is escaped, bytes are base64."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

# Values of a list and characters of a value that a table shows.
ITEMS, CHARACTERS = 8, 100


def shown(value: Any, most: int | None = CHARACTERS) -> str:
    """A value as text of one line for people, cut after some characters."""
    text = _text(value)
    text = "".join(char if char.isprintable() else _escaped(char) for char in text)
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[: 4 * CHARACTERS]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"0x{value[:CHARACTERS].hex()}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, list):
        items = [_member(item) for item in value[:ITEMS]]
        return f"[{', '.join(items)}{', …' if len(value) > ITEMS else ''}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_member(item)}' for name, item in value.items())}}}"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def _member(value: Any) -> str:
    return "null" if value is None else _text(value)


def _escaped(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or (
        f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    )


def as_json(value: Any) -> str:
    """A value as JSON in one line. Bytes are base64, what is no number in JSON is null, times are ISO text."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        # A surrogate is no character and has no bytes in UTF-8.
        return value.encode("utf-8", "backslashreplace").decode() if not value.isascii() else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)


class CsvWriter:
    """Writes batches as CSV, with names of columns first."""

    def __init__(self, target: Any, schema: pa.Schema) -> None:
        import pyarrow.csv

        nothing = pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
        self._schema = _for_csv(nothing).schema
        self._writer = pyarrow.csv.CSVWriter(target, self._schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        self._writer.write_batch(_for_csv(batch).cast(self._schema))

    def __enter__(self) -> CsvWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()


def _for_csv(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns that CSV has no form for as text: nested ones as JSON, bytes as base64."""
    arrays, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        column = _csv_column(array)
        arrays.append(column)
        fields.append(pa.field(field.name, column.type, field.nullable))
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _csv_column(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _csv_column(array.dictionary_decode())
    if _has_csv_form(kind):
        return array
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    values = (None if value is None else _plain(value) for value in array.to_pylist())
    texts = [value if value is None or isinstance(value, str) else as_json(value) for value in values]
    return pa.array(texts, pa.utf8())


def _has_csv_form(kind: pa.DataType) -> bool:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return True
    plain = pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    timed = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return bool(plain or timed or pa.types.is_boolean(kind) or pa.types.is_decimal(kind))
