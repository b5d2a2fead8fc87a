"""The model of tags that writers make, move and remove until they are killed.

Each name is that of one writer, so its tag is what was acknowledged last, or what an intent after that makes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from soak.fold import LostError
from soak.journal import Tail


class Tags:
    """The version of each tag, `None` for one that was removed."""

    def __init__(self, journals: list[Path]) -> None:
        self.tails = [Tail(journal, writer) for writer, journal in enumerate(journals, 1)]
        self.versions: dict[str, int | None] = {}
        self.acknowledged = 0

    def check(self, table: Any) -> None:
        """Compares the tags of a table whose writers were all killed."""
        allowed: dict[str, set[int | None]] = {}
        for tail in self.tails:
            done = tail.read()
            self.acknowledged += len(done)
            for proposal in sorted([*done, *tail.open.values()], key=lambda proposal: proposal.seq):
                name, version = proposal.intent["name"], proposal.intent["version"]
                before = allowed.get(name, {self.versions.get(name)})
                allowed[name] = {version} if proposal.is_acknowledged else before | {version}
            tail.open.clear()
        found = {name: entry["version"] for name, entry in table.tags.list().items()}
        for name in found.keys() | allowed.keys() | self.versions.keys():
            expected = allowed.get(name, {self.versions.get(name)})
            if found.get(name) not in expected:
                raise LostError(f"tag {name} should be of version {expected}, found {found.get(name)}")
            self.versions[name] = found.get(name)
