"""`import pennon` imports what it needs for that, and everything else when it is first used."""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import subprocess
import sys
from types import ModuleType
from typing import Any

import pennon
import pytest
from pennon import indices, jobs
from support.spread import spread

HEAVY = ("click", "duckdb", "lance", "numpy", "pandas", "pennon._native", "pyarrow", "rich", "torch")


def run(program: str, **environment: str) -> str:
    """What a program in a new process prints."""
    command = [sys.executable, "-c", program]
    settings = {**os.environ, **environment}
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.strip()


def run_each(programs: list[str]) -> list[str]:
    """What each program prints, in a fork of a process that has imported the packages of others."""
    program = f"""
import os, sys, traceback
import click, pandas, pyarrow.dataset
for program in {programs!r}:
    child = os.fork()
    if child == 0:
        try:
            exec(program, {{}})
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(program)
"""
    return run(program).splitlines()


def test_what_is_not_imported() -> None:
    program = (
        f"import sys; before = set(sys.modules); import pennon; print({{*{HEAVY}}} & set(sys.modules) - before)"
    )
    assert run(program) == "set()"


@pytest.mark.parametrize("name", ["errors", "NotFoundError", "commit", "LanceOperatoin"])
def test_errors_need_no_arrow(name: str) -> None:
    program = f"import sys, pennon; getattr(pennon, {name!r}, 0); print({{*{HEAVY}}} & set(sys.modules))"
    assert run(program) == "set()"


def test_type_checkers_see_what_there_is() -> None:
    """The imports for type checkers, the names that are imported later and `__all__` are the same."""
    tree = ast.parse(inspect.getsource(pennon))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    (call,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "_attach"
    )
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {node.module: sorted(alias.name for alias in node.names) for node in imports}
    modules = seen.pop("pennon")
    assert seen == {f"pennon.{module}": sorted(names) for module, names in given["names"].items()}
    assert set(modules) <= set(given["modules"])
    assert pennon.__all__ == sorted([*modules, *(name for names in seen.values() for name in names)])


def test_names_are_those_of_their_modules() -> None:
    for name in pennon.__all__:
        value = getattr(pennon, name)
        assert value is vars(pennon)[name]
        assert not inspect.isclass(value) or value is getattr(sys.modules[value.__module__], name)
    assert set(pennon.__all__) <= set(dir(pennon))
    assert {"types", "__name__", "_native"} <= set(dir(pennon))


def test_a_star() -> None:
    assert run("from pennon import *; print(callable(dataset), LanceDataset.__name__)") == "True LanceDataset"


def test_dataset_is_the_function() -> None:
    """Though there is a module `pennon.dataset`, which an import would bind to its name in the package."""
    programs = [
        "import pennon.dataset; d = pennon.dataset",
        "import pennon; pennon.dataset; import pennon.dataset as d",
        "from pennon.dataset import LanceDataset; from pennon import dataset as d",
        "from pennon import LanceDataset, dataset as d",
        "import importlib, pennon; importlib.import_module('pennon.dataset'); d = pennon.dataset",
    ]
    printed = run_each([f"{program}; print(d.__name__, d.__module__)" for program in programs])
    assert printed == ["dataset pennon.open"] * len(programs)


def test_modules_are_attributes() -> None:
    program = "import pennon; print(pennon.types.__name__, pennon.stats.IOStats.__name__, pennon.jobs.run.__name__)"
    assert run(program) == "pennon.types IOStats run"


def test_each_module_can_be_the_first() -> None:
    """No module counts on what others have imported before: each is imported in a process of its own.

    Without `PENNON_LONG_TESTS=1` those that others import, whose names have no underscore.
    """
    program = """
import os, pkgutil, sys, traceback
import click, pandas, pyarrow.dataset
import pennon
for info in pkgutil.walk_packages(pennon.__path__, "pennon."):
    if os.environ.get("PENNON_LONG_TESTS") != "1" and "._" in info.name:
        continue
    child = os.fork()
    if child == 0:
        try:
            __import__(info.name)
        except ModuleNotFoundError as error:
            os._exit(0 if error.name == "torch" else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(info.name)
"""
    assert run(program) == ""


