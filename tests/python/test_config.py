"""Config and metadata of the table, the schema and its fields."""

from __future__ import annotations

import os
from pathlib import Path

import pennon
import pytest
from pennon import LanceOperation as Operation
from support.tables import numbers


def test_config(table: pennon.LanceDataset) -> None:
    assert table.config() == {}
    assert table.update_config({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert table.update_config({"a": None, "c": "3"}) == {"b": "2", "c": "3"}
    assert table.update_config({"d": "4"}, replace=True) == {"d": "4"}
    assert table.delete_config_keys(["d", "absent"]) is None
    assert (table.config(), table.version, table.count_rows()) == ({}, 5, 10)
    assert table.checkout_version(3).config() == {"b": "2", "c": "3"}
    change = table.read_transaction(3).operation
    assert change == Operation.UpdateConfig(config_updates=Operation.UpdateMap({"a": None, "c": "3"}))


def test_writers_of_other_keys_do_not_meet(table: pennon.LanceDataset, uri: str) -> None:
    one, two, three = (pennon.dataset(uri) for _ in range(3))
    one.update_config({"x": "1"})
    assert two.update_config({"y": "2"}) == {"x": "1", "y": "2"}
    with pytest.raises(pennon.CommitConflictError):
        one.update_config({"y": "3"})
    three.update_field_metadata({"id": {"unit": "m"}})
    with pytest.raises(pennon.CommitConflictError):
        two.update_field_metadata({"id": {"unit": "km"}})
    two.update_field_metadata({"text": {"lang": "en"}})
    assert (pennon.dataset(uri).config(), table.latest_version) == ({"x": "1", "y": "2"}, 5)


def test_table_metadata(table: pennon.LanceDataset) -> None:
    assert table.metadata == {}
    assert table.update_metadata({"owner": "me"}) == {"owner": "me"}
    assert table.update_metadata({"since": "today"}, replace=True) == {"since": "today"}
    assert (table.metadata, table.config(), table.schema_metadata) == ({"since": "today"}, {}, {})


def test_schema_metadata(table: pennon.LanceDataset) -> None:
    assert table.update_schema_metadata({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert table.update_schema_metadata({"a": None}) == {"b": "2"}
    assert table.schema.metadata == {b"b": b"2"}
    with pytest.warns(DeprecationWarning, match="update_schema_metadata"):
        table.replace_schema_metadata({"c": "3"})
    assert table.schema_metadata == {"c": "3"}


def test_field_metadata(table: pennon.LanceDataset) -> None:
    table.update_field_metadata({"id": {"unit": "m", "note": "x"}, "text": {"lang": "en"}})
    table.update_field_metadata({"id": {"note": None}})
    assert table.schema.field("id").metadata == {b"unit": b"m"}
    assert table.lance_schema.field("text").metadata == {"lang": "en"}
    table.update_field_metadata({"id": {"new": "1"}}, replace=True)
    assert table.schema.field("id").metadata == {b"new": b"1"}
    with pytest.warns(DeprecationWarning, match="update_field_metadata"):
        table.replace_field_metadata("id", {"newer": "2"})
    assert table.schema.field("id").metadata == {b"newer": b"2"}
    change = table.read_transaction(4).operation
    assert change.field_metadata_updates == {0: Operation.UpdateMap({"new": "1"}, replace=True)}


def test_field_metadata_of_members(uri: str) -> None:
    table = pennon.write_dataset([{"pos": {"x": 1, "y": 2}}], uri)
    table.update_field_metadata({"pos.y": {"unit": "m"}})
    assert table.lance_schema.field("pos.y").metadata == {"unit": "m"}
    assert table.lance_schema.field("pos").metadata == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lance.auto_cleanup.interval", "often"),
        ("lance.auto_cleanup.older_than", "yesterday"),
        ("lance.auto_cleanup.retain_versions", "-1"),
    ],
)
def test_settings_that_cannot_be_parsed(table: pennon.LanceDataset, uri: str, key: str, value: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=key):
        table.update_config({key: value})
    update = Operation.UpdateConfig(Operation.UpdateMap({key: value}))
    with pytest.raises(pennon.InvalidInputError, match=key):
        pennon.LanceDataset.commit(uri, update, read_version=1)
    assert table.latest_version == 1
    assert table.update_config({key: None}) == {}


@pytest.mark.parametrize("age", ["1.5h", "1 month", "2weeks 3days", "1y"])
def test_ages(table: pennon.LanceDataset, age: str) -> None:
    """All that the reference reads."""
    key = "lance.auto_cleanup.older_than"
    assert table.update_config({key: age})[key] == age


def test_wrong_updates(table: pennon.LanceDataset, uri: str) -> None:
    for wrong in ("x", {"a": 1}, {1: "a"}, ["a"]):
        with pytest.raises(TypeError):
            table.update_config(wrong)
    with pytest.raises(TypeError):
        table.update_field_metadata({0: {"a": "b"}})
    with pytest.raises(OSError, match="zz"):
        table.update_field_metadata({"zz": {"a": "b"}})
    unknown = Operation.UpdateConfig(field_metadata_updates={77: Operation.UpdateMap({"a": "b"})})
    with pytest.raises(pennon.InvalidInputError, match="77"):
        pennon.LanceDataset.commit(uri, unknown, read_version=1)
    assert table.latest_version == 1


def test_newer_manifest_names(uri: str) -> None:
    table = pennon.write_dataset(numbers(3), uri, enable_v2_manifest_paths=False)
    table.insert(numbers(3, 10))
    table.delete("id = 0")
    versions = Path(uri) / "_versions"
    assert {name for name in os.listdir(versions) if name.endswith(".manifest")} == {
        "1.manifest",
        "2.manifest",
        "3.manifest",
    }
    older = table.checkout_version(2)
    for _ in range(2):
        table.migrate_manifest_paths_v2()
        assert sum(len(name) == 29 for name in os.listdir(versions)) == 3
        assert [entry["version"] for entry in pennon.dataset(uri).versions()] == [1, 2, 3]
    assert (table.version, pennon.dataset(uri, version=1).count_rows()) == (3, 3)
    older.checkout_latest()
    older.insert(numbers(1, 20))
    assert pennon.dataset(uri).count_rows() == 6
    assert not [name for name in os.listdir(versions) if name.endswith(".manifest") and len(name) != 29]
