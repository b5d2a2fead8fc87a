"""The table of compatibility is that of the installed packages, and what is absent is an error that says so."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import re
import subprocess
import sys
from typing import Any

import compatibility
import lance
import pennon
import pytest
import surface
from pennon import _compatibility

ROWS, REASONS = compatibility.load()


@pytest.fixture(scope="module")
def installed() -> dict[str, surface.Names]:
    return surface.surfaces()


# The table.


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures of enums are those of Python 3.11")
def test_table_page_and_figures_are_those_of_the_installed_packages(installed: dict[str, surface.Names]) -> None:
    assert lance.__version__ == "14.0.2"
    rows = compatibility.derived(ROWS, installed["lance"], installed["pennon"])
    assert rows == ROWS
    assert compatibility.missing(rows) == []
    assert compatibility.page(rows, REASONS) == compatibility.PAGE.read_text()
    assert compatibility.figures(rows) in compatibility.README.read_text()


def test_what_it_covers() -> None:
    """Inherited, compiled and nested names, those under two names, dicts, and what needs PyTorch."""
    for name, status in {
        "LanceDataset.merge_index_metadata": "absent",
        "LanceDataset.filter": "same",
        "LanceDataset.take_rows": "ours",
        "LanceDataset.to_table": "differs",
        "LanceNamespace": "absent",
        "LanceOperation.Append": "same",
        "dataset.LanceDataset": "same",
        "dataset.Version": "same",
        "fragment.RowIdSequence.__len__": "same",
        "optimize.CompactionPlan.json": "same",
        "sampler.ShardedFixedBatchSampler.set_epoch": "same",
        "torch.data.LanceDataset": "differs",
        "torch.data.SafeLanceDataset": "same",
    }.items():
        assert ROWS[name]["is"] == status, name
    assert {row["is"] for row in ROWS.values()} == set(compatibility.STATUSES)
    assert "DirectoryNamespace.list_tables" in ROWS["namespace"]["names"].split()
    of_writes = compatibility.statuses(ROWS["write_dataset"])
    chosen = ("mode", "enable_stable_row_ids", "namespace_client", "durability")
    assert [of_writes[name] for name in chosen] == list(compatibility.STATUSES)


TAKE = "LanceDataset.take"
CHANGES: dict[str, tuple[str, str, surface.Described | None]] = {
    "a new name of pylance": ("lance", "new", {"kind": "function", "takes": ""}),
    "a new name of Pennon": ("pennon", "new", {"kind": "function", "takes": ""}),
    "a name that pylance dropped": ("lance", TAKE, None),
    "a name that Pennon dropped": ("pennon", TAKE, None),
    "an absent name that Pennon has now": (
        "pennon",
        "LanceDataset.create_index",
        {"kind": "function", "takes": "column"},
    ),
    "a new name in an absent module": ("lance", "mem_wal.new", {"kind": "function", "takes": ""}),
    "another default of pylance": ("lance", TAKE, {"kind": "function", "takes": "indices, columns=1"}),
    "another default of Pennon": ("pennon", TAKE, {"kind": "function", "takes": "indices, columns=1"}),
    "a new parameter of pylance": ("lance", TAKE, {"kind": "function", "takes": "indices, columns=None, b=1"}),
    "a new parameter of Pennon": ("pennon", TAKE, {"kind": "function", "takes": "indices, columns=None, b=1"}),
    "parameters in another order": ("pennon", "LanceDataset.slice", {"kind": "function", "takes": "end, start"}),
    "a parameter that must be named": ("pennon", TAKE, {"kind": "function", "takes": "indices, *, columns=None"}),
    "another value": ("pennon", "progress.FileSystemFragmentWriteProgress.PROGRESS_EXT", {"kind": "value"}),
    "a method that is a property": ("pennon", TAKE, {"kind": "value"}),
    "another object under a second name": ("pennon", "dataset.LanceDataset", {"kind": "class"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found(installed: dict[str, surface.Names], change: str) -> None:
    changed = copy.deepcopy(installed)
    package, name, described = CHANGES[change]
    assert changed[package].pop(name, None) != described
    if described is not None:
        changed[package][name] = described
    assert compatibility.derived(ROWS, changed["lance"], changed["pennon"]) != ROWS


def test_reasons_that_are_missing_are_named(installed: dict[str, surface.Names]) -> None:
    rows = compatibility.derived({}, installed["lance"], installed["pennon"])
    assert set(rows) == set(ROWS)
    without = compatibility.missing(rows)
    assert {"LanceDataset.mem_wal_writer", "LanceDataset.take_rows", "write_dataset(durability)"} <= set(without)


def is_offered(name: str) -> bool:
    """Whether Pennon has a name, which starts with a module or a class."""
    value: Any = pennon
    parts = name.removeprefix("pennon.").split(".")
    for at, part in enumerate(parts):
        if hasattr(value, part):
            value = getattr(value, part)
        elif importlib.util.find_spec(".".join(["pennon", *parts[: at + 1]])) is not None:
            value = importlib.import_module(".".join(["pennon", *parts[: at + 1]]))
        else:
            return False
    return True


def test_what_reasons_refer_to_exists() -> None:
    texts = [text for reason in REASONS.values() for text in reason.values()]
    texts += [row[key] for row in ROWS.values() for key in ("why", "use") if key in row]
    names = {name for text in texts for name in re.findall(r"`((?:pennon|[A-Z]\w+)\.\w+(?:\.\w+)*)", text)}
    assert len(names) > 10
    assert [name for name in sorted(names) if not is_offered(name)] == []
    used = [row["why"] for row in ROWS.values() if "why" in row]
    used += [why for row in ROWS.values() for _, why in row.get("but", {}).values()]
    assert all(used)
    assert set(REASONS) <= set(used)


# Names that Pennon does not have.


def holder(name: str) -> Any:
    """The module or class that would have a name."""
    parts = name.split(".")[:-1]
    value: Any = pennon
    for at, part in enumerate(parts):
        if part[0].islower():
            value = importlib.import_module(".".join(["pennon", *parts[: at + 1]]))
        else:
            value = getattr(value, part)
    return value


ABSENT = [name for name, row in ROWS.items() if row["is"] == "absent"]
MEMBERS = [name for name in ABSENT if isinstance(holder(name), type)]
OF_MODULES = [name for name in ABSENT if name not in MEMBERS]


def test_absent_names_of_modules() -> None:
    assert len(OF_MODULES) > 80
    for name in OF_MODULES:
        module, last = holder(name), name.rpartition(".")[2]
        assert not hasattr(module, last), name
        assert last not in dir(module)
        with pytest.raises(pennon.AbsentNameError, match=f"`{re.escape(name)}` is not offered") as caught:
            getattr(module, last)
        assert isinstance(caught.value, AttributeError)
        assert caught.value.name == last
        with pytest.raises(pennon.AbsentImportError, match=re.escape(str(caught.value))) as imported:
            exec(f"from {module.__name__} import {last}")
        assert isinstance(imported.value, ImportError)
        assert imported.value.name == last


def test_absent_modules() -> None:
    modules = [name for name in OF_MODULES if ROWS[name]["kind"] == "module"]
    assert {"mem_wal", "namespace", "query", "torch.kmeans", "tracing"} <= set(modules)
    for name in modules:
        for statement in (f"import pennon.{name}", f"from pennon.{name} import anything"):
            with pytest.raises(pennon.AbsentImportError, match=f"`{name}` is not offered") as caught:
                exec(statement)
            assert isinstance(caught.value, ModuleNotFoundError)
            assert caught.value.name == f"pennon.{name}"


def test_absent_members(table: pennon.LanceDataset) -> None:
    made = [table, table.get_fragments()[0], table.scanner(), table.stats, table.optimize, table.lance_schema]
    objects = {type(one): one for one in made}
    checked = 0
    for name in MEMBERS:
        cls, last = holder(name), name.rpartition(".")[2]
        for one in (cls, objects.get(cls, cls)):
            assert not hasattr(one, last), name
            assert last not in dir(one)
            if not last.startswith("_"):
                with pytest.raises(pennon.AbsentNameError, match=f"`{re.escape(name)}` is not offered"):
                    getattr(one, last)
                checked += 1
    assert checked > 40


def test_sentences() -> None:
    with pytest.raises(pennon.AbsentNameError, match=r"in-memory tables with a log\. Use `pennon\.write_dataset"):
        _ = pennon.LanceDataset.mem_wal_writer  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match=r"under this name\. Use `pennon\.write_dataset`"):
        from pennon.vector import write_dataset  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match=r"`blob\.BlobDescriptor` is not offered by Pennon: blobs are written"):
        from pennon.blob import BlobDescriptor  # type: ignore[attr-defined]  # noqa: F401


def test_names_that_nobody_has(table: pennon.LanceDataset) -> None:
    for one in (pennon, pennon.fragment, pennon.LanceDataset, pennon.LanceOperation, table, table.stats):
        for name in ("no_such_name", "_no_such_name", "__no_such_name__"):
            with pytest.raises(AttributeError, match=name) as caught:
                getattr(one, name)
            assert type(caught.value) is AttributeError
    with pytest.raises(ImportError, match="cannot import name 'no_such_name' from 'pennon'") as imported:
        exec("from pennon import no_such_name")
    assert type(imported.value) is ImportError
    assert importlib.util.find_spec("pennon.no_such_module") is None
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'pennon\.no_such_module'"):
        exec("import pennon.no_such_module")


def test_an_error_of_a_property_is_kept() -> None:
    class Table(_compatibility.ExplainsAbsence):
        @property
        def rows(self) -> int:
            raise AttributeError("an error of its own")

    with pytest.raises(AttributeError, match="an error of its own"):
        _ = Table().rows


def test_the_table_is_read_when_a_name_is_first_missed() -> None:
    code = """
import copy, pickle, pennon
from pennon._compatibility import _table
pickle.dumps(pennon.FragmentMetadata(0, [], 1))
copy.copy(pennon.LanceOperation.Restore(1))
print(_table.cache_info().currsize, hasattr(pennon, "tokenize"), _table.cache_info().currsize)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["0", "False", "1"]


def test_names_of_the_package() -> None:
    assert callable(pennon.dataset)
    from pennon.dataset import LanceDataset, write_dataset

    assert LanceDataset is pennon.LanceDataset
    assert write_dataset is pennon.write_dataset
    for name in pennon.__all__:
        assert getattr(pennon, name) is not None
