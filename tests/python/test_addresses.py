"""Addresses of tables that were meant for a store, and local names with a colon."""

from __future__ import annotations

from pathlib import Path

import pennon
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
