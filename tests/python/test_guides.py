"""The Python of the guides and other pages runs, in order and in an empty folder, and gives what its comments say.

Pages whose Python needs Spark run in `tests/spark/test_guides.py`; here it is only compiled.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pennon import cli
from support import documents
from support.command import pennon as command
from support.object_stores import BUCKET, MANIFESTS, running_cloud

GUIDES = sorted((documents.DOCS / "guides").glob("*.md"))
OF_SPARK = ("spark-pipelines", "streams")
OTHERS = [documents.DOCS / f"{name}.md" for name in ("faq", "how-it-works", "operators", "options", "sql", "types")]
HERE = [page for page in GUIDES if page.stem not in OF_SPARK] + OTHERS


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What the Python of a page has beforehand."""
    if request.node.callspec.params["page"].stem != "object-stores":
        yield {}
        return
    with running_cloud() as cloud:
        yield {"endpoint": cloud.endpoint, "bucket": BUCKET, "manifests": MANIFESTS}


@pytest.mark.parametrize("page", HERE, ids=lambda page: page.stem)
def test_guides_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Path, names: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    assert documents.run_page(page, names) >= (5 if page in GUIDES else 1)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_are_short_and_compile(page: Path) -> None:
    text = page.read_text()
    assert 40 <= len(text.splitlines()) <= 120
    assert text.startswith("# ")
    for block in documents.blocks(page):
        compile(block, page.name, "exec")


def test_python_of_all_pages_compiles() -> None:
    pages = [*documents.DOCS.rglob("*.md"), *documents.DOCS.parent.glob("*.md")]
    compiled = [compile(block, page.name, "exec") for page in pages for block in documents.blocks(page)]
    assert len(compiled) > 100


COMMAND = re.compile(r"`pennon ([a-z]+)([^`]*)`")


def test_commands_that_pages_name_exist() -> None:
    found = [(page.name, *call) for page in GUIDES + OTHERS for call in COMMAND.findall(page.read_text())]
    assert len(found) > 10
    for page, name, arguments in found:
        assert name in cli._HELP, (page, name)
        words = shlex.split(arguments)
        shown = command(name, *words[: name == "index"], "--help")
        assert shown.status == 0, (page, name, arguments)
        for option in (word for word in words if word.startswith("-")):
            assert option in shown.out, (page, name, option)
