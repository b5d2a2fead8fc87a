"""Scalar indices: each library answers from those of the other as a scan does, whatever happens in between."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.scalar_indices import (
    NULL_SHARE,
    PREDICATES,
    ROWS,
    VALUES,
    compare,
    table_of,
    uses_an_index,
)
from support.spread import spread

KINDS = ("BTREE", "BITMAP")
ZONED = ("ZONEMAP", "BLOOMFILTER")
EVERY = (*KINDS, *ZONED)
# What a kind cannot have.
EXCLUDED = {"BLOOMFILTER": ("bool", "decimal")}


@spread()
@pytest.mark.parametrize(
    ("kind", "type"), [(kind, type) for kind in EVERY for type in VALUES if type not in EXCLUDED.get(kind, ())]
)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_types(uri: str, stable: bool, library: Any, kind: str, type: str) -> None:
    lance.write_dataset(table_of(VALUES[type]), uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    library.dataset(uri).create_scalar_index("c", kind)
    predicates = [*PREDICATES[type], "c is null", "c is not null"]
    compare(uri, predicates)
    used = [p for p in predicates if uses_an_index(pennon.dataset(uri), p)]
    if kind in KINDS:
        assert used == predicates
    # Zones say which may have a value, and which rows are null.
    assert {predicates[0], "c is null", "c is not null"} <= set(used)
    # The reference answers what it can by the index of either.
    assert uses_an_index(lance.dataset(uri), predicates[0])


@spread()
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_versions_of_files(uri: str, stable: bool, file_version: str, library: Any, kind: str) -> None:
    data = table_of(VALUES["string"])
    lance.write_dataset(
        data, uri, max_rows_per_file=50, enable_stable_row_ids=stable, data_storage_version=file_version
    )
    library.dataset(uri).create_scalar_index("c", kind)
    compare(uri, [*PREDICATES["string"], "c is null"])


def test_pages(uri: str, stable: bool) -> None:
    column = VALUES["int8"]
    lance.write_dataset(table_of(column), uri, enable_stable_row_ids=stable)
    for rows in (1, 2, 7, 4096):
        pennon.dataset(uri).create_scalar_index("c", pennon.indices.IndexConfig("BTREE", {"zone_size": rows}))
        pages = pennon.dataset(uri).stats.index_stats("c_idx")["segments"][0]["num_pages"]
        assert pages == -(-ROWS // rows)
        assert lance.dataset(uri).stats.index_stats("c_idx")["segments"][0]["num_pages"] == pages
        compare(uri, [*PREDICATES["int8"], "c is null"])


def test_descriptions_are_those_of_the_reference(uri: str, stable: bool) -> None:
    data = pa.table({"i": range(100), "point": [{"x": n % 7} for n in range(100)]})
    pennon.write_dataset(data, uri, max_rows_per_file=40, enable_stable_row_ids=stable)
    table = pennon.dataset(uri)
    table.create_scalar_index("i", "BTREE")
    table.create_scalar_index("i", pennon.indices.IndexConfig("ZONEMAP", {"rows_per_zone": 16}), name="z")
    bloom = pennon.indices.IndexConfig("BLOOMFILTER", {"number_of_items": 30, "probability": 0.01})
    table.create_scalar_index("i", bloom, name="y")
    table.create_scalar_index("point.x", "bitmap", name="x")
    pennon.write_dataset(data, uri, mode="append")
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    assert [dict(segment) for segment in ours.list_indices()] == [dict(s) for s in theirs.list_indices()]
    assert [index["name"] for index in ours.list_indices()] == ["i_idx", "x", "y", "z"]
    for name in ("i_idx", "x", "y", "z"):
        assert ours.index_statistics(name) == theirs.index_statistics(name)
    for our, their in zip(ours.describe_indices(), theirs.describe_indices(), strict=True):
        for key in (
            "name",
            "index_type",
            "type_url",
            "fields",
            "field_names",
            "num_rows_indexed",
            "total_size_bytes",
        ):
            assert getattr(our, key) == getattr(their, key), key
        (mine,), (other,) = our.segments, their.segments
        for key in (
            "uuid",
            "fragment_ids",
            "dataset_version_at_last_update",
            "index_version",
            "created_at",
            "size_bytes",
        ):
            assert getattr(mine, key) == getattr(other, key), key


def test_errors_are_caught_as_those_of_the_reference(uri: str) -> None:
    pennon.write_dataset({"i": [1], "s": ["a"], "l": [[1]], "b": [True]}, uri)
    table, reference = pennon.dataset(uri), lance.dataset(uri)
    table.create_scalar_index("i", "BTREE")
    reference.checkout_latest()
    calls: list[tuple[type[Exception], Callable[[Any], Any]]] = [
        (KeyError, lambda t: t.create_scalar_index("nope", "BTREE")),
        (NotImplementedError, lambda t: t.create_scalar_index("i", "NOPE")),
        (NotImplementedError, lambda t: t.create_scalar_index(["i", "s"], "BTREE")),
        (RuntimeError, lambda t: t.create_scalar_index("i", "BTREE", replace=False)),
        (RuntimeError, lambda t: t.create_scalar_index("s", "BTREE", name="i_idx")),
        (TypeError, lambda t: t.create_scalar_index("l", "BTREE")),
        (ValueError, lambda t: t.create_scalar_index("b", "BLOOMFILTER")),
        (ValueError, lambda t: t.create_scalar_index("i", "BTREE", index_uuid="x")),
        (ValueError, lambda t: t.create_scalar_index("i", "BTREE", fragment_ids=[0])),
        (ValueError, lambda t: t.create_index_uncommitted("i", "BTREE", name="x")),
        (ValueError, lambda t: t.create_index_uncommitted("i", "BTREE", name="x", fragment_ids=[7])),
        (RuntimeError, lambda t: t.drop_index("nope")),
        (RuntimeError, lambda t: t.prewarm_index("nope")),
        (KeyError, lambda t: t.index_statistics("nope")),
    ]
    for expected, call in calls:
        for library in (reference, table):
            with pytest.raises(expected):
                call(library)
    assert pennon.dataset(uri).version == table.version


def test_a_uuid_is_of_one_index(uri: str) -> None:
    """Where pylance writes over the files of the first one."""
    uuid = "12345678-1234-1234-1234-123456789abc"
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(40), pa.float32()), 4)
    table = pennon.write_dataset(pa.table({"i": range(10), "s": ["a"] * 10, "v": vectors}), uri)
    table.create_scalar_index("i", "BTREE", index_uuid=uuid)
    files = sorted(Path(uri).glob("_indices/*/*"))
    calls: list[Callable[[], Any]] = [
        lambda: table.create_scalar_index("s", "BTREE", index_uuid=uuid),
        lambda: table.create_scalar_index("s", "ZONEMAP", index_uuid=uuid, train=False),
        lambda: table.create_index_uncommitted("s", "BITMAP", name="s", fragment_ids=[0], index_uuid=uuid),
        lambda: table.create_index("v", "IVF_FLAT", num_partitions=1, index_uuid=uuid),
    ]
    for call in calls:
        with pytest.raises(pennon.AlreadyExistsError, match=f"The index 'i_idx' has the uuid {uuid}"):
            call()
    assert sorted(Path(uri).glob("_indices/*/*")) == files
    assert table.count_rows("i = 3") == 1
    table.drop_index("i_idx")
    with pytest.raises(pennon.AlreadyExistsError, match=f"there are files in .*_indices/{uuid}"):
        calls[0]()
    assert table.list_indices() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_uuid_that_is_given_again(uri: str, kind: str) -> None:
    """The session still has the index that had it before."""
    uuid = "12345678-1234-1234-1234-123456789abc"
    table = pennon.write_dataset({"i": range(10)}, uri)
    table.create_scalar_index("i", kind, index_uuid=uuid)
    assert table.to_table(filter="i = 3").num_rows == 1
    table.drop_index("i_idx")
    table.update({"i": "i + 100"})
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    table.create_scalar_index("i", kind, index_uuid=uuid)
    for number, rows in ((3, 0), (103, 1)):
        assert table.to_table(filter=f"i = {number}").num_rows == table.count_rows(f"i = {number}") == rows


@pytest.mark.parametrize("kind", EVERY)
def test_segments_that_were_built_apart(uri: str, stable: bool, kind: str) -> None:
    lance.write_dataset(table_of(VALUES["int8"]), uri, max_rows_per_file=30, enable_stable_row_ids=stable)
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    parts = [ours.create_index_uncommitted("c", kind, name="c", fragment_ids=[n]) for n in range(2)]
    merged = ours.merge_existing_index_segments(parts)
    assert merged.fragment_ids == {0, 1}
    by_them = theirs.create_index_uncommitted("c", kind, name="c", fragment_ids=[2, 3])
    theirs_as_ours = pennon.Index(
        by_them.uuid,
        "c",
        by_them.fields,
        by_them.dataset_version,
        set(by_them.fragment_ids),
        by_them.index_version,
        files=[pennon.IndexFile(file.path, file.size_bytes) for file in by_them.files],
        index_details=by_them.index_details,
    )
    ours.commit_existing_index_segments("c_idx", "c", [merged, theirs_as_ours])
    assert ours.stats.index_stats("c_idx")["num_unindexed_rows"] == 0
    compare(uri, [*PREDICATES["int8"], "c is null"])
    with pytest.raises(ValueError, match="which another segment covers"):
        ours.commit_existing_index_segments("c_idx", "c", [merged, parts[0]])


@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_segments_of_elsewhere_are_refused(uri: str, stable: bool, library: Any) -> None:
    """Of a later version by both libraries; the other one commits those whose files are not there."""
    lance.write_dataset({"c": range(400)}, uri, enable_stable_row_ids=stable)
    main = library.dataset(uri)
    main.create_branch("b")
    early = pennon.dataset(uri).create_index_uncommitted("c", "BTREE", name="c_idx", fragment_ids=[0])
    lance.write_dataset({"c": [1]}, uri, mode="append")
    old, new = library.dataset(uri, version=1), library.dataset(uri)
    late = new.create_index_uncommitted("c", "BTREE", name="c_idx", fragment_ids=[0])
    with pytest.raises(ValueError, match=rf"segment {late.uuid} was built at .*version 2.* version 1"):
        old.commit_existing_index_segments("c_idx", "c", [late])
    branch = pennon.dataset(uri).checkout_version(("b", None))
    with pytest.raises(pennon.NotFoundError, match=rf"segment {early.uuid} has no page_data.lance in .*/tree/b/"):
        branch.commit_existing_index_segments("c_idx", "c", [early])
    assert not branch.has_index
    without_files = dataclasses.replace(early, files=None)
    with pytest.raises(pennon.NotFoundError, match=rf"segment {early.uuid} has no file in .*/tree/b/"):
        branch.commit_existing_index_segments("c_idx", "c", [without_files])
    pennon.dataset(uri).commit_existing_index_segments("c_idx", "c", [early])
    assert pennon.dataset(uri).count_rows("c = 1", strict_indices=True) == 2
    assert lance.dataset(uri).count_rows("c = 1") == 2


@spread(of=1)
@pytest.mark.parametrize("kind", EVERY)
def test_a_clone_writes_indices_of_its_own(uri: str, stable: bool, kind: str) -> None:
    lance.write_dataset(table_of(VALUES["int8"]), uri, max_rows_per_file=20, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("c", kind)
    clone = f"{uri}-clone"
    pennon.dataset(uri).shallow_clone(clone, pennon.dataset(uri).version)
    predicates = [*PREDICATES["int8"], "c is null"]
    compare(clone, predicates)
    assert uses_an_index(pennon.dataset(clone), "c = 1")
    pennon.dataset(clone).delete("n % 9 = 4")
    pennon.dataset(clone).optimize.compact_files()
    assert pennon.dataset(clone).stats.index_stats("c_idx")["num_unindexed_rows"] == 0
    compare(clone, predicates)
    pennon.dataset(clone).optimize.optimize_indices(retrain=True)
    compare(clone, predicates)
    compare(uri, predicates)


@spread()
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_members_and_names_with_dots(uri: str, stable: bool, library: Any, kind: str) -> None:
    points = [None if n % 7 == 0 else {"x": None if n % 5 == 0 else n % 11, "y.z": n % 3} for n in range(ROWS)]
    type = pa.struct([pa.field("x", pa.int64()), pa.field("y.z", pa.int32())])
    data = pa.table({"n": range(ROWS), "p": pa.array(points, type), "c": [n % 4 for n in range(ROWS)]})
    lance.write_dataset(data, uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    table = library.dataset(uri)
    table.create_scalar_index("p.x", kind)
    predicates = ["p.x = 3", "p.x is null", "p.x is not null", "not (p.x > 2)", "p.x < 4 and c = 1", "p is null"]
    compare(uri, predicates)
    used = predicates[:3] if kind == "BLOOMFILTER" else predicates[:-1]
    assert all(uses_an_index(pennon.dataset(uri), predicate) for predicate in used)
    table.create_scalar_index("p.`y.z`", kind)
    names = [index["name"] for index in pennon.dataset(uri).list_indices()]
    assert names == [index["name"] for index in lance.dataset(uri).list_indices()]
    assert len(names) == 2
    fields = [index["fields"] for index in pennon.dataset(uri).list_indices()]
    assert fields == [index["fields"] for index in lance.dataset(uri).list_indices()]


LISTS = [
    "array_has(c, 'a')",
    "array_has_any(c, ['a', 'c'])",
    "array_has_all(c, ['a', 'b'])",
    "not array_has(c, 'a')",
    "not array_has_any(c, ['a', 'zz'])",
    "not array_has_all(c, ['b', 'c'])",
    "array_has(c, 'zz')",
    "array_has(c, 'a') and n < 50",
    "array_has(c, 'b') or array_has(c, 'c')",
]


@spread()
@pytest.mark.parametrize("type", [pa.list_(pa.string()), pa.large_list(pa.string())], ids=str)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_items_of_lists(uri: str, stable: bool, file_version: str, library: Any, type: pa.DataType) -> None:
    rng = random.Random(3)
    items = ["a", "b", "c", "a", None]
    column = pa.array(
        [None if rng.random() < NULL_SHARE else rng.choices(items, k=rng.randrange(4)) for _ in range(ROWS)], type
    )
    lance.write_dataset(
        table_of(column), uri, max_rows_per_file=50, enable_stable_row_ids=stable, data_storage_version=file_version
    )
    library.dataset(uri).create_scalar_index("c", "LABEL_LIST")
    compare(uri, LISTS)
    for predicate in LISTS[:-2]:
        assert uses_an_index(pennon.dataset(uri), predicate), predicate
        assert uses_an_index(lance.dataset(uri), predicate), predicate
    # Whatever moves, is deleted or changed.
    pennon.dataset(uri).delete("n % 7 = 0")
    pennon.dataset(uri).update({"c": "['a', 'q']"}, where="n % 11 = 0")
    compare(uri, LISTS)
    pennon.dataset(uri).optimize.optimize_indices()
    compare(uri, [*LISTS, "array_has(c, 'q')"])
    pennon.dataset(uri).optimize.compact_files()
    compare(uri, [*LISTS, "array_has(c, 'q')"])
    assert pennon.dataset(uri).stats.index_stats("c_idx")["num_unindexed_rows"] == 0


@pytest.mark.parametrize("kind", EVERY)
def test_compaction_takes_indices_along(uri: str, stable: bool, kind: str) -> None:
    lance.write_dataset(table_of(VALUES["string"]), uri, max_rows_per_file=20, enable_stable_row_ids=stable)
    pennon.dataset(uri).create_scalar_index("c", kind)
    table = pennon.dataset(uri)
    table.delete("n % 5 = 0")
    before = table.list_indices()
    table.optimize.compact_files()
    after = table.list_indices()
    assert table.stats.index_stats("c_idx")["num_unindexed_rows"] == 0
    # Row ids do not move: of indices that name them only the fragments change.
    assert (before[0]["uuid"] == after[0]["uuid"]) == (stable and kind == "BITMAP")
    compare(uri, [*PREDICATES["string"], "c is null"])
    assert uses_an_index(lance.dataset(uri), "c = 'ab'")
    indexed = re.search(r"for (\d+) of (\d+) fragments", table.scanner(filter="c = 'ab'").explain_plan())
    assert indexed is not None
    assert indexed[1] == indexed[2]


@pytest.mark.parametrize("kinds", [KINDS, ZONED[:1], ZONED[1:]], ids=" ".join)
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
def test_deferred_moves_are_followed_and_taken_up(uri: str, library: Any, kinds: tuple[str, ...]) -> None:
    lance.write_dataset(table_of(VALUES["int8"]), uri, max_rows_per_file=20, enable_stable_row_ids=False)
    for kind in kinds:
        library.dataset(uri).create_scalar_index("c", kind, name=kind)
    predicates = [*PREDICATES["int8"], "c is null"]
    for part in range(2):
        pennon.dataset(uri).delete(f"n % 11 = {part}")
        library.dataset(uri).optimize.compact_files(
            target_rows_per_fragment=60 * (part + 1), defer_index_remap=True
        )
        compare(uri, predicates)
        assert uses_an_index(pennon.dataset(uri), "c = 1")
    # What the reference would lose: the moves are followed before the rows move again.
    pennon.dataset(uri).delete("n % 11 = 5")
    pennon.dataset(uri).optimize.compact_files()
    compare(uri, predicates)
    pennon.dataset(uri).optimize.optimize_indices(retrain=True)
    compare(uri, predicates)


def test_one_segment_after_deferred_moves(uri: str) -> None:
    lance.write_dataset(table_of(VALUES["int8"]), uri, max_rows_per_file=20, enable_stable_row_ids=False)
    pennon.dataset(uri).create_scalar_index("c", "BTREE")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS, defer_index_remap=True)
    assert pennon.dataset(uri).stats.index_stats("c_idx")["num_unindexed_rows"] == 0
    pennon.write_dataset(table_of(VALUES["int8"]), uri, mode="append")
    pennon.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    segments = [segment for segment in lance.dataset(uri).list_indices() if segment["name"] == "c_idx"]
    # The reference would take rows of one segment that moved for rows of another one: so there is one.
    live = {fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()}
    assert [set(segment["fragment_ids"]) & live for segment in segments] == [live]
    compare(uri, [*PREDICATES["int8"], "c is null"])
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=2)
    compare(uri, [*PREDICATES["int8"], "c is null"])


@pytest.mark.parametrize(
    ("fragment", "others"), [(0, {}), (2, {}), (2, {"n": "n"})], ids=["first", "last", "all columns"]
)
@pytest.mark.parametrize("kind", EVERY)
def test_one_segment_after_values_were_replaced(
    uri: str, stable: bool, kind: str, fragment: int, others: dict[str, str]
) -> None:
    """The reference would take rows of the first segment that have other values now for rows of the second.

    The last fragment has a second data file then, unless all columns are written again. Fragments that came later
    may have one as well.
    """
    data = table_of(VALUES["int8"])
    table = pennon.write_dataset(data, uri, max_rows_per_file=ROWS // 3, enable_stable_row_ids=stable)
    table.create_scalar_index("c", kind)
    where = f"n between {40 * fragment} and {40 * fragment + 20}"
    table.update({"c": "100", **others}, where=where, mode="rewrite_columns")
    assert [len(part.data_files()) for part in table.get_fragments()].count(2) == (0 if others else 1)
    table.optimize.optimize_indices(num_indices_to_merge=0)
    (entry,) = table.describe_indices()
    assert [segment.fragment_ids for segment in entry.segments] == [{0, 1, 2}]
    compare(uri, [*PREDICATES["int8"], "c = 100", "c is null", "c is not null"])
    pennon.write_dataset(data, uri, mode="append").update({"n": "n"}, where="n < 20", mode="rewrite_columns")
    pennon.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    segments = 1 if stable and kind == "BITMAP" else 2
    assert [len(entry.segments) for entry in pennon.dataset(uri).describe_indices()] == [segments]
    compare(uri, [*PREDICATES["int8"], "c = 100", "c is null", "c is not null"])
