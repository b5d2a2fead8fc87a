"""The files of .github are valid; the targets of make and files they name exist, actions have major versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
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
    needs = re.search(r"^nightly: test \$\(NIGHTLY\) (.+)$", text, re.MULTILINE)
    assert parts is not None
    assert needs is not None
    wanted = [*parts[1].split(), *needs[1].split()]
    assert {"nightly-python", "fuzz", "lanes"} <= set(wanted)
    assert set(targets_at_night()) == {*wanted, "miri", "soak", "audit"}


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
