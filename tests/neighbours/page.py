"""The page `docs/readers.md`, of what was found and of `compatible_with`; and what must be true of both.

PYTHONPATH=tests python -m neighbours.page            # exits with 1 if the page is not that of what was found
PYTHONPATH=tests python -m neighbours.page --write    # writes it
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pennon import _readers

from neighbours import results
from neighbours.neighbour import CRASHES, HANGS, READS
from neighbours.results import Found, Outcomes
from neighbours.rows import family

PAGE = Path(__file__).parents[2] / "docs" / "readers.md"
FILE_VERSIONS = ("2.0", "2.1", "2.2")
FIRST = {"reads": "new, three fragments", "theirs": "nothing more", "changes": "append"}
COLUMNS = "versions of rows in data files"
# Not every release has them, or they are made for a reader of their own.
OPTIONAL = ("branch", "blobs", "index ", COLUMNS)

INTRODUCTION = """\
# Readers: which setting for which release of pylance

Releases of `pylance` before 3.0 do not open what Pennon writes by default, and those before 14.0 not all of it.
`compatible_with` chooses the settings for the oldest release that shall read and change a table:

```python
import pennon

table = pennon.write_dataset({{"id": [1, 2, 3]}}, "people.lance", compatible_with="pylance 1.0")
table.data_storage_version  # '2.1'
```

{settings}

An option that contradicts it is an `InvalidInputError`. The name is kept in the config of a new table, under
`pennon.compatible_with`; calls that would write newer data files to it are refused (`data_storage_version` of an
overwrite, `update`, `merge_insert` and `compact_files`). A table that exists must be one that the release reads;
`table.update_config({{"pennon.compatible_with": "pylance 1.0"}})` keeps the name.

`make neighbours` tries {count} releases, each in an environment of its own, and writes this page: {releases}.
All values are compared. A release that was not tried is taken for the one before it.

{remarks}
"""

REMARKS = """\
- **Stable row ids** were an experiment in old releases. Up to 0.33, filters fail where rows have moved, and
  updates and merges are refused or, up to 0.29, keep the old rows as well. From 0.36 on rows are read and changed
  as they should be, but up to 7.1 filters by a zone map count wrong, and up to 2.0 searches by an index over
  vectors fail, also in tables that `pylance` wrote. So `compatible_with` leaves stable row ids out up to there;
  `enable_stable_row_ids=True` is accepted for 0.38 and later, for tables without such indices.
- **Indices** that Pennon makes do not keep a release from reading the rows, but old ones do not know all kinds.
  Up to 0.38 a release cannot add an index to a table that Pennon wrote last.
- **0.20** was tried, but is no value of `compatible_with`: its `take` loses rows once some are deleted, and it
  writes wrong texts to tables of its own.
- **File version 0.1** stores no nulls but those of texts, in any release: the rows of these tables have no others.
  Releases from 0.29 to 7.1 record another size than these files have. No release looks at it, and Pennon reads
  the files without it: all rows, except of tables with stable row ids that a release up to 0.29 updated or merged
  into. Before Pennon changes a table of such files otherwise than by a delete, it rewrites them here with files of
  version 2.0.
- **Timestamps** with an offset such as `+01:00` are refused by releases up to 10.0, which cannot write them either.
- **Chance.** Indices over vectors begin with random vectors, so cells of releases that fail on some of them may
  change from run to run.
