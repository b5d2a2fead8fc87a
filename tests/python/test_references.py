"""References to versions that are not there, and to what is not a version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pennon
import pyarrow as pa
import pytest

VERBS: dict[str, Callable[[pennon.LanceDataset, Any], object]] = {
    "check out": lambda table, ref: table.checkout_version(ref),
    "open": lambda table, ref: pennon.dataset(table.uri, version=ref),
    "branch": lambda table, ref: table.create_branch("other", ref),
    "clone": lambda table, ref: table.shallow_clone(f"{table.uri}.clone", ref),
    "changes": lambda table, ref: table.changes(ref).read_all(),
    "plan": lambda table, ref: pennon.jobs.plan_scan(table.uri, version=ref),
}


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    pennon.write_dataset({"a": [1]}, uri)
    table = pennon.write_dataset({"a": [2]}, uri, mode="append")
    table.create_branch("dev", 2)
    return table


@pytest.mark.parametrize("verb", VERBS)
def test_a_version_that_a_branch_does_not_have(table: pennon.LanceDataset, verb: str) -> None:
    with pytest.raises(pennon.NotFoundError, match=r"branch dev: There is no version 9 of .*the newest is 2"):
        VERBS[verb](table, ("dev", 9))
    with pytest.raises(pennon.NotFoundError, match="There is no version 1 of branch dev: it begins at version 2"):
        VERBS[verb](table, ("dev", 1))


def test_a_number_on_a_branch(table: pennon.LanceDataset) -> None:
    branch = table.checkout_version(("dev", None))
    with pytest.raises(pennon.NotFoundError, match="branch dev: There is no version 9 of "):
        branch.checkout_version(9)


@pytest.mark.parametrize("wrong", [1.5, b"x", [1, 2], object()])
def test_what_is_no_version(table: pennon.LanceDataset, wrong: Any) -> None:
    expected = r"version must be an int, a tag \(str\) or a tuple of branch and version, found "
    with pytest.raises(pennon.InvalidTypeError, match=f"^{expected}{type(wrong).__name__} ") as found:
        table.checkout_version(wrong)
    assert isinstance(found.value, TypeError)


def test_what_is_no_version_of_a_delta(table: pennon.LanceDataset) -> None:
    for ends in ({"compared_against": 1.5}, {"begin_version": "1 OR true", "end_version": 2}):
        with pytest.raises(pennon.InvalidTypeError, match=r"_(against|version) must be a whole number, found"):
            table.delta(**ends)
    assert table.delta(1).get_inserted_rows().read_all()["a"] == pa.chunked_array([[2]])


BEFORE: dict[str, Callable[[pennon.LanceDataset], object]] = {
    "changes": lambda table: table.changes(1),
    "each change": lambda table: table.changes(0, mode="each"),
    "changes since a time": lambda table: table.changes(datetime(2000, 1, 1)),
    "checkout_version": lambda table: table.checkout_version(1),
    "restore_rows": lambda table: table.restore_rows([0], 1),
    "dataset": lambda table: pennon.dataset(table.uri, version=1),
}


@pytest.mark.parametrize("verb", BEFORE)
def test_a_version_from_before_a_branch_or_a_clone(table: pennon.LanceDataset, uri: str, verb: str) -> None:
    branch = table.checkout_version(("dev", None))
    clones = [table.shallow_clone(uri + "-shallow", 2), table.deep_clone(uri + "-deep", 2)]
    for made, source in [(branch, "main"), *((clone, uri) for clone in clones)]:
        made.insert({"a": [3]})
        with pytest.raises(pennon.NotFoundError, match="There is no version 1 of ") as raised:
            BEFORE[verb](made)
        message = str(raised.value)
        assert message.endswith(f": it begins at version 2 of {source}, where earlier versions are"), message
        assert "cleaned up" not in message
    # One that was there is not one from before.
    (clone, _) = clones
    clone.cleanup_old_versions(timedelta(0))
    with pytest.raises(pennon.NotFoundError, match="Version 2 was cleaned up"):
        clone.checkout_version(2)
