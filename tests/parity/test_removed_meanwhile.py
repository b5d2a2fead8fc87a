"""Versions that a cleanup removes while another call looks for them: what the call makes of it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.object_stores import BUCKET, Cloud
from support.unreliable_s3 import Proxy

pytestmark = pytest.mark.slow

ROWS = pa.table({"id": [1]})
MANIFEST = r"GET /[^?]*/_versions/\d+\.manifest$"
TAG = r"PUT /[^?]*/_refs/tags/"
BRANCH_VERSION = r"PUT /[^?]*/tree/b/_versions/"
VERSION_LOOK = r"HEAD /[^?]*/[0-9a-f]{32}/_versions/"


class Meanwhile:
    """A table that is changed while requests of another process are on their way."""

    def __init__(self, cloud: Cloud, proxy: Proxy) -> None:
        self.cloud, self.proxy = cloud, proxy
        self.uri = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        self.storage_options = {**cloud.storage_options, "aws_endpoint": proxy.endpoint, "timeout": "20s"}
        pennon.write_dataset(ROWS, self.uri, storage_options=cloud.storage_options)

    def open(self, **options: Any) -> pennon.LanceDataset:
        return pennon.dataset(self.uri, storage_options=self.storage_options, **options)

    def at_each(self, request: str, change: Callable[[], None], times: int) -> None:
        self.in_order(*[(request, change)] * times)

    def in_order(self, *changes: tuple[str, Callable[[], None]]) -> None:
        """Each is done before the request that it has is passed on, one after the other."""
        left = list(changes)

        def rule(found: str) -> None:
            if left and re.search(left[0][0], found):
                left.pop(0)[1]()

        self.proxy.rule = rule

    def replace_newest(self) -> None:
        table = pennon.dataset(self.uri, storage_options=self.cloud.storage_options)
        table.insert(ROWS)
        table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)

    def directly(self, **options: Any) -> pennon.LanceDataset:
        """As others open it."""
        return pennon.dataset(self.uri, storage_options=self.cloud.storage_options, **options)

    def remove_version(self, version: int) -> None:
        key = f"{self.uri.removeprefix(f's3://{BUCKET}/')}/_versions/{2**64 - 1 - version}.manifest"
        self.cloud.s3.delete_object(Bucket=BUCKET, Key=key)

    def remove_versions(self) -> None:
        """What a cleanup does that has listed everything before the other call began."""
        prefix = f"{self.uri.removeprefix(f's3://{BUCKET}/')}/_versions/"
        for found in self.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]:
            self.cloud.s3.delete_object(Bucket=BUCKET, Key=found["Key"])


@pytest.fixture
def meanwhile(cloud: Cloud, proxy: Proxy) -> Meanwhile:
    return Meanwhile(cloud, proxy)


def test_the_newest_version_is_found_again(meanwhile: Meanwhile) -> None:
    meanwhile.at_each(MANIFEST, meanwhile.replace_newest, 3)
    table = meanwhile.open()
    assert (table.version, table.count_rows()) == (4, 4)
    meanwhile.replace_newest()
    meanwhile.at_each(MANIFEST, meanwhile.replace_newest, 2)
    table.checkout_latest()
    assert (table.version, table.count_rows()) == (7, 7)
    table.create_branch("b").insert(ROWS)
    meanwhile.at_each(MANIFEST, meanwhile.replace_newest, 1)
    assert meanwhile.open(version=("main", None)).version == 8


def test_it_is_not_looked_for_without_end(meanwhile: Meanwhile) -> None:
    meanwhile.at_each(MANIFEST, meanwhile.replace_newest, 1000)
    with pytest.raises(pennon.NotFoundError, match="was not found"):
        meanwhile.open()
    assert pennon.dataset(meanwhile.uri, storage_options=meanwhile.cloud.storage_options).version == 18


def test_a_table_that_is_not_there_costs_no_more_requests(meanwhile: Meanwhile) -> None:
    meanwhile.remove_versions()
    meanwhile.proxy.misbehave(0, 0)
    with pytest.raises(pennon.NotFoundError, match="_versions was not found"):
        meanwhile.open()
    assert sum(meanwhile.proxy.requests.values()) == 1


def test_a_tag_of_a_removed_version_is_not_made(meanwhile: Meanwhile) -> None:
    table = meanwhile.open()
    table.tags.create("first", 1)
    meanwhile.proxy.misbehave(0, 0)
    table.tags.create("kept", 1)
    assert meanwhile.proxy.requests["HEAD"] == 3, "the name, the version, and the version again"
    meanwhile.replace_newest()
    table.checkout_latest()
    meanwhile.at_each(TAG, meanwhile.replace_newest, 1)
    with pytest.raises(pennon.NotFoundError, match="version main:2 does not exist"):
        table.tags.create("lost", 2)
    assert list(table.tags.list()) == ["first", "kept"]
    table.checkout_latest()
    meanwhile.at_each(TAG, meanwhile.replace_newest, 1)
    with pytest.raises(pennon.NotFoundError, match="version main:3 does not exist"):
        table.tags.update("kept", 3)
    assert table.tags.get_version("kept") == 1
    assert meanwhile.open(version="kept").count_rows() == 1


def test_a_branch_of_a_removed_version_is_not_made(meanwhile: Meanwhile) -> None:
    table = meanwhile.open()
    meanwhile.at_each(BRANCH_VERSION, meanwhile.remove_versions, 1)
    with pytest.raises(pennon.NotFoundError, match="version main:1 does not exist"):
        table.create_branch("b")
    assert table.branches.list() == {}


def test_what_others_make_of_a_tag_meanwhile_stays(meanwhile: Meanwhile) -> None:
    table, others = meanwhile.open(), meanwhile.directly()
    for _ in range(4):
        others.insert(ROWS)
    others.tags.create("moved", 1)
    others.tags.create("removed", 1)

    def make_again() -> None:
        others.tags.delete("new")
        others.tags.create("new", 5)

    calls: list[tuple[int, Callable[[], None], Callable[[], None]]] = [
        (2, lambda: table.tags.create("new", 2), make_again),
        (3, lambda: table.tags.update("moved", 3), lambda: others.tags.update("moved", 5)),
        (4, lambda: table.tags.update("removed", 4), lambda: others.tags.delete("removed")),
    ]
    for version, call, change in calls:
        # The version goes when the tag is written, and others come before it is looked for.
        meanwhile.in_order((TAG, partial(meanwhile.remove_version, version)), (VERSION_LOOK, change))
        with pytest.raises(pennon.NotFoundError, match=f"version main:{version} does not exist"):
            call()
    assert {name: tag["version"] for name, tag in others.tags.list().items()} == {"new": 5, "moved": 5}


def test_what_others_commit_on_a_branch_meanwhile_stays(meanwhile: Meanwhile) -> None:
    table = meanwhile.open()
    meanwhile.directly().insert(ROWS)

    def insert() -> None:
        meanwhile.directly(version=("b", None)).insert(ROWS)

    meanwhile.in_order((BRANCH_VERSION, partial(meanwhile.remove_version, 1)), (VERSION_LOOK, insert))
    with pytest.raises(pennon.NotFoundError, match='branch "b" is left'):
        table.create_branch("b", 1)
    assert meanwhile.directly(version=("b", None)).version == 2
