"""Changes of the schema next to changes that were begun before: by neither library is anything lost silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon import jobs

KEY = {"lance-schema:unenforced-primary-key": "true"}
LIBRARIES = pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])


def written(uri: str, *, nullable: bool = True, **options: Any) -> pennon.LanceDataset:
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("v", pa.int64(), nullable=nullable), ("w", pa.int64())]
    )
    return pennon.write_dataset(pa.table({"id": [1, 2], "v": [10, 20], "w": [5, 6]}, schema), uri, **options)


def rows_of(uri: str) -> list[dict[str, Any]]:
    """As both libraries read them."""
    ours = pennon.dataset(uri).to_table().to_pylist()
    assert lance.dataset(uri).to_table().to_pylist() == ours
    assert pennon.verify(uri, data=True).ok
    return ours


# A column that gets another type.


def by_insert(table: pennon.LanceDataset, new: pa.Table) -> Callable[[], Any]:
    return lambda: table.insert(new)


def by_job(table: pennon.LanceDataset, new: pa.Table) -> Callable[[], Any]:
    plan = jobs.plan_append(table, tasks=1)
    results = [plan.task(0).run(new)]
    return lambda: plan.commit(results)


def by_operation(table: pennon.LanceDataset, new: pa.Table) -> Callable[[], Any]:
    operation = pennon.LanceOperation.Append(pennon.fragment.write_fragments(new, table))
    return lambda: pennon.LanceDataset.commit(table.uri, operation, read_version=table.version)


@pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "required"])
@pytest.mark.parametrize("append", [by_insert, by_job, by_operation])
@LIBRARIES
def test_appends_next_to_another_type(uri: str, library: Any, append: Any, nullable: bool) -> None:
    table = written(uri, nullable=nullable)
    before = rows_of(uri)
    commit = append(pennon.dataset(uri), table.to_table())
    library.dataset(uri).alter_columns({"path": "v", "data_type": pa.int32()})
    with pytest.raises(pennon.CommitConflictError) as caught:
        commit()
    assert caught.value.retryable
    assert rows_of(uri) == before
    # Again, with the new type.
    pennon.dataset(uri).insert(pennon.dataset(uri).to_table())
    assert rows_of(uri) == before * 2


@pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "required"])
def test_appends_of_the_reference_next_to_another_type(uri: str, nullable: bool) -> None:
    written(uri, nullable=nullable)
    before, stale = rows_of(uri), lance.dataset(uri)
    pennon.dataset(uri).alter_columns({"path": "v", "data_type": pa.int32()})
    with pytest.raises(OSError, match="Retryable commit conflict"):
        stale.insert(stale.to_table())
    assert rows_of(uri) == before


@pytest.mark.parametrize("new", ["id + 7", "concat('x', id)"], ids=["same type", "other type"])
@LIBRARIES
def test_appends_next_to_a_column_with_the_same_id(uri: str, library: Any, new: str) -> None:
    """The id of a dropped column is given out again."""
    table = pennon.write_dataset({"id": [0, 1]}, uri)
    table.add_columns({"score": "id * 100"})
    writer = pennon.dataset(uri)
    library.dataset(uri).drop_columns(["score"])
    # Nothing but the column that is gone: its values go with it.
    before = pennon.dataset(uri)
    library.dataset(uri).add_columns({"label": new})
    assert pennon.dataset(uri).lance_schema.field("label").id == table.lance_schema.field("score").id
    expected = rows_of(uri)
    with pytest.raises(pennon.CommitConflictError, match="another column") as caught:
        writer.insert({"id": [9], "score": [9]})
    assert caught.value.retryable
    before.insert({"id": [9]})
    assert rows_of(uri) == [*expected, {"id": 9, "label": None}]


@LIBRARIES
def test_appends_next_to_a_dropped_column(uri: str, library: Any) -> None:
    """Its values are not read any more; if no file has the column, its id is free again."""
    table = written(uri)
    table.add_columns({"own": "id"})
    stale = [pennon.dataset(uri) for _ in range(2)]
    library.dataset(uri).drop_columns(["w"])
    stale[0].insert(stale[0].to_table())
    library.dataset(uri).drop_columns(["own"])
    expected = rows_of(uri)
    assert [sorted(row) for row in expected] == [["id", "v"]] * 4
    # The rows that were appended have the column.
    stale[1].insert(stale[1].to_table())
    assert rows_of(uri) == expected + expected[:2]
    pennon.dataset(uri).optimize.compact_files()
    other = pennon.dataset(uri)
    other.add_columns({"own": "id"})
    late = pennon.dataset(uri)
    library.dataset(uri).drop_columns(["own"])
    with pytest.raises(pennon.CommitConflictError, match="its id is free again") as caught:
        late.insert(late.to_table())
    assert caught.value.retryable
    assert [sorted(row) for row in rows_of(uri)] == [["id", "v"]] * 6


@pytest.mark.parametrize("gone", ["type", "column"])
@LIBRARIES
def test_indices_of_columns_that_are_dropped(uri: str, library: Any, gone: str) -> None:
    written(uri)
    stale = pennon.dataset(uri)
    if gone == "type":
        library.dataset(uri).alter_columns({"path": "v", "data_type": pa.int32()})
    else:
        library.dataset(uri).drop_columns(["v"])
    with pytest.raises(pennon.CommitConflictError, match="gets another type or is dropped") as caught:
        stale.create_scalar_index("v", "BTREE")
    assert caught.value.retryable
    assert pennon.dataset(uri).list_indices() == []
    assert rows_of(uri)


# Metadata of fields.

SCHEMAS: dict[str, Callable[[pennon.LanceDataset], Any]] = {
    "rename": lambda t: t.alter_columns({"path": "v", "name": "x"}),
    "drop": lambda t: t.drop_columns(["w"]),
    "required": lambda t: t.alter_columns({"path": "v", "nullable": False}),
}


@pytest.mark.parametrize("change", SCHEMAS)
@LIBRARIES
def test_metadata_of_fields_is_kept(uri: str, library: Any, change: str) -> None:
    written(uri)
    stale = pennon.dataset(uri)
    library.dataset(uri).update_field_metadata({"id": {"unit": "m"}})
    with pytest.raises(pennon.CommitConflictError, match="the metadata of a field") as caught:
        SCHEMAS[change](stale)
    assert caught.value.retryable
    stale.checkout_latest()
    SCHEMAS[change](stale)
    assert pennon.dataset(uri).schema.field("id").metadata == {b"unit": b"m"}
    # That of the schema is carried along.
    other = pennon.dataset(uri)
    stale.replace_schema_metadata({"by": "us"})
    other.alter_columns({"path": "id", "name": "number"})
    assert pennon.dataset(uri).schema.metadata == {b"by": b"us"}


# A table that was replaced.

NEW = pa.table({"id": [1], "v": [0], "w": [0]})
CHANGES: dict[str, Callable[[pennon.LanceDataset], Any]] = {
    "update": lambda t: t.update({"v": "v + 1"}, where="id = 1"),
    "delete": lambda t: t.delete("id < 10"),
    "merge": lambda t: t.merge_insert("id").when_matched_update_all().execute(NEW),
}


@pytest.mark.parametrize("replace", ["overwrite", "restore"])
@pytest.mark.parametrize("before", [False, True], ids=["alone", "after another update"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_was_replaced(uri: str, change: str, before: bool, replace: str) -> None:
    """Whatever else was committed before."""
    table = written(uri)
    table.insert({"id": [3], "v": [30], "w": [7]})
    stale = pennon.dataset(uri)
    if before:
        pennon.dataset(uri).update({"v": "v + 1"}, where="id = 1")
    if replace == "overwrite":
        pennon.write_dataset(table.to_table().slice(0, 1), uri, mode="overwrite")
    else:
        pennon.dataset(uri, 1).restore()
    expected = rows_of(uri)
    with pytest.raises(pennon.CommitConflictError, match="was replaced") as caught:
        CHANGES[change](stale)
    assert not caught.value.retryable
    assert rows_of(uri) == expected


# Primary keys.


def test_primary_keys_are_never_null(uri: str) -> None:
    """The reference does not open a table with a key that may be null."""
    table = written(uri, nullable=False)
    with pytest.raises(pennon.InvalidInputError, match=r"must not be nullable.*`id`"):
        table.update_field_metadata({"id": KEY})
    with pytest.raises(OSError, match="must not be nullable"):
        lance.dataset(uri).update_field_metadata({"id": KEY})
    table.update_field_metadata({"v": KEY})
    with pytest.raises(pennon.InvalidInputError, match=r"must not be nullable.*`v`"):
        pennon.dataset(uri).alter_columns({"path": "v", "nullable": True})
    assert lance.dataset(uri).version == 2
    assert len(rows_of(uri)) == 2


# Merges of a caller's own.


def operations(library: Any, table: Any) -> dict[str, Any]:
    fragments = [fragment.metadata for fragment in table.get_fragments()]
    fields = [pa.field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("w", pa.int64())]
    other_type = [pa.field("id", pa.int64()), pa.field("v", pa.string()), pa.field("w", pa.int64())]
    merge = library.LanceOperation.Merge
    return {
        "leaves out fragment": merge(fragments[:1], table.lance_schema),
        "keeps its values of another type": merge(fragments, pa.schema(other_type)),
        "may not be null": merge(fragments, pa.schema([*fields, pa.field("z", pa.int64(), nullable=False)])),
    }


@pytest.mark.filterwarnings("ignore:Passing a pyarrow.Schema")
@pytest.mark.parametrize("message", ["leaves out fragment", "keeps its values of another type", "may not be null"])
def test_merges_that_lose_values(uri: str, message: str) -> None:
    table = written(uri, max_rows_per_file=1)
    expected = rows_of(uri)
    with pytest.raises(pennon.InvalidInputError, match=message):
        pennon.LanceDataset.commit(uri, operations(pennon, table)[message], read_version=1)
    assert rows_of(uri) == expected
    if message != "may not be null":
        with pytest.raises(OSError, match="Merge operation"):
            lance.LanceDataset.commit(uri, operations(lance, lance.dataset(uri))[message], read_version=1)
        return
    # The reference commits it: then `verify` says what cannot be read.
    lance.LanceDataset.commit(uri, operations(lance, lance.dataset(uri))[message], read_version=1)
    with pytest.raises(pennon.CorruptError, match="may not be null, yet no data file has it"):
        pennon.dataset(uri).to_table()
    findings = pennon.verify(uri).findings
    assert [finding.kind for finding in findings] == ["wrong_columns"] * 2
    assert [finding.fragment for finding in findings] == [0, 1]
    assert "field z (id 3) may not be null" in findings[0].message


@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_structs_in_one_column(uri: str, library: Any, version: str) -> None:
    """A file may list the struct alone; then it has the members, of which some may not be null."""
    member = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("p", member, metadata={"packed": "true"})])
    rows = pa.table({"id": [1, 2], "p": pa.array([{"a": 1, "b": 2}, {"a": 3, "b": 4}], member)}, schema=schema)
    table = library.write_dataset(rows, uri, data_storage_version=version)
    assert rows_of(uri) == rows.to_pylist()
    fragments, merged = zip(*(f.merge_columns({"twice": "id * 2"}) for f in table.get_fragments()), strict=True)
    library.LanceDataset.commit(uri, library.LanceOperation.Merge(list(fragments), merged[0]), read_version=1)
    assert [row["twice"] for row in rows_of(uri)] == [2, 4]


# Structs of which no member is stored.


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_structs_without_a_stored_member(uri: str, version: str) -> None:
    table = pennon.write_dataset(
        pa.table({"id": [1, 2], "s": [{"a": 1}, {"a": 2}]}), uri, data_storage_version=version
    )
    table.add_columns(pa.field("s", pa.struct([("c", pa.int64())])))
    table.drop_columns(["s.a"])
    # In files of version 2.0 the struct has a column of its own, which has no nulls.
    struct = {"c": None} if version == "2.0" else None
    assert rows_of(uri) == [{"id": 1, "s": struct}, {"id": 2, "s": struct}]
    assert table.count_rows("s IS NULL") == lance.dataset(uri).count_rows("s IS NULL") == (0 if struct else 2)
    table.insert({"id": [3], "s": [{"c": 5}]})
    table.update({"id": "id + 10"}, where="id = 1")
    table.optimize.compact_files()
    expected = [{"id": 2, "s": struct}, {"id": 3, "s": {"c": 5}}, {"id": 11, "s": struct}]
    assert sorted(rows_of(uri), key=lambda row: row["id"]) == expected


# A column that is dropped, the last one of all there were.


def update_all(table: pennon.LanceDataset) -> None:
    table.update({"id": "id + 1"})


def merge_all(table: pennon.LanceDataset) -> None:
    source = {"id": [1, 2], "v": [0, 0], "w": [0, 0]}
    table.merge_insert("id").when_matched_update_all().execute(source)


def job_for_all(table: pennon.LanceDataset) -> None:
    jobs.run(jobs.plan_update(table, {"id": "id + 1"}))


@pytest.mark.parametrize("stable", [True, False], ids=["ids", "addresses"])
@pytest.mark.parametrize("verb", [update_all, merge_all, job_for_all])
def test_a_change_of_all_rows_after_the_last_column_was_dropped(
    tmp_path: Any, stable: bool, verb: Callable[[pennon.LanceDataset], None]
) -> None:
    uri = f"{tmp_path}/table.lance"
    before = written(uri, enable_stable_row_ids=stable)
    pennon.dataset(uri).drop_columns(["w"])
    verb(before)
    assert [set(row) for row in rows_of(uri)] == [{"id", "v"}] * 2
