"""What goes into the wheel of the package besides its modules."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["LICENSE", "NOTICE"])
def test_the_licence_is_that_of_the_project(name: str) -> None:
    assert (ROOT / "spark-plugin" / name).read_bytes() == (ROOT / name).read_bytes()
    assert f'"{name}"' in (ROOT / "spark-plugin" / "pyproject.toml").read_text()
