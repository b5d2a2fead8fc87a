"""Puts of what must be absent on an S3 server: refused without a reason, not answered, and not refused at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon.errors import CommitConflictError, CommitUnknownError
from support.object_stores import BUCKET, MANIFESTS, Cloud
from support.unreliable_s3 import Proxy

ROWS = pa.table({"a": [1, 2, 3]})
NOTES = "/_refs/branches/"


def options(cloud: Cloud, proxy: Proxy, **others: str) -> dict[str, str]:
    return {**cloud.storage_options, "aws_endpoint": proxy.endpoint, "client_max_retries": "0", **others}


def faults(fault: str, of: str, times: int = 1) -> Callable[[str], str | None]:
    """The first puts of files with this in their path have the fault."""
    left = [fault] * times
    return lambda request: left.pop() if request.startswith("PUT") and of in request and left else None


def overwrites(request: str) -> str | None:
    """A store without conditional puts."""
    return "unconditional" if request.startswith("PUT") else None


@pytest.mark.parametrize("fault", ["conflict", "failed condition"])
def test_a_refused_manifest_that_is_not_there_is_put_again(cloud: Cloud, proxy: Proxy, fault: str) -> None:
    uri, storage = f"s3://{BUCKET}/refused-{fault[:4]}", options(cloud, proxy)
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    proxy.rule = faults(fault, ".manifest", 2)
    table.delete("a = 1")
    assert (table.version, table.count_rows()) == (2, 2)
    proxy.rule = faults(fault, ".json", 2)
    table.tags.create("t", 2)
    assert table.tags.list()["t"]["version"] == 2


def test_a_manifest_that_is_always_refused_is_not_committed(cloud: Cloud, proxy: Proxy) -> None:
    uri, storage = f"s3://{BUCKET}/always-refused", options(cloud, proxy)
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    proxy.rule = faults("conflict", ".manifest", 1000)
    with pytest.raises(CommitConflictError, match="there is no file of that name") as raised:
        table.insert(ROWS)
    assert raised.value.retryable
    proxy.rule = None
    table.insert(ROWS)
    assert pennon.dataset(uri, storage_options=storage).count_rows() == 6


def test_a_taken_manifest_is_not_put_again(cloud: Cloud, proxy: Proxy) -> None:
    """A client sends the put again after an error, and finds what the first one has written."""
    uri, storage = f"s3://{BUCKET}/sent-twice", options(cloud, proxy, client_max_retries="3")
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    proxy.rule = faults("slow down, but done", ".manifest")
    table.insert(ROWS)
    assert (table.version, table.count_rows()) == (2, 6)


@pytest.mark.parametrize(
    ("fault", "retries"), [("lost", "0"), ("slow down, but done", "0"), ("slow down, but done", "3")]
)
def test_a_lost_answer_to_the_note_of_a_branch(cloud: Cloud, proxy: Proxy, fault: str, retries: str) -> None:
    uri = f"s3://{BUCKET}/lost-{fault[:4]}-{retries}"
    storage = options(cloud, proxy, client_max_retries=retries)
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    proxy.rule = faults(fault, NOTES)
    branch = table.create_branch("b", 1)
    assert branch.count_rows() == 3
    proxy.rule = faults(fault, "/_refs/tags/")
    if retries == "0":
        table.tags.create("t", 1)
    proxy.rule = None
    table = pennon.dataset(uri, storage_options=storage)
    assert list(table.branches.list()) == ["b"]
    assert table.checkout_version(("b", None)).count_rows() == 3
    with pytest.raises(ValueError, match="branch b already exists"):
        table.create_branch("b", 1)


def lost_once_put(part: str) -> Callable[[str], str | None]:
    """From the first put of such a name on all answers are lost: before it is written, it is looked for."""
    puts: list[str] = []

    def rule(request: str) -> str | None:
        if part not in request:
            return None
        puts.extend([request] if request.startswith("PUT") else [])
        return "lost" if puts else None

    return rule


def test_a_note_whose_answer_and_look_are_lost_says_what_to_do(cloud: Cloud, proxy: Proxy) -> None:
    uri, storage = f"s3://{BUCKET}/lost-twice", options(cloud, proxy)
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    proxy.rule = lost_once_put(NOTES)
    with pytest.raises(OSError, match="If it is listed, delete it, then create it"):
        table.create_branch("b", 1)
    proxy.rule = None
    assert list(table.branches.list()) == ["b"]
    table.branches.delete("b")
    assert table.create_branch("b", 1).count_rows() == 3


def test_a_branch_of_which_nothing_is_known_keeps_its_note(cloud: Cloud, proxy: Proxy) -> None:
    uri, storage = f"s3://{BUCKET}/unknown", options(cloud, proxy)
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    proxy.rule = lost_once_put("/tree/b/_versions/")
    with pytest.raises(CommitUnknownError, match="If it cannot be opened, delete it, then create it"):
        table.create_branch("b", 1)
    proxy.rule = None
    assert list(table.branches.list()) == ["b"]
    assert table.checkout_version(("b", None)).count_rows() == 3


def test_references_on_a_store_that_overwrites(cloud: Cloud, proxy: Proxy) -> None:
    """Its versions are in DynamoDB, but not its tags and the notes of its branches."""
    proxy.rule = overwrites
    uri = f"s3+ddb://{BUCKET}/overwritten?ddbTableName={MANIFESTS}"
    storage = options(cloud, proxy)
    table = pennon.write_dataset(ROWS, uri, storage_options=storage)
    table.insert(ROWS)
    table.tags.create("t", 1)
    with pytest.raises(ValueError, match="tag t already exists"):
        table.tags.create("t", 2)
    assert table.tags.list()["t"]["version"] == 1
    table.create_branch("b", 1)
    note = table.branches.list()["b"]
    with pytest.raises(ValueError, match="branch b already exists"):
        table.create_branch("b", 2)
    table = pennon.dataset(uri, storage_options=storage)
    assert table.branches.list()["b"] == note
    assert table.checkout_version(("b", None)).count_rows() == 3


@pytest.mark.parametrize(
    "change",
    [lambda table: table.tags.create("t", 1), lambda table: table.create_branch("b", 1)],
    ids=["tag", "branch"],
)
def test_references_are_refused_where_the_store_overwrites(
    cloud: Cloud, proxy: Proxy, change: Callable[[pennon.LanceDataset], Any], request: pytest.FixtureRequest
) -> None:
    # Made at the endpoint of the server, which keeps its word; the proxy's is another one.
    uri = f"s3://{BUCKET}/refused-{request.node.callspec.id}"
    pennon.write_dataset(ROWS, uri, storage_options=cloud.storage_options)
    proxy.rule = overwrites
    table = pennon.dataset(uri, storage_options=options(cloud, proxy))
    with pytest.raises(NotImplementedError, match="the store overwrites files"):
        change(table)
    assert (table.tags.list(), table.branches.list()) == ({}, {})
