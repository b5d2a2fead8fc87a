"""Small files of the driver that are replaced as a whole: a reader finds all of one state, also after a crash."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write a text to the disk, and give it the name of the file then."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
