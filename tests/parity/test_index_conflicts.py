"""What becomes of an index when others change the table meanwhile: its column, its rows, or the index itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.spread import spread
from support.vectors import ask, column, exact, vectors, written

ROWS, FRAGMENTS, OF_FRAGMENT = 60, 3, 20
KINDS = ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "LABEL_LIST"]


def numbers(uri: str, stable: bool, kind: str = "BTREE") -> pennon.LanceDataset:
    """Three fragments; the column `v` has the numbers from 0 on, or a list of each."""
    data = pa.table({"id": range(ROWS), "v": values(range(ROWS), kind)})
    return pennon.write_dataset(data, uri, max_rows_per_file=OF_FRAGMENT, enable_stable_row_ids=stable)


def values(numbers: Any, kind: str) -> pa.Array:
    return pa.array([[n] if kind == "LABEL_LIST" else n for n in numbers])


def has(number: int, kind: str) -> str:
    return f"array_has(v, {number})" if kind == "LABEL_LIST" else f"v = {number}"


def rewritten_in_place(uri: str, how: str, name: str, new: pa.Array, fragment: int = 1) -> None:
    """Other values of a column of a fragment, in a file of its own, where the rows are."""
    table = pennon.dataset(uri)
    part = table.get_fragment(fragment)
    ids = part.to_table(columns=["id"])["id"]
    metadata, fields = part.update_columns(pa.table({"id": ids, name: new}), "id", "id")
    if how == "update":
        operation: Any = pennon.LanceOperation.Update(updated_fragments=[metadata], fields_modified=fields)
    elif how == "merge":
        fragments = [part.metadata for part in table.get_fragments()]
        fragments[fragment] = metadata
        operation = pennon.LanceOperation.Merge(fragments, table.lance_schema)
    else:
        file = metadata.files[-1]
        assert set(file.fields) <= set(fields)
        operation = pennon.LanceOperation.DataReplacement(
            [pennon.LanceOperation.DataReplacementGroup(fragment, file)]
        )
    pennon.LanceDataset.commit(uri, operation, read_version=table.version)


def in_own_file(uri: str, name: str) -> None:
    """A column gets a data file of its own in each fragment, so that one can take its place."""
    table = pennon.dataset(uri)
    data = table.to_table(columns=["id", name])
    table.drop_columns([name])
    table.merge(data, "id")


def compare(uri: str, kind: str) -> None:
    """Both libraries find, with an index, what a scan finds."""
    for number in (5, 25, 1025, 45):
        predicate = has(number, kind)
        for library in (pennon, lance):
            table = library.dataset(uri)
            expected = table.scanner(columns=["id"], filter=predicate, use_scalar_index=False).to_table()
            found = table.scanner(columns=["id"], filter=predicate).to_table()
            assert found["id"].to_pylist() == expected["id"].to_pylist(), (number, library)


@spread()
@pytest.mark.parametrize("merged", [False, True], ids=["parts", "merged"])
@pytest.mark.parametrize("how", ["update", "merge", "replacement"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_older_values(uri: str, stable: bool, kind: str, how: str, merged: bool) -> None:
    """Parts are built, values change in place, and the parts are committed by a handle that has these values."""
    table = numbers(uri, stable, kind)
    in_own_file(uri, "v")
    table = pennon.dataset(uri)
    parts = [table.create_index_uncommitted("v", kind, name="v", fragment_ids=ids) for ids in ([0], [1, 2])]
    rewritten_in_place(uri, how, "v", values(range(1020, 1040), kind))
    table = pennon.dataset(uri)
    if merged:
        parts = [table.merge_existing_index_segments(parts)]
        assert parts[0].fragment_ids == {0, 2}
    table.commit_existing_index_segments("v_idx", "v", parts)
    covered = [id for segment in table.describe_indices()[0].segments for id in segment.fragment_ids]
    assert sorted(covered) == [0, 2]
    compare(uri, kind)
    assert table.scanner(columns=["id"], filter=has(1025, kind)).to_table()["id"].to_pylist() == [25]
    table.optimize.optimize_indices()
    assert table.stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    compare(uri, kind)


def test_only_parts_of_older_values_lose_fragments(uri: str) -> None:
    table = numbers(uri, True)
    old = table.create_index_uncommitted("v", "BTREE", name="v", fragment_ids=[0, 2])
    rewritten_in_place(uri, "update", "v", values(range(1020, 1040), "BTREE"))
    table = pennon.dataset(uri)
    new = table.create_index_uncommitted("v", "BTREE", name="v", fragment_ids=[1])
    table.commit_existing_index_segments("v_idx", "v", [old, new])
    assert table.stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    compare(uri, "BTREE")


def test_parts_of_nothing_but_older_values_are_not_merged(uri: str, stable: bool) -> None:
    table = numbers(uri, stable)
    parts = [table.create_index_uncommitted("v", "BTREE", name="v", fragment_ids=[1])]
    rewritten_in_place(uri, "update", "v", values(range(1020, 1040), "BTREE"))
    with pytest.raises(
        pennon.UnsupportedError, match="0 of 1 segments can be read and cover fragments of version 2"
    ):
        pennon.dataset(uri).merge_existing_index_segments(parts)


@pytest.mark.parametrize("how", ["parts", "merged", "by the operation"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_without_rows_that_were_restored(uri: str, stable: bool, kind: str, how: str) -> None:
    """Parts are built after a deletion, and the version before it is restored."""
    table = numbers(uri, stable, kind)
    table.delete("id in (5, 25)")
    table.delete("id = 45")
    parts = [table.create_index_uncommitted("v", kind, name="v", fragment_ids=ids) for ids in ([0], [1, 2])]
    pennon.dataset(uri, version=1).restore()
    table = pennon.dataset(uri)
    # As many rows as before are deleted, but others; of the last fragment the same one.
    table.delete("id in (26, 45)")
    if how == "merged":
        parts = [table.merge_existing_index_segments(parts)]
        assert parts[0].fragment_ids == {2}
    if how == "by the operation":
        create = pennon.LanceOperation.CreateIndex([dataclasses.replace(part, name="v_idx") for part in parts], [])
        table = pennon.LanceDataset.commit(uri, create, read_version=table.version)
    else:
        table.commit_existing_index_segments("v_idx", "v", parts)
    covered = [segment.fragment_ids for segment in table.describe_indices()[0].segments]
    assert covered == ([{2}] if how == "merged" else [set(), {2}])
    compare(uri, kind)
    assert table.count_rows(has(25, kind)) == 1
    table.optimize.optimize_indices()
    assert table.stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    compare(uri, kind)


def test_the_version_of_parts_is_gone(uri: str) -> None:
    """Which values changed since then is not known."""
    table = numbers(uri, True)
    parts = [table.create_index_uncommitted("v", "BTREE", name="v", fragment_ids=[0, 1, 2])]
    rewritten_in_place(uri, "update", "v", values(range(1020, 1040), "BTREE"))
    table = pennon.dataset(uri)
    (manifest,) = [path for path in Path(uri, "_versions").glob("*.manifest") if str(2**64 - 2) in path.name]
    manifest.unlink()
    for call in (
        lambda: table.commit_existing_index_segments("v_idx", "v", parts),
        lambda: table.merge_existing_index_segments(parts),
    ):
        with pytest.raises(pennon.CommitConflictError, match="version 1, which the index was made for, is gone"):
            call()


def test_entries_that_the_table_has_are_known_whatever_version_they_are_from(uri: str) -> None:
    """What they cover was kept true by every version since; what a copy of them says may not be."""
    table = numbers(uri, True)
    part = table.create_index_uncommitted("v", "BTREE", name="v_idx", fragment_ids=[0, 1, 2])
    table.commit_existing_index_segments("v_idx", "v", [part])
    rewritten_in_place(uri, "update", "v", values(range(1020, 1040), "BTREE"))
    table = pennon.dataset(uri)
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    kept = dataclasses.replace(part, fragment_ids={0, 2})
    operation = pennon.LanceOperation.CreateIndex([kept], [])
    pennon.LanceDataset.commit(uri, operation, read_version=table.version)
    assert table.stats.index_stats("v_idx")["num_indexed_fragments"] == 2
    compare(uri, "BTREE")
    table = pennon.dataset(uri)
    assert table.merge_existing_index_segments([kept]).fragment_ids == {0, 2}
    operation = pennon.LanceOperation.CreateIndex([part], [])
    with pytest.raises(pennon.CommitConflictError, match="version 1, which the index was made for, is gone"):
        pennon.LanceDataset.commit(uri, operation, read_version=table.version)
    with pytest.raises(pennon.CommitConflictError, match="version 1, which the index was made for, is gone"):
        table.merge_existing_index_segments([part])


@pytest.mark.parametrize("merged", [False, True], ids=["parts", "merged"])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_parts_of_older_vectors(uri: str, stable: bool, kind: str, merged: bool) -> None:
    written(uri, vectors(), stable=stable)
    table = pennon.dataset(uri)
    more: dict[str, Any] = {"ivf_centroids": vectors(8, seed=2)}
    if kind == "IVF_PQ":
        codebook = np.random.default_rng(0).normal(size=(8, 256, 2)).astype("f4") * 3
        more |= {"num_sub_vectors": 8, "pq_codebook": codebook}
    parts = [table.create_index_uncommitted("vec", kind, fragment_ids=ids, **more) for ids in ([0], [1, 2])]
    before = table.get_fragment(1).to_table(columns=["vec"])["vec"].combine_chunks()
    moved = np.asarray(before.flatten()).reshape(-1, 16) + np.float32(50)
    rewritten_in_place(uri, "update", "vec", column(moved))
    table = pennon.dataset(uri)
    if merged:
        parts = [table.merge_existing_index_segments(parts)]
        assert parts[0].fragment_ids == {0, 2}
    table.commit_existing_index_segments("vec_idx", "vec", parts)
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == len(moved)
    for query in (moved[3], moved[500], moved[3] - 50):
        asked = ask(query, 5, metric="l2", refine_factor=50)
        expected = exact(table, asked).to_pydict()
        for library in (pennon, lance):
            found = library.dataset(uri).to_table(columns=["id"], nearest=asked).to_pydict()
            assert found["id"] == expected["id"]
            np.testing.assert_allclose(found["_distance"], expected["_distance"], rtol=1e-4, atol=1e-3)


def taken_care_of(merged: int) -> Callable[[Any], None]:
    return lambda table: table.optimize.optimize_indices(num_indices_to_merge=merged)


def dropped(table: Any) -> None:
    table.drop_index("x")


@pytest.mark.parametrize("library", [pennon, lance])
@pytest.mark.parametrize("merged", [0, 1])
@pytest.mark.parametrize("first", ["drop", "optimize"])
def test_an_index_is_dropped_and_taken_care_of_at_once(
    uri: str, stable: bool, first: str, merged: int, library: Any
) -> None:
    """Whoever comes second is told, by either library, whoever came first; and can do it again."""
    numbers(uri, stable).create_scalar_index("v", "BTREE", name="x")
    data = pa.table({"id": range(60, 80), "v": range(60, 80)})
    pennon.write_dataset(data, uri, mode="append")
    acts = {"drop": dropped, "optimize": taken_care_of(merged)}
    second = "optimize" if first == "drop" else "drop"
    handle, other = pennon.dataset(uri), library.dataset(uri)
    acts[first](other)
    with pytest.raises(pennon.CommitConflictError, match=r"(?i)retryable"):
        acts[second](handle)
    entries = pennon.dataset(uri).describe_indices()
    assert [entry.name for entry in entries] == ([] if first == "drop" else ["x"])
    if second == "drop":
        handle.checkout_latest()
        dropped(handle)
        assert pennon.dataset(uri).describe_indices() == []
    compare(uri, "BTREE")


def test_two_drops_at_once(uri: str, stable: bool) -> None:
    numbers(uri, stable).create_scalar_index("v", "BTREE", name="x")
    handles = [pennon.dataset(uri) for _ in range(2)]
    for handle in handles:
        dropped(handle)
    assert pennon.dataset(uri).describe_indices() == []


def test_an_index_is_dropped_while_its_rows_are_moved(uri: str) -> None:
    """The compaction writes the index again under another uuid; with pylance 14.0.2 the drop succeeds, it stays."""
    numbers(uri, False).create_scalar_index("v", "BTREE", name="x")
    handles = [pennon.dataset(uri) for _ in range(2)]
    handles[0].optimize.compact_files()
    with pytest.raises(pennon.CommitConflictError, match=r"(?i)retryable"):
        dropped(handles[1])
    compare(uri, "BTREE")
    dropped(pennon.dataset(uri))
    assert pennon.dataset(uri).describe_indices() == []


def test_rows_are_moved_while_their_index_is_dropped(uri: str) -> None:
    """The compaction is done again without it."""
    numbers(uri, False).create_scalar_index("v", "BTREE", name="x")
    handles = [pennon.dataset(uri) for _ in range(2)]
    dropped(handles[1])
    handles[0].optimize.compact_files()
    table = pennon.dataset(uri)
    assert table.describe_indices() == []
    assert len(table.get_fragments()) == 1
    compare(uri, "BTREE")


@pytest.mark.parametrize("libraries", [(pennon, pennon), (pennon, lance), (lance, pennon)])
@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP"])
def test_two_make_an_index_of_one_name(uri: str, stable: bool, kind: str, libraries: tuple[Any, Any]) -> None:
    numbers(uri, stable)
    handles = [library.dataset(uri) for library in libraries]
    handles[0].create_scalar_index("v", kind, name="x")
    with pytest.raises(Exception, match=r"(?i)retryable|concurrent"):
        handles[1].create_scalar_index("v", kind, name="x")
    (entry,) = pennon.dataset(uri).describe_indices()
    assert len(entry.segments) == 1
    compare(uri, kind)
    again = libraries[1].dataset(uri)
    again.create_scalar_index("v", kind, name="x", replace=True)
    (entry,) = pennon.dataset(uri).describe_indices()
    assert len(entry.segments) == 1
    compare(uri, kind)


@pytest.mark.parametrize("libraries", [(pennon, pennon), (pennon, lance), (lance, pennon)])
def test_two_make_an_index_over_vectors_of_one_name(uri: str, stable: bool, libraries: tuple[Any, Any]) -> None:
    written(uri, vectors(), stable=stable)
    handles = [library.dataset(uri) for library in libraries]
    handles[0].create_index("vec", "IVF_FLAT", name="x", num_partitions=8)
    with pytest.raises(Exception, match=r"(?i)retryable|concurrent"):
        handles[1].create_index("vec", "IVF_PQ", name="x", num_partitions=8, num_sub_vectors=8)
    (entry,) = pennon.dataset(uri).describe_indices()
    assert len(entry.segments) == 1
    asked = ask(vectors()[3], 5, metric="l2")
    expected = exact(pennon.dataset(uri), asked)["id"].to_pylist()
    for library in (pennon, lance):
        assert library.dataset(uri).to_table(columns=["id"], nearest=asked)["id"].to_pylist() == expected


CHANGES: dict[str, Callable[[str, str], Any]] = {
    "rewritten": lambda uri, kind: rewritten_in_place(uri, "update", "v", values(range(1020, 1040), kind)),
    "updated": lambda uri, kind: pennon.dataset(uri).update(
        {"v": "make_array(1025)" if kind == "LABEL_LIST" else "1025"}, where="id = 25"
    ),
    "dropped": lambda uri, _: pennon.dataset(uri).drop_columns(["v"]),
    "renamed": lambda uri, _: pennon.dataset(uri).alter_columns({"path": "v", "name": "w"}),
    "replaced": lambda uri, _: pennon.write_dataset({"id": range(5), "v": range(5)}, uri, mode="overwrite"),
}


@spread()
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP", "LABEL_LIST"])
def test_a_column_is_changed_while_it_is_indexed(uri: str, stable: bool, kind: str, change: str) -> None:
    """A typed error without an index, or an index that says what a scan says."""
    numbers(uri, stable, kind)
    handle = pennon.dataset(uri)

    def meanwhile(progress: pennon.progress.IndexProgress) -> None:
        if progress.event == "start":
            CHANGES[change](uri, kind)

    def build() -> None:
        handle.create_scalar_index("v", kind, name="x", progress_callback=meanwhile)

    if change in ("dropped", "replaced"):
        with pytest.raises((pennon.CommitConflictError, pennon.InvalidInputError)):
            build()
        assert pennon.dataset(uri).describe_indices() == []
        return
    build()
    table = pennon.dataset(uri)
    assert [entry.name for entry in table.describe_indices()] == ["x"]
    if change == "renamed":
        table.alter_columns({"path": "w", "name": "v"})
    compare(uri, kind)
    found = table.scanner(columns=["id"], filter=has(1025, kind)).to_table()["id"].to_pylist()
    assert found == ([] if change == "renamed" else [25])


@pytest.mark.parametrize("change", ["rewritten", "dropped", "renamed"])
def test_a_column_of_vectors_is_changed_while_it_is_indexed(uri: str, stable: bool, change: str) -> None:
    written(uri, vectors(), stable=stable)
    handle = pennon.dataset(uri)
    moved = vectors(700, seed=9) + np.float32(50)
    if change == "rewritten":
        rewritten_in_place(uri, "update", "vec", column(moved))
    elif change == "dropped":
        pennon.dataset(uri).drop_columns(["vec"])
    else:
        pennon.dataset(uri).alter_columns({"path": "vec", "name": "other"})
    if change == "dropped":
        with pytest.raises((pennon.CommitConflictError, pennon.InvalidInputError)):
            handle.create_index("vec", "IVF_FLAT", num_partitions=8)
        assert pennon.dataset(uri).describe_indices() == []
        return
    handle.create_index("vec", "IVF_FLAT", num_partitions=8)
    table = pennon.dataset(uri)
    if change == "renamed":
        table.alter_columns({"path": "other", "name": "vec"})
    asked = ask(moved[3], 5, metric="l2")
    expected = exact(table, asked)["id"].to_pylist()
    for library in (pennon, lance):
        assert library.dataset(uri).to_table(columns=["id"], nearest=asked)["id"].to_pylist() == expected
