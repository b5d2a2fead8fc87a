"""Commands that cannot go on: by Ctrl-C while they wait for a store, or since the disk takes no more."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.command import pennon as run
from support.object_stores import BUCKET, Cloud, running_cloud
from support.unreliable_s3 import Proxy, running_proxy

from tests.python.test_full_disk import files_of

WIDE = pa.table({"id": range(3000), "text": [f"{i * 2654435761:060}" for i in range(3000)]})


# Ctrl-C.


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with running_cloud() as running:
        yield running


@pytest.fixture(scope="module")
def proxy(cloud: Cloud) -> Iterator[Proxy]:
    with running_proxy(cloud.endpoint) as running:
        yield running


@pytest.fixture
def stored(cloud: Cloud) -> pennon.LanceDataset:
    """A table in the store whose rows are in fragments of ten; some were updated."""
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    table = pennon.write_dataset(
        WIDE.slice(0, 30), uri, max_rows_per_file=10, storage_options=cloud.storage_options
    )
    table.update({"text": "'new'"}, where="id < 5")
    return table


# What each command waits for: the request that is never answered.
WAITS = {
    "sql": (["sql", "TABLE", "SELECT count(text) AS n FROM dataset"], "GET .*/data/"),
    "diff": (["diff", "TABLE"], "GET .*/data/"),
    "index create": (["index", "create", "TABLE", "id"], "GET .*/data/"),
    "index create, its file": (["index", "create", "TABLE", "id"], "(PUT|POST) .*/_indices/"),
    "compact": (["compact", "TABLE"], "GET .*/data/"),
    "compact, its file": (["compact", "TABLE"], "(PUT|POST) .*/data/"),
    "verify": (["verify", "TABLE"], "(GET|HEAD) .*/data/"),
    "tag create": (["tag", "create", "TABLE", "t"], "PUT .*/_refs/"),
}


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c(name: str, stored: pennon.LanceDataset, proxy: Proxy) -> None:
    """It ends by the signal at once, without a word, and the table has the files that it had."""
    arguments, held = WAITS[name]
    options = {**stored._native.storage_options, "aws_endpoint": proxy.endpoint}
    words = [stored.uri if word == "TABLE" else word for word in arguments]
    words += [word for pair in options.items() for word in ("--storage-option", "=".join(pair))]
    before = [fragment.metadata for fragment in stored.get_fragments()]
    proxy.hold(held)
    with subprocess.Popen(
        [sys.executable, "-m", "pennon", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert proxy.is_holding.wait(60), started.poll()
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    proxy.hold(None)
    assert (started.returncode, out, err.strip()) == (-signal.SIGINT, b"", b"")
    newest = pennon.dataset(stored.uri, storage_options=stored._native.storage_options)
    # While a compaction reads and writes, it reserves ids of fragments in a version of its own.
    assert newest.version in ([2, 3] if arguments[0] == "compact" else [2])
    assert [fragment.metadata for fragment in newest.get_fragments()] == before
    assert (newest.list_indices(), list(newest.tags)) == ([], [])


# A full disk.

CHANGES = {
    "import": ["import", "TABLE", "FILE", "--mode", "append"],
    "import to a new table": ["import", "NEW", "FILE"],
    "compact": ["compact", "TABLE"],
    "tag create": ["tag", "create", "TABLE", "t"],
    "config set": ["config", "set", "TABLE", "key", "value"],
    "index create": ["index", "create", "TABLE", "id"],
    "restore": ["restore", "TABLE", "1"],
    "branch create": ["branch", "create", "TABLE", "dev"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_full_disk(name: str, uri: str, tmp_path: Path) -> None:
    """One sentence and nothing that is half done, wherever it stops; with room it does the same as ever."""
    table = pennon.write_dataset(WIDE, uri, max_rows_per_file=1000)
    table.delete("id >= 100 AND id < 900")
    pa.parquet.write_table(WIDE, tmp_path / "rows.parquet")
    words = {"TABLE": uri, "NEW": str(tmp_path / "new.lance"), "FILE": str(tmp_path / "rows.parquet")}
    arguments = [words.get(word, word) for word in CHANGES[name]]
    rows = table.count_rows()
    size, failures = 0, 0
    while True:
        with files_of(size):
            done = run(*arguments)
        if done.status == 0:
            break
        failures += 1
        assert (done.status, done.out, done.err.count("\n")) == (3, "", 1), done
        assert "File too large" in done.err
        newest = pennon.dataset(uri)
        assert (newest.version, newest.count_rows(), list(newest.tags)) == (2, rows, [])
        assert newest.verify().findings == []
        size = size * 4 or 16
    assert failures > 0
    assert pennon.dataset(uri).verify(data=True).findings == []


def test_a_full_disk_under_a_seal(uri: str) -> None:
    lance.write_dataset(WIDE, uri, max_rows_per_file=1000)
    with files_of(16):
        done = run("seal", uri)
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1), done
    assert "File too large" in done.err
    # Those that were written at the same time may be there.
    found = re.search(r"(\d) files? sealed .*, (\d) sealed before, 0 with checksums", run("seal", uri).out)
    assert found is not None
    assert int(found[1]) + int(found[2]) == 5
    assert run("scrub", uri).status == 0
