"""Bytes of imported files: text has them as base64, and a table may have a column of them as blobs."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from pennon.blob import blob_array
from pennon.cli._values import shown
from pennon.errors import InvalidInputError

# What a message shows of a text that is not base64.
_SHOWN = 40


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes or blobs."""
    return is_binary(kind) or is_blob(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(check(kind) for check in checks)


def is_blob(kind: Any) -> bool:
    """Whether values of a type are blobs."""
    # Pylance registers a class of its own for the name.
    return getattr(kind, "extension_name", None) == "lance.blob.v2"


def from_base64(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as the bytes or blobs that they are in base64."""
    values = [None if text is None else _decoded(text) for text in array.to_pylist()]
    return blob_array(values) if is_blob(kind) else pa.array(values, kind)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidInputError(f"{shown(text, _SHOWN)!r} is not base64, which bytes are in text") from None