"""

LEGEND = """\
`yes`: all values are right. `no`: it refuses. `wrong`: values are wrong. `part`: a scan is right, and something
else is refused. `ids` and `addresses`: right only with stable row ids, or only without. `-`: the release cannot
do this itself. An empty cell was not tried. Numbers refer to the [notes](#notes).
"""


class Notes:
    """Outcomes by their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def reference(self, outcomes: Iterable[str]) -> str:
        found = sorted({self._numbers.setdefault(text, len(self._numbers) + 1) for text in outcomes})
        return f" ({', '.join(map(str, found))})" if found else ""

    def lines(self) -> Iterator[str]:
        return (f"{number}. {escaped(text)}" for text, number in self._numbers.items())


def escaped(text: str) -> str:
    for character in "\\<>*_|[]`":
        text = text.replace(character, f"\\{character}")
    return text


def word(outcome: str) -> str:
    """The word of a cell."""
    own = outcome.removeprefix("not done: ")
    if outcome == READS:
        return "yes"
    if own != outcome:
        return "-"
    if outcome.startswith(f"{READS};"):
        return "wrong" if "wrong:" in outcome else "part"
    if outcome.startswith(("wrong:", "other type:", "Pennon reads", "damage")):
        return "wrong"
    return outcome if outcome in (CRASHES, HANGS) else "no"


def cell(outcomes: dict[str, str], notes: Notes) -> str:
    """The cell of one case with stable row ids and with addresses."""
    words = {kind: word(outcome) for kind, outcome in outcomes.items()}
    reference = notes.reference(outcome for outcome in outcomes.values() if outcome != READS)
    kinds = set(words.values())
    if len(kinds) == 1:
        return f"{kinds.pop()}{reference}"
    right = [kind for kind, text in words.items() if text == "yes"]
    if right:
        return f"{right[0]}{reference}"
    order = ("wrong", CRASHES, HANGS, "no", "part", "-")
    return f"{min(kinds, key=order.index)}{reference}"


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows]]


def cases(found: list[Found], section: str, version: str) -> list[str]:
    """The cases of all releases in their order; those with fewer do not matter."""
    names: dict[str, None] = {}
    for release in found:
        for kind in ("ids", "addresses"):
            names |= dict.fromkeys(release.sections[section].get(f"{version} {kind}", {}))
    return list(names)


def both(found: Found, section: str, version: str, case: str) -> dict[str, str]:
    groups = {kind: found.sections[section].get(f"{version} {kind}", {}) for kind in ("ids", "addresses")}
    return {kind: outcomes[case] for kind, outcomes in groups.items() if case in outcomes}


def tries(found: Found, section: str, version: str) -> bool:
    """Whether there is more to say of a file version than that it cannot be read."""
    groups = (found.sections[section].get(f"{version} {kind}", {}) for kind in ("ids", "addresses"))
    return any(len(outcomes) > 1 for outcomes in groups)


def section_of(found: list[Found], section: str, version: str, notes: Notes) -> Iterator[str]:
    known = [release for release in found if tries(release, section, version)]
    refused = [release for release in found if not tries(release, section, version)]
    first = FIRST[section]
    for release in refused:
        outcomes = both(release, section, version, first)
        if outcomes:
            yield f"- {release.release}: {cell(outcomes, notes)}"
    if refused:
        yield ""
    if not known:
        return
    head = ["", *(release.release for release in known)]
    rows = []
    for case in cases(known, section, version):
        outcomes = [both(release, section, version, case) for release in known]
        rows.append([case, *(cell(outcome, notes) if outcome else "" for outcome in outcomes)])
    rows += type_rows(known, section, version, notes)
    yield from table(head, rows)
    yield ""


def type_rows(known: list[Found], section: str, version: str, notes: Notes) -> Iterator[list[str]]:
    """A line for each family of types."""
    groups = [release.sections[section].get(f"{version} types", {}) for release in known]
    families = {family(case): None for group in groups for case in group}
    for name in sorted(families):
        yield [
            name,
            *(type_cell({case: out for case, out in g.items() if family(case) == name}, notes) for g in groups),
        ]


def type_cell(outcomes: Outcomes, notes: Notes) -> str:
    if not outcomes:
        return ""
    other = {case: outcome for case, outcome in outcomes.items() if outcome != READS}
    if not other:
        return "yes"
    reference = notes.reference(f"{case}: {outcome}" for case, outcome in other.items())
    words = {word(outcome) for outcome in other.values()}
    if "wrong" in words:
        return f"wrong{reference}"
    return f"{words.pop() if len(other) == len(outcomes) and len(words) == 1 else 'part'}{reference}"


def own_mistakes(found: list[Found]) -> Iterator[str]:
    """Wrong values of releases in tables that they made themselves."""
    mark = ", of its own table"
    for release in found:
        lines: dict[str, list[str]] = {}
        for group, outcomes in release.sections["theirs"].items():
            for case, outcome in outcomes.items():
                if mark in outcome and not outcome.startswith("refuses"):
                    lines.setdefault(outcome[: outcome.index(mark)], []).append(f"{group} {case}")
        for outcome, where in lines.items():
            yield f"- {release.release}: {escaped(outcome)} ({', '.join(where)})"


