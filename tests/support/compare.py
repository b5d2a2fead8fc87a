"""Tables of Pennon and of the reference, compared. The reference is a test dependency, never one of Pennon."""

from __future__ import annotations

from pathlib import Path

import lance
import pennon
import pyarrow as pa

LINEAGE = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def contents(dataset: lance.LanceDataset | pennon.LanceDataset) -> pa.Table:
    """All rows in order with every system column that says who and where a row is."""
    names = [field.name for field in dataset.schema]
    return dataset.to_table(columns=names + LINEAGE)


def file_versions(table: pennon.LanceDataset) -> list[list[str]]:
    """The versions of the data files of each fragment."""
    files = (fragment.metadata.files for fragment in table.get_fragments())
    return [[f"{file.file_major_version}.{file.file_minor_version}" for file in some] for some in files]


def combined(table: pa.Table) -> pa.Table:
    """The table in one piece; dictionaries become plain values if they have null items, as in file version 2.0."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):
            return kind.value_type
        return pa.list_(kind.value_field.with_type(plain(kind.value_type))) if pa.types.is_list(kind) else kind

    try:
        return table.combine_chunks()
    except pa.ArrowInvalid:  # "Cannot yet unify dictionaries with nulls"
        return table.cast(pa.schema([f.with_type(plain(f.type)) for f in table.schema])).combine_chunks()


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Equal schema, rows and order; names the first column that differs."""
    assert found.schema.names == expected.schema.names
    assert found.num_rows == expected.num_rows
    for name in expected.schema.names:
        assert found.schema.field(name).type == expected.schema.field(name).type, name
    found, expected = combined(found), combined(expected)
    for name in expected.schema.names:
        left, right = found[name], expected[name]
        if not left.equals(right):
            for row, (a, b) in enumerate(zip(left.to_pylist(), right.to_pylist(), strict=True)):
                assert a == b, f"column {name!r} row {row}: {a!r} is not {b!r}"
            left.validate(full=True)


def assert_both_agree(uri: str | Path, version: int | None = None) -> pa.Table:
    """Opens one table with both implementations and compares all they say about it."""
    theirs = lance.dataset(str(uri), version=version)
    ours = pennon.dataset(str(uri), version=version)
    theirs.validate()
    ours.validate()
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.version == theirs.version
    assert ours.count_rows() == theirs.count_rows()
    assert [f.fragment_id for f in ours.get_fragments()] == [f.fragment_id for f in theirs.get_fragments()]
    table = contents(ours)
    assert_same(table, contents(theirs))
    return table
