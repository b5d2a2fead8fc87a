"""What the result of a task tells: the rows that it found, wrote or moved, and the files that it wrote.

A result is one of a job, a compaction, an index, a list of them, or anything else, which tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rows_and_files(result: Any) -> tuple[int, dict[str, int]]:
    """The number of rows, and bytes by path below the table of the files."""
    if isinstance(result, list):
        parts = [rows_and_files(part) for part in result]
        return sum(rows for rows, _ in parts), {path: size for _, files in parts for path, size in files.items()}
    fragments = getattr(result, "new_fragments", None)
    if fragments is not None:
        written = (file for fragment in fragments for file in fragment.files)
        sizes = {f"data/{file.path}": file.file_size_bytes or 0 for file in written}
        return sum(fragment.num_rows for fragment in fragments), sizes
    files: Any = getattr(result, "files", None)
    if files and hasattr(result, "index_version"):
        files = {f"_indices/{result.uuid}/{file.path}": file.size_bytes for file in files}
    return int(getattr(result, "rows", 0)), dict(files) if isinstance(files, Mapping) else {}


def files_of(result: Any) -> dict[str, int]:
    """Bytes by path below the table of the files that the result of a task tells about."""
    return rows_and_files(result)[1]
