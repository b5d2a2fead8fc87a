"""Fixtures of the comparisons with the reference."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.object_stores import Cloud
    from support.unreliable_s3 import Proxy


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where a table is to be."""
    return str(tmp_path / "table")


@pytest.fixture
def disk_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder on a disk, which stays if the test fails: in memory the reference hardly has a turn to commit."""
    folder, failed = Path(tempfile.mkdtemp(prefix="pennon-")), request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def file_version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[True, False], ids=["stable", "addresses"])
def stable(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """An S3 server of the tests of a file."""
    # moto takes seconds to import, and few files need it.
    from support.object_stores import running_cloud

    with running_cloud() as started:
        yield started


@pytest.fixture
def proxy(cloud: Cloud) -> Iterator[Proxy]:
    """What stands before the server and makes faults."""
    from support.unreliable_s3 import running_proxy

    with running_proxy(cloud.endpoint) as started:
        yield started
