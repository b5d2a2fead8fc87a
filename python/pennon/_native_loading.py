"""Loads the native module in a thread that does not end.

Its allocator takes the thread that loads it for the main one, and a later thread with the id of that one would get
memory that was given up (`init.c` of mimalloc 3). Nothing outlives the main thread of Python; for another one that
uses Pennon first, a thread is started that waits for the end of the process.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

__all__ = ["set_up"]

NATIVE = "pennon._native"


class NativeFinder(MetaPathFinder):
    """Finds nothing itself, but sees the import of the native module."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - of the interface
    ) -> ModuleSpec | None:
        if fullname == NATIVE and threading.current_thread() is not threading.main_thread():
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and spec.origin is not None:
                load_and_stay(spec.origin)
        return None


def load_and_stay(library: str) -> None:
    """Load a library in a thread that then waits for the end of the process."""
    import ctypes

    loaded = threading.Event()

    def load() -> None:
        try:
            ctypes.CDLL(library)
        except OSError:
            # The import that follows says why.
            return
        finally:
            loaded.set()
        threading.Event().wait()

    threading.Thread(target=load, name="pennon-native", daemon=True).start()
    loaded.wait()


def set_up() -> None:
    """Look after the import of the native module, if it is still to come."""
    if NATIVE not in sys.modules:
        sys.meta_path.insert(0, NativeFinder())
