"""`write_dataset`: create, append, overwrite; `write_fragments`: the files alone."""

from __future__ import annotations

from pennon._table.writing import write_fragments
from pennon.dataset import write_dataset

__all__ = ["write_dataset", "write_fragments"]
