"""What is in the wheel besides code."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def contents() -> dict[str, str]:
    """The text files of `.dist-info`, by their names."""
    found = importlib.metadata.files("pennon") or []
    if not any(path.name.startswith("_native") and path.suffix == ".so" for path in found):
        pytest.skip("the package is installed as it is in python/")
    wanted = [path for path in found if {"licenses", "sboms"} & set(path.parts)]
    return {path.name: path.read_text(encoding="utf-8") for path in wanted}


def test_licences(contents: dict[str, str]) -> None:
    for name in ("LICENSE", "NOTICE", "THIRD_PARTY_LICENSES"):
        assert contents[name] == (ROOT / name).read_text(encoding="utf-8")
    listed = re.findall(r"^(\S+) (\d\S+): ", contents["THIRD_PARTY_LICENSES"], re.MULTILINE)
    assert {"arrow-array", "object_store", "zstd-sys"} <= {name for name, _ in listed}
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r'name = "(.+)"\nversion = "(.+)"\n', lock))
    assert set(listed) <= locked, "run python requirements/third_party.py"


def test_bill_of_materials(contents: dict[str, str]) -> None:
    text = contents["pennon-py.cyclonedx.json"]
    materials = json.loads(text)
    assert materials["bomFormat"] == "CycloneDX"
    assert {"arrow-array", "object_store", "pennon-core"} <= {part["name"] for part in materials["components"]}
    assert str(ROOT) not in text
    assert "file:///rust/core#" in text
