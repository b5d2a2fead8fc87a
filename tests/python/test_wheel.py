"""What is in the wheel besides code, and what is said of one that lacks something."""

from __future__ import annotations

import importlib.metadata
import json
import re
import runpy
import zipfile
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


NATIVE = ("pennon/_native.abi3.so", "pennon/py.typed", "pennon/_native/__init__.pyi")
INFO = "pyspark_pennon-1.2.3.dist-info"
PLUGIN = ("pyspark_pennon/__init__.py", "pyspark_pennon/py.typed", f"{INFO}/licenses/LICENSE")


@pytest.mark.parametrize(
    ("name", "files", "requirement", "faults"),
    [
        ("pennon-1.2.3-cp310-abi3-manylinux_2_28_x86_64.whl", NATIVE, "pyarrow>=16", []),
        (
            "pennon-1.2.3-cp310-abi3-linux_x86_64.whl",
            NATIVE[:2],
            "",
            ["has no manylinux tag", f"lacks {NATIVE[2]}"],
        ),
        ("pyspark_pennon-1.2.3-py3-none-any.whl", PLUGIN, "pennon==1.2.3", []),
        (
            "pyspark_pennon-1.2.3-cp310-cp310-linux_x86_64.whl",
            (*PLUGIN[1:], "build/lib/old.py"),
            "pennon==1.2.2",
            [
                "is not for all platforms (py3-none-any)",
                "does not ask for pennon==1.2.3",
                f"lacks {PLUGIN[0]}",
                "has build",
            ],
        ),
    ],
)
def test_wheels_to_publish(
    tmp_path: Path, name: str, files: tuple[str, ...], requirement: str, faults: list[str]
) -> None:
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for file in files:
            archive.writestr(file, "")
        info = INFO if name.startswith("pyspark") else "pennon-1.2.3.dist-info"
        archive.writestr(f"{info}/METADATA", f"Name: x\nRequires-Dist: {requirement}\n")
    found = runpy.run_path(str(ROOT / "requirements" / "check_wheels.py"))["faults"](tmp_path / name)
    assert found == faults
