"""Texts about tables: the functions are those of `lance.debug`, the texts are not."""

from __future__ import annotations

import inspect
from pathlib import Path

import lance
import lance.debug as theirs
import pennon
import pennon.debug as ours
import pyarrow as pa
import pytest


@pytest.fixture
def table(tmp_path: Path) -> pennon.LanceDataset:
    point = pa.struct([pa.field("x", pa.float64(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"unit": "m"}), pa.field("at", point)], {"owner": "me"})
    rows = pa.table({"id": range(6), "at": [{"x": 0.5}] * 6}, schema=schema)
    table = pennon.write_dataset(rows, tmp_path / "table", max_rows_per_file=4)
    table.delete("id = 1")
    table.add_columns({"more": "id + 1"})
    table.update_config({"stage": "raw"})
    return table


def test_same_names_and_parameters() -> None:
    public = [name for name in dir(theirs) if not name.startswith("_")]
    assert sorted(ours.__all__) == public
    for name in public:
        mine, other = (inspect.signature(getattr(module, name)).parameters for module in (ours, theirs))
        assert [(p.name, p.default) for p in mine.values()] == [(p.name, p.default) for p in other.values()]


def test_what_the_texts_contain(table: pennon.LanceDataset) -> None:
    # Of either package: what is looked for in them.
    other = lance.dataset(table.uri)
    for module, dataset in ((ours, table), (theirs, other)):
        fragment = dataset.get_fragments()[0].metadata
        schema, manifest = module.format_schema(dataset), module.format_manifest(dataset)
        for text in (schema, manifest):
            for word in ("Schema", "id", "int64", "struct", "x", "double", "more", "unit", "owner"):
                assert word in text
        for text in (manifest, module.format_fragment(fragment, dataset)):
            for word in ("Fragment", "DataFile", fragment.files[0].path, fragment.files[1].path, "DeletionFile"):
                assert word in text
        for word in ("Manifest", "version: 4", "raw"):
            assert word in manifest
        transactions = module.list_transactions(dataset)
        kinds = ["UpdateConfig", "Merge", "Delete", "Overwrite"]
        assert [kind in text for kind, text in zip(kinds, transactions, strict=True)] == [True] * 4
        assert "id = 1" in transactions[2]
        assert [len(module.list_transactions(dataset, number)) for number in (1, 3, 100)] == [1, 3, 4]


def test_schema(table: pennon.LanceDataset) -> None:
    assert ours.format_schema(table).splitlines() == [
        "Schema",
        "  0 id: int64",
        "    metadata: 1",
        "      unit: m",
        "  1 at: struct",
        "    2 x: double not null",
        "  3 more: int64",
        "  metadata: 1",
        "    owner: me",
    ]


def test_fragment(table: pennon.LanceDataset) -> None:
    fragment = table.get_fragments()[0]
    text = ours.format_fragment(fragment.metadata, table)
    assert text == ours.format_fragment(fragment, table)  # type: ignore[arg-type]
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:2] == ["Fragment 0", "rows: 3"]
    assert "columns: id, at.x" in lines
    assert "columns: more" in lines
    assert "physical_rows: 4" in lines
    assert "num_deleted_rows: 1" in lines
    table.drop_columns(["more"])
    assert "columns: field 3, not in the schema" in ours.format_fragment(fragment.metadata, table)


def test_manifest_has_all_fragments(table: pennon.LanceDataset) -> None:
    text = ours.format_manifest(table)
    assert [line.strip() for line in text.splitlines() if "Fragment" in line] == ["Fragment 0", "Fragment 1"]
    assert f"uri: {table.uri}" in text


def test_wrong_input(table: pennon.LanceDataset) -> None:
    for call in (ours.format_schema, ours.format_manifest, ours.list_transactions):
        with pytest.raises(pennon.InvalidInputError, match=r"a int, expected a pennon\.LanceDataset"):
            call(5)  # type: ignore[arg-type]
    with pytest.raises(pennon.InvalidInputError, match="a str, expected its FragmentMetadata"):
        ours.format_fragment("0", table)  # type: ignore[arg-type]
    with pytest.raises(pennon.InvalidInputError, match="is -1"):
        ours.list_transactions(table, -1)
    assert ours.list_transactions(table, 0) == []
