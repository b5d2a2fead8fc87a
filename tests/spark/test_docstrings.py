"""The examples in the docstrings of `pyspark_pennon` run and give what they show; every public name has one.

An example has the session as `spark`, and as `folder` a new directory, which is also the current one. Some that
take long run with `PENNON_LONG_TESTS=1` only.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pages
import pyspark_pennon
import pytest
from pyspark.sql import SparkSession
from support.long import long

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules() -> list[str]:
    """All modules of the package."""
    inner = pkgutil.walk_packages(pyspark_pennon.__path__, "pyspark_pennon.")
    return ["pyspark_pennon", *(module.name for module in inner)]


def examples() -> Iterator[doctest.DocTest]:
    """A test for each docstring with examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in modules():
        yield from (test for test in finder.find(importlib.import_module(name), name) if test.examples)


def failures(test: doctest.DocTest, names: dict[str, object]) -> str:
    """The report of the examples that do not give what they show."""
    # The finder lists each test for one run: a copy has names of its own.
    own = doctest.DocTest(
        test.examples, {**test.globs, **names}, test.name, test.filename, test.lineno, test.docstring
    )
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(own, out=report.append)
    return "".join(report)


def is_dear(name: str) -> bool:
    """Whether an example takes as long as many: that of a single clause of a merge, or one of a stream."""
    streams = ("_batches", "apply_changes", "DefaultSource.streamReader", "DefaultSource.streamWriter")
    return name.startswith("pyspark_pennon.merge.builder.MergeBuilder.") or name.endswith(streams)


@pytest.mark.parametrize(
    "test",
    [pytest.param(test, marks=[long] if is_dear(test.name) else []) for test in examples()],
    ids=lambda test: test.name.removeprefix("pyspark_pennon."),
)
def test_examples_give_what_they_show(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: doctest.DocTest
) -> None:
    monkeypatch.chdir(tmp_path)
    report = failures(test, {"spark": spark, "folder": str(tmp_path)})
    if report:
        pytest.fail(report, pytrace=False)


@pytest.mark.parametrize(
    ("statement", "output"), [("1 + 1", "3"), ("spark", "Session(...)"), ("1 / 0", "0"), ("x = 1", "1")]
)
def test_other_outputs_fail(statement: str, output: str) -> None:
    wrong = doctest.DocTestParser().get_doctest(f">>> {statement}\n{output}\n", {}, "wrong", None, None)
    assert "Failed example:" in failures(wrong, {"spark": None})


def test_every_public_name_has_an_example() -> None:
    names = {name: value for name, value in pages.documented().items() if name.startswith("pyspark_pennon.")}
    assert len(names) > 70
    assert [name for name, value in names.items() if not pages.has_example(value)] == []


def test_examples_that_count_run() -> None:
    """The docstring of each documented name is one of those that the tests run."""
    tested = {test.docstring for test in examples()}
    names = {name: value for name, value in pages.documented().items() if name.startswith("pyspark_pennon.")}
    assert [name for name, value in names.items() if inspect.getdoc(value) and value.__doc__ not in tested] == []
