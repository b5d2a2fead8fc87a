"""Metadata as the C data interface of Arrow lays them out: more than pyarrow shows of them.

Pyarrow makes a dictionary of metadata, which keeps one value of each key, and leaves out those of extension types.
"""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["metadata"]


def metadata(exporter: Any) -> list[tuple[str, str]]:
    """The keys and values of something with `__arrow_c_schema__`, in their order.

    Raises `UnicodeDecodeError` if they are not UTF-8.
    """
    capsule = exporter.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # Format, name and metadata are the first members of the structure, which the capsule keeps.
    at = (ctypes.c_void_p * 3).from_address(pointer(capsule, b"arrow_schema"))[2]
    if at is None:
        return []

    def number() -> int:
        nonlocal at
        at += 4
        return ctypes.c_int32.from_address(at - 4).value

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return ctypes.string_at(at - length, length).decode()

    return [(text(), text()) for _ in range(number())]
