"""Indices of the reference on tables that Pennon changes: what an entry covers, and when it is kept.

The reference trusts the bitmap of an entry: rows of a fragment that it names are only looked for in the index.
So after every change a query through the index must find what a query without it finds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon.transaction import Index, IndexFile

ROWS = 60


def numbers(uri: str, stable: bool, version: str = "2.2") -> Any:
    """Three fragments of twenty rows."""
    ids = pa.array(range(ROWS), pa.int64())
    data = pa.table({"id": ids, "v": ids, "s": [f"s{i}" for i in range(ROWS)]})
    return lance.write_dataset(
        data, uri, max_rows_per_file=20, enable_stable_row_ids=stable, data_storage_version=version
    )


def vectors(uri: str, stable: bool, rows: int = 300) -> Any:
    """Three fragments with vectors of four numbers."""
    values = np.random.default_rng(5).random(rows * 3 * 4, dtype=np.float32)
    embeddings = pa.FixedSizeListArray.from_arrays(pa.array(values), 4)
    data = pa.table({"id": pa.array(range(rows * 3), pa.int64()), "e": embeddings})
    return lance.write_dataset(data, uri, max_rows_per_file=rows, enable_stable_row_ids=stable)


def entries(uri: str) -> list[tuple[str, list[int]]]:
    found = lance.dataset(uri).list_indices()
    return sorted((entry["name"], sorted(entry["fragment_ids"])) for entry in found)


def found(uri: str, predicate: str) -> list[int]:
    """Ids that the reference finds through its indices; those it finds without must be the same."""
    table = lance.dataset(uri)
    assert "ScalarIndexQuery" in table.scanner(filter=predicate).explain_plan()
    through = sorted(table.to_table(filter=predicate)["id"].to_pylist())
    without = table.scanner(filter=predicate, use_scalar_index=False).to_table()
    assert through == sorted(without["id"].to_pylist())
    return through


def raised(table: Any, fragment: int, column: str = "v") -> tuple[Any, list[int]]:
    """The fragment with 1,000 more in a column, in a file of its own; and the fields that changed."""
    part = table.get_fragment(fragment)
    old = part.to_table(columns=["id", column])
    new = (
        old.set_column(1, column, pc.add(old[column], 1000))
        if column == "v"
        else old.set_column(1, column, pc.binary_join_element_wise(old[column], "x", ""))
    )
    found = part.update_columns(new, "id", "id")
    return found[0], list(found[1])


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_a_merge_with_new_values_of_an_indexed_column(uri: str, stable: bool, file_version: str, kind: str) -> None:
    theirs = numbers(uri, stable, file_version)
    theirs.create_scalar_index("v", kind)
    theirs.create_scalar_index("id", "BTREE")
    table = pennon.dataset(uri)
    fragments = [part.metadata for part in table.get_fragments()]
    fragments[1] = raised(table, 1)[0]
    operation = pennon.LanceOperation.Merge(fragments, table.lance_schema)
    pennon.LanceDataset.commit(uri, operation, read_version=table.version)
    assert entries(uri) == [("id_idx", [0, 1, 2]), ("v_idx", [0, 2])]
    assert found(uri, "v >= 1000") == list(range(20, 40))
    assert found(uri, "v < 60") == [*range(20), *range(40, 60)]


def test_a_merge_of_other_columns_leaves_indices_alone(uri: str, stable: bool) -> None:
    numbers(uri, stable).create_scalar_index("v", "BTREE")
    table = pennon.dataset(uri)
    table.add_columns({"double": "v * 2"})
    table.merge(pa.table({"id": pa.array(range(ROWS), pa.int64()), "more": ["m"] * ROWS}), "id")
    assert entries(uri) == [("v_idx", [0, 1, 2])]
    assert found(uri, "v = 33") == [33]


def replaced(uri: str, how: str, column: str = "v") -> None:
    """Fragment 1 gets other values of a column, where its rows are."""
    table = pennon.dataset(uri)
    metadata, fields = raised(table, 1, column)
    if how == "merge":
        fragments = [part.metadata for part in table.get_fragments()]
        fragments[1] = metadata
        operation: Any = pennon.LanceOperation.Merge(fragments, table.lance_schema)
    else:
        told = fields if how == "update" else []
        operation = pennon.LanceOperation.Update(updated_fragments=[metadata], fields_modified=told)
    pennon.LanceDataset.commit(uri, operation, read_version=table.version)


def ours_of(index: Any) -> Index:
    return Index(
        uuid=index.uuid,
        name=index.name,
        fields=list(index.fields),
        dataset_version=index.dataset_version,
        fragment_ids=set(index.fragment_ids),
        index_version=index.index_version,
        created_at=index.created_at,
        base_id=index.base_id,
        files=None if index.files is None else [IndexFile(f.path, f.size_bytes) for f in index.files],
        index_details=index.index_details,
    )


@pytest.mark.parametrize("how", ["update", "update without its fields", "merge"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_an_index_that_was_made_before_an_update_in_place(uri: str, stable: bool, kind: str, how: str) -> None:
    """The reference takes the fragment out after an update that names the fields; here it is out in every case."""
    theirs = numbers(uri, stable)
    index = theirs.create_index_uncommitted("v", kind, name="v_idx", fragment_ids=[0, 1, 2])
    read = theirs.version
    replaced(uri, how)
    pennon.dataset(uri).update_config({"a": "b"})
    operation = pennon.LanceOperation.CreateIndex([ours_of(index)], [])
    pennon.LanceDataset.commit(uri, operation, read_version=read)
    assert entries(uri) == [("v_idx", [0, 2])]
    assert found(uri, "v >= 1000") == list(range(20, 40))
    if how == "update":
        by_reference(uri, kind, "v", [0, 2])


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_an_index_that_was_made_before_changes_elsewhere(uri: str, stable: bool, kind: str) -> None:
    theirs = numbers(uri, stable)
    index = theirs.create_index_uncommitted("v", kind, name="v_idx", fragment_ids=[0, 1])
    read = theirs.version
    replaced(uri, "update", "s")
    table = pennon.dataset(uri)
    table.add_columns({"double": "v * 2"})
    table.update({"v": "v + 1000"}, where="id < 3")
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.CreateIndex([ours_of(index)], []), read_version=read)
    assert entries(uri) == [("v_idx", [0, 1])]
    assert found(uri, "v >= 1000") == [0, 1, 2]
    assert found(uri, "v >= 10 and v < 50") == list(range(10, 50))


def by_reference(uri: str, kind: str, column: str, covered: list[int]) -> None:
    """The reference does the same with the same steps."""
    twin = f"{uri}-twin"
    theirs = numbers(twin, True)
    index = theirs.create_index_uncommitted(column, kind, name="v_idx", fragment_ids=[0, 1, 2])
    metadata, fields = raised(theirs, 1)
    operation = lance.LanceOperation.Update(updated_fragments=[metadata], fields_modified=fields)
    lance.LanceDataset.commit(twin, operation, read_version=1)
    lance.LanceDataset.commit(twin, lance.LanceOperation.CreateIndex([index], []), read_version=1)
    assert [sorted(entry["fragment_ids"]) for entry in lance.dataset(twin).list_indices()] == [covered]


CHANGES: dict[str, Any] = {
    "delete": lambda table: table.delete("id = 3"),
    "update": lambda table: table.update({"id": "id + 10000"}, where="id = 4"),
    "add": lambda table: table.add_columns({"more": "id + 1"}),
    "drop": lambda table: table.drop_columns(["more"]),
    "config": lambda table: table.update_config({"a": "b"}),
    "merge": lambda table: (
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table.to_table())
    ),
}


def nearest(uri: str) -> list[int]:
    query = {"column": "e", "q": [0.5, 0.5, 0.5, 0.5], "k": 5, "nprobes": 2}
    return lance.dataset(uri).to_table(nearest=query)["id"].to_pylist()


def test_a_vector_index_that_was_never_trained_is_kept(uri: str, stable: bool) -> None:
    """Too few rows for a codebook: the entry has an empty bitmap and no files, and waits for more rows."""
    theirs = vectors(uri, stable, rows=20)
    theirs.create_index("e", "IVF_PQ", num_partitions=1, num_sub_vectors=2)
    assert not (Path(uri) / "_indices").exists()
    for change in CHANGES.values():
        change(pennon.dataset(uri))
        assert entries(uri) == [("e_idx", [])]
        report = pennon.verify(uri)
        assert report.ok, str(report)
        pennon.dataset(uri).validate()
    assert len(nearest(uri)) == 5


@pytest.mark.parametrize("empty", ["deleted", "updated"])
def test_a_vector_index_that_covers_no_live_fragment_is_kept(uri: str, stable: bool, empty: str) -> None:
    vectors(uri, stable).create_index("e", "IVF_FLAT", num_partitions=2)
    table = pennon.dataset(uri)
    if empty == "deleted":
        table.delete("true")
        lance.write_dataset(vectors(f"{uri}-more", stable).to_table(), uri, mode="append")
    else:
        table.update({"e": "[1.0, 2.0, 3.0, 4.0]"})
    pennon.dataset(uri).update_config({"a": "b"})
    pennon.dataset(uri).delete("id = 3")
    assert entries(uri) == [("e_idx", [0, 1, 2])]
    assert len(nearest(uri)) == 5
    sound = pennon.verify(uri)
    assert sound.ok, str(sound)


@pytest.mark.parametrize("library", [lance, pennon])
def test_segments_that_cover_no_live_fragment(uri: str, stable: bool, library: Any) -> None:
    """Of several segments those that cover nothing go; the oldest of them stays if all of them do."""
    theirs = vectors(uri, stable)
    theirs.create_index("e", "IVF_FLAT", num_partitions=2)
    lance.write_dataset(theirs.to_table().slice(0, 300), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert entries(uri) == [("e_idx", [0, 1, 2]), ("e_idx", [3])]
    last = lance.dataset(uri).version
    first = library.LanceOperation.Delete([], [0, 1, 2], "the first ones")
    library.LanceDataset.commit(uri, first, read_version=last)
    assert entries(uri) == [("e_idx", [3])]
    lance.dataset(uri).checkout_version(last).restore()
    library.dataset(uri).delete("true")
    assert entries(uri) == [("e_idx", [0, 1, 2])]


def test_the_type_of_an_indexed_column(uri: str, stable: bool) -> None:
    theirs = numbers(uri, stable)
    theirs.create_scalar_index("v", "BTREE", name="by v")
    table = pennon.dataset(uri)
    version = table.version
    data_files = sorted((Path(uri) / "data").iterdir())
    for change in (
        [{"path": "v", "data_type": pa.int32()}],
        [{"path": "v", "name": "w", "data_type": pa.int16()}],
        [{"path": "s", "data_type": pa.large_string()}, {"path": "v", "data_type": pa.int32()}],
    ):
        with pytest.raises(pennon.InvalidInputError, match=r'column v .*index "by v"'):
            table.alter_columns(*change)
        with pytest.raises(OSError, match="by v"):
            lance.dataset(uri).alter_columns(*change)
    assert pennon.dataset(uri).version == version
    assert sorted((Path(uri) / "data").iterdir()) == data_files
    table.alter_columns({"path": "v", "name": "w", "nullable": True}, {"path": "s", "data_type": pa.large_string()})
    assert entries(uri) == [("by v", [0, 1, 2])]
    lance.dataset(uri).drop_index("by v")
    pennon.dataset(uri).alter_columns({"path": "w", "data_type": pa.int32()})
    assert pennon.dataset(uri).schema.field("w").type == pa.int32()


def test_the_type_of_a_member_with_an_index(uri: str) -> None:
    data = pa.table({"id": [1, 2, 3], "p": [{"x": 1, "y": 2}] * 3})
    lance.write_dataset(data, uri).create_scalar_index("p.x", "BTREE")
    table = pennon.dataset(uri)
    with pytest.raises(pennon.InvalidInputError, match=r'column p\.x .*index "p\.x_idx"'):
        table.alter_columns({"path": "p.x", "data_type": pa.int32()})
    table.alter_columns({"path": "p.y", "data_type": pa.int32()})
    assert entries(uri) == [("p.x_idx", [0])]
    assert found(uri, "p.x = 1") == [1, 2, 3]


def test_an_index_that_was_made_while_a_type_changed(uri: str) -> None:
    """The reference drops it without a word."""
    numbers(uri, True)
    stale = pennon.dataset(uri)
    lance.dataset(uri).create_scalar_index("v", "BTREE")
    with pytest.raises(pennon.CommitConflictError, match="a new index is of a column"):
        stale.alter_columns({"path": "v", "data_type": pa.int32()})
    assert entries(uri) == [("v_idx", [0, 1, 2])]
