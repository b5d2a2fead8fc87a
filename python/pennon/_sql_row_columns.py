"""Adding `_rowid` and `_rowaddr` to the result of a query that does not select them.

They are added where pylance adds them: to the list of the outermost SELECT, if each row of the result is one row of
the table. The plan of DataFusion tells whether it is. DataFusion does not show its syntax tree, so the end of the
list is found in the text. The caller plans the new text and compares its columns: a text that is misread here is
executed as it was written, as is one that begins with FROM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"""
    --[^\n]*               | /\*.*?\*/           # comments
    | [eE]'(?:\\.|''|[^'\\])*' | '(?:''|[^'])*' | \$(\w*)\$.*?\$\1\$
    | "(?:""|[^"])*"       | `[^`]*`             # quoted names
    | \w+                  | \S
    """,
    re.DOTALL | re.VERBOSE,
)
_ONE_ROW_EACH = ("TableScan", "Projection", "Filter", "Sort", "Limit", "SubqueryAlias")
"""Nodes of a plan whose rows are rows of their input."""


class _Token(NamedTuple):
    text: str
    end: int

    def is_word(self, word: str) -> bool:
        return self.text.lower() == word

    def names(self, column: str) -> bool:
        return self.text in (f'"{column}"', f"`{column}`") or self.is_word(column)


def selecting(sql: str, names: list[str]) -> tuple[str, list[str]]:
    """The query with those of the columns that it does not select, and their names."""
    items = _selected(sql)
    missing = [name for name in names if items and not any(_selects(item, name) for item in items)]
    end = items[-1][-1].end if items else len(sql)
    return "".join([sql[:end], *(f", {name}" for name in missing), sql[end:]]), missing


def has_row_columns(plan: Any, names: list[str]) -> bool:
    """Whether each row of a logical plan is a row of the table, and nothing else has one of the names."""
    try:
        node = plan.to_variant()
    except Exception:  # DataFusion raises its own for nodes that it has no class for.
        return False
    kind = type(node).__name__
    if kind not in _ONE_ROW_EACH:
        return False
    if kind == "Projection" and any(_shadows(expression, names) for expression in node.projections()):
        return False
    return all(has_row_columns(child, names) for child in plan.inputs())


def _shadows(expression: Any, names: list[str]) -> bool:
    """Whether something other than the column itself gets its name: `id AS _rowid`."""
    if expression.variant_name() != "Alias":
        return False
    alias = expression.to_variant()
    aliased = alias.expr()
    is_itself = aliased.variant_name() == "Column" and aliased.to_variant().name() == alias.alias()
    return alias.alias() in names and not is_itself


def _selected(sql: str) -> list[list[_Token]]:
    """The items of the outermost SELECT, each as its tokens; none if there is no such list."""
    tokens = list(_outer_tokens(sql))
    start = next((at for at, token in enumerate(tokens) if token.is_word("select")), len(tokens))
    items: list[list[_Token]] = [[]]
    for before, token in zip(tokens[start:], tokens[start + 1 :], strict=False):
        # Not that of `a IS DISTINCT FROM b`.
        if token.is_word("from") and not before.is_word("distinct"):
            return [item for item in items if item]
        if token.text == ",":
            items.append([])
        elif not (before.is_word("select") and token.is_word("all")):
            items[-1].append(token)
    return []


def _outer_tokens(sql: str) -> Iterator[_Token]:
    """The tokens that are in no brackets; what is in brackets is the token of the closing one."""
    depth = 0
    for found in _TOKEN.finditer(sql):
        text = found.group()
        if text.startswith(("--", "/*")):
            continue
        depth -= text in ")]}"
        if depth == 0 and text not in "([{":
            yield _Token(text, found.end())
        depth += text in "([{"


def _selects(item: list[_Token], name: str) -> bool:
    """Whether an item is the column or all columns: `name`, `t.name`, `*`, `t.* EXCEPT (a)`."""
    texts = [token.text for token in item]
    if texts[0] == "*" or texts[1:3] == [".", "*"]:
        return True
    return len(item) % 2 == 1 and all(dot == "." for dot in texts[1::2]) and item[-1].names(name)
