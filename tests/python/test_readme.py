"""The Python tour of the README runs, and gives what its comments say."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import documents

README = Path(__file__).parents[2] / "README.md"


def tour() -> str:
    """The first Python block."""
    return next(block for block in documents.blocks(README) if "import pennon" in block)


def test_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert documents.run(tour(), {}) >= 6


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("f()  # 3", "3"),
        ("f()  # {'a': 1}: of all rows", "{'a': 1}"),
        ("f()  # ['a', 'b']: first: second", "['a', 'b']"),
        ("f()  # a remark", None),
        ("f()", None),
    ],
)
def test_promises_are_found(line: str, value: str | None) -> None:
    assert documents.promised(line) == value


def test_decorators_are_run() -> None:
    assert (
        documents.run("import functools\n@functools.cache\ndef f():\n    return []\nf() is f()  # True\n", {}) == 1
    )


def test_a_promise_that_is_not_kept_is_an_error() -> None:
    assert documents.run("a = 1\na + 1  # 2\n", {}) == 1
    with pytest.raises(AssertionError, match="gives 2"):
        documents.run("a = 1\na + 1  # 3\n", {})
