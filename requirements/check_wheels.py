"""Checks wheels that are to be published: their size, and that one serves all interpreters of its platform.

    python requirements/check_wheels.py dist/*.whl

It exits with 1 if something is wrong.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

# Megabytes. PyPI takes 100; whoever deploys functions or images counts them.
LIMIT = 25


def faults(wheel: Path) -> list[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    size = wheel.stat().st_size / 1e6
    found = [f"is {size:.1f} MB, expected at most {LIMIT}"] if size > LIMIT else []
    if "-cp310-abi3-" not in wheel.name:
        found.append("is not for all interpreters from 3.10 on (cp310-abi3)")
    if "-linux_" in wheel.name:
        found.append("has no manylinux tag")
    wanted = ("pennon/_native.abi3.so", "pennon/py.typed", "pennon/_native/__init__.pyi")
    return found + [f"lacks {name}" for name in wanted if name not in names]


def main() -> int:
    """Print a line for each wheel; 1 if something is wrong."""
    wheels = [Path(name) for name in sys.argv[1:]]
    if not wheels:
        sys.exit(__doc__)
    failed = False
    for wheel in wheels:
        found = faults(wheel)
        failed = failed or bool(found)
        print(f"{wheel.name}: {'; '.join(found) or f'{wheel.stat().st_size / 1e6:.1f} MB'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
