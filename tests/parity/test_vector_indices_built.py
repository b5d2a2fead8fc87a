"""Indices over vectors that are built here: both libraries search them and take care of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.long import LONG
from support.spread import spread
from support.vectors import (
    DIMENSION,
    FLOATS,
    KINDS,
    METRICS,
    PARTITIONS,
    ROWS,
    ask,
    column,
    exact,
    table_of,
    vectors,
    written,
)

QUERIES = 10


def build(uri: str, kind: str, metric: str = "l2", **more: Any) -> pennon.LanceDataset:
    table = pennon.dataset(uri)
    return table.create_index("vec", kind, metric=metric, num_partitions=PARTITIONS, **{**KINDS[kind], **more})


def recall(
    table: Any, oracle: pennon.LanceDataset, metric: str, type: str = "f4", queries: int = QUERIES, **more: Any
) -> float:
    return recall_of(nearest(oracle, metric, type, queries), table, metric, type, **more)


def nearest(oracle: pennon.LanceDataset, metric: str, type: str = "f4", queries: int = QUERIES) -> list[set[int]]:
    """The rows that are nearest to each query."""
    asked = (ask(query, metric=metric) for query in vectors(queries, type, seed=1))
    return [set(exact(oracle, each)["id"].to_pylist()) for each in asked]


def recall_of(expected: list[set[int]], table: Any, metric: str, type: str = "f4", **more: Any) -> float:
    found = 0
    for query, rows_of_query in zip(vectors(len(expected), type, seed=1), expected, strict=True):
        rows = table.to_table(columns=["id"], nearest=ask(query, metric=metric, **more))["id"].to_pylist()
        assert len(rows) == len(set(rows)) == 10
        found += len(set(rows) & rows_of_query)
    return found / len(expected) / 10


@spread()
@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_search_it(uri: str, stable: bool, kind: str, metric: str, type: str) -> None:
    values = vectors(type=FLOATS[type])
    written(uri, values, stable=stable)
    ours = build(uri, kind, metric)
    theirs = lance.dataset(uri)
    query = vectors(1, FLOATS[type], seed=1)[0]
    plan = theirs.scanner(nearest=ask(query, metric=metric)).explain_plan(True)
    assert "ANNSubIndex" in plan
    assert f"vec_idx ({kind})" in ours.scanner(nearest=ask(query, metric=metric)).explain_plan()
    statistics = theirs.stats.index_stats("vec_idx")
    assert statistics["index_type"] == kind
    assert statistics["num_unindexed_rows"] == 0
    least = 0.9 if "FLAT" in kind else 0.5
    found = recall(ours, ours, metric, FLOATS[type])
    assert found >= least
    assert recall(theirs, ours, metric, FLOATS[type], ef=100) >= found - 0.1


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ"])
def test_it_is_as_good_as_that_of_the_reference(uri: str, kind: str) -> None:
    written(uri, vectors(8_000), stable=True)
    found, expected = {}, nearest(pennon.dataset(uri), "l2", queries=100)
    for library in ("ours", "theirs"):
        made = pennon.dataset(uri) if library == "ours" else lance.dataset(uri)
        made.create_index("vec", kind, num_partitions=PARTITIONS, replace=True, **KINDS[kind])
        table = pennon.dataset(uri)
        for probes in (1, 3, PARTITIONS):
            for refine in (None, 5):
                asked = {"nprobes": probes, "refine_factor": refine}
                # Of eight builds by one library the shares of 100 queries were within 0.05.
                found[library, probes, refine] = recall_of(expected, table, "l2", **asked)
    for (library, *asked), share in found.items():
        if library == "ours":
            assert share >= found[("theirs", *asked)] - 0.08, (asked, found)


@spread(of=1)
@pytest.mark.parametrize("spread", [0, 1])
@pytest.mark.parametrize("kind", ["IVF_HNSW_FLAT", "IVF_HNSW_SQ"])
def test_graphs_for_inner_products(uri: str, kind: str, spread: float) -> None:
    """Also of vectors whose lengths differ: the longest are near to all others."""
    dice = np.random.default_rng(7)
    rows = 3_000 if LONG else 2_000
    data = dice.normal(size=(rows, DIMENSION)) * np.exp(spread * dice.normal(size=(rows, 1)))
    written(uri, data.astype("f4"), stable=True)
    # Of each library the mean of three graphs: no two builds are alike.
    found = dict.fromkeys(((library, ef) for library in (pennon, lance) for ef in (None, 100)), 0.0)
    expected = nearest(pennon.dataset(uri), "dot", queries=100)
    for library in (pennon, lance) * 3:
        library.dataset(uri).create_index("vec", kind, metric="dot", num_partitions=1, replace=True)
        table = pennon.dataset(uri)
        for ef in (None, 100):
            found[library, ef] += recall_of(expected, table, "dot", nprobes=1, ef=ef) / 3
    # Codes of bytes of such vectors are coarse.
    less = 0.1 if kind == "IVF_HNSW_SQ" else 0.05
    for ef in (None, 100):
        assert found[pennon, ef] >= found[lance, ef] - less, found


@spread(of=1)
@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_takes_care_of_it(uri: str, stable: bool, kind: str) -> None:
    written(uri, vectors(), stable=stable)
    build(uri, kind)
    pennon.write_dataset(table_of(vectors(200, seed=3), ROWS), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=1)
    table = pennon.dataset(uri)
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0
    assert recall(table, table, "l2", refine_factor=10) >= 0.9
    table.delete("id % 3 = 0")
    lance.dataset(uri).optimize.compact_files()
    table = pennon.dataset(uri)
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0
    assert recall(table, table, "l2", refine_factor=10) >= 0.9


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_several_queries_find_what_each_finds_alone(uri: str, stable: bool, kind: str) -> None:
    written(uri, vectors(), stable=stable)
    table = build(uri, kind)
    queries = vectors(40, seed=1)
    table.delete("id % 9 = 4")
    for more in ({"refine_factor": 2}, {"refine_factor": 3, "distance_range": (None, 1.0)}, {}):
        together = table.to_table(columns=["id", "_distance"], nearest=ask(queries, **more))
        for number, query in enumerate(queries):
            alone = table.to_table(columns=["id", "_distance"], nearest=ask(query, **more))
            found = together.filter(pc.equal(together["query_index"], number)).drop_columns(["query_index"])
            assert found.to_pylist() == alone.to_pylist(), (more, number)
    assert together.num_rows == 400


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_compacts_it(uri: str, kind: str) -> None:
    """Without stable row ids it writes the files again, and compares what graphs say with its own text."""
    written(uri, vectors(), stable=False)
    build(uri, kind)
    for compacting in (lance, pennon, lance):
        table = pennon.dataset(uri)
        table.delete(f"id % 11 = {table.version % 11}")
        compacting.dataset(uri).optimize.compact_files()
        pennon.write_dataset(table_of(vectors(50, seed=9), ROWS * table.version), uri, mode="append")
        table = pennon.dataset(uri)
        assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 50
        assert recall(table, table, "l2", refine_factor=10) >= 0.9
        table.optimize.optimize_indices()


@spread(of=1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("segments", [0, 1, 2])
def test_rows_are_taken_in(uri: str, stable: bool, kind: str, segments: int) -> None:
    written(uri, vectors(), stable=stable)
    build(uri, kind)
    for round in range(2):
        more = table_of(vectors(200, seed=3 + round), ROWS + 200 * round)
        pennon.write_dataset(more, uri, mode="append")
        table = pennon.dataset(uri)
        assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 200
        table.optimize.optimize_indices(num_indices_to_merge=segments)
        assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0
        assert recall(table, table, "l2", refine_factor=10) >= 0.9
        assert recall(lance.dataset(uri), table, "l2", refine_factor=10, ef=100) >= 0.85
    statistics = lance.dataset(uri).stats.index_stats("vec_idx")
    assert {segment["num_partitions"] for segment in statistics["indices"]} == {PARTITIONS}
    if not stable and segments == 0:
        assert statistics["num_segments"] == 3


def test_the_number_of_partitions_stays(uri: str) -> None:
    """The reference makes one of them here, and finds less."""
    written(uri, vectors(), stable=True)
    build(uri, "IVF_PQ")
    pennon.write_dataset(table_of(vectors(200, seed=3), ROWS), uri, mode="append")
    table = pennon.dataset(uri)
    for options in ({}, {"retrain": True}):
        table.optimize.optimize_indices(**options)
        segments = lance.dataset(uri).stats.index_stats("vec_idx")["indices"]
        assert [segment["num_partitions"] for segment in segments] == [PARTITIONS]
        assert recall(table, table, "l2", refine_factor=10) >= 0.9


@spread(of=1)
@pytest.mark.parametrize("kind", KINDS)
def test_compaction_keeps_it_complete(uri: str, stable: bool, kind: str) -> None:
    written(uri, vectors(), stable=stable)
    build(uri, kind)
    table = pennon.dataset(uri)
    table.delete("id % 2 = 0")
    table.optimize.compact_files()
    assert len(table.get_fragments()) == 1
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0
    assert recall(table, table, "l2", refine_factor=20) >= 0.9
    if not stable:
        # With stable row ids the reference finds too few rows: it counts those that are gone.
        assert recall(lance.dataset(uri), table, "l2", refine_factor=20, ef=400) >= 0.85


def test_rows_without_an_index(uri: str) -> None:
    """Vectors that are null, have no length or are not finite are not in an index, and are found as without one."""
    values = vectors(500)
    values[3], values[5], values[7, 2] = 0, np.nan, np.inf
    rows: list[Any] = [None if n == 11 else vector.tolist() for n, vector in enumerate(values)]
    data = pa.table({"id": range(500), "vec": pa.array(rows, pa.list_(pa.float32(), DIMENSION))})
    pennon.write_dataset(data, uri)
    table = pennon.dataset(uri).create_index("vec", "IVF_FLAT", metric="cosine", num_partitions=2)
    asked = {**ask(values[20], 1000, metric="cosine"), "nprobes": 2}
    assert table.to_table(columns=["id"], nearest=asked).num_rows == 496
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_too_few_rows(uri: str, kind: str) -> None:
    pennon.write_dataset(table_of(vectors(50)), uri)
    table = pennon.dataset(uri).create_index("vec", kind, num_partitions=100, **KINDS[kind])
    asked = ask(vectors(1)[0], nprobes=100)
    assert table.to_table(columns=["id"], nearest=asked)["id"].to_pylist() == exact(table, asked)["id"].to_pylist()
    assert lance.dataset(uri).to_table(columns=["id"], nearest=asked).num_rows == 10
    pennon.write_dataset(table_of(vectors(400), 50), uri, mode="append")
    table.checkout_latest()
    table.optimize.optimize_indices()
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0
    assert recall(table, table, "l2", refine_factor=20, nprobes=100) >= 0.9


def test_an_empty_table_and_train_false(uri: str) -> None:
    pennon.write_dataset(table_of(vectors(1)).slice(0, 0), uri)
    pennon.dataset(uri).create_index("vec", "IVF_FLAT", num_partitions=2)
    pennon.write_dataset(table_of(vectors(300)), uri, mode="append")
    table = pennon.dataset(uri)
    table.create_index("vec", "IVF_SQ", name="later", num_partitions=2, train=False)
    assert table.to_table(columns=["id"], nearest=ask(vectors(1)[0])).num_rows == 10
    table.optimize.optimize_indices()
    for name in ("vec_idx", "later"):
        assert table.stats.index_stats(name)["num_unindexed_rows"] == 0
        assert lance.dataset(uri).stats.index_stats(name)["indices"][0]["num_partitions"] == 2


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
def test_parts(uri: str, stable: bool, kind: str) -> None:
    """Several workers build parts with centroids that they share."""
    written(uri, vectors(), stable=stable)
    table = pennon.dataset(uri)
    rng = np.random.default_rng(0)
    shared: dict[str, Any] = {"ivf_centroids": vectors(PARTITIONS, seed=2)}
    if kind == "IVF_PQ":
        shared["pq_codebook"] = rng.normal(size=(8, 256, 2)).astype("f4") * 3

    def part(fragment: Any) -> Any:
        return pennon.dataset(uri).create_index_uncommitted(
            "vec", kind, fragment_ids=[fragment.fragment_id], **{**KINDS[kind], **shared}
        )

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(part, table.get_fragments()))
    merged = table.merge_existing_index_segments(parts)
    for segments in (parts, [merged]):
        table.commit_existing_index_segments("vec_idx", "vec", segments)
        assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0
        assert recall(table, table, "l2", refine_factor=20) >= 0.9
        assert recall(lance.dataset(uri), table, "l2", refine_factor=20) >= 0.9


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_SQ", "IVF_HNSW_SQ"])
def test_a_part_without_vectors(uri: str, kind: str) -> None:
    """The bounds of scalar quantization are unknown then, so the part covers nothing."""
    written(uri, vectors(), stable=True)
    absent = pa.array([None] * 20, pa.list_(pa.float32(), DIMENSION))
    pennon.write_dataset(pa.table({"id": range(ROWS, ROWS + 20), "vec": absent}), uri, mode="append")
    table = pennon.dataset(uri)
    shared: dict[str, Any] = {**KINDS[kind], "ivf_centroids": vectors(PARTITIONS, seed=2)}
    ids = [fragment.fragment_id for fragment in table.get_fragments()]
    parts = [table.create_index_uncommitted("vec", kind, fragment_ids=[id], **shared) for id in ids]
    table.commit_existing_index_segments("vec_idx", "vec", [table.merge_existing_index_segments(parts)])
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] <= 20
    assert recall(table, table, "l2", refine_factor=20) >= 0.9


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_queries_without_distances(uri: str, kind: str, metric: str) -> None:
    """With infinity, and of length zero: the search ends, whatever is asked to be searched."""
    values = vectors()
    values[::3, 2] = 0
    written(uri, values, stable=True)
    table = pennon.dataset(uri)
    table.create_index("vec", kind, num_partitions=2, metric=metric, **KINDS[kind])
    infinite, zero = np.ones(values.shape[1], "f4"), np.zeros(values.shape[1], "f4")
    infinite[2] = np.inf
    for query in (infinite, zero):
        for more in ({}, {"nprobes": PARTITIONS}, {"minimum_nprobes": 1, "maximum_nprobes": 2}):
            asked = {"column": "vec", "q": query, "k": 10, "metric": metric, **more}
            found = table.to_table(nearest=asked, columns=["id"])
            assert found.num_rows <= 10
            assert not np.isnan(found["_distance"]).any()
    if metric == "cosine":
        assert found.num_rows == 0


def test_a_second_update_of_vectors(uri: str, stable: bool) -> None:
    """Old vectors of rows that have new ones are not found any more, whatever index has them."""
    values = vectors()
    written(uri, values, stable=stable)
    build(uri, "IVF_FLAT")
    table = pennon.dataset(uri)
    for round in range(3):
        changed = list(range(round, 600, 7))
        values[changed] = vectors(len(changed), seed=20 + round)
        rows = pa.table({"id": changed, "vec": column(values[changed]), "s": ["x"] * len(changed)})
        table.merge_insert("id").when_matched_update_all().execute(rows)
        for segments in (None, 0):
            if segments is not None:
                table.optimize.optimize_indices(num_indices_to_merge=segments)
            for query in vectors(4, seed=1):
                asked = ask(query, 30)
                assert table.to_table(columns=["id"], nearest=asked) == exact(table, asked)
                theirs = lance.dataset(uri).to_table(columns=["id"], nearest=asked)
                assert theirs["id"].to_pylist() == exact(table, asked)["id"].to_pylist()


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (KeyError, {"column": "nothing"}),
        (TypeError, {"column": "id"}),
        (NotImplementedError, {"index_type": "IVF_FOO"}),
        (NotImplementedError, {"index_type": "BTREE"}),
        (ValueError, {"metric": "foo"}),
        (ValueError, {"metric": "hamming"}),
        (ValueError, {"index_type": "IVF_PQ"}),
        (ValueError, {"index_type": "IVF_PQ", "num_sub_vectors": 3}),
        (ValueError, {"index_type": "IVF_PQ", "num_sub_vectors": 1, "num_bits": 4}),
        (ValueError, {"index_type": "IVF_PQ", "num_sub_vectors": 4, "pq_codebook": np.zeros((4, 256, 4), "f4")}),
        (ValueError, {"num_partitions": 0}),
        (ValueError, {"max_iters": 0}),
        (ValueError, {"sample_rate": 0}),
        (ValueError, {"index_type": "IVF_HNSW_SQ", "m": 2}),
        (ValueError, {"ivf_centroids": np.zeros((4, 3), "f4")}),
        (ValueError, {"ivf_centroids": np.zeros((0, 24), "f4")}),
        (ValueError, {"ivf_centroids": np.full((2, 24), np.nan, "f4")}),
        (ValueError, {"name": "__lance_frag_reuse"}),
        (ValueError, {"foo": 1}),
        (ValueError, {"fragment_ids": [0]}),
        (RuntimeError, {"name": "taken"}),
    ],
)
def test_wrong_input(uri: str, error: type[Exception], options: dict[str, Any]) -> None:
    written(uri, vectors(300), stable=True)
    table = pennon.dataset(uri)
    table.create_index("vec", "IVF_FLAT", name="taken", num_partitions=2)
    given = {"column": "vec", "index_type": "IVF_FLAT", **options}
    with pytest.raises(error) as caught:
        table.create_index(given.pop("column"), given.pop("index_type"), **given)
    assert isinstance(caught.value, pennon.PennonError)
    assert [index["name"] for index in pennon.dataset(uri).list_indices()] == ["taken"]


def test_descriptions(uri: str) -> None:
    written(uri, vectors(), stable=True)
    build(uri, "IVF_PQ", "cosine")
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    assert [index["type"] for index in ours.list_indices()] == ["IVF_PQ"]
    (mine,), (other,) = ours.describe_indices(), theirs.describe_indices()
    assert mine.index_type == other.index_type
    assert mine.num_rows_indexed == other.num_rows_indexed
    assert {k: v for k, v in mine.details.items() if k != "runtime_hints"} == {
        k: v for k, v in other.details.items() if k != "runtime_hints"
    }
    ours.prewarm_index("vec_idx")
    mine, other = (table.stats.index_stats("vec_idx") for table in (ours, theirs))
    for figure in ("index_type", "num_indices", "num_indexed_rows", "num_unindexed_rows"):
        assert mine[figure] == other[figure]
    (mine,), (other,) = mine["indices"], other["indices"]
    assert mine["num_partitions"] == other["num_partitions"] == PARTITIONS
    assert mine["metric_type"] == other["metric_type"]
    assert mine["partitions"] == other["partitions"]
    assert mine["sub_index"]["index_type"] == other["sub_index"]["index_type"] == "PQ"


@pytest.mark.parametrize("number", [2.0, 3.7, np.float64(2.5)])
def test_a_float_of_partitions_is_converted(uri: str, number: float) -> None:
    found = []
    for library in (pennon, lance):
        path = f"{uri}-{library.__name__}"
        written(path, vectors(300), stable=True)
        with pytest.warns(UserWarning, match="num_partitions is float, converting to int"):
            library.dataset(path).create_index("vec", "IVF_FLAT", num_partitions=number)
        found.append(lance.dataset(path).stats.index_stats("vec_idx")["indices"][0]["num_partitions"])
    assert found == [int(number)] * 2
    for wrong in (float("nan"), "2"):
        with pytest.raises(pennon.InvalidTypeError, match="num_partitions must be a whole number"):
            pennon.dataset(uri + "-pennon").create_index("vec", "IVF_FLAT", num_partitions=wrong, replace=True)


@pytest.mark.parametrize("kind", ["IVF_SQ", "IVF_HNSW_SQ"])
def test_bounds_of_scalar_quantization(uri: str, kind: str) -> None:
    """Of as many vectors as in the reference, also of few partitions: what is beyond them is cut off."""
    values = vectors(2_000, "f4")
    values[[7, 1_234], 0] = [50, -60]
    pennon.write_dataset(table_of(values), uri)
    for library in (pennon, lance):
        table = library.dataset(uri).create_index("vec", kind, num_partitions=1, replace=True)
        bounds = table.stats.index_stats("vec_idx")["indices"][0]["sub_index"]["bounds"]
        assert (bounds["start"], bounds["end"]) == (-60, 50)
