"""The Python of the guides and other pages runs, in order and in an empty folder, and gives what its comments say.

Pages whose Python needs Spark run in `tests/spark/test_guides.py`; here it is only compiled.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon import cli
from pennon.indices import IndicesBuilder
from support import documents
from support.command import pennon as command
from support.object_stores import BUCKET, MANIFESTS, running_cloud

GUIDES = sorted((documents.DOCS / "guides").glob("*.md"))
OF_SPARK = ("spark-pipelines", "streams")
OTHERS = [
    documents.DOCS / f"{name}.md"
    for name in ("faq", "how-it-works", "indices", "operators", "options", "readers", "sql", "types", "vectors")
]
HERE = [page for page in GUIDES if page.stem not in OF_SPARK] + OTHERS


def flights() -> dict[str, Any]:
    """The table of the page about indices, in four fragments."""
    hours = pa.array(range(4000), pa.timestamp("s"))
    data = {"id": range(4000), "tailnum": ["N14228", "N3ALAA"] * 2000, "carrier": ["UA", "AA", "B6", "DL"] * 1000}
    pennon.write_dataset({**data, "time_hour": hours}, "flights.lance", max_rows_per_file=1000)
    return {}


def images() -> dict[str, Any]:
    """The table of the page about vectors, a query, and what processes share that build an index in parts."""
    vectors = np.random.default_rng(7).normal(size=(2048, 96)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 96)
    data = pa.table({"id": range(2048), "label": ["cat", "dog"] * 1024, "embedding": column})
    table = pennon.write_dataset(data, "images.lance", max_rows_per_file=1024)
    builder = IndicesBuilder(table, "embedding")
    centroids = builder.train_ivf(16, sample_rate=64)
    codebook = builder.train_pq(centroids, 48)
    return {
        "query": vectors[0],
        "centroids": centroids.centroids,
        "codebook": codebook.codebook,
        "ids": [fragment.fragment_id for fragment in table.get_fragments()],
    }


PREPARED = {"indices": flights, "vectors": images}


@pytest.fixture
def names(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What the Python of a page has beforehand, in the folder where it runs."""
    monkeypatch.chdir(tmp_path)
    page = request.node.callspec.params["page"].stem
    if page != "object-stores":
        yield PREPARED[page]() if page in PREPARED else {}
        return
    with running_cloud() as cloud:
        yield {"endpoint": cloud.endpoint, "bucket": BUCKET, "manifests": MANIFESTS}


def needs_spark(block: str) -> bool:
    """Whether a block of a page about other things is about Spark, too."""
    return "LanceTable" in block


@pytest.mark.parametrize("page", HERE, ids=lambda page: page.stem)
def test_guides_run(page: Path, names: dict[str, Any]) -> None:
    here = [block for block in documents.blocks(page) if not needs_spark(block)]
    assert len(here) >= len(documents.blocks(page)) - 1
    assert sum(documents.run(block, names) for block in here) >= (5 if page in GUIDES else 1)


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
