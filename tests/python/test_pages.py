"""Pages that list what the product knows are current and complete, and the reference has every public name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pennon
from support import documents

ROOT = documents.DOCS.parent
OPTIONS = (documents.DOCS / "options.md").read_text()
# Names that a module only hands on, of pyarrow or the standard library, and what is documented by its values.
MODULES = [
    "pennon",
    "pennon.arrow",
    "pennon.blob",
    "pennon.dataset",
    "pennon.debug",
    "pennon.errors",
    "pennon.file",
    "pennon.fragment",
    "pennon.indices",
    "pennon.jobs",
    "pennon.optimize",
    "pennon.progress",
    "pennon.pydantic",
    "pennon.sampler",
    "pennon.sql",
    "pennon.stats",
    "pennon.types",
    "pennon.vector",
    "pennon.verification",
    "pyspark_pennon",
]


def test_generated_parts_are_current() -> None:
    assert [str(page) for page in pages.stale()] == []


# Options.


def refusal(table: Path, option: str) -> str:
    try:
        pennon.dataset(table, storage_options={option: "1"})
    except pennon.PennonError as error:
        return str(error)
    return ""


def test_storage_options_on_the_page_are_taken(tmp_path: Path) -> None:
    names = pages.storage_options()
    assert len(names) > 80
    assert sorted(name for name in names if f"`{name}`" not in OPTIONS) == []
    pennon.write_dataset({"a": [1]}, tmp_path / "t")
    assert sorted(name for name in names if "Unknown storage option" in refusal(tmp_path / "t", name)) == []
    assert "Unknown storage option" in refusal(tmp_path / "t", "no_such_option")


def sources(*folders: str, suffix: str) -> str:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob(f"*{suffix}"))]
    assert len(paths) > 20
    return "\n".join(path.read_text() for path in paths)


def test_settings_of_tables_in_the_code_are_on_the_page() -> None:
    rust = sources("rust/table/src", "rust/core/src", suffix=".rs")
    keys = set(re.findall(r'"((?:lance|pennon)\.(?:auto_cleanup|compaction|row_lineage)\.\w+)"', rust))
    config = (ROOT / "rust/table/src/ops/cleanup/auto.rs").read_text()
    keys |= {f"lance.auto_cleanup.{name}" for name in re.findall(r"`(retain_versions|delete_\w+)`", config)}
    options = (ROOT / "rust/table/src/ops/compact/options.rs").read_text()
    keys |= {f"lance.compaction.{name}" for name in re.findall(r'config, "(\w+)"', options)}
    assert len(keys) > 12
    assert sorted(key for key in keys if f"`{key}`" not in OPTIONS) == []


def test_metadata_of_fields_in_the_code_are_on_the_page() -> None:
    rust = sources("rust/datafile/src", "rust/core/src", "rust/table/src", suffix=".rs")
    keys = set(re.findall(r'[`"](lance-(?:encoding|schema):[\w:-]*\w)[`"]', rust))
    assert len(keys) > 10
    assert sorted(key for key in keys if f"`{key}`" not in OPTIONS) == []


def test_variables_and_settings_in_the_code_are_on_the_page() -> None:
    python = sources("python/pennon", "spark-plugin/pyspark_pennon", suffix=".py")
    variables = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', python))
    settings = {name.removesuffix(".") for name in re.findall(r'"(spark\.pennon\.\w+)', python)}
    assert variables >= {"PENNON_LOG", "PENNON_CPU_COUNT"}
    assert settings >= {"spark.pennon.storage", "spark.pennon.progress"}
    # Set by Spark or a shell, or the columns of a terminal.
    ours = {name for name in variables if name.startswith(("PENNON_", "LANCE_"))}
    assert sorted(name for name in ours if f"`{name}`" not in OPTIONS) == []
    assert sorted(name for name in settings if f"`{name}" not in OPTIONS) == []


# The reference.


def exported() -> dict[str, Any]:
    """Public names of the public modules, and what they are."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", ()):
            found[f"{module.__name__}.{name}"] = getattr(module, name)
    return found


