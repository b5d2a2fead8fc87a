"""The Python tour of the README runs, and gives what its comments say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def tour() -> str:
    """The first Python block; those of Spark need a session."""
    blocks = BLOCK.findall(README.read_text())
    return next(block for block in blocks if "import pennon" in block)


def promised(line: str) -> str | None:
    """The value that a comment promises for the expression before it; text may follow after a colon."""
    parts = line.partition("  # ")[2].split(": ")
    for end in range(len(parts), 0, -1):
        value = ": ".join(parts[:end])
        try:
            ast.literal_eval(value)
        except (SyntaxError, ValueError):
            continue
        return value
    return None


def test_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = tour()
    lines = code.splitlines()
    names: dict[str, object] = {}
    checked = 0
    for node in ast.parse(code).body:
        value = promised(lines[node.end_lineno - 1]) if isinstance(node, ast.Expr) else None
        part = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if value is None:
            exec(part, names)
        else:
            assert eval(part, names) == ast.literal_eval(value), part
            checked += 1
    assert checked >= 6
