"""Checks wheels that are to be published: their size, what is in them, and that one serves all interpreters.

    python requirements/check_wheels.py dist/*.whl

That of the package for PySpark is for all platforms, and asks for the other in the same version.

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
    if wheel.name.startswith("pyspark_pennon-"):
        return found + _plugin_faults(wheel.name, names, _requirements(wheel))
    if "-cp310-abi3-" not in wheel.name:
        found.append("is not for all interpreters from 3.10 on (cp310-abi3)")
    if "-linux_" in wheel.name:
        found.append("has no manylinux tag")
    wanted = ("pennon/_native.abi3.so", "pennon/py.typed", "pennon/_native/__init__.pyi")
    return found + [f"lacks {name}" for name in wanted if name not in names]


def _plugin_faults(wheel: str, names: list[str], requirements: list[str]) -> list[str]:
    version = wheel.split("-")[1]
    info = f"pyspark_pennon-{version}.dist-info"
    found = [] if wheel.endswith("-py3-none-any.whl") else ["is not for all platforms (py3-none-any)"]
    if f"pennon=={version}" not in requirements:
        found.append(f"does not ask for pennon=={version}")
    wanted = ("pyspark_pennon/__init__.py", "pyspark_pennon/py.typed", f"{info}/licenses/LICENSE")
    found += [f"lacks {name}" for name in wanted if name not in names]
    others = sorted({name.split("/")[0] for name in names} - {"pyspark_pennon", info})
    return found + [f"has {name}" for name in others]


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


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
