"""The blocks of docs/pylance-faults.md: each states a fault of the installed pylance, and Pennon does not have it."""

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


def run(code: str, heading: str) -> None:
    exec(compile(code, f"{PAGE.name}: {heading}", "exec"), {"__name__": "fault"})


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
    assert imported <= {"lance", "pyarrow", "random", "datetime", "pathlib"}
    assert isinstance(body[-1], ast.Assert)
    assert max(map(len, FAULTS[heading].splitlines())) <= 116
