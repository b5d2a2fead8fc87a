"""What writers of the soak log, each to a file of its own: intents before a commit, and what became of them.

A line is a JSON object. `{"seq", "kind", ...}` is an intent, written before anything is committed. It is synced
unless all that may happen to a writer is that it is killed: what it wrote until then is in the file.
`{"ended": seq, "version": v}` says that it was committed as that version, with `null` that it was not;
a writer that does not learn which version it made says `"between": [a, b]`: one of those after a, up to b.
An intent without an end may be in the table or not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.effects import Intent


class Journal:
    """The file that a writer appends to."""

    def __init__(self, path: Path, sync: bool = True) -> None:
        self.sync = sync
        self.entries = [json.loads(line) for line in whole_lines(path)]
        self.file = path.open("ab")
        self.seq = max((entry.get("seq", 0) for entry in self.entries), default=0)
        # A line that was cut off by a kill is ended, so that the next one begins.
        self.file.write(b"\n")

    def propose(self, intent: Intent) -> int:
        self.seq += 1
        self.write({"seq": self.seq, **intent})
        if self.sync:
            os.fsync(self.file.fileno())
        return self.seq

    def ended(self, seq: int, version: int | None, **more: Any) -> None:
        self.write({"ended": seq, "version": version, **more})

    def write(self, entry: dict[str, Any]) -> None:
        self.file.write(json.dumps(entry).encode() + b"\n")
        self.file.flush()


def whole_lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"}\n"):
                yield line


@dataclass
class Proposal:
    """An intent, as the checker knows it."""

    writer: int
    seq: int
    intent: Intent
    version: int | None = None
    """The version that its writer got, or that the checker found it in."""
    is_acknowledged: bool = False
    between: tuple[int, int] | None = None
    taken_for: int | None = None
    """Another version that the checker found it in before it was acknowledged."""


class Tail:
    """Reads the lines that were added to a journal."""

    def __init__(self, path: Path, writer: int) -> None:
        self.path, self.writer, self.position, self.rest = path, writer, 0, b""
        self.open: dict[int, Proposal] = {}

    def read(self) -> list[Proposal]:
        """Proposals that were acknowledged since the last call. Those that are open are in `open`."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.position)
            content = file.read()
        self.position += len(content)
        *lines, self.rest = (self.rest + content).split(b"\n")
        acknowledged = []
        for line in lines:
            if not line.endswith(b"}"):
                continue
            entry = json.loads(line)
            if "seq" in entry:
                self.open[entry["seq"]] = Proposal(self.writer, entry["seq"], entry)
            else:
                found = self.open[entry["ended"]]
                if "between" in entry:
                    found.between = tuple(entry["between"])
                    continue
                self.open.pop(entry["ended"])
                if entry["version"] is not None:
                    found.taken_for = None if found.version == entry["version"] else found.version
                    found.is_acknowledged, found.version = True, entry["version"]
                    acknowledged.append(found)
                elif found.version is not None:
                    # The writer says that it was not committed, and the checker found it.
                    acknowledged.append(found)
        return acknowledged
