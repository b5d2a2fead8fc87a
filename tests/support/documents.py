"""Python in documents: blocks that run one after the other, and values that their comments promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def without_code(text: str) -> str:
    """The text of a page without its blocks of code."""
    return FENCE.sub("", text)


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return BLOCK.findall(page.read_text())


def promised(line: str) -> str | None:
    """The value that a comment promises for the expression before it; text may follow after a colon."""
    parts = line.rpartition("  # ")[2].split(": ")
    if "  # " not in line:
        return None
    for end in range(len(parts), 0, -1):
        value = ": ".join(parts[:end])
        try:
            ast.literal_eval(value)
        except (SyntaxError, ValueError):
            continue
        return value
    return None


def run(code: str, names: dict[str, Any]) -> int:
    """Runs a block; the number of promises that were kept. An expression that gives another value is an error."""
    lines = code.splitlines()
    checked = 0
    for node in ast.parse(code).body:
        # A decorator is above the line of its function.
        start = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", ()))])
        part = "\n".join(lines[start - 1 : node.end_lineno])
        value = promised(lines[node.end_lineno - 1]) if isinstance(node, ast.Expr) and node.end_lineno else None
        if value is None:
            exec(compile(part, "<document>", "exec", dont_inherit=True), names)
        else:
            found = eval(part, names)
            assert found == ast.literal_eval(value), f"{part}\ngives {found!r}"
            checked += 1
    return checked


def run_page(page: Path, names: dict[str, Any]) -> int:
    """Runs the blocks of a page in order, with names in common."""
    return sum(run(block, names) for block in blocks(page))
