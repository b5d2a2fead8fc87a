"""The catalogue of the golden files is complete, and nothing in it is missing."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def catalogue(text: str) -> list[tuple[str, str]]:
    """Folder, or nothing, and name of everything listed; names may have a `*` and lack their extension."""
    found = []
    for section in text.split("\n## ")[1:]:
        head = section.split(":")[0]
        folder = head if head.endswith("/") else ""
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        found += [(folder, name) for row in rows for name in re.findall("`(.*?)`", row)]
    return found


def test_the_catalogue() -> None:
    text = (GOLDEN / "CATALOGUE.md").read_text()
    listed = dict.fromkeys(catalogue(text), 0)
    assert listed
    missing = []
    for path in sorted(path for path in GOLDEN.rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc")):
        name = path.relative_to(GOLDEN)
        if path.name == "generate.py":
            missing += [] if f"`{name}`" in text else [str(name)]
            continue
        folder, entry = (f"{name.parts[0]}/", name.parts[1]) if len(name.parts) > 1 else ("", name.name)
        keys = [
            key for key in listed if key[0] == folder and (fnmatch(entry, key[1]) or fnmatch(entry, f"{key[1]}.*"))
        ]
        for key in keys:
            listed[key] += 1
        missing += [] if keys else [str(name)]
    assert missing == [], "not listed"
    assert [name for name, count in listed.items() if count == 0] == [], "not there"
