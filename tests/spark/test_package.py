"""What goes into the wheel of the package besides its modules."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pennon
import pyspark_pennon
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["LICENSE", "NOTICE"])
def test_the_licence_is_that_of_the_project(name: str) -> None:
    assert (ROOT / "spark-plugin" / name).read_bytes() == (ROOT / name).read_bytes()
    assert f'"{name}"' in (ROOT / "spark-plugin" / "pyproject.toml").read_text()


def test_both_wheels_have_one_version() -> None:
    assert pyspark_pennon.__version__ == pennon.__version__
    assert importlib.metadata.version("pyspark-pennon") == pyspark_pennon.__version__
    assert f"pennon=={pennon.__version__}" in (importlib.metadata.requires("pyspark-pennon") or [])
