"""The Python tours of the READMEs run, and give what their comments say; those of packages stand by themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import documents

ROOT = Path(__file__).parents[2]
OF_PACKAGES = ("python/README.md", "spark-plugin/README.md")
"""What an index of packages shows, without the files of the repository."""


def tour(readme: str) -> str:
    """The first Python block."""
    return next(block for block in documents.blocks(ROOT / readme) if "import pennon" in block)


@pytest.mark.parametrize("readme", ["README.md", "python/README.md"])
def test_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readme: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert documents.run(tour(readme), {}) >= 6


@pytest.mark.parametrize("readme", OF_PACKAGES)
def test_readmes_of_packages_have_no_links_to_files(readme: str) -> None:
    links = re.findall(r"\]\(([^)]*)\)", (ROOT / readme).read_text())
    assert [link for link in links if not link.startswith("https://")] == []


def test_packages_have_these_readmes() -> None:
    for readme in OF_PACKAGES:
        project = ROOT / ("pyproject.toml" if readme.startswith("python/") else "spark-plugin/pyproject.toml")
        (named,) = re.findall(r'^readme = "(.*)"$', project.read_text(), re.MULTILINE)
        assert (project.parent / named).resolve() == ROOT / readme


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
