"""Segments that are committed to an index: which they replace, which are kept, which cannot be together."""

from __future__ import annotations

from typing import Any, NamedTuple

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.spread import spread
from support.vectors import column

FRAGMENTS, OF_FRAGMENT, DIMENSION = 4, 300, 4


class Segment(NamedTuple):
    """What a segment is built with."""

    kind: str
    fragments: list[int]
    options: dict[str, Any] = {}

    @property
    def column(self) -> str:
        return "v" if self.kind.startswith("IVF") else "a"

    def build(self, table: Any) -> Any:
        return table.create_index_uncommitted(self.column, self.kind, fragment_ids=self.fragments, **self.options)


def vectors_by(metric: str, fragments: list[int], kind: str = "IVF_FLAT") -> Segment:
    return Segment(kind, fragments, {"metric": metric, "num_partitions": 2})


def codes(fragments: list[int], sub_vectors: int) -> Segment:
    return Segment("IVF_PQ", fragments, {"num_sub_vectors": sub_vectors, "num_partitions": 2})


def written(library: Any, uri: str, stable: bool) -> Any:
    rows = FRAGMENTS * OF_FRAGMENT
    values = np.random.default_rng(0).random((rows, DIMENSION), dtype=np.float32)
    data = pa.table({"a": range(rows), "v": column(values)})
    return library.write_dataset(data, uri, max_rows_per_file=OF_FRAGMENT, enable_stable_row_ids=stable)


def fragments_of(library: Any, uri: str) -> list[tuple[str, list[int]]]:
    """The kind of each segment, and the fragments that it covers and the table has."""
    table = library.dataset(uri)
    live = {fragment.fragment_id for fragment in table.get_fragments()}
    described = table.describe_indices()
    return [
        (index.index_type, sorted(live & set(part.fragment_ids))) for index in described for part in index.segments
    ]


def outcome(
    library: Any, uri: str, stable: bool, old: list[Segment], new: list[Segment], delete: str | None
) -> list[tuple[str, list[int]]] | type[Exception]:
    """The segments after the commit of new ones, or the error that it raises."""
    table = written(library, uri, stable)
    name = new[0].column
    if old:
        table.commit_existing_index_segments("x", name, [part.build(table) for part in old])
    before = fragments_of(library, uri)
    segments = [part.build(table) for part in new]
    if delete is not None:
        table.delete(delete)
        table = library.dataset(uri)
    try:
        table.commit_existing_index_segments("x", name, segments)
    except ValueError:
        assert fragments_of(library, uri) == before
        return ValueError
    return sorted(fragments_of(library, uri))


BTREE, BITMAP = "BTREE", "BITMAP"
CASES: dict[str, tuple[list[Segment], list[Segment]]] = {
    "others": ([Segment(BTREE, [0, 1])], [Segment(BTREE, [2])]),
    "the same": ([Segment(BTREE, [0, 1])], [Segment(BTREE, [0, 1])]),
    "divided": ([Segment(BTREE, [0, 1])], [Segment(BTREE, [0]), Segment(BTREE, [1])]),
    "together": ([Segment(BTREE, [0]), Segment(BTREE, [1])], [Segment(BTREE, [0, 1, 2])]),
    "one of two": ([Segment(BTREE, [0]), Segment(BTREE, [1])], [Segment(BTREE, [1, 2])]),
    "a part": ([Segment(BTREE, [0, 1])], [Segment(BTREE, [1, 2])]),
    "a part of one of two": (
        [Segment(BTREE, [0, 1]), Segment(BTREE, [2])],
        [Segment(BTREE, [1]), Segment(BTREE, [2])],
    ),
    "other kind": ([Segment(BTREE, [0, 1])], [Segment(BITMAP, [2])]),
    "other kind, the same fragments": ([Segment(BTREE, [0, 1])], [Segment(BITMAP, [0, 1])]),
    "other kind, all fragments": ([Segment(BTREE, [0, 1])], [Segment(BITMAP, [0, 1]), Segment(BITMAP, [2, 3])]),
    "vectors": ([vectors_by("l2", [0])], [vectors_by("l2", [2])]),
    "other metric": ([vectors_by("l2", [0])], [vectors_by("cosine", [2])]),
    "other metric, the same fragments": ([vectors_by("l2", [0])], [vectors_by("cosine", [0, 2])]),
    "other vectors": ([vectors_by("l2", [0])], [vectors_by("l2", [2], "IVF_SQ")]),
    "graphs": ([vectors_by("l2", [0], "IVF_SQ")], [vectors_by("l2", [2], "IVF_HNSW_SQ")]),
    "other vectors, the same fragments": ([vectors_by("l2", [0])], [vectors_by("l2", [0], "IVF_SQ")]),
    "other codes": ([codes([0], 2)], [codes([1], 4)]),
    "metrics": ([], [vectors_by("l2", [0]), vectors_by("cosine", [1])]),
    "kinds": ([], [vectors_by("l2", [0]), codes([1], 2)]),
    "codes": ([], [codes([0], 2), codes([1], 4)]),
}


