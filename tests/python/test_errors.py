"""Errors of the package: a wrong call raises a `PennonError`, which is also the builtin that pylance raises."""

from __future__ import annotations

import ast
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon.blob import Blob, blob_field

PLAIN = {"ValueError", "OverflowError", "OSError", "RuntimeError", "KeyError", "IndexError"}


def raised(source: str) -> list[tuple[int, str]]:
    """Line and name of the exceptions that a module raises by a name of its own."""
    nodes = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    called = [node.func if isinstance(node, ast.Call) else node for node in nodes]
    return [(node.lineno, node.id) for node in called if isinstance(node, ast.Name)]


def test_the_package_raises_its_own_errors() -> None:
    root = Path(pennon.__file__).parent
    modules = sorted(root.rglob("*.py"))
    assert root / "dataset.py" in modules
    found = [(path.name, *where) for path in modules for where in raised(path.read_text())]
    assert any(name == "InvalidInputError" for *_, name in found)
    assert [where for where in found if where[-1] in PLAIN] == []


def test_wrong_calls(table: pennon.LanceDataset) -> None:
    for call, message in (
        (lambda: pennon.dataset(), "A uri is required"),
        (lambda: pennon.write_dataset([], "memory://errors"), "Must provide schema"),
        (lambda: pennon.dataset(table.uri, asof="yesterday"), "yesterday"),
        (lambda: table.take([-1]), "must not be negative nor exceed 64 bits, found -1"),
        (lambda: table.get_fragments(pa.compute.field("id") > 1), "takes no filter"),
        (lambda: table.alter_columns({"path": "id"}), "At least one of"),
        (lambda: table.merge_insert("id").memory_limit(-1), "memory_limit is -1"),
        (lambda: pennon.fragment.RowIdSequence(pa.array([1, None])), "null"),
        (lambda: Blob(b"a", "s3://b"), "exactly one of data and uri"),
        (lambda: blob_field("b", dedicated_size_threshold=0), "is 0, expected at least 1"),
    ):
        with pytest.raises(pennon.InvalidInputError, match=message) as caught:
            call()
        assert isinstance(caught.value, pennon.PennonError)
        assert isinstance(caught.value, ValueError)
