"""The nearest vectors: as pylance finds them, and as their definition says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.spread import spread

ROWS, DIMENSION = 300, 24
FLOATS = {"float16": "f2", "float32": "f4", "float64": "f8"}


def column(values: Any, type: pa.DataType | None = None) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1), type), values.shape[1])


def vectors(rows: int = ROWS, type: str = "f4", seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, DIMENSION)).astype(type)


def table_of(vectors: pa.Array) -> pa.Table:
    rows = len(vectors)
    return pa.table({"id": range(rows), "vec": vectors, "s": [str(n % 7) for n in range(rows)]})


def written(uri: str, vectors: pa.Array, *, stable: bool = True) -> pennon.LanceDataset:
    pennon.write_dataset(table_of(vectors), uri, max_rows_per_file=70, enable_stable_row_ids=stable)
    return pennon.dataset(uri)


def same(ours: pa.Table, theirs: pa.Table, tolerance: float = 1e-5) -> None:
    assert ours.schema.names == theirs.schema.names
    assert ours.schema.types == theirs.schema.types
    for name in ours.schema.names:
        if pa.types.is_floating(ours.schema.field(name).type):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=tolerance, atol=tolerance)
        else:
            assert ours[name].to_pylist() == theirs[name].to_pylist(), name


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot", "Euclidean"])
def test_metrics(uri: str, stable: bool, type: str, metric: str) -> None:
    data = vectors(type=FLOATS[type])
    table = written(uri, column(data), stable=stable)
    nearest = {"column": "vec", "q": vectors(1, seed=1)[0], "k": 20, "metric": metric}
    expected = lance.dataset(uri).to_table(nearest=nearest)
    same(table.to_table(nearest=nearest), expected, 2e-3 if type == "float16" else 1e-5)


@pytest.mark.parametrize("kind", [{"index_type": "IVF_FLAT"}, {"index_type": "IVF_SQ"}])
@pytest.mark.parametrize("factor", [1, 3])
def test_a_lower_bound_of_refined_distances(uri: str, kind: dict[str, Any], factor: int) -> None:
    """Nearer rows take no place among those that are refined."""
    table = written(uri, column(vectors()))
    table.create_index("vec", num_partitions=1, **kind)
    asked = {"column": "vec", "q": vectors(1, seed=1)[0], "k": ROWS, "use_index": False}
    ranked = table.to_table(nearest=asked)
    distances = ranked["_distance"].to_pylist()
    bounds = (distances[100], distances[200])
    nearest = {**asked, "k": 10, "use_index": True, "distance_range": bounds, "refine_factor": factor}
    found = table.to_table(nearest=nearest)
    # An index that only estimates distances takes some for nearer than they are, and the other way round.
    assert found.num_rows == 10 if kind["index_type"] == "IVF_FLAT" or factor == 3 else found.num_rows >= 7
    assert set(found["id"].to_pylist()) <= set(ranked["id"].to_pylist()[100:200])
    if kind["index_type"] == "IVF_FLAT":
        assert found["id"].to_pylist() == ranked["id"].to_pylist()[100:110]


@pytest.mark.parametrize("factor", [None, 1, 2])
def test_lists_of_vectors_are_as_many_as_asked_for(uri: str, factor: int | None) -> None:
    data = np.random.default_rng(0).normal(size=(100, 3, DIMENSION)).astype("f4")
    lists = pa.array(data.tolist(), pa.list_(pa.list_(pa.float32(), DIMENSION)))
    table = pennon.write_dataset(pa.table({"id": range(100), "vec": lists}), uri)
    table.create_index("vec", "IVF_FLAT", metric="cosine", num_partitions=2)
    asked = {"column": "vec", "q": data[3, :1], "metric": "cosine", "nprobes": 2, "refine_factor": factor}
    assert table.to_table(nearest={**asked, "k": 50}).num_rows == 50
    ranked = table.to_table(nearest={**asked, "k": 100, "use_index": False})
    bounds = (ranked["_distance"].to_pylist()[20], None)
    found = table.to_table(nearest={**asked, "k": 10, "distance_range": bounds})
    assert found["id"].to_pylist() == ranked["id"].to_pylist()[20:30]


def test_bits(uri: str) -> None:
    data = np.random.default_rng(0).integers(0, 256, (ROWS, DIMENSION), dtype="u1")
    table = written(uri, column(data))
    for metric in ({"metric": "hamming"}, {}):
        nearest = {"column": "vec", "q": data[5], "k": 20, **metric}
        same(table.to_table(nearest=nearest), lance.dataset(uri).to_table(nearest=nearest))
    distances = np.unpackbits(data ^ data[5], axis=1).sum(axis=1)
    assert table.to_table(nearest=nearest)["_distance"].to_pylist() == sorted(distances)[:20]


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_rows_without_a_distance(uri: str, metric: str) -> None:
    data = vectors(40)
    data[3] = np.nan
    data[5, 2] = np.nan
    data[7] = 0
    data[9] = 1e30
    elements = pa.array(data.reshape(-1)).to_pylist()
    elements[11 * DIMENSION + 4] = None
    rows = [elements[n * DIMENSION : (n + 1) * DIMENSION] for n in range(40)]
    rows[13] = None
    table = written(uri, pa.array(rows, pa.list_(pa.float32(), DIMENSION)))
    nearest = {"column": "vec", "q": data[20], "k": 100, "metric": metric}
    found = table.to_table(nearest=nearest)
    # What the reference takes a null element for is not said.
    theirs = lance.dataset(uri).to_table(nearest=nearest)
    same(found, theirs.filter(pc.field("id") != 11))
    missing = {3, 5, 11, 13} | ({7} if metric == "cosine" else set())
    assert set(range(40)) - set(found["id"].to_pylist()) >= missing
    for query in ([float("nan")] * DIMENSION, *([[0.0] * DIMENSION] if metric == "cosine" else [])):
        assert table.to_table(nearest={**nearest, "q": query}).num_rows == 0


SCANS: list[dict[str, Any]] = [
    {},
    {"columns": ["id"]},
    {"columns": ["id"], "with_row_id": True},
    {"columns": ["s"], "with_row_id": True, "with_row_address": True},
    {"columns": ["_distance", "id"]},
    {"columns": ["_rowid"]},
    {"columns": []},
    {"columns": {"x": "id * 2"}},
    {"columns": {"x": "id * 2", "d": "_distance"}},
    {"columns": {"x": "_distance + id"}},
    {"columns": ["id"], "filter": "_distance < 30"},
    {"columns": ["id"], "filter": "id > 50"},
    {"columns": ["id"], "filter": "id > 50", "prefilter": True},
    {"columns": ["id"], "filter": "s = '3' and id < 200", "prefilter": True},
    {"columns": ["id"], "filter": "id < 0", "prefilter": True},
    {"columns": ["id"], "disable_scoring_autoprojection": True},
    {"columns": ["id", "_distance"], "disable_scoring_autoprojection": True},
    {"columns": ["id"], "limit": 4},
    {"columns": ["id"], "limit": 4, "offset": 2},
    {"columns": ["id"], "offset": 100},
    {"columns": ["id"], "filter": "id > 50", "limit": 2, "offset": 1},
    {"columns": ["id"], "order_by": ["id"]},
]


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("scan", SCANS, ids=str)
def test_what_a_scan_gives(uri: str, scan: dict[str, Any], queries: int) -> None:
    table = written(uri, column(vectors()))
    query = vectors(queries, seed=1)
    nearest = {"column": "vec", "q": query[0] if queries == 1 else query, "k": 12}
    expected = lance.dataset(uri).to_table(nearest=nearest, **scan)
    found = table.to_table(nearest=nearest, **scan)
    same(found, expected)
    scanner = table.scanner(nearest=nearest, **scan)
    assert scanner.count_rows() == found.num_rows
    assert scanner.projected_schema == found.schema
    assert "by l2 of vec" in scanner.explain_plan()
    assert f"result: {found.num_rows} rows" in scanner.analyze_plan() or "order_by" in scan


def test_how_many(uri: str) -> None:
    table, reference = written(uri, column(vectors())), lance.dataset(uri)
    nearest: dict[str, Any] = {"column": "vec", "q": vectors(1, seed=1)[0]}
    for limit in (None, 3, 40):
        same(table.to_table(nearest=nearest, limit=limit), reference.to_table(nearest=nearest, limit=limit))
    every = {**nearest, "k": 1000}
    same(table.to_table(nearest=every), reference.to_table(nearest=every))
    assert table.to_table(nearest=every).num_rows == ROWS
    # The reference has one row here, because the offset is taken from the limit.
    assert table.to_table(nearest=nearest, limit=3, offset=2)["id"] == table.to_table(nearest=every)["id"][2:5]
    for ends in ((None, 30.0), (20.0, None), (20.0, 30.0), (1, 0)):
        ranged = {**every, "distance_range": ends}
        same(table.to_table(nearest=ranged), reference.to_table(nearest=ranged))


QUERIES: list[Callable[[Any], Any]] = [
    lambda q: q.tolist(),
    lambda q: pa.array(q),
    lambda q: pa.scalar(q.tolist(), pa.list_(pa.float32(), DIMENSION)),
    lambda q: q.astype("f8"),
    lambda q: (q * 10).astype("i4"),
    lambda q: [q.tolist(), q.tolist()],
    lambda q: np.stack([q, q * 2]),
    lambda q: q.reshape(1, -1),
]


@pytest.mark.parametrize("form", QUERIES)
def test_forms_of_a_query(uri: str, form: Callable[[Any], Any]) -> None:
    table = written(uri, column(vectors()))
    nearest = {"column": "vec", "q": form(vectors(1, seed=1)[0]), "k": 5}
    same(table.to_table(nearest=nearest), lance.dataset(uri).to_table(nearest=nearest))


WRONG: list[tuple[type[Exception], dict[str, Any]]] = [
    (ValueError, {"k": 0}),
    (ValueError, {"nprobes": 0}),
    (ValueError, {"minimum_nprobes": -1}),
    (ValueError, {"minimum_nprobes": 5, "maximum_nprobes": 2}),
    (ValueError, {"refine_factor": 0}),
    (ValueError, {"ef": 0}),
    (ValueError, {"metric": "foo"}),
    (ValueError, {"metric": "hamming"}),
    (ValueError, {"approx_mode": "x"}),
    (ValueError, {"search_effort": 2}),
    (ValueError, {"q": [1.0, 2.0]}),
    (ValueError, {"q": [[1.0, 2.0], [1.0, 2.0]]}),
    (ValueError, {"column": "nope"}),
    (TypeError, {"column": "s"}),
    (TypeError, {"column": "id"}),
    (TypeError, {"q": "abc"}),
    (TypeError, {"q": None}),
    (TypeError, {"k": "3"}),
    (TypeError, {"use_index": "x"}),
    (TypeError, {"foo": 1}),
]


@pytest.mark.parametrize(("error", "wrong"), WRONG, ids=lambda value: str(value))
def test_errors_are_caught_as_those_of_the_reference(
    uri: str, error: type[Exception], wrong: dict[str, Any]
) -> None:
    table = written(uri, column(vectors(20)))
    nearest = {"column": "vec", "q": vectors(1)[0], "k": 3, **wrong}
    for library in (lance.dataset(uri), table):
        with pytest.raises(error):
            library.to_table(nearest=nearest)


def test_options_that_do_not_go_together(uri: str) -> None:
    table = written(uri, column(vectors(20)))
    nearest = {"column": "vec", "q": vectors(1)[0]}
    with pytest.raises(pennon.InvalidInputError, match="Cannot include deleted rows"):
        table.to_table(nearest=nearest, include_deleted_rows=True, with_row_id=True)
    for wrong in ("x", {}, {"column": "vec"}):
        with pytest.raises(TypeError):
            table.to_table(nearest=wrong)


def are_nearest(found: pa.Table, left: pa.Table, query: Any, k: int) -> None:
    """Found are those of the rows whose vectors are nearest by their definition."""
    distances = ((np.stack(left["vec"].to_pylist()) - query) ** 2).sum(axis=1)
    order = np.argsort(distances, kind="stable")[:k]
    assert found["id"].to_pylist() == [left["id"][int(at)].as_py() for at in order]
    np.testing.assert_allclose(found["_distance"], distances[order], rtol=1e-5, atol=1e-5)


@spread()
@pytest.mark.parametrize("kind", [None, "IVF_FLAT", "IVF_PQ", "IVF_HNSW_FLAT"])
@pytest.mark.parametrize("parts", [[1], [0, 2], [4], [3, 4], [4, 3, 2, 1, 0], []], ids=str)
def test_some_fragments(uri: str, stable: bool, kind: str | None, parts: list[int]) -> None:
    """Some covered by an index and some not, with deleted rows in each."""
    data = vectors(350)
    every = table_of(column(data))
    table = written(uri, column(data[:280]), stable=stable)
    if kind is not None:
        codes = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
        table.create_index("vec", kind, num_partitions=1 if "HNSW" in kind else 3, **codes)
    table.insert(every.slice(280))
    table.delete("id % 5 = 0")
    reference = lance.dataset(uri)
    near: dict[str, Any] = {"column": "vec", "k": 15, "nprobes": 3}
    if kind == "IVF_PQ":
        near["refine_factor"] = 30
    scans: list[dict[str, Any]] = [
        {},
        {"filter": "s = '3'"},
        {"filter": "id < 0"},
        {"filter": "id > 100", "limit": 4, "offset": 3},
        {"order_by": ["id"], "with_row_id": True, "with_row_address": True},
    ]
    # Of several queries the order of equal ids is not said.
    for query, some in ((data[7], scans), (vectors(3, seed=1), scans[:-1])):
        for scan in some:
            asked = {"columns": ["id"], "nearest": {**near, "q": query}, "prefilter": True, **scan}
            chosen = [library.get_fragment(part) for library in (table, reference) for part in parts]
            ours = table.scanner(**asked, fragments=chosen[: len(parts)])
            found = ours.to_table()
            same(found, reference.scanner(**asked, fragments=chosen[len(parts) :]).to_table())
            assert ours.count_rows() == found.num_rows
            assert sum(batch.num_rows for batch in ours.to_batches()) == found.num_rows
    chosen = [table.get_fragment(part) for part in parts]
    scanner = table.scanner(nearest={**near, "q": data[7]}, fragments=chosen, prefilter=True)
    if parts:
        are_nearest(scanner.to_table(), table.scanner(fragments=chosen).to_table(), data[7], 15)
    covered = len(set(parts) - {4})
    if kind is not None and covered:
        assert f"for {covered} of {len(parts)} fragments" in scanner.explain_plan()


def test_a_fragment_given_twice(uri: str) -> None:
    """An index finds its rows once, and estimates their distances as those of any."""
    table = written(uri, column(vectors()))
    table.create_index("vec", "IVF_PQ", num_partitions=1, num_sub_vectors=4)
    nearest = {"column": "vec", "q": vectors()[7], "k": 20}
    once, twice = (
        table.scanner(nearest=nearest, fragments=[table.get_fragment(1)] * times, prefilter=True)
        for times in (1, 2)
    )
    assert once.to_table() == twice.to_table()
    assert "elsewhere" not in twice.explain_plan()


def test_some_fragments_need_a_filter_before(uri: str) -> None:
    table = written(uri, column(vectors(20)))
    nearest = {"column": "vec", "q": vectors(1)[0]}
    for library in (lance.dataset(uri), table):
        for options in ({}, {"prefilter": False}, {"filter": "id > 3"}):
            with pytest.raises(ValueError, match="fragment"):
                library.scanner(nearest=nearest, fragments=library.get_fragments(), **options).to_table()
    builder = pennon.ScannerBuilder(table).with_fragments(table.get_fragments()).nearest(**nearest)
    with pytest.raises(pennon.InvalidInputError, match="some fragments needs prefilter=True"):
        builder.to_scanner()
    assert builder.prefilter(True).to_scanner().count_rows() == 10


def test_rows_that_change(uri: str, stable: bool) -> None:
    """Deleted rows are not found, and rows with other vectors where they are now; nothing is short of k rows."""
    data = vectors()
    table = written(uri, column(data), stable=stable)
    nearest = {"column": "vec", "q": data[7], "k": 15}
    lance.dataset(uri).create_index("vec", "IVF_FLAT", num_partitions=4)

    def check() -> None:
        table = pennon.dataset(uri)
        are_nearest(table.to_table(nearest=nearest), table.to_table(), data[7], 15)

    check()
    pennon.dataset(uri).delete("id % 2 = 0")
    check()
    pennon.dataset(uri).optimize.compact_files(defer_index_remap=not stable)
    check()
    changed = pa.table({"id": [7, 9, 11], "vec": column(data[[0, 1, 2]]), "s": ["a", "b", "c"]})
    pennon.dataset(uri).merge_insert("id").when_matched_update_all().execute(changed)
    check()
    pennon.write_dataset(table_of(column(vectors(50, seed=3))), uri, mode="append")
    check()
    table.checkout_latest()
    assert "by l2" in table.scanner(nearest=nearest).explain_plan()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_the_metric_is_that_of_the_index(uri: str, metric: str) -> None:
    data = vectors()
    table = written(uri, column(data))
    lance.dataset(uri).create_index("vec", "IVF_FLAT", num_partitions=4, metric=metric)
    table.checkout_latest()
    nearest = {"column": "vec", "q": data[7], "k": 9, "nprobes": 4}
    same(table.to_table(nearest=nearest), lance.dataset(uri).to_table(nearest=nearest), 1e-4)
    assert f"by {metric} of vec" in table.scanner(nearest=nearest).explain_plan()
    for given in ({"use_index": False}, {"metric": "cosine"}, {"metric": "l2"}):
        asked = {**nearest, **given}
        same(table.to_table(nearest=asked), lance.dataset(uri).to_table(nearest=asked), 1e-4)


def test_lists_of_vectors(uri: str) -> None:
    rng = np.random.default_rng(0)
    lists = [rng.normal(size=(n % 4, DIMENSION)).astype("f4").tolist() for n in range(60)]
    lists[10] = None
    type = pa.list_(pa.list_(pa.float32(), DIMENSION))
    pennon.write_dataset(pa.table({"id": range(60), "vec": pa.array(lists, type)}), uri, max_rows_per_file=25)
    queries = rng.normal(size=(3, DIMENSION)).astype("f4")
    for query in (queries, queries[0]):
        for metric in ("l2", "cosine"):
            nearest = {"column": "vec", "q": query, "k": 12, "metric": metric}
            found = pennon.dataset(uri).to_table(columns=["id"], nearest=nearest)
            expected = []
            for row, vectors in enumerate(lists):
                if vectors:
                    each = np.array(vectors)[:, None] - np.atleast_2d(query)
                    distance = (each**2).sum(axis=2)
                    if metric == "cosine":
                        unit = [
                            v / np.linalg.norm(v, axis=1)[:, None]
                            for v in (np.array(vectors), np.atleast_2d(query))
                        ]
                        distance = 1 - unit[0] @ unit[1].T
                    expected.append((distance.min(axis=0).sum(), row))
            expected = sorted(expected)[:12]
            assert found["id"].to_pylist() == [row for _, row in expected]
            np.testing.assert_allclose(
                found["_distance"], [distance for distance, _ in expected], rtol=1e-4, atol=1e-5
            )
            same(found, lance.dataset(uri).to_table(columns=["id"], nearest=nearest), 1e-4)


@pytest.mark.parametrize(("name", "path"), [("vec", "p.vec"), ("vec.v1", "p.`vec.v1`"), ("a``.b", "p.`a````.b`")])
def test_members(uri: str, name: str, path: str) -> None:
    data = vectors(50)
    points = pa.StructArray.from_arrays([column(data)], [name])
    pennon.write_dataset(pa.table({"id": range(50), "p": points}), uri)
    for indexed in (False, True):
        if indexed:
            pennon.dataset(uri).create_index(path, "IVF_FLAT", num_partitions=1)
            assert pennon.dataset(uri).describe_indices()[0].field_names == [path]
        table = pennon.dataset(uri)
        found = table.to_table(columns=["id"], nearest={"column": path, "q": data[4], "k": 3}, fast_search=indexed)
        assert found["id"][0].as_py() == 4
        assert found["_distance"][0].as_py() == 0


@pytest.mark.parametrize("path", ["p.`vec", "p.v`ec", "p.`v`ec", "`p`x.vec", "p.vec`"])
def test_paths_whose_back_ticks_do_not_pair_up(uri: str, path: str) -> None:
    data = vectors(5)
    table = pennon.write_dataset(pa.table({"p": pa.StructArray.from_arrays([column(data)], ["vec"])}), uri)
    with pytest.raises(pennon.InvalidInputError, match=r"Embedding column .* is not in the dataset"):
        table.to_table(nearest={"column": path, "q": data[4], "k": 3})


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ", "IVF_HNSW_PQ", "IVF_FLAT"])
def test_refined_distances_from_a_lower_bound_on(tmp_path: Path, kind: str) -> None:
    """What an index takes for a little nearer than the bound is compared, too: here that is everything."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(2000, 16)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
    table = pennon.write_dataset(pa.table({"v": column}), tmp_path / "t")
    codes = {"num_sub_vectors": 4} if kind.endswith("PQ") else {}
    table.create_index("v", kind, num_partitions=1, **codes)
    for _ in range(20):
        query = rng.normal(size=16).astype(np.float32)
        distances = np.sort(((vectors.astype(np.float64) - query) ** 2).sum(axis=1))
        low, high = float(distances[5:7].mean()), float(distances[30:32].mean())
        for bounds, expected in [((low, None), distances[6:11]), ((low, high), distances[6:11])]:
            nearest = {"column": "v", "q": query, "k": 5, "refine_factor": 400, "distance_range": bounds}
            found = table.to_table(nearest=nearest)["_distance"].to_numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_no_cosine_distance_is_negative(tmp_path: Path) -> None:
    vectors = (np.random.default_rng(1).normal(size=(500, 8)) + 1e3).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    table = pennon.write_dataset(pa.table({"id": range(500), "v": column}), tmp_path / "t")
    for indexed in (False, True):
        if indexed:
            table.create_index("v", "IVF_FLAT", num_partitions=2, metric="cosine")
        for row in range(0, 500, 7):
            nearest = {"column": "v", "q": vectors[row], "k": 1, "metric": "cosine", "distance_range": (0.0, None)}
            (found,) = table.to_table(columns=["id"], nearest=nearest).to_pylist()
            assert 0 <= found["_distance"] < 1e-6


def test_columns_with_the_names_of_what_is_found_are_hidden(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(40), pa.float32()), 4)
    data = pa.table({"v": vectors, "_distance": range(100, 110), "query_index": range(200, 210)})
    table = pennon.write_dataset(data, tmp_path / "t")
    one = {"column": "v", "q": [0.0] * 4, "k": 2}
    found = table.to_table(nearest=one)
    assert found.column_names == ["v", "query_index", "_distance"]
    assert found["_distance"].to_pylist() == [14.0, 126.0]
    assert table.to_table(columns=["_distance"], nearest=one)["_distance"].to_pylist() == [14.0, 126.0]
    assert table.to_table(columns={"d": "_distance + 1"}, nearest=one)["d"].to_pylist() == [15.0, 127.0]
    assert table.to_table(filter="_distance < 50", nearest=one).num_rows == 1
    assert table.to_table(filter="_distance < 102", nearest=one, prefilter=True).num_rows == 2
    several = table.to_table(nearest={**one, "q": [[0.0] * 4, [4.0] * 4]})
    assert several.column_names == ["query_index", "v", "_distance"]
    assert several["query_index"].to_pylist() == [0, 0, 1, 1]
