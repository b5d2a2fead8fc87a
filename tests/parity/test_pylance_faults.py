"""The blocks of docs/pylance-faults.md: each states a fault of the installed pylance that Pennon does not have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lance
import pennon
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "pylance-faults.md"
SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMPORTED = re.compile(r"^(import|from) lance\b", re.MULTILINE)
OPENED = re.compile(r"\blance\.dataset\(")


def faults() -> dict[str, str]:
    """The block of each heading."""
    found = {}
    for heading, body in SECTION.findall(PAGE.read_text()):
        blocks = BLOCK.findall(body)
        assert len(blocks) == 1, f"{heading}: {len(blocks)} blocks"
        assert heading not in found, heading
        found[heading] = blocks[0]
    return found


FAULTS = faults()
# Pennon opens a table that pylance has made: it does not write such tables.
MADE_BY_PYLANCE = {
    "A column behind a struct without members is read as null",
    "Filters of data files of version 0.1 do not find what is read",
    "A take of several vectors of booleans from a file of version 0.1 is a panic",
    "An index of JSON documents answers for another path than the function",
}
# Pennon raises an error that is not an answer.
REFUSED = {
    "A file whose writing failed looks complete",
    "A column of text is not made JSON",
    "A commit is lost where a cleanup made the name of its version free again",
    "A dataset of a table that was dropped damages the one in its place",
    "A struct without members that is null is written as if it were not",
    "An append loses the values of a column that got another type meanwhile",
    "An index is dropped while a compaction writes it again, and stays",
    "Null lists of structs without members are written, and cannot be read",
    "Segments that were built on another branch are committed, and break its filters",
    "The metadata of a field is lost by a rename that was begun before",
}
# Pennon does the same, as the page says.
SAME = {
    "Unknown parameters of an index",
    "`delta` does not have the rows that a restore brought back",
    "`delta` finds nothing in a table without stable row ids",
}
# Pennon has no such search; and reads compare the checksums of values if they are asked to.
NOT_WITH_PENNON = {
    "A full-text search with a limit finds fewer rows than there are, after a delete and a compaction",
    "A flipped bit in a data file is read as data",
}


def run(code: str, heading: str, names: dict[str, object] | None = None) -> None:
    exec(compile(code, f"{PAGE.name}: {heading}", "exec"), {} if names is None else names)


def check(code: str, heading: str) -> None:
    """Fails if the fault is not there, in words that say what to do."""
    try:
        run(code, heading)
    except AssertionError:
        pytest.fail(f"pylance {lance.__version__}: mended: remove it from the page: {heading}", pytrace=False)


@pytest.mark.parametrize("heading", FAULTS)
def test_pylance_has_the_fault(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(FAULTS[heading], heading)


def test_a_mended_fault_is_to_be_removed() -> None:
    with pytest.raises(pytest.fail.Exception, match="mended: remove it from the page: three is four"):
        check("assert 3 == 4", "three is four")
    with pytest.raises(ZeroDivisionError):
        check("1 // 0", "a block that fails elsewhere")


@pytest.mark.parametrize("heading", FAULTS)
def test_blocks_stand_alone(heading: str) -> None:
    """They need pylance and pyarrow only, and what they end with is the statement."""
    body = ast.parse(FAULTS[heading]).body
    imported = {
        name.split(".")[0]
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)])
    }
    assert imported <= {"lance", "pyarrow", "random", "contextlib", "datetime", "pathlib", "threading", "time"}
    assert isinstance(body[-1], ast.Assert)
    assert max(map(len, FAULTS[heading].splitlines())) <= 116


@pytest.mark.parametrize("heading", sorted(FAULTS.keys() - NOT_WITH_PENNON))
def test_what_pennon_does(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program does not do what the page says, and fails only where Pennon refuses something."""
    monkeypatch.chdir(tmp_path)
    code = FAULTS[heading]
    if heading in MADE_BY_PYLANCE:
        code = "import pennon\n" + OPENED.sub("pennon.dataset(", code)
    else:
        code = IMPORTED.sub(lambda found: "import pennon as lance" if found[1] == "import" else "from pennon", code)
    names: dict[str, object] = {}
    if heading in SAME:
        run(code, heading, names)
        return
    with pytest.raises(pennon.PennonError if heading in REFUSED else AssertionError):
        run(code, heading, names)
    assert names.get("error") is None  # Not another error than that of pylance.


def test_headings_are_those_of_the_page() -> None:
    assert FAULTS.keys() >= MADE_BY_PYLANCE | REFUSED | SAME | NOT_WITH_PENNON
