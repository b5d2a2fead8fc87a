"""Files of tables: where they are, and damage to them."""

from __future__ import annotations

from pathlib import Path


def manifest(root: Path | str, version: int) -> Path:
    """The file of a version."""
    return Path(root, "_versions", f"{2**64 - 1 - version:020}.manifest")


def data_files(root: Path | str) -> set[str]:
    return {path.name for path in Path(root, "data").iterdir()}


def all_files(root: Path | str) -> set[str]:
    """Paths below the folder of a table."""
    return {str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()}


def flip(path: Path, position: int | None = None, mask: int = 1) -> None:
    """Flip the bits of `mask` in one byte, that in the middle unless a position is given."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= mask
    path.write_bytes(content)