def test_the_reference_has_every_public_name() -> None:
    shown = {name: pages.resolved(name) for name in pages.referenced()}
    objects = {id(value) for value in shown.values()}
    missing = []
    for name, value in exported().items():
        is_data = not callable(value) and not hasattr(value, "__origin__")
        if inspect.ismodule(value) or is_data or id(value) in objects or name in shown:
            continue
        missing.append(name)
    assert missing == []


def test_what_the_reference_shows_is_documented() -> None:
    names = pages.documented()
    assert len(names) > 500
    assert sorted(name for name, value in names.items() if not (value.__doc__ or "").strip()) == []


def parameters_of(docstring: str) -> set[str] | None:
    """The names in the section of parameters; `None` if there is no such section."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if section is None:
        return None
    return {
        name.strip(" *\\") for line in re.findall(r"^\S.*", section[1], re.MULTILINE) for name in line.split(",")
    }


def test_sections_of_parameters_name_them_all() -> None:
    """Short functions say in a sentence what they take."""
    wrong: dict[str, tuple[set[str], set[str]]] = {}
    functions = {
        name: value
        for name, value in pages.documented().items()
        if name.startswith("pennon.") and inspect.isfunction(value)
    }
    sections = {name: parameters_of(inspect.getdoc(value) or "") for name, value in functions.items()}
    for name, named in sections.items():
        taken = {one for one in inspect.signature(functions[name]).parameters if one not in ("self", "cls")}
        if named is not None and named - {""} != taken:
            wrong[name] = (taken - named, named - taken)
    assert sum(named is not None for named in sections.values()) > 100
    assert wrong == {}


def test_examples_are_counted() -> None:
    names = pages.documented()
    assert pages.has_example(names["pennon.LanceDataset.take"])
    assert pages.has_example(names["pennon.LanceDataset.uri"])
    assert not pages.has_example(names["pennon.InternalError"])


def test_public_names_have_examples() -> None:
    names = {name: value for name, value in pages.documented().items() if name.startswith("pennon.")}
    missing = sorted(name for name, value in names.items() if not pages.has_example(value))
    assert missing == sorted(f"pennon.{name}" for name in pages.UNSHOWN)


def test_the_share_is_of_what_a_program_can_show() -> None:
    part = pages.share_part()
    assert f"| all | {len(pages.documented()) - len(pages.UNSHOWN)} |" in part
    assert "InternalError" in part
    assert "(99 %)" not in part


def test_pages_are_in_the_navigation() -> None:
    named = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages_there = {str(page.relative_to(documents.DOCS)) for page in documents.DOCS.rglob("*.md")}
    assert pages_there - named == set()


LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")


def test_links_in_the_repository_lead_to_files() -> None:
    """As a reader of the repository follows them; `make docs` checks those of the site, with their anchors."""
    files = [*ROOT.glob("*.md"), *documents.DOCS.rglob("*.md"), ROOT / "spark-plugin/README.md"]
    links = [(file, link) for file in files for link in LINK.findall(documents.without_code(file.read_text()))]
    assert len(links) > 150
    assert [(str(file), link) for file, link in links if not (file.parent / link).exists()] == []


# Functions of SQL.


def test_functions_that_there_are_not_are_not_listed() -> None:
    listed = set(re.findall(r"^\| `(\w+)\(", (documents.DOCS / "sql.md").read_text(), re.MULTILINE))
    assert {"abs", "regexp_like", "array_has", "json_extract"} <= listed
    assert not listed & {"sum", "row_number", "count"}


# Examples of docstrings.


def docstrings() -> Iterator[tuple[str, str]]:
    """Names of functions and classes, and their docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for path in sorted(Path(pennon.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kinds):
                yield f"{path.name}:{getattr(node, 'name', 'module')}", ast.get_docstring(node) or ""


def test_examples_have_tables_of_their_own() -> None:
    """Tables in memory last as long as the process: an example that counts versions must not meet another one's."""
    users: dict[str, set[str]] = {}
    for name, text in docstrings():
        for table in re.findall(r"memory://[\w-]+", text):
            users.setdefault(table, set()).add(name)
    assert len(users) > 100
    # These were there before, write in mode "overwrite" and count no versions.
    shared = {"memory://session", "memory://builder", "memory://files"}
    assert {table: names for table, names in users.items() if len(names) > 1 and table not in shared} == {}
