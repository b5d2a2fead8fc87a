"""Values as text, JSON and CSV: what a terminal must not see is escaped, bytes are base64."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Values of a list and characters of a value that a table shows.
ITEMS, CHARACTERS = 8, 100
# Decimals of the units of durations.
_DECIMALS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def values_of(array: pa.Array, *, for_json: bool = False) -> list[Any]:
    """The values for Python. The type alone says what they look like, and all of its values have a form.

    Times are ISO text, for JSON with a `T`. Durations are a number of their unit for JSON, and seconds as text
    otherwise.
    """
    kind = array.type
    if isinstance(array, pa.ExtensionArray) and pa.types.is_nested(kind.storage_type):
        return values_of(array.storage, for_json=for_json)
    if pa.types.is_dictionary(kind):
        return values_of(array.dictionary_decode(), for_json=for_json)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        members = [values_of(array.field(at), for_json=for_json) for at in range(kind.num_fields)]
        rows: Iterable[tuple[Any, ...]] = zip(*members, strict=True) if members else [()] * len(array)
        records = zip(_valid(array), rows, strict=True)
        return [dict(zip(names, row, strict=True)) if valid else None for valid, row in records]
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        ends = [(array.offset + at) * size for at in range(len(array) + 1)]
        return _lists(array, ends, [array.values], for_json)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array, array.offsets.to_pylist(), [array.values], for_json)
    if pa.types.is_map(kind):
        return _lists(array, array.offsets.to_pylist(), [array.keys, array.items], for_json)
    is_duration = pa.types.is_duration(kind)
    if is_duration:
        array = array.cast(pa.int64())
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        array = _iso(array, "T" if for_json else " ")
    values: list[Any] = array.to_pylist()
    return [_seconds(value, _DECIMALS[kind.unit]) for value in values] if is_duration and not for_json else values


def _lists(array: pa.Array, ends: list[int], children: list[pa.Array], for_json: bool) -> list[Any]:
    """The values of lists, which begin and end at these values of the child; those of maps are pairs."""
    parts = [child.slice(ends[0], ends[-1] - ends[0]) for child in children]
    members = [values_of(part, for_json=for_json) for part in parts]
    values = members[0] if len(members) == 1 else list(zip(*members, strict=True))
    bounds = pairwise(end - ends[0] for end in ends)
    return [values[begin:end] if valid else None for valid, (begin, end) in zip(_valid(array), bounds, strict=True)]


def _valid(array: pa.Array) -> list[bool]:
    valid: list[bool] = array.is_valid().to_pylist()
    return valid


def _iso(array: pa.Array, separator: str) -> pa.Array:
    """Dates and times as text, without a fraction that is zero."""
    text = _with_known_zone(array).cast(pa.utf8())
    for pattern, text_of in ((" ", separator), (r"\.0+(Z|[+-]|$)", r"\1"), (r"([+-]\d\d)(\d\d)$", r"\1:\2")):
        text = pc.replace_substring_regex(text, pattern, text_of)
    return text


def _with_known_zone(array: pa.Array) -> pa.Array:
    """Times in a zone; in UTC if this machine has no such zone."""
    kind = array.type
    return array if _is_known(kind) else array.cast(pa.timestamp(kind.unit, "UTC"))


@lru_cache
def _is_known(kind: pa.DataType) -> bool:
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return True
    try:
        pa.array([0], pa.int64()).cast(kind).cast(pa.utf8())
    except pa.ArrowInvalid:
        return False
    return True


def _seconds(number: int | None, decimals: int) -> str | None:
    return None if number is None else f"{Decimal(number).scaleb(-decimals).normalize():f} s"


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
    """A value as JSON in one line. Bytes are base64, what is not a number in JSON is null, times are ISO text."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        # A surrogate is not a character and has no bytes in UTF-8.
        return value.encode("utf-8", "backslashreplace").decode() if not value.isascii() else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
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
    if isinstance(array, pa.ExtensionArray) and array.type.extension_name != "arrow.uuid":
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _csv_column(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return _with_known_zone(array)
    if _has_csv_form(kind):
        return array
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    if pa.types.is_duration(kind):
        return array.cast(pa.int64())
    values = (None if value is None else _plain(value) for value in values_of(array, for_json=True))
    texts = [value if value is None or isinstance(value, str) else as_json(value) for value in values]
    return pa.array(texts, pa.utf8())


def _has_csv_form(kind: pa.DataType) -> bool:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return True
    plain = pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    timed = pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(plain or timed or pa.types.is_boolean(kind) or pa.types.is_decimal(kind))
