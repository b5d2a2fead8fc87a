"""Versions that a cleanup removes while another call looks for them: what the call makes of it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
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
        left = times

        def rule(found: str) -> None:
            nonlocal left
            if left and re.search(request, found):
                left -= 1
                change()

        self.proxy.rule = rule

    def replace_newest(self) -> None:
        table = pennon.dataset(self.uri, storage_options=self.cloud.storage_options)
        table.insert(ROWS)
        table.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)

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
    assert pennon.dataset(meanwhile.uri, storage_options=meanwhile.cloud.storage_options).version == 17


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
    with pytest.raises(pennon.NotFoundError, match="version main:1 does not exist any more"):
        table.create_branch("b")
    assert table.branches.list() == {}
