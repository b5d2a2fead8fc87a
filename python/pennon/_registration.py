"""Registration of extension types with pyarrow, which has one class for each name in a process.

Pylance registers types of the same names when its own modules are imported, and fails if a name is taken. Neither
may keep the other out, whichever is imported first: types that pylance has registered stay registered, and ours are
withdrawn right before pylance registers its own. Arrays that were made before keep their class either way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["register"]

# The modules of pylance by the names that they register.
_REGISTERED_BY = {
    "lance.bfloat16": "lance._arrow.bf16",
    "lance.blob.v2": "lance.blob",
    "lance.arrow.image_uri": "lance.arrow",
    "lance.arrow.encoded_image": "lance.arrow",
    "lance.arrow.fixed_shape_image_tensor": "lance.arrow",
}


class _Withdrawal:
    """A finder of modules that finds none; it sees which are about to be imported."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Withdraws the types that the module `fullname` is going to register."""
        del path, target
        for name in [name for name in self.names if _REGISTERED_BY[name] == fullname]:
            self.names.remove(name)
            pa.unregister_extension_type(name)
        return None


def register(types: Sequence[pa.ExtensionType]) -> None:
    """Registers types under names that are still free."""
    names = []
    for extension in types:
        try:
            pa.register_extension_type(extension)
        except pa.ArrowKeyError:
            continue
        names.append(extension.extension_name)
    if names:
        sys.meta_path.insert(0, _Withdrawal(names))
