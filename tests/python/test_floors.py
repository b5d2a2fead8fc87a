"""The check of floors in the Python package: it finds each kind of fault, and the package has none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import floors
import pytest
import scan_signatures

FLOORS = {"values": 0, "dataset": 1, "__init__": 2}
CLEAN = {
    "__init__.py": "from pennon.dataset import Table\n",
    "values.py": "import os\n",
    "dataset/__init__.py": "from pennon import values\nfrom pennon.dataset import rows\n",
    "dataset/rows.py": '"""\n>>> import pennon\n"""\nfrom ..values import Value\n',
}


def faults(folder: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = folder / "pennon" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return floors.faults(floors.python_arrows(folder / "pennon"), FLOORS, "pennon", ".")


def test_a_clean_package(tmp_path: Path) -> None:
    assert faults(tmp_path, CLEAN) == []
    graph = floors.python_arrows(tmp_path / "pennon")
    assert graph == {
        "__init__": {"dataset"},
        "values": set(),
        "dataset": {"values"},
        "dataset.rows": {"values"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "import pennon.dataset.rows",
        "from pennon.dataset import rows",
        "from .dataset import rows",
        "from pennon.dataset.rows import take",
        "def f():\n    from pennon.dataset import rows",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pennon.dataset import rows",
    ],
)
def test_an_arrow_that_climbs(tmp_path: Path, text: str) -> None:
    found = faults(tmp_path, {**CLEAN, "values.py": text})
    assert found[0] == "pennon: values uses dataset.rows, which is a floor above"
    # The file above uses this one.
    assert found[1:] == ["pennon: circle of 2: dataset.rows, values"]


def test_a_circle_on_one_floor(tmp_path: Path) -> None:
    circle = {"dataset/rows.py": "from pennon.dataset import scans", "dataset/scans.py": "from . import rows"}
    assert faults(tmp_path, {**CLEAN, **circle}) == ["pennon: circle of 2: dataset.rows, dataset.scans"]


def test_a_file_without_a_floor(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, {**CLEAN, "utils.py": ""})
    assert found.startswith("pennon/utils: not on a floor")


def test_a_stub_counts(tmp_path: Path) -> None:
    stub = {"values.pyi": "from pennon.dataset.rows import take"}
    assert "pennon: values uses dataset.rows, which is a floor above" in faults(tmp_path, {**CLEAN, **stub})


@pytest.mark.parametrize(
    "text", ["from pennon._text import counted", "import pennon._text", "from pennon import _text"]
)
def test_private_names_in_another_package(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.py").write_text(f"import pennon\nfrom pennon.errors import PennonError\n{text}\n")
    (found,) = floors.private_imports(tmp_path)
    assert found.startswith(f"{tmp_path.name}: table imports pennon._text")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self.delete()", {("update", "delete")}),
        ("newest\n            .delete()", {("update", "delete")}),
        ("crate::ops::delete::rows()", {("update", "delete")}),
        ("", set()),
    ],
)
def test_verbs_that_use_others(tmp_path: Path, body: str, found: set[tuple[str, str]]) -> None:
    source = tmp_path / "table" / "src"
    (source / "ops").mkdir(parents=True)
    for verb, method, text in (("delete", "delete", ""), ("update", "update_rows", body)):
        text = f"impl Dataset {{\n    fn {method}(&self) {{\n        {text}\n    }}\n}}\n"
        (source / "ops" / f"{verb}.rs").write_text(text)
    assert floors.verb_arrows(source, floors.rust_arrows(source)) == found


def test_the_compiled_module_comes_before_its_stubs() -> None:
    found = importlib.util.find_spec("pennon._native")
    assert found is not None
    assert Path(str(found.origin)).suffix in (".so", ".pyd")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pennon._native._scan")


def test_signatures_of_scans() -> None:
    owner, methods = scan_signatures.METHODS["fragment.py"]
    text = (scan_signatures.PACKAGE / "fragment.py").read_text()
    assert scan_signatures.rewritten(text, owner, methods) == text
    other = text.replace("io_buffer_size: int | None = None,", "io_buffer_size: str | None = None,", 1)
    assert other != text
    assert scan_signatures.rewritten(other, owner, methods) == text


def test_tables_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "RUST", tmp_path / "rust")
    source = tmp_path / "rust" / "py" / "src"
    source.mkdir(parents=True)
    lines = ("//! | file | what |", "//! | `scan.rs`, `gone.rs` | `other.rs` |", "//! `text.rs`")
    source.joinpath("lib.rs").write_text("\n".join(lines))
    for name in ("scan", "other", "new"):
        source.joinpath(f"{name}.rs").touch()
    gone = "rust/py/src/lib.rs: its table names gone.rs, which is not there"
    assert floors.stale_tables(source) == [gone]
    monkeypatch.setattr(floors, "BINDING", source)
    assert floors.stale_tables(source) == [gone, "rust/py/src/lib.rs: its table lacks new.rs"]
