"""Takes the directory of the build out of the bill of materials of wheels, which are named."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def neutral(wheel: Path) -> None:
    """Writes the wheel again, with names of local packages that begin at the root of the repository."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {entry: archive.read(entry) for entry in archive.infolist()}
    record = next(entry for entry in contents if entry.filename.endswith(".dist-info/RECORD"))
    lines = contents[record].decode().splitlines()
    for entry, content in contents.items():
        if ".dist-info/sboms/" not in entry.filename:
            continue
        changed = content.replace(f"file://{ROOT}/".encode(), b"file:///")
        contents[entry] = changed
        digest = base64.urlsafe_b64encode(hashlib.sha256(changed).digest()).rstrip(b"=").decode()
        at = next(at for at, line in enumerate(lines) if line.startswith(f"{entry.filename},"))
        lines[at] = f"{entry.filename},sha256={digest},{len(changed)}"
    contents[record] = ("\n".join(lines) + "\n").encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for entry, content in contents.items():
            archive.writestr(entry, content, compress_type=entry.compress_type)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        neutral(Path(name))
