"""The files of .github are valid; the targets of make and files they name exist, actions have major versions."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
FILES = sorted(ROOT.glob(".github/**/*.yml"))
WORKFLOWS = [path for path in FILES if path.parent.name == "workflows"]
BY_NAME = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def values(found: Any, key: str) -> Iterator[str]:
    """The texts that have a key, at any depth."""
    if isinstance(found, dict):
        yield from (value for name, value in found.items() if name == key and isinstance(value, str))
        for value in found.values():
            yield from values(value, key)
    elif isinstance(found, list):
        for value in found:
            yield from values(value, key)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_yaml(path: Path) -> None:
    assert isinstance(read(path), dict)


def test_dependabot_looks_where_something_is() -> None:
    files = {"cargo": "Cargo.toml", "pip": "constraints.txt", "github-actions": ".github/workflows/test.yml"}
    updates = read(ROOT / ".github" / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == set(files)
    for update in updates:
        for folder in update.get("directories", [update.get("directory")]):
            assert (ROOT / folder[1:] / files[update["package-ecosystem"]]).is_file(), folder
            assert all((ROOT / folder[1:] / name).is_file() for name in update.get("exclude-paths", ()))


@BY_NAME
def test_actions_have_major_versions(path: Path) -> None:
    for action in values(read(path), "uses"):
        if action.startswith("./"):
            assert (ROOT / action).is_file()
        else:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@(v\d+|release/v\d+)", action), action


@BY_NAME
def test_commands_name_what_there_is(path: Path) -> None:
    targets = set(re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(values(read(path), "run"))
    for command in re.findall(r"^\s*make ([a-z]\S*)", text, re.MULTILINE):
        assert command in targets
    for name in re.findall(r"(?<![\w/-])(?:requirements|tests|\.ci)/[\w./-]+", text):
        assert (ROOT / name.rstrip(".")).exists() or name == "requirements/", name
    for name in re.findall(r"\btest_\w+\.py", text):
        assert (ROOT / "tests" / "python" / name).exists()
    if path.stem == "test":
        assert set(targets_at_night()) <= targets
        releases = read(path)["jobs"]["dependencies"]["strategy"]["matrix"]["releases"]
        assert all((ROOT / "requirements" / f"{name}.txt").exists() for name in releases)


def imported(path: Path) -> set[str]:
    """The packages that a file imports where it begins, and those of the files of `support` that it names."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            found |= {package} if package != "support" else imported(SUPPORT / f"{rest.split('.')[0]}.py")
    return found


def test_what_runs_with_few_packages_imports_no_others() -> None:
    steps = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["dependencies"]
    named = set(re.findall(r"\btest_\w+\.py(?!::)", "\n".join(values(steps, "run"))))
    assert {"test_arguments.py", "test_scan.py"} <= named
    files = [
        ROOT / "tests" / "conftest.py",
        *(ROOT / "tests" / "python" / name for name in {"conftest.py", *named}),
    ]
    for release in ("lowest", "newest"):
        listed = (ROOT / "requirements" / f"{release}.txt").read_text()
        there = {*sys.stdlib_module_names, "pennon", *re.findall(r"^[a-z]\w*", listed, re.MULTILINE)}
        assert {path.name: others for path in files if (others := imported(path) - there)} == {}


def targets_at_night() -> list[str]:
    """The targets of make that jobs of the night run."""
    jobs = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]
    at_night = [job for job in jobs.values() if "schedule" in job.get("if", "")]
    text = "\n".join("\n".join(values(job, "run")) for job in at_night)
    drawn = [job["strategy"]["matrix"]["target"] for job in at_night if "strategy" in job]
    return [target for list_ in drawn for target in list_] + re.findall(r"^\s*make ([a-z]\S*)", text, re.MULTILINE)


def test_the_night_runs_all_of_make_nightly() -> None:
    text = (ROOT / "Makefile").read_text()
    parts = re.search(r"^NIGHTLY := (.+)$", text, re.MULTILINE)
    needs = re.search(r"^nightly: \$\(NIGHTLY\) (.+)$", text, re.MULTILINE)
    assert parts is not None
    assert needs is not None
    wanted = [*parts[1].split(), *needs[1].split()]
    assert {"nightly-python", "fuzz", "lanes"} <= set(wanted)
    assert set(targets_at_night()) == {*wanted, "miri", "soak", "audit"}


def test_commands_for_people_are_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: ([\w-]+)$", makefile, re.MULTILINE))
    wanted = {name for name in targets if not re.match(r"(help|prebuilt|toolchain)$|(test|nightly)-", name)}
    assert {"test", "nightly", "figures-spark"} <= wanted
    assert set(re.findall(r'@echo "make (\S+)  ?', makefile.partition("help:\n")[2].partition("\n\n")[0])) == wanted
    page = (ROOT / "docs" / "development.md").read_text()
    assert set(re.findall(r"^\| `make (\S+)` \|", page, re.MULTILINE)) == wanted


