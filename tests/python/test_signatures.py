"""Our signatures beside those of pylance 14.0.2, which `pylance_signatures.json` lists for the names we offer.

Each intended difference stands in `DIFFERENCES` with its reason. What we offer beyond the reference stands in
`ADDITIONS`.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pennon
import pytest
from pennon import dataset as open_dataset
from pennon.branches import Branches
from pennon.dataset import DatasetOptimizer, Index, IndexFile, MergeInsertBuilder
from pennon.file import LanceFileReader, LanceFileWriter, ReaderResults
from pennon.stats import LanceStats
from pennon.tags import Tags
from pennon.udf import BatchUDF, BatchUDFCheckpoint

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "pylance_signatures.json").read_text())

CLASSES = {
    "LanceDataset": pennon.LanceDataset,
    "LanceScanner": pennon.LanceScanner,
    "ScannerBuilder": pennon.ScannerBuilder,
    "Tags": Tags,
    "Branches": Branches,
    "LanceStats": LanceStats,
    "MergeInsertBuilder": MergeInsertBuilder,
    "LanceFragment": pennon.LanceFragment,
    "FragmentMetadata": pennon.FragmentMetadata,
    "DataFile": pennon.DataFile,
    "LanceFileReader": LanceFileReader,
    "LanceFileWriter": LanceFileWriter,
    "ReaderResults": ReaderResults,
    "Transaction": pennon.Transaction,
    "BatchUDF": BatchUDF,
    "BatchUDFCheckpoint": BatchUDFCheckpoint,
    "DatasetOptimizer": DatasetOptimizer,
    "Index": Index,
    "IndexFile": IndexFile,
    "BlobFile": pennon.BlobFile,
    "BlobColumn": pennon.BlobColumn,
    "Session": pennon.Session,
}
OPERATIONS = {
    name: operation for name, operation in vars(pennon.LanceOperation).items() if f"{name}.__init__" in REFERENCE
}
CLASSES.update(OPERATIONS)
FUNCTIONS = {
    "batch_udf": pennon.batch_udf,
    "blob_array": pennon.blob_array,
    "blob_field": pennon.blob_field,
    "dataset": open_dataset,
    "write_dataset": pennon.write_dataset,
    "write_fragments": pennon.fragment.write_fragments,
}

DURABILITY = "what a commit survives is the caller's choice"
HEAD = "five unless told otherwise"
COMMIT = {
    "commit_timeout": "how every change through the dataset is committed",
    "max_retries": "how every change through the dataset is committed",
}
DIFFERENCES: dict[str, dict[str, str]] = {
    "write_dataset": {
        "enable_stable_row_ids": "True: rows keep their identity unless told otherwise",
        "durability": DURABILITY,
        **COMMIT,
    },
    "write_fragments": {
        "enable_stable_row_ids": "as for write_dataset; the reference does not hand it on to the commit",
        "durability": DURABILITY,
    },
    "DatasetOptimizer.compact_files": {
        "max_seconds": "a budget of time",
        "partial_progress": "what is done is committed although more is to be done",
    },
    "LanceDataset.commit": {"durability": DURABILITY},
    "LanceDataset.update": {"mode": "rows or columns can be written anew"},
    "LanceDataset.commit_batch": {"durability": DURABILITY},
    "LanceDataset.head": {"num_rows": HEAD},
    "LanceFragment.head": {"num_rows": HEAD},
    "LanceScanner.head": {"num_rows": HEAD},
    "Overwrite.__init__": {"config_upserts": "settings that come with a creation are part of the transaction"},
    "Update.__init__": {"inserted_rows": "the filter of inserted keys survives a transaction that is passed on"},
    "dataset": {"durability": DURABILITY, **COMMIT},
    "LanceFileWriter.__init__": {"durability": "what a closed file survives is the caller's choice"},
    "LanceDataset.__init__": {
        "asof": "the function `dataset` hands it on",
        "durability": DURABILITY,
        **COMMIT,
    },
}

ADDITIONS = {
    # A class, as there.
    "BatchUDFCheckpoint.BatchInfo",
    "MergeInsertBuilder.memory_limit",
    "MergeInsertBuilder.progress",
    "LanceDataset.commit_status",
    "LanceDataset.counters",
    "LanceDataset.verify",
    "LanceDataset.changes",
    "LanceDataset.history",
    "LanceDataset.restore_rows",
    "LanceDataset.take_rows",
    "LanceDataset.update_rows",
}


def ours(name: str) -> object:
    owner, _, member = name.partition(".")
    if not member:
        return FUNCTIONS[name]
    return inspect.getattr_static(CLASSES[owner], member)


def parameters(function: object) -> dict[str, tuple[str, str | None]]:
    function = getattr(function, "__func__", function)
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {p.name: (p.kind.name, None if p.default is inspect.Parameter.empty else repr(p.default)) for p in found}


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_same_signature(name: str) -> None:
    found, expected = ours(name), REFERENCE[name]
    if expected == "property":
        assert isinstance(found, property)
        return
    found = parameters(found)
    expected = {parameter: (kind, default) for parameter, kind, default in expected}
    allowed = DIFFERENCES.get(name, {})
    for parameter in allowed:
        assert found.pop(parameter) != expected.pop(parameter, None), "no longer a difference"
    assert found == expected
    positional = [p for p, (kind, _) in expected.items() if kind == "POSITIONAL_OR_KEYWORD"]
    assert [p for p, (kind, _) in found.items() if kind == "POSITIONAL_OR_KEYWORD"] == positional


def public_members(cls: type) -> set[str]:
    """Public members that the package defines, inherited ones included, without fields of dataclasses."""
    owners = [base for base in cls.__mro__ if base.__module__.startswith("pennon")]
    found = {name for base in owners for name in vars(base) if not name.startswith("_")}
    return found - set(getattr(cls, "__dataclass_fields__", {}))


def test_nothing_beyond_the_reference() -> None:
    ours = {f"{owner}.{name}" for owner, cls in CLASSES.items() for name in public_members(cls)}
    assert "LanceDataset.take" in ours, "inherited members are looked at"
    assert ours - set(REFERENCE) == ADDITIONS


def test_names_of_the_package() -> None:
    assert pennon.dataset is open_dataset
    assert inspect.isfunction(pennon.dataset)
    from pennon.dataset import LanceDataset, LanceOperation, write_dataset

    assert LanceDataset is pennon.LanceDataset
    assert write_dataset is pennon.write_dataset
    assert LanceOperation.Append is not None
    for name in pennon.__all__:
        assert getattr(pennon, name) is not None


@pytest.mark.parametrize("name", ["create_index", "sql"])
def test_what_is_not_there_is_absent(name: str) -> None:
    assert not hasattr(pennon.LanceDataset, name)
