"""The table of what pylance and Pennon have in common: each public name and parameter, and why some differ.

The table is `python/pennon/_compatibility/*.json`, one line for each name; Pennon takes the sentences from it that
it raises for names it does not have. Kinds and signatures in it are those of the installed packages: this script
writes them, with the page `docs/compatibility.md` and the figures in `README.md`. Reasons are written by hand.

    python tests/compatibility.py            # exits with 1 if something differs from what is installed
    python tests/compatibility.py --write    # writes what can be written, and prints which reasons are missing

| key of a line | is |
|---|---|
| `is` | `same`, `differs`, `absent` or `ours` |
| `why`, `use` | the reason, and what to use instead of an absent name; `why` may be a key of `reasons.json` |
| `kind`, `takes`, `value` | of the name in pylance, or in Pennon if it is ours |
| `kind here`, `here` | the same in Pennon, where it is not the same |
| `alias` | the other name of the same object in pylance, whose line has the reasons |
| `but` | parameters that are not the same: `differs`, `absent` (refused, or not there) or `ours`, and why |
| `names` | what is in an absent or additional module or class, for the same reason |
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import surface

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "python" / "pennon" / "_compatibility"
PAGE = ROOT / "docs" / "compatibility.md"
README = ROOT / "README.md"
STATUSES = ("same", "differs", "absent", "ours")
MISSING = "?"

Row = dict[str, Any]
Rows = dict[str, Row]
Reasons = dict[str, dict[str, str]]


def load() -> tuple[Rows, Reasons]:
    """The table, and the reasons that several of its lines have."""
    parts = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    reasons = parts.pop("reasons")
    return {name: row for part in parts.values() for name, row in part.items()}, reasons


def text_of(rows: Rows, part: str) -> str:
    lines = [f"{json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows) if part_of(name) == part]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def part_of(name: str) -> str:
    """The file with the line of a name: those of the package, of `dataset`, and of the other modules."""
    module = name.partition(".")[0]
    return "package" if module[0].isupper() or module == name else "dataset" if module == "dataset" else "modules"


def parameters(takes: str | None) -> dict[str, tuple[str, str]]:
    """Parameters by name, with how they are given and their default. `*` and `**` are any of these."""
    function = ast.parse(f"def f({takes or ''}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    kinds = [("positional", positional, defaults), ("named", given.kwonlyargs, given.kw_defaults)]
    found = {
        parameter.arg: (kind, "" if default is None else ast.unparse(default))
        for kind, names, values in kinds
        for parameter, default in zip(names, values, strict=True)
    }
    stars = {"*": given.vararg, "**": given.kwarg}
    return found | {star: (star, "") for star, variable in stars.items() if variable is not None}


def compared(row: Row) -> dict[str, str]:
    """The status of each parameter of a name that both packages have, according to the signatures."""
    if "takes" not in row:
        return {}
    theirs, ours = parameters(row["takes"]), parameters(row.get("here", row["takes"]))
    found = {name: "same" if ours.get(name) == there else "differs" for name, there in theirs.items()}
    absent = {name: "absent" for name in theirs if name not in ours}
    return found | absent | {name: "ours" for name in ours if name not in theirs}


def statuses(row: Row) -> dict[str, str]:
    """The status of each parameter of a name that both packages have, with what is written by hand."""
    return compared(row) | {name: status for name, (status, _) in row.get("but", {}).items()}


def derived(before: Rows, theirs: surface.Names, ours: surface.Names) -> Rows:
    """The table for what is installed, with the reasons of the one before that still have a subject."""
    rows: Rows = {}
    for name in sorted({*theirs, *ours}):
        there, here = theirs.get(name), ours.get(name)
        whole = None if there and here else above(name, rows, "absent" if there else "ours")
        if whole is not None:
            rows[whole]["names"] = f"{rows[whole].get('names', '')} {name[len(whole) + 1 :]}".strip()
        elif there is None or here is None:
            rows[name] = one_sided(before.get(name, {}), there, here)
        else:
            rows[name] = two_sided(before.get(name, {}), there, here)
    return rows


def above(name: str, rows: Rows, status: str) -> str | None:
    """The module or class of a name, if all of it has this status."""
    parts = name.split(".")
    paths = (".".join(parts[:end]) for end in range(1, len(parts)))
    return next((path for path in paths if path in rows and rows[path]["is"] == status), None)


def one_sided(before: Row, there: surface.Described | None, here: surface.Described | None) -> Row:
    """The line of a name that one of the packages has."""
    told = there or here or {}
    row: Row = {"is": "ours" if there is None else "absent"}
    if "alias" not in told:
        row["why"] = before.get("why", MISSING) if before.get("is") == row["is"] else MISSING
        if "use" in before and there is not None:
            row["use"] = before["use"]
    return row | {key: told[key] for key in ("alias", "kind", "takes", "value") if told.get(key) is not None}


def two_sided(before: Row, there: surface.Described, here: surface.Described) -> Row:
    """The line of a name that both packages have."""
    row: Row = {"is": "same", "kind": there["kind"]}
    if "alias" in here:
        return {"is": "same", "alias": there["alias"], "kind": there["kind"]}
    row |= {key: there[key] for key in ("alias", "takes", "value") if there.get(key) is not None}
    if here["kind"] != there["kind"]:
        row["kind here"] = here["kind"]
    if "takes" in row and here.get("takes") != row["takes"]:
        row["here"] = here.get("takes") or ""
    found = compared(row)
    written = before.get("but", {})
    but = {
        name: [status if status != "same" else written[name][0], written.get(name, ["", MISSING])[1]]
        for name, status in found.items()
        if status != "same" or name in written
    }
    if but:
        row["but"] = but
    if before.get("is") == "differs" and before.get("why", MISSING) != MISSING:
        row["why"] = before["why"]
    elif (
        "kind here" in row
        or "alias" in row
        or is_reordered(row)
        or here.get("value") != row.get("value", here.get("value"))
    ):
        row["why"] = MISSING
    if "why" in row or any(status != "ours" for status, _ in but.values()):
        row["is"] = "differs"
    return row


def is_reordered(row: Row) -> bool:
    """Whether parameters that both have and that need no name come in another order."""
    orders = [list(parameters(row.get(key))) for key in ("takes", "here")] if "here" in row else [[], []]
    first, second = ([name for name in order if all(name in other for other in orders)] for order in orders)
    return first != second


def missing(rows: Rows) -> list[str]:
    """The names and parameters whose reasons have to be written."""
    found = [name for name, row in rows.items() if row.get("why") == MISSING]
    parts = [(name, part, told[1]) for name, row in rows.items() for part, told in row.get("but", {}).items()]
    return found + [f"{name}({part})" for name, part, why in parts if why == MISSING]


def count(rows: Rows) -> tuple[Counter[str], Counter[str]]:
    """How many names and how many parameters have each status."""
    names: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for row in rows.values():
        names[row["is"]] += 1 + len(row.get("names", "").split())
        if row["is"] in ("same", "differs"):
            given.update(statuses(row).values())
        elif "alias" not in row:
            given[row["is"]] += len(parameters(row.get("takes")))
    return names, given


def figures(rows: Rows) -> str:
    """The line of the README."""
    names, _ = count(rows)
    theirs = sum(names[status] for status in STATUSES[:3])
    counts = [f"{names[status]:,}" for status in STATUSES]
    return (
        "Of the {:,} public names of `pylance` 14.0.2, members of classes included, {} are the same here,\n"
        "{} differ in a parameter and {} are absent; {} are Pennon's own: [the table](docs/compatibility.md)."
    ).format(theirs, *counts)


FIGURES = re.compile(r"Of the [\d,]+ public names of `pylance`.*?\(docs/compatibility\.md\)+\.", re.DOTALL)


def page(rows: Rows, reasons: Reasons) -> str:
    """What is supported, as Markdown."""
    names, given = count(rows)
    lines = [*INTRODUCTION, "", "| | names | parameters |", "|---|---|---|"]
    lines += [f"| {title} | {names[status]:,} | {given[status]:,} |" for status, title in TITLES.items()]
    lines += ["", "## Different", "", "| name | parameters | are | why |", "|---|---|---|---|"]
    lines += different(rows, reasons)
    lines += ["", "## Absent", *by_reason(rows, reasons, "absent")]
    lines += ["", "## Pennon's own", *by_reason(rows, reasons, "ours")]
    lines += ["", "## The same"]
    places: dict[str, list[str]] = {}
    for name, row in rows.items():
        if row["is"] == "same":
            place, _, last = name.rpartition(".")
            places.setdefault(place, []).append(f"`{last}`")
    for place in sorted(places):
        lines += ["", f"**{f'`{place}`' if place else 'The package'}**: " + ", ".join(places[place])]
    return "\n".join(lines) + "\n"


def different(rows: Rows, reasons: Reasons) -> Iterator[str]:
    """Lines of the names that differ, with the parameters of one reason together."""
    for name, row in rows.items():
        if row["is"] == "differs" and "why" in row:
            yield f"| `{name}` | | different | {sentences(row, reasons)} |"
        alike: dict[tuple[str, str], list[str]] = {}
        for parameter, (status, why) in row.get("but", {}).items():
            alike.setdefault((status, why), []).append(f"`{parameter}`")
        for (status, why), parts in alike.items():
            yield f"| `{name}` | {', '.join(parts)} | {TITLES[status]} | {sentences({'why': why}, reasons)} |"


def by_reason(rows: Rows, reasons: Reasons, status: str) -> Iterator[str]:
    """Paragraphs of the names that only one package has, one for each reason."""
    groups: dict[str, list[str]] = {}
    for name, row in rows.items():
        original = original_of(row, rows)
        if row["is"] == status and original["is"] != status:
            groups.setdefault("Under another name only.", []).append(f"`{name}` (`{row['alias']}`)")
        elif row["is"] == status:
            inside = ", ".join(f"`{part}`" for part in row.get("names", "").split())
            shown = f"`{name}`" + (f" with {inside}" if inside else "")
            groups.setdefault(sentences(original, reasons), []).append(shown)
    for why in sorted(groups):
        yield from ("", f"**{why}** " + ", ".join(groups[why]))


def original_of(row: Row, rows: Rows) -> Row:
    """The line with the reasons of a name, which may be that of the module of its other name."""
    path = row.get("alias", "")
    while path and path not in rows:
        path = path.rpartition(".")[0]
    return rows.get(path, row)


def sentences(row: Row, reasons: Reasons) -> str:
    """Why a name is not the same, and what to use instead."""
    reason = reasons.get(row["why"], {"why": row["why"]})
    why, use = reason["why"], row.get("use", reason.get("use"))
    first = why if why.startswith("pylance") else why[0].upper() + why[1:]
    return f"{first}." + (f" Use {use}." if use else "")


TITLES = {"same": "the same", "differs": "different", "absent": "absent", "ours": "Pennon's own"}
INTRODUCTION = [
    "# Compatibility with pylance 14.0.2",
    "",
    "Programs move to Pennon by changing an import: `import pennon as lance` is enough for names that are alike.",
    "This page lists every public name and parameter of the installed pylance, members of classes and what they",
    "inherit included. `python tests/compatibility.py --write` makes it; a test compares it with both packages.",
    "",
    "A name is different if one of its parameters is not the same; parameters that only Pennon has do not count.",
    "An absent parameter is refused, with an `UnsupportedError` if it is in the signature; one without effect",
    "warns once, with a `NoEffectWarning`. Using an absent name raises `AbsentNameError`, importing it",
    "`AbsentImportError`; both say what is said here.",
    "",
    "Which releases of pylance read Pennon's tables, and which of theirs Pennon reads: [readers.md](readers.md).",
]


def stale() -> dict[Path, str]:
    """The files that are not what they should be, with what they should be."""
    before, reasons = load()
    found = surface.surfaces()
    rows = derived(before, found[surface.THEIRS], found[surface.OURS])
    wanted = {FOLDER / f"{part}.json": text_of(rows, part) for part in ("package", "dataset", "modules")}
    wanted[PAGE] = page(rows, reasons)
    wanted[README] = FIGURES.sub(lambda _: figures(rows), README.read_text())
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}


def main() -> int:
    files = stale()
    for path, text in files.items():
        print(f"{path.relative_to(ROOT)} differs from what is installed: run tests/compatibility.py --write")
        if "--write" in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    without = missing(load()[0])
    for name in without:
        print(f"{name}: its reason is missing in python/pennon/_compatibility/{part_of(name)}.json")
    return bool(without) or (bool(files) and "--write" not in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