def settings() -> Iterator[str]:
    head = ["`compatible_with`", "file version", "stable row ids", "versions of rows", "for releases"]
    starts = [reader.since for reader in _readers.READERS]
    ends = [
        *(f"{start} to before {end}" for start, end in itertools.pairwise(starts)),
        f"{starts[-1]} and later",
    ]
    words = {"refused": "no", "off": "no, unless asked for", "on": "yes"}
    yield from table(
        head,
        (
            [
                f'`"pylance {reader.since}"`',
                reader.data_storage_version,
                words[reader.stable_row_ids],
                "also in data files" if reader.lineage_columns else "in the manifest",
                end,
            ]
            for reader, end in zip(_readers.READERS, ends, strict=True)
        ),
    )


def text(found: list[Found]) -> str:
    notes = Notes()
    releases = ", ".join(release.release for release in found)
    introduction = INTRODUCTION.format(
        settings="\n".join(settings()), count=len(found), releases=releases, remarks=REMARKS
    )
    lines = [introduction, LEGEND]
    titles = {
        "reads": "What releases read of Pennon's tables",
        "changes": "What releases change in Pennon's tables",
        "theirs": "What Pennon reads and changes of tables that releases made",
    }
    explanations = {
        "reads": "Tables are scanned, counted, filtered and taken from, and searched by their indices.",
        "changes": "The release changes a table of Pennon with deleted and updated rows, Pennon reads it, "
        "`verify` looks for damage, Pennon deletes, updates and appends, and both read it again.",
        "theirs": "The release makes a table and changes it; then as above.",
    }
    for section, title in titles.items():
        lines += [f"## {title}", "", explanations[section], ""]
        versions = FILE_VERSIONS if section != "theirs" else ("0.1", *FILE_VERSIONS)
        for version in versions:
            lines += [f"### File version {version}", "", *section_of(found, section, version, notes)]
    lines += ["## Wrong values of releases in tables of their own", "", *own_mistakes(found), ""]
    lines += ["## Notes", "", "What errors said first, and values that were wrong.", "", *notes.lines()]
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n")) + "\n"


def write() -> None:
    PAGE.write_text(text(results.load_all()))


def promised(case: str, reader: _readers.Reader) -> bool:
    return not case.startswith(OPTIONAL) or (case == COLUMNS and reader.lineage_columns)


def broken_promises() -> list[str]:
    """What a release does not read, or damages, of tables that are made for it."""
    broken = []
    for release in results.load_all():
        if results.order(release.release) < results.order(_readers.READERS[0].since):
            continue
        reader = _readers.reader_of(f"pylance {release.release}")
        kinds = ["addresses"] if reader.stable_row_ids == "refused" else ["ids", "addresses"]
        for kind in kinds:
            group = f"{reader.data_storage_version} {kind}"
            default = kind == "addresses" or reader.stable_row_ids == "on"
            for case, outcome in release.sections["reads"][group].items():
                wrong = "wrong" in outcome and default and case != "blobs"
                if wrong or (promised(case, reader) and outcome != READS):
                    broken.append(f"{release.release}, reads {group}, {case}: {outcome}")
            for case, outcome in release.sections["changes"].get(group, {}).items():
                if outcome != READS and not outcome.startswith("not done"):
                    broken.append(f"{release.release}, changes {group}, {case}: {outcome}")
        types = release.sections["reads"].get(f"{reader.data_storage_version} types", {})
        broken += [f"{release.release}, type {case}: {text}" for case, text in types.items() if "wrong" in text]
    return broken


def modest_settings() -> list[str]:
    """Readers of which a release reads more than what is written for it."""
    found = []
    for release in results.load_all():
        if results.order(release.release) < results.order(_readers.READERS[0].since):
            continue
        reader = _readers.reader_of(f"pylance {release.release}")
        newer = FILE_VERSIONS[FILE_VERSIONS.index(reader.data_storage_version) + 1 :]
        for version in newer:
            group = release.sections["reads"][f"{version} addresses"]
            if all(outcome == READS for case, outcome in group.items() if promised(case, reader)):
                found.append(f"{release.release} reads file version {version}")
    return found


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write()
    elif PAGE.read_text() != text(results.load_all()):
        sys.exit("docs/readers.md is not the page of tests/neighbours/found: python -m neighbours.page --write")