def test_types_of_columns_are_registered() -> None:
    names = ["dataset", "write_dataset", "file", "fragment", "jobs.run"]
    program = (
        "import pennon, pyarrow as pa; pennon.{0}; pa.unregister_extension_type('lance.blob.v2'); print('{0}')"
    )
    assert run_each([program.format(name) for name in names]) == names


def test_pickles_name_what_was_not_imported_yet() -> None:
    pickled = pickle.dumps([pennon.FragmentMetadata(0, [], 1), pennon.NotFoundError("gone"), pennon.dataset])
    program = f"import pickle; print([type(value).__name__ for value in pickle.loads({pickled!r})])"
    assert run(program) == "['FragmentMetadata', 'NotFoundError', 'function']"


def test_the_package_itself_is_pickled_by_name() -> None:
    """As Spark does with functions that use it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    assert pickle.loads(cloudpickle.dumps(pennon)) is pennon
    counted = pickle.loads(cloudpickle.dumps(lambda: pennon.cpu_count()))
    assert counted() == pennon.cpu_count()


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(AttributeError, match=r"^module 'pennon' has no attribute 'tabel'$") as caught:
        pennon.tabel  # noqa: B018
    assert caught.value.name == "tabel"
    with pytest.raises(ImportError, match="cannot import name 'tabel' from 'pennon'"):
        from pennon import tabel  # noqa: F401


def test_a_missing_requirement_is_named() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import pennon
try:
    pennon.dataset
except ImportError as error:
    print(error.name)
"""
    assert run(program) == "pyarrow"


def test_threads_may_use_it_first() -> None:
    program = """
import pennon
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    found = set(pool.map(lambda name: getattr(pennon, name), ["dataset", "LanceDataset", "write_dataset"] * 8))
print(len(found))
"""
    assert run(program) == "3"


@pytest.mark.parametrize("package", [jobs, indices], ids=lambda package: package.__name__)
def test_type_checkers_see_what_packages_have(package: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(package))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    (call,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "_attach"
    )
    (names,) = (ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg == "names")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {node.module: sorted(alias.name for alias in node.names) for node in imports} == {
        f"{package.__name__}.{module}": sorted(found) for module, found in names.items()
    }
    assert {name for found in names.values() for name in found} <= set(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)


# Of each package, a name of a module that imports another module of it, and a name of that module.
PAIRS = [
    (jobs.JobPlan, jobs.Task),
    (jobs.run, jobs.Task),
    (indices.IndicesBuilder, indices.IvfModel),
]


@spread(of=1)
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_threads_may_unpickle_first(pair: tuple[Any, Any], is_reversed: bool) -> None:
    """Neither waits for a module that the other imports while that one waits for the package."""
    pickles = [pickle.dumps(value) for value in (pair[::-1] if is_reversed else pair)]
    program = f"""
import pickle, threading
import pennon
barrier = threading.Barrier(2)
found = []
def load(pickled):
    barrier.wait()
    try:
        found.append(pickle.loads(pickled).__name__)
    except BaseException as error:
        found.append(repr(error))
threads = [threading.Thread(target=load, args=[pickled]) for pickled in {pickles!r}]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(found))
"""
    assert run(program) == str(sorted(value.__name__ for value in pair))


@pytest.mark.parametrize("first", ["pennon.Session()", "import pennon.dataset", "pennon.errors.StoreError"])
def test_threads_that_end(first: str) -> None:
    """Threads that use the package first, and end; later ones get their ids."""
    program = f"""
import sys, threading
import pennon
def work():
    {first}
    import pyarrow as pa
    table = pennon.write_dataset(pa.table({{"a": range(1000)}}), "memory://t", mode="overwrite")
    assert table.count_rows("a < 10") == 10
for _ in range(8):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print("done", len(threading.enumerate()))
"""
    assert run(program) == "done 2"


def test_the_main_thread_needs_no_other() -> None:
    program = "import pennon, threading; pennon.Session(); print(len(threading.enumerate()))"
    assert run(program) == "1"
