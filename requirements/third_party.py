"""Writes THIRD_PARTY_LICENSES: the crates that are linked into the wheel, and texts that their licences want kept.

    python requirements/third_party.py            writes it
    python requirements/third_party.py --check    fails if it is not current

Crates that may be used under the Apache License 2.0 are used under it, and its text is in LICENSE. Of the others,
and of C libraries that crates bring, the texts follow, as do all notices. A licence that `deny.toml` does not allow
is an error. It asks `cargo metadata` for the crates and reads their sources, which are there after a build.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "THIRD_PARTY_LICENSES"
APACHE = "Apache-2.0"
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
STEMS = {"LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE"}
CODE = {".c", ".h", ".py", ".rs", ".toml", ".yml"}


def linked(platform: str) -> dict[str, dict[str, Any]]:
    """The packages that the extension module links on a platform, by id."""
    call = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={platform}"]
    found = json.loads(subprocess.run(call, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    waiting = [id for id, package in packages.items() if package["name"] == "pennon-py"]
    seen: dict[str, dict[str, Any]] = {}
    while waiting:
        id = waiting.pop()
        if id not in seen:
            seen[id] = packages[id]
            normal = (
                link["pkg"] for link in nodes[id]["deps"] if any(kind["kind"] is None for kind in link["dep_kinds"])
            )
            waiting += normal
    return seen


def terms(package: dict[str, Any]) -> list[list[str]]:
    """The alternatives of each part of a licence, all parts of which hold."""
    expression = str(package["license"] or "").replace("/", " OR ")
    parts = re.split(r"\s+AND\s+", expression)
    return [[term.strip(" ()") for term in re.split(r"\s+OR\s+", part)] for part in parts]


def texts(package: dict[str, Any]) -> list[tuple[str, str]]:
    """Path and content of the licences and notices that have to be kept."""
    directory = Path(package["manifest_path"]).parent
    own = all(APACHE in alternatives for alternatives in terms(package))
    found = []
    for path in sorted(directory.rglob("*")):
        stem, below = re.split(r"[.-]", path.name.upper())[0], path.relative_to(directory)
        bundled = len(below.parts) > 1
        wanted = stem == "NOTICE" or (stem in STEMS and (bundled or not own))
        if wanted and path.is_file() and path.suffix not in CODE and not {"tests", "benches"} & set(below.parts):
            found.append((str(below), path.read_text(encoding="utf-8", errors="replace").strip()))
    return found


def document() -> str:
    """The content of the file."""
    packages = {id: package for platform in PLATFORMS for id, package in linked(platform).items()}
    crates = sorted(
        (package for package in packages.values() if package["source"] is not None),
        key=lambda package: (package["name"], package["version"]),
    )
    allowed = set(re.findall(r'^    "([^"]+)",$', (ROOT / "deny.toml").read_text(), re.MULTILINE))
    lines = ["Crates that are linked into the wheel of Pennon, and their licences.", ""]
    contents: dict[str, list[str]] = {}
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        for alternatives in terms(crate):
            if not allowed & set(alternatives):
                sys.exit(f"{name}: its licence {crate['license']!r} is none that deny.toml allows")
        lines.append(f"{name}: {crate['license']}")
        for path, content in texts(crate):
            contents.setdefault(content, []).append(f"{name}, {path}")
    for content, names in contents.items():
        lines += ["", "-" * 80, *names, "", content]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes or compares it."""
    current = document()
    if sys.argv[1:] != ["--check"]:
        TARGET.write_text(current, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != current:
        sys.exit(f"{TARGET.name} is not current: run python requirements/third_party.py")


if __name__ == "__main__":
    main()
