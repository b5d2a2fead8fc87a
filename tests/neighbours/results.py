"""What was found, as it is checked in: a file of JSON for each release.

| key | is |
|---|---|
| `release` | of pylance |
| `reads` | what it reads of Pennon's tables |
| `theirs` | what Pennon reads of tables that the release made, and both after changes of the other |
| `changes` | the same for tables of Pennon that the release changes |

Below are groups, such as `2.1 ids`, `2.1 addresses` and `2.1 types`, with the names of all cases, in `cases`, and
of those whose outcome is not `reads` by their outcome, in `not`. `*` are all cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neighbours.neighbour import READS

FOLDER = Path(__file__).with_name("found")
SECTIONS = ("reads", "theirs", "changes")

Outcomes = dict[str, str]


@dataclass
class Found:
    """The outcomes of one release: by section, group and case."""

    release: str
    sections: dict[str, dict[str, Outcomes]] = field(default_factory=lambda: {name: {} for name in SECTIONS})

    def add(self, section: str, group: str, case: str, outcome: str) -> None:
        self.sections[section].setdefault(group, {})[case] = outcome

    def save(self, folder: Path = FOLDER) -> None:
        folder.mkdir(exist_ok=True)
        sections = {
            name: {group: grouped(outcomes) for group, outcomes in groups.items()}
            for name, groups in self.sections.items()
        }
        text = json.dumps({"release": self.release, **sections}, indent=1, ensure_ascii=False)
        # A list of names takes a line.
        lists = re.compile(r"\[\n(.*?)\n\s*\]", re.DOTALL)
        text = lists.sub(lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1].strip()) + "]", text)
        (folder / f"{self.release}.json").write_text(text + "\n")


def grouped(outcomes: Outcomes) -> dict[str, Any]:
    other: dict[str, list[str]] = {}
    for case, outcome in outcomes.items():
        if outcome != READS:
            other.setdefault(outcome, []).append(case)
    shortened = {outcome: ["*"] if len(names) == len(outcomes) else names for outcome, names in other.items()}
    return {"cases": list(outcomes), "not": shortened}


def load(path: Path) -> Found:
    raw = json.loads(path.read_text())
    found = Found(raw["release"])
    for section in SECTIONS:
        for group, recorded in raw[section].items():
            outcomes = dict.fromkeys(recorded["cases"], READS)
            for outcome, names in recorded["not"].items():
                outcomes |= dict.fromkeys(recorded["cases"] if names == ["*"] else names, outcome)
            found.sections[section][group] = outcomes
    return found


def order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def load_all(folder: Path = FOLDER) -> list[Found]:
    """All releases, the oldest first."""
    return sorted((load(path) for path in folder.glob("*.json")), key=lambda found: order(found.release))


def changed(before: Found, after: Found) -> Iterable[str]:
    """Lines that say which outcomes are not as they were."""
    for section, groups in after.sections.items():
        for group, outcomes in groups.items():
            known = before.sections[section].get(group, {})
            for case, outcome in outcomes.items():
                if known.get(case) != outcome:
                    yield f"{after.release} {section} {group}, {case}: {outcome} (before: {known.get(case)})"
