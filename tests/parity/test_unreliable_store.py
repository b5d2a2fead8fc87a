"""Every operation on an S3 server of which one request in ten goes wrong; connections; the options of stores."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.errors import CommitUnknownError
from pennon.stats import process_counters
from support.long import LONG
from support.object_stores import BUCKET, Cloud
from support.seeds import seeds
from support.unreliable_s3 import FAULTS, Proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

T = TypeVar("T")


def options(cloud: Cloud, proxy: Proxy, **others: str) -> dict[str, str]:
    """Those of the server behind the proxy, with a timeout that a test can wait for."""
    patience = {"timeout": "2s", "client_max_retries": "6", "client_retry_timeout": "30"}
    return {**cloud.storage_options, "aws_endpoint": proxy.endpoint, **patience, **others}


def changed(uri: str, storage_options: dict[str, str], change: Callable[[pennon.LanceDataset], T]) -> T | None:
    """Makes a change once, however often it takes; None if only its commit was found."""
    while True:
        table = pennon.dataset(uri, storage_options=storage_options)
        try:
            return change(table)
        except CommitUnknownError as error:
            if table.commit_status(str(error.uuid)).committed:
                return None
        except OSError:
            pass


@pytest.mark.parametrize("seed", seeds(2 if LONG else 1))
def test_one_fault_in_ten_requests_changes_no_result(cloud: Cloud, proxy: Proxy, seed: int) -> None:
    uri = f"s3://{BUCKET}/unreliable-{seed}"
    storage = options(cloud, proxy)
    model = {n: n for n in range(60)}

    def table_of(numbers: Any) -> pa.Table:
        return pa.table({"id": pa.array(numbers, pa.int64()), "v": pa.array(numbers, pa.int64())})

    pennon.write_dataset(table_of(range(60)), uri, storage_options=storage, max_rows_per_file=20)

    def check(step: str) -> pennon.LanceDataset:
        table = pennon.dataset(uri, storage_options=storage)
        rows = table.to_table().to_pylist()
        assert len(rows) == len(model), step
        assert {row["id"]: row["v"] for row in rows} == model, step
        return table

    before = process_counters().request_retries
    proxy.misbehave(0.1, seed)
    started = time.monotonic()

    changed(uri, storage, lambda t: t.insert(table_of(range(100, 110))))
    model.update({n: n for n in range(100, 110)})
    begin = check("append").version
    changed(uri, storage, lambda t: t.delete("id % 10 = 3"))
    model = {n: v for n, v in model.items() if n % 10 != 3}
    check("delete")
    # Twice would be seen.
    changed(uri, storage, lambda t: t.update({"v": "v + 1000"}, where="id in (5, 105)"))
    model.update({5: 1005, 105: 1105})
    table = check("update")
    assert table.version == begin + 2
    merge = pa.table({"id": pa.array([7, 500], pa.int64()), "v": pa.array([-7, -500], pa.int64())})
    changed(
        uri,
        storage,
        lambda t: t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(merge),
    )
    model.update({7: -7, 500: -500})
    table = check("merge")
    # Seven deleted rows, three updated and one inserted.
    assert table.changes(begin).read_all().num_rows == 7 + 3 + 1
    assert table.take([0, 20, 40]).num_rows == 3
    assert table.count_rows("v > 1000") == 2
    changed(uri, storage, lambda t: t.optimize.compact_files())
    table = check("compaction")
    version = table.version
    assert [found["version"] for found in table.versions()] == list(range(1, version + 1))
    while "kept" not in table.tags.list():
        with suppress(OSError, ValueError):
            table.tags.create("kept", version)
    assert pennon.dataset(uri, version="kept", storage_options=storage).version == version
    changed(uri, storage, lambda t: t.delete("id < 20"))
    changed(uri, storage, lambda _: pennon.dataset(uri, version="kept", storage_options=storage).restore())
    check("restore")
    changed(uri, storage, lambda t: t.cleanup_old_versions(timedelta(0), 2, error_if_tagged_old_versions=False))
    check("cleanup")

    elapsed = time.monotonic() - started
    faults, requests = sum(proxy.faults.values()), sum(proxy.requests.values())
    repeated = process_counters().request_retries - before
    proxy.misbehave(0, 0)
    check("the end").validate()
    lance.dataset(uri, storage_options=cloud.storage_options).validate()
    assert set(proxy.faults) <= set(FAULTS)
    assert faults * 30 > requests
    # A put of a manifest is not repeated, and one of a test's own calls may have failed and been made again.
    assert 0 < repeated <= faults
    assert elapsed < 20 + 2.5 * faults


def test_a_second_open_uses_the_connections_of_the_first(cloud: Cloud, proxy: Proxy) -> None:
    uri, storage = f"s3://{BUCKET}/connections", options(cloud, proxy)
    pennon.write_dataset(pa.table({"a": [1, 2]}), uri, storage_options=storage)
    proxy.misbehave(0, 0)
    for _ in range(10):
        assert pennon.dataset(uri, storage_options=storage).to_table().num_rows == 2
    assert proxy.connections <= 2
    # Other settings are another client.
    pennon.dataset(uri, storage_options={**storage, "user_agent": "other"})
    assert proxy.connections <= 3


def _count(uri: str, storage: dict[str, str], found: Any) -> None:
    found.put(pennon.dataset(uri, storage_options=storage).count_rows())


def test_a_forked_child_has_connections_of_its_own(cloud: Cloud, proxy: Proxy) -> None:
    uri, storage = f"s3://{BUCKET}/forked", options(cloud, proxy)
    table = pennon.write_dataset(pa.table({"a": [1, 2]}), uri, storage_options=storage)
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    children = [context.Process(target=_count, args=(uri, storage, found)) for _ in range(3)]
    for child in children:
        child.start()
    assert table.count_rows() == 2
    assert [found.get(timeout=60) for _ in children] == [2, 2, 2]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert pennon.dataset(uri, storage_options=storage).count_rows() == 2


def test_requests_in_flight_are_bounded_by_an_option(cloud: Cloud, proxy: Proxy) -> None:
    uri = f"s3://{BUCKET}/bounded"
    pennon.write_dataset(
        pa.table({"a": range(100)}), uri, storage_options=options(cloud, proxy), max_rows_per_file=5
    )
    for limit in (1, 3):
        storage = options(cloud, proxy, max_requests_in_flight=str(limit))
        proxy.misbehave(0, 0)
        assert pennon.dataset(uri, storage_options=storage).to_table().num_rows == 100
        assert 1 <= proxy.most <= limit


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"aws_acces_key_id": "x"}, 'did you mean "aws_access_key_id"'),
        ({"max_requests_in_flight": "0"}, "from 1 on"),
        ({"aws_skip_signature": "true"}, "contradict"),
        ({"endpoint_url": "https://elsewhere"}, "contradict"),
        ({"allow_http": "false"}, "contradict"),
        ({"request_timeout": "soon"}, "such as"),
    ],
)
def test_options_that_are_wrong_are_named(cloud: Cloud, wrong: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised:
        pennon.dataset(f"s3://{BUCKET}/none", storage_options={**cloud.storage_options, **wrong})
    assert next(iter(wrong)) in str(raised.value)


def test_an_answer_that_makes_no_sense_is_an_error(cloud: Cloud) -> None:
    """A server that is none: everything it says is a web page."""
    import http.server
    import threading

    page = b"<html>" + random.Random(0).randbytes(100_000)

    class Page(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(206 if self.headers.get("Range") else 200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        storage = {**cloud.storage_options, "aws_endpoint": f"http://127.0.0.1:{server.server_port}"}
        for version in (None, 1):
            with pytest.raises(OSError, match="none"):
                pennon.dataset(f"s3://{BUCKET}/none", version=version, storage_options=storage)
    finally:
        server.shutdown()
        server.server_close()
