"""Addresses of tables that were meant for a store, and local names with a colon."""

from __future__ import annotations

from pathlib import Path

import pennon
import pennon.file
import pytest

NEAR_MISSES = {
    "s3:bucket/x": "s3://bucket/x",
    "s3:/bucket/x": "s3://bucket/x",
    "S3A:bucket": "S3A://bucket",
    "gs:bucket/x": "gs://bucket/x",
    "az:container/x": "az://container/x",
    "abfss:/x": "abfss://x",
    "memory:x": "memory://x",
    "file:x": "file:///x",
    "s3+ddb:bucket/x?ddbTableName=n": "s3+ddb://bucket/x?ddbTableName=n",
    "hdfs:/x": "hdfs://x",
    "https:/host/x": "https://host/x",
}


@pytest.mark.parametrize("address", NEAR_MISSES)
def test_an_address_without_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in (lambda: pennon.write_dataset({"a": [1]}, address), lambda: pennon.dataset(address)):
        with pytest.raises(pennon.InvalidInputError, match="without two slashes") as raised:
            attempt()
        assert f'expected "{NEAR_MISSES[address]}"' in str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a:b", "C:\\x", "./s3:bucket", "s3//bucket", "s3", "x/gs:y"])
def test_local_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    pennon.write_dataset({"a": [1]}, name)
    assert pennon.dataset(name).count_rows() == 1
    assert (tmp_path / name / "_versions").is_dir()


def test_a_secret_is_not_shown() -> None:
    with pytest.raises(pennon.InvalidInputError) as raised:
        pennon.dataset("s3:user:secret@bucket/x")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "file-object-store://{}", "file+sqlite://{}"])
def test_a_fragment_is_refused(tmp_path: Path, form: str) -> None:
    address = form.format(tmp_path / "a#b")
    for attempt in (
        lambda: pennon.write_dataset({"a": [1]}, address),
        lambda: pennon.dataset(address),
        lambda: pennon.file.LanceFileSession(address).open_reader("x.lance"),
    ):
        with pytest.raises(pennon.InvalidInputError, match=r'found "#", expected none.*%23'):
            attempt()
    assert not list(tmp_path.iterdir())


def test_local_names_with_number_signs(tmp_path: Path) -> None:
    pennon.write_dataset({"a": [1]}, str(tmp_path / "a#b"))
    assert pennon.dataset(f"file://{tmp_path}/a%23b").count_rows() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a#b"]


def test_an_address_that_is_not_utf8(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/per%FFcent"
    for attempt in (
        lambda: pennon.write_dataset({"a": [1]}, address),
        lambda: pennon.file.LanceFileSession(address),
    ):
        with pytest.raises(pennon.InvalidInputError, match="not UTF-8"):
            attempt()
    assert not list(tmp_path.iterdir())
