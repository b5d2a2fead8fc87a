"""The guides about Spark run, and give what their comments say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import documents


@pytest.mark.parametrize("name", ["spark-pipelines", "streams"])
def test_guides_run(spark: SparkSession, tmp_path: Path, name: str) -> None:
    page = documents.DOCS / "guides" / f"{name}.md"
    assert documents.run_page(page, {"spark": spark, "folder": str(tmp_path)}) >= 5
