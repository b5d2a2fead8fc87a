"""Sessions that stores share: two servers with one bucket, and readers of one server with their own credentials."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from support.object_stores import BUCKET, Cloud, running_cloud
from support.unreliable_s3 import Handler, Proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Options = dict[str, str]
REFUSED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with running_cloud() as started:
        yield started


@contextmanager
def server() -> Iterator[Options]:
    """The options of a server in a process of its own: what moto keeps belongs to the process."""
    command = [sys.executable, "-m", "soak.store_server", "0", "0"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.communicate("")


class Guard(Handler):
    """Refuses requests that are signed with a key that is locked, or that are for what the key may not read."""

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        signature, locked = self.headers.get("Authorization", ""), LOCKED.items()
        if any(f"={key}/" in signature and path in self.path for key, path in locked):
            self.answer(403, [("Content-Type", "application/xml")], len(REFUSED), REFUSED)
        else:
            self.answer(*self.pass_on(body))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


LOCKED: dict[str, str] = {}
"""By key, what is in the paths that it may not read."""


@pytest.fixture
def guarded(cloud: Cloud) -> Iterator[Options]:
    proxy = Proxy(cloud.endpoint)
    proxy.RequestHandlerClass = Guard
    LOCKED.clear()
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield {**cloud.storage_options, "aws_endpoint": proxy.endpoint, "client_max_retries": "0"}
    finally:
        proxy.shutdown()
        proxy.server_close()


def values(table: pennon.LanceDataset) -> list[int]:
    return sorted(table.to_table()["a"].to_pylist())


def prepare(uri: str, options: Options, *given: int) -> None:
    """A table with one deleted row and an index, its branch with 100 more than the first value, and its clone."""
    table = pennon.write_dataset(
        pa.table({"a": [*given, 7]}), uri, storage_options=options, enable_stable_row_ids=True
    )
    table.delete("a = 7")
    table.create_scalar_index("a", "BTREE")
    table.create_branch("b", table.version).insert(pa.table({"a": [given[0] + 100]}))
    table.shallow_clone(uri + "-clone", table.version, storage_options=options)


def test_two_servers_with_one_bucket() -> None:
    uri = f"s3://{BUCKET}/two"
    with ExitStack() as stack:
        first, second = (stack.enter_context(server()) for _ in range(2))
        prepare(uri, first, 1)
        prepare(uri, second, 2, 3)
        session = pennon.Session()

        def opened(options: Options, uri: str = uri) -> pennon.LanceDataset:
            return pennon.dataset(uri, storage_options=options, session=session)

        for options, expected in ((first, [1]), (second, [2, 3]), (first, [1])):
            branch = opened(options).checkout_version(("b", None))
            assert values(branch) == [*expected, expected[0] + 100]
            for table in (opened(options), opened(options, uri + "-clone")):
                assert values(table) == expected
                assert table.count_rows(f"a = {expected[0]}") == 1
                assert table.take_rows([0])["a"].to_pylist() == expected[:1]
        opened(second).checkout_version(("b", None)).insert(pa.table({"a": [99]}))
        for options, expected in ((first, [1, 101]), (second, [2, 3, 99, 102])):
            alone = pennon.dataset(uri, storage_options=options, session=pennon.Session())
            assert values(alone.checkout_version(("b", None))) == expected


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_credentials_that_are_renewed(guarded: Options, size: int) -> None:
    uri = f"s3://{BUCKET}/renewed-{size}"
    old, new = ({**guarded, "aws_access_key_id": key} for key in ("oldkey", "newkey"))
    prepare(uri, old, 1)
    session = pennon.Session(metadata_cache_size_bytes=size)

    def read(options: Options) -> list[list[int]]:
        table = pennon.dataset(uri, storage_options=options, session=session)
        clone = pennon.dataset(uri + "-clone", storage_options=options, session=session)
        return [values(table), values(table.checkout_version(("b", None))), values(clone)]

    assert read(old) == [[1], [1, 101], [1]]
    LOCKED["oldkey"] = "/"
    assert read(new) == [[1], [1, 101], [1]]
    with pytest.raises(pennon.StoreError):
        read(old)


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_a_reader_does_not_get_what_another_may_read(guarded: Options, size: int) -> None:
    uri = f"s3://{BUCKET}/guarded-{size}"
    one, other = ({**guarded, "aws_access_key_id": key} for key in ("one", "other"))
    prepare(uri, one, 1)
    session = pennon.Session(metadata_cache_size_bytes=size)
    clone = uri + "-clone"
    assert values(pennon.dataset(clone, storage_options=one, session=session)) == [1]
    LOCKED["other"] = f"/guarded-{size}/"
    with pytest.raises(pennon.StoreError):
        values(pennon.dataset(clone, storage_options=other, session=session))
    assert values(pennon.dataset(clone, storage_options=one, session=session)) == [1]


def test_equal_options_share_what_was_read(guarded: Options) -> None:
    uri = f"s3://{BUCKET}/shared"
    prepare(uri, guarded, 1)
    session = pennon.Session()

    def misses(options: Options) -> int:
        before = session_counters(session, uri, guarded)
        assert values(pennon.dataset(uri, storage_options=options, session=session)) == [1]
        return session_counters(session, uri, guarded) - before

    misses(guarded)
    # The names of options have any case of letters.
    in_capitals = {name.upper(): value for name, value in guarded.items()}
    assert misses(guarded) == misses(in_capitals) == 0
    assert misses({**guarded, "aws_access_key_id": "another"}) > 0


def session_counters(session: pennon.Session, uri: str, options: Options) -> int:
    """How often the caches of a session did not have what was looked for."""
    return pennon.dataset(uri, storage_options=options, session=session).counters().cache_misses


def test_a_number_sign_in_a_name(cloud: Cloud) -> None:
    options = cloud.storage_options
    for address in (f"s3://{BUCKET}/sign#x", f"s3+ddb://{BUCKET}/sign?ddbTableName=a#b"):
        with pytest.raises(pennon.InvalidInputError, match=r'found "#", expected none.*%23'):
            pennon.write_dataset({"a": [1]}, address, storage_options=options)
    address = f"s3://{BUCKET}/sign%23x"
    pennon.write_dataset({"a": [1]}, address, storage_options=options)
    assert values(pennon.dataset(address, storage_options=options)) == [1]
    listed = cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix="sign")["Contents"]
    assert {entry["Key"].split("/")[0] for entry in listed} == {"sign#x"}