@spread(of=1)
@pytest.mark.parametrize("case", CASES)
def test_as_pylance(uri: str, stable: bool, case: str) -> None:
    old, new = CASES[case]
    expected = outcome(lance, uri + "-theirs", stable, old, new, None)
    assert outcome(pennon, uri, stable, old, new, None) == expected


@pytest.mark.parametrize("new", [[1], [2]])
def test_fragments_that_are_gone(uri: str, stable: bool, new: list[int]) -> None:
    """A segment is replaced if only fragments that are gone are not covered."""
    for old in ([Segment(BTREE, [0, 1])], [Segment(BTREE, [0]), Segment(BTREE, [1])]):
        found = [
            outcome(library, f"{uri}-{library.__name__}-{len(old)}", stable, old, [Segment(BTREE, new)], "a < 300")
            for library in (lance, pennon)
        ]
        assert found[0] == found[1]


@pytest.mark.parametrize("library", [lance, pennon])
def test_rows_of_kept_segments_are_found(uri: str, stable: bool, library: Any) -> None:
    table = written(pennon, uri, stable)
    for fragments in ([0, 1], [2, 3]):
        table.commit_existing_index_segments("x", "a", [Segment(BTREE, fragments).build(table)])
    with pytest.raises(pennon.InvalidInputError, match=r"\[2, 3\].* do not cover \[3\] of these"):
        table.commit_existing_index_segments("x", "a", [Segment(BTREE, [2]).build(table)])
    assert table.stats.index_stats("x")["num_unindexed_rows"] == 0
    found = library.dataset(uri).scanner(columns=["a"], filter="a in (5, 700, 1100)").to_table()
    assert found["a"].to_pylist() == [5, 700, 1100]


def test_what_cannot_be_merged(uri: str, stable: bool) -> None:
    table = written(pennon, uri, stable)

    def merged(*parts: Segment) -> Any:
        return table.merge_existing_index_segments([part.build(table) for part in parts])

    with pytest.raises(pennon.InvalidInputError, match="has the metric cosine, expected l2, that of segment"):
        merged(vectors_by("l2", [0]), vectors_by("cosine", [1]))
    with pytest.raises(pennon.InvalidInputError, match="has the kind IVF_PQ, expected IVF_FLAT, that of segment"):
        merged(vectors_by("l2", [0]), codes([1], 2))
    with pytest.raises(pennon.UnsupportedError, match="4 sub-vectors of 8 bits, expected 2 sub-vectors of 8 bits"):
        merged(codes([0], 2), codes([1], 4))
    assert table.latest_version == 1


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def test_values_are_merged(uri: str, stable: bool, kind: str) -> None:
    """Details of indices over values are not read as those of vectors."""
    table = written(pennon, uri, stable)
    merged = table.merge_existing_index_segments([Segment(kind, [id]).build(table) for id in range(FRAGMENTS)])
    assert merged.fragment_ids == set(range(FRAGMENTS))


@pytest.mark.parametrize("deferred", [True, False])
def test_segments_built_before_a_compaction_are_not_merged_and_can_be_committed(uri: str, deferred: bool) -> None:
    table = written(pennon, uri, stable=False)
    table.create_scalar_index("a", "BTREE", name="kept")
    parts = [Segment("BTREE", [id]).build(table) for id in range(FRAGMENTS)]
    table.update({"a": "9999"}, where="a = 5")
    table.optimize.compact_files(defer_index_remap=deferred)
    assert [fragment.fragment_id for fragment in table.get_fragments()] == [FRAGMENTS, FRAGMENTS + 1]
    with pytest.raises(pennon.UnsupportedError, match="0 of 4 segments can be read and cover fragments"):
        table.merge_existing_index_segments(parts)
    table.commit_existing_index_segments("x", "a", parts)
    for library in (lance, pennon):
        opened = library.dataset(uri)
        found = [opened.count_rows(condition) for condition in ("a = 5", "a = 9999", "a = 700")]
        assert found == [0, 1, 1], library.__name__
