"""`compatible_with`: tables for older releases of pylance; and what `make neighbours` found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pennon
import pytest
from neighbours import page, results
from pennon import _readers
from support.tables import numbers

KEY = "pennon.compatible_with"
SPILL = {"lance.row_lineage.spill": "false"}


@pytest.mark.parametrize(
    ("name", "version", "stable", "config"),
    [
        ("pylance 0.24.1", "2.0", False, SPILL),
        ("pylance 0.37", "2.0", False, SPILL),
        ("pylance 0.38", "2.1", False, SPILL),
        ("pylance 1", "2.1", False, SPILL),
        ("pylance 2.0.1", "2.1", False, SPILL),
        ("pylance 3.0", "2.2", False, SPILL),
        ("pylance 10.0", "2.2", True, SPILL),
        ("pylance 14.0.2", "2.2", True, {}),
    ],
)
@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_a_new_table(uri: str, name: str, version: str, stable: bool, config: dict[str, str], mode: Any) -> None:
    table = pennon.write_dataset(numbers(5), uri, mode=mode, compatible_with=name)
    assert (table.data_storage_version, table.has_stable_row_ids) == (version, stable)
    assert table.config() == {KEY: name, **config}
    assert table.count_rows() == 5


def test_options_that_fit(uri: str) -> None:
    """An older file version and row ids that are asked for are no contradiction, and other config is kept."""
    table = pennon.write_dataset(
        numbers(5),
        uri,
        compatible_with="pylance 1.0",
        data_storage_version="2.0",
        enable_stable_row_ids=True,
        auto_cleanup_options={"interval": 7, "older_than_seconds": 60},
    )
    assert (table.data_storage_version, table.has_stable_row_ids) == ("2.0", True)
    assert table.config()[KEY] == "pylance 1.0"
    assert table.config()["lance.auto_cleanup.interval"] == "7"
    off = pennon.write_dataset(numbers(5), uri + "2", compatible_with="pylance 14.0", enable_stable_row_ids=False)
    assert not off.has_stable_row_ids


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({"data_storage_version": "2.2"}, "data_storage_version='2.2'", "compatible_with='pylance 0.24'"),
        ({"data_storage_version": "stable"}, "data_storage_version='stable'", "compatible_with='pylance 0.24'"),
        ({"enable_stable_row_ids": True}, "enable_stable_row_ids=True", "compatible_with='pylance 0.24'"),
    ],
)
def test_options_that_contradict(uri: str, options: dict[str, Any], first: str, second: str) -> None:
    with pytest.raises(pennon.InvalidInputError) as raised:
        pennon.write_dataset(numbers(5), uri, compatible_with="pylance 0.24", **options)
    assert first in str(raised.value)
    assert second in str(raised.value)
    assert not Path(uri).exists()


@pytest.mark.parametrize("name", ["pylance 0.23.9", "pylance 15.0", "pylance", "lance 1.0", "", "pylance 1.0.x"])
def test_unknown_readers(uri: str, name: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=r"from 'pylance 0\.24' to 'pylance 14\.0'") as raised:
        pennon.write_dataset(numbers(5), uri, compatible_with=name)
    assert repr(name) in str(raised.value)
    with pytest.raises(pennon.InvalidTypeError, match="int"):
        pennon.write_dataset(numbers(5), uri, compatible_with=1)  # type: ignore[arg-type]


def test_later_calls_keep_to_it(uri: str) -> None:
    table = pennon.write_dataset(numbers(5), uri, compatible_with="pylance 1.0")
    newer = "data_storage_version='2.2' contradicts pennon.compatible_with='pylance 1.0' in the config"
    merge = table.merge_insert("id").when_matched_update_all()
    for refused in (
        lambda: pennon.write_dataset(numbers(3), uri, mode="overwrite", data_storage_version="2.2"),
        lambda: pennon.write_dataset(numbers(3), table, mode="overwrite", data_storage_version="2.2"),
        lambda: table.update({"text": "'x'"}, data_storage_version="2.2"),
        lambda: merge.data_storage_version("2.2"),
        lambda: table.optimize.compact_files(data_storage_version="2.2"),
    ):
        with pytest.raises(pennon.InvalidInputError, match=newer):
            refused()
    assert pennon.dataset(uri).version == 1
    pennon.write_dataset(numbers(3), uri, mode="overwrite")
    table = pennon.write_dataset(numbers(3), uri, mode="overwrite", data_storage_version="2.0")
    assert (table.data_storage_version, table.config()[KEY]) == ("2.0", "pylance 1.0")
    table.delete_config_keys([KEY])
    table = pennon.write_dataset(numbers(3), uri, mode="overwrite", data_storage_version="2.2")
    assert table.data_storage_version == "2.2"


def test_tables_that_exist(uri: str) -> None:
    pennon.write_dataset(numbers(5), uri, enable_stable_row_ids=False)
    with pytest.raises(pennon.InvalidInputError, match=r"'pylance 1\.0'.*_version is '2\.2'.*2\.1 at most"):
        pennon.write_dataset(numbers(1), uri, mode="append", compatible_with="pylance 1.0")
    assert pennon.write_dataset(numbers(1), uri, mode="append", compatible_with="pylance 3.0").version == 2
    table = pennon.write_dataset(numbers(1), uri, mode="overwrite", compatible_with="pylance 1.0")
    assert (table.version, table.data_storage_version) == (3, "2.1")
    table.update_config({KEY: "pylance 0.30"})
    with pytest.raises(pennon.InvalidInputError, match=r"'pylance 1\.0' contradicts .*'pylance 0\.30'"):
        pennon.write_dataset(numbers(1), uri, mode="append", compatible_with="pylance 1.0")


def test_tables_with_row_ids_that_exist(uri: str) -> None:
    table = pennon.write_dataset(numbers(5), uri, data_storage_version="2.0")
    with pytest.raises(pennon.InvalidInputError, match="has stable row ids"):
        pennon.write_dataset(numbers(1), uri, mode="append", compatible_with="pylance 0.24")
    with pytest.raises(pennon.InvalidInputError, match=r"update_config\(\{'lance.row_lineage.spill': 'false'\}\)"):
        pennon.write_dataset(numbers(1), uri, mode="append", compatible_with="pylance 1.0")
    table.update_config(SPILL)
    assert pennon.write_dataset(numbers(1), uri, mode="append", compatible_with="pylance 1.0").count_rows() == 6


def test_the_page_is_that_of_what_was_found() -> None:
    assert page.PAGE.read_text() == page.text(results.load_all()), "python -m neighbours.page --write"


def test_what_was_found_is_what_is_promised() -> None:
    """Every reader of the table was tried, reads what is written for it, and no newer file version."""
    releases = [found.release for found in results.load_all()]
    assert len(releases) >= 10
    tried = {_readers.reader_of(f"pylance {release}") for release in releases if results.order(release) >= (0, 24)}
    assert tried == set(_readers.READERS)
    assert page.broken_promises() == []
    assert page.modest_settings() == []


def test_a_promise_that_is_broken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = (_readers.Reader("0.24", "2.2", "on", True),)
    monkeypatch.setattr(_readers, "READERS", readers)
    broken = page.broken_promises()
    assert any("0.24.1, reads 2.2" in line for line in broken)
    modest = (_readers.Reader("0.24", "2.0", "off", False),)
    monkeypatch.setattr(_readers, "READERS", modest)
    assert any(line.startswith("14.0.2 reads file version 2.2") for line in page.modest_settings())
