"""The cases of `figures.py`: a module for each group of peers, with `TITLE` and `cases(root, size)`.

A module imports its peers when it is imported, so that no time has an import in it. A case compares the answers of
its sides by what they return, or by the contents of the tables afterwards, read by one reader.
"""

from __future__ import annotations

import importlib
from types import ModuleType

GROUPS = ("pylance", "identity", "parquet", "formats", "cold", "s3", "synced")


def group(name: str) -> ModuleType:
    """The module of a group; its peers must be installed."""
    return importlib.import_module(f"cases.{name}")