def test_lists_of_packages_are_constrained_or_named() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text().partition("## Pinned packages")[2]
    for path in [*ROOT.glob("requirements/**/*.txt"), *ROOT.glob("benches/*/requirements.txt")]:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if not re.search(r"^-c .*constraints\.txt$", text, re.MULTILINE):
            assert f"`{name}`" in page or f"`{path.parent.relative_to(ROOT).as_posix()}`" in page, name


def test_the_site_is_looked_at_before_it_is_published() -> None:
    job = read(ROOT / ".github" / "workflows" / "docs.yml")["jobs"]["build"]
    assert "make docs-browser" in list(values(job, "run"))


@BY_NAME
def test_jobs_end(path: Path) -> None:
    """Each before the six hours that a machine is there for."""
    jobs = read(path)["jobs"]
    limits = {name: job.get("timeout-minutes", 360) for name, job in jobs.items() if "uses" not in job}
    assert {name for name, limit in limits.items() if limit >= 360} == set()


def test_wheels_are_those_of_make_wheels() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "wheels.yml")["jobs"]
    folders = {name: list(values(job["steps"], "path")) for name, job in jobs.items()}
    assert folders["build"] == [".build/wheels/${{ matrix.target }}/*.whl"]
    assert folders["spark-plugin"] == [".build/wheels/pyspark-pennon/*.whl"]
    assert re.search(r"^wheels: .* wheel-spark$", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_wheels_are_built_when_what_builds_them_changes() -> None:
    workflow = read(ROOT / ".github" / "workflows" / "wheels.yml")
    # YAML takes the key `on` for a truth value.
    watched = set(workflow[True]["pull_request"]["paths"])
    rules = re.split(r"\n\n+", (ROOT / "Makefile").read_text())
    begins = ("wheels:", "wheel-spark:", ".build/wheels/%/.built:", "$(VENV)/.maturin:", "$(VENV)/.zig:")
    texts = [rule for rule in rules if any(line.startswith(begins) for line in rule.splitlines())]
    assert len(texts) == len(begins)
    needed = set(re.findall(r"\brequirements/[\w.]+", "\n".join([*texts, *values(workflow["jobs"], "run")])))
    assert "requirements/try_wheel.py" in needed
    assert needed | {"pyproject.toml", "spark-plugin/pyproject.toml", "Cargo.toml"} <= watched
    assert [name for name in watched if not (ROOT / name).is_file()] == []


def test_a_release_has_one_version(tmp_path: Path) -> None:
    """The check of a tag passes, and fails where one of the files names another version."""
    (step,) = values(read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["version"], "run")
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    plugin = "spark-plugin/pyspark_pennon/__init__.py"
    texts = {name: (ROOT / name).read_text() for name in ("Cargo.toml", plugin, "spark-plugin/pyproject.toml")}
    texts["CHANGELOG.md"] = f"## {version}, 2026-01-01\n"

    def passes(texts: dict[str, str]) -> bool:
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        environment = {**os.environ, "GITHUB_REF_NAME": f"v{version}"}
        return subprocess.run(["bash", "-e", "-c", step], cwd=tmp_path, env=environment).returncode == 0

    assert passes(texts)
    for name, text in texts.items():
        assert version in text
        assert not passes({**texts, name: text.replace(version, "9.8.7")}), name


@BY_NAME
def test_permissions_are_few(path: Path) -> None:
    """A workflow may read; a job that may do more says so itself."""
    assert read(path)["permissions"] == {"contents": "read"}


def test_jobs_that_run_all_of_the_tests_have_both_packages() -> None:
    """Some of `tests/python` import the package for PySpark, which `.ci/run` installs, too."""
    jobs = {f"{path.stem}: {name}": job for path in WORKFLOWS for name, job in read(path)["jobs"].items()}
    commands = {name: "\n".join(values(job, "run")) for name, job in jobs.items()}
    found = [name for name, text in commands.items() if re.search(r"pytest\b.*\stests/python/?(?=\s|$)", text)]
    assert "test: interpreters" in found
    both = re.compile(r"pip install\b.*\s\./spark-plugin\b|^\s*\.ci/run\b", re.MULTILINE)
    assert [name for name in found if not both.search(commands[name])] == []


def test_interpreters_are_those_of_the_package() -> None:
    found = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["interpreters"]["strategy"]["matrix"][
        "python"
    ]
    lowest = re.search(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text())
    assert lowest is not None
    assert found[0] == lowest[1]
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert set(named) <= set(found)
