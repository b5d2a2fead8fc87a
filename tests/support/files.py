"""Files of tables: where they are, and damage to them."""

from __future__ import annotations

from pathlib import Path


def manifest(root: Path | str, version: int) -> Path:
    """The file of a version."""
    return Path(root, "_versions", f"{2**64 - 1 - version:020}.manifest")


def flip(path: Path, position: int | None = None, mask: int = 1) -> None:
    """Flip the bits of `mask` in one byte, that in the middle unless a position is given."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= mask
    path.write_bytes(content)
