"""Credentials stay out of errors, logs and representations; pickles hold them, since they must open the table."""

from __future__ import annotations

import io
import logging
import pickle
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pennon
import pytest
from pennon import jobs
from support.command import pennon as command
from support.tables import numbers

SECRET = "FAKE5ECRET"
CLOSED = "http://127.0.0.1:9"
QUICK = {"client_max_retries": "0", "request_timeout": "2s", "allow_http": "true", "region": "r"}
AWS = {"aws_access_key_id": "key", "aws_secret_access_key": SECRET, "aws_session_token": SECRET}
AZURE = {"azure_storage_account_name": "account", "azure_storage_endpoint": CLOSED}
ENCODED = "RkFLRTVFQ1JFVA=="
"""The secret in base 64, as Azure has keys."""

CASES: dict[str, tuple[str, dict[str, str], type[Exception]]] = {
    "keys": ("s3://bucket/t", {**AWS, "aws_endpoint": CLOSED}, pennon.StoreError),
    "password of the address": (f"s3://user:{SECRET}@bucket/t", AWS, pennon.InvalidInputError),
    "parameter of the address": (f"s3://bucket/t?X-Amz-Signature={SECRET}", AWS, pennon.InvalidInputError),
    "SAS in the address": (f"abfss://c@a.dfs.core.windows.net/t?sig={SECRET}", AZURE, pennon.InvalidInputError),
    "address that is none": (f"s3://user:{SECRET}@ bucket/t", AWS, pennon.InvalidInputError),
    "other scheme": (f"ftp://user:{SECRET}@host/t?token={SECRET}", {}, pennon.InvalidInputError),
    "local address": (f"file://user:{SECRET}@host/t", {}, pennon.InvalidInputError),
    "manifest store": (f"s3+ddb://user:{SECRET}@b/t?ddbTableName=n", AWS, pennon.InvalidInputError),
    "parameter of a manifest store": (f"s3+ddb://b/t?token={SECRET}", AWS, pennon.InvalidInputError),
    "password of the endpoint": (
        "s3://bucket/t",
        {**AWS, "aws_endpoint": f"http://user:{SECRET}@127.0.0.1:9"},
        pennon.InvalidInputError,
    ),
    "password of Google's endpoint": (
        "gs://bucket/t",
        {"google_base_url": f"http://user:{SECRET}@127.0.0.1:9", "google_skip_signature": "true"},
        pennon.InvalidInputError,
    ),
    "password of Azure's login": (
        "az://c/t",
        {**AZURE, "azure_authority_host": f"http://user:{SECRET}@127.0.0.1:9"},
        pennon.InvalidInputError,
    ),
    "password of the endpoint of manifests": (
        "s3+ddb://bucket/t?ddbTableName=n",
        {**AWS, "aws_endpoint": CLOSED, "dynamodb_endpoint": f"http://user:{SECRET}@127.0.0.1:9"},
        pennon.InvalidInputError,
    ),
    "endpoint that is none": (
        "s3://bucket/t",
        {**AWS, "aws_endpoint": f"http://user:{SECRET}@:x:"},
        pennon.InvalidInputError,
    ),
    "proxy": ("s3://bucket/t", {**AWS, "proxy_url": f"http://user:{SECRET}@127.0.0.1:9"}, pennon.StoreError),
    "misspelled name": ("s3://bucket/t", {"aws_secret_acess_key": SECRET}, pennon.InvalidInputError),
    "two values": ("s3://bucket/t", {**AWS, "secret_access_key": "other"}, pennon.InvalidInputError),
    "account key": ("az://c/t", {**AZURE, "azure_storage_account_key": ENCODED}, pennon.StoreError),
    "account key that is none": (
        "az://c/t",
        {**AZURE, "azure_storage_account_key": f"{SECRET}!"},
        pennon.InvalidInputError,
    ),
    "SAS": ("az://c/t", {**AZURE, "azure_storage_sas_token": f"sv=1&sig={SECRET}"}, pennon.StoreError),
    "token": ("az://c/t", {**AZURE, "azure_storage_token": SECRET}, pennon.StoreError),
    "service account": (
        "gs://bucket/t",
        {"google_service_account_key": f'{{"private_key": "{SECRET}"'},
        pennon.InvalidInputError,
    ),
}
CALLS: dict[str, Callable[[str, dict[str, str]], object]] = {
    "open": lambda uri, options: pennon.dataset(uri, storage_options=options),
    "write": lambda uri, options: pennon.write_dataset(numbers(1), uri, storage_options=options),
    "drop": lambda uri, options: pennon.LanceDataset.drop(uri, storage_options=options),
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, the finest steps too."""
    stream = io.StringIO()
    handler, root, logger = logging.StreamHandler(stream), logging.getLogger(), logging.getLogger("pennon")
    before = logger.level
    root.addHandler(handler)
    logger.setLevel(1)
    yield stream
    logger.setLevel(before)
    root.removeHandler(handler)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("case", CASES)
def test_errors_and_logs(log: io.StringIO, case: str, call: str) -> None:
    uri, options, expected = CASES[case]
    with pytest.raises(expected) as caught:
        CALLS[call](uri, {**QUICK, **options})
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value)
    for hidden in (SECRET, ENCODED):
        assert hidden not in shown + str(caught.value.__cause__) + str(caught.value.__context__)
        assert hidden not in log.getvalue()
    assert log.getvalue(), "nothing was logged"


@dataclass
class Held:
    """A table, and what of it goes to other processes."""

    table: pennon.LanceDataset
    fragment: pennon.LanceFragment
    plan: jobs.JobPlan


@pytest.fixture
def held(uri: str) -> Held:
    pennon.write_dataset(numbers(4), uri)
    table = pennon.dataset(uri, storage_options=AWS)
    return Held(table, table.get_fragments()[0], jobs.plan_delete(table, "id = 1", storage_options=AWS))


def test_representations(held: Held) -> None:
    task = held.plan.tasks[0]
    for value in (held.table, held.fragment, held.table.scanner(), held.plan, task, task._connection):
        assert SECRET not in repr(value) + str(value), type(value)
    assert SECRET not in held.table._repr_html_() + held.fragment._repr_html_()


def test_json_has_none_and_pickles_have_them(held: Held) -> None:
    """Who gets a pickle can open the table; JSON of plans, tasks and fragments can be stored anywhere."""
    task = held.plan.tasks[0]
    assert SECRET not in held.plan.json() + task.json() + str(held.fragment.metadata.to_json())
    assert SECRET.encode() not in pickle.dumps(held.fragment.metadata)
    assert SECRET.encode() not in pickle.dumps(task.run())
    for value in (held.table, held.fragment, held.plan, task):
        assert SECRET.encode() in pickle.dumps(value), type(value)


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked at in /proc")
def test_a_secret_of_a_file_is_not_in_the_list_of_processes(tmp_path: Path) -> None:
    """The store does not answer, so that the command is there to be looked at; then it gets what the file has."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        options = {
            **QUICK,
            "request_timeout": "50s",
            "aws_endpoint": f"http://127.0.0.1:{server.getsockname()[1]}",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "unused",
            "aws_session_token": f"@{secret}",
        }
        words = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
        command = [sys.executable, "-m", "pennon", "count", "s3://bucket/t", *words]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            connection, _ = server.accept()
            with connection:
                seen = command_line(running.pid)
                assert f"aws_session_token=@{secret}" in seen
                assert SECRET not in seen
                request = connection.recv(1 << 16).decode()
        finally:
            running.kill()
            out, err = running.communicate()
    assert f"x-amz-security-token: {SECRET}\r\n" in request.lower().replace(SECRET.lower(), SECRET)
    assert SECRET not in out + err


def test_options_of_files(tmp_path: Path, uri: str) -> None:
    """The content of a file is a value as any other; what cannot be one is an error that does not repeat it."""
    pennon.write_dataset(numbers(3), uri)
    file, folder = tmp_path / "policy", tmp_path / "folder"
    folder.mkdir()
    for content, status in [("pages", 0), ("pages\n", 0), ("pages\r\n", 0), ("pages\n\n", 3)]:
        file.write_bytes(content.encode())
        done = command("count", uri, "--storage-option", f"verify_reads=@{file}")
        assert done.status == status, content
    for content in (b"\xff" + SECRET.encode(), SECRET.encode() * 200_000):
        file.write_bytes(content)
        done = command("count", uri, "--storage-option", f"aws_secret_access_key=@{file}")
        assert done.status == 2
        assert str(file) in done.err
        assert SECRET not in done.out + done.err
    for name in ("", str(tmp_path / "nothing"), str(folder), "a\0b"):
        done = command("count", uri, "--storage-option", f"aws_secret_access_key=@{name}")
        assert done.status == 2, name
        assert "--storage-option" in done.err
    done = command("count", uri, "--storage-option", "verify_reads=@@pages")
    assert done.status == 3
    assert 'verify_reads is "@pages"' in done.err
