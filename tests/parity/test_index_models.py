"""Centroids and codebooks that processes share: saved, loaded and taken from indices as by the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.indices
import lance.util
import numpy as np
import pennon
import pennon.indices
import pennon.util
import pyarrow as pa
import pytest
from support.calls import refused

DIMENSION = 16
VECTORS = np.random.default_rng(0).normal(size=(2000, DIMENSION)).astype(np.float32)
LIBRARIES = (pennon, lance)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("models") / "t")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    pennon.write_dataset(pa.table({"id": range(len(VECTORS)), "vec": vectors}), uri, max_rows_per_file=1000)
    return uri


def trained(library: Any, uri: str) -> tuple[Any, Any]:
    builder = library.indices.IndicesBuilder(library.dataset(uri), "vec")
    ivf = builder.train_ivf(4, sample_rate=64, distance_type="cosine")
    return ivf, builder.train_pq(ivf, 4, sample_rate=4)


def test_models_have_one_form(uri: str) -> None:
    models = [trained(library, uri) for library in LIBRARIES]
    assert len({(ivf.num_partitions, ivf.distance_type, ivf.centroids.type) for ivf, _ in models}) == 1
    assert len({(pq.dimension, pq.num_subvectors, pq.num_bits) for _, pq in models}) == 1
    assert len({(len(pq.codebook), pq.codebook.type) for _, pq in models}) == 1
    both = [
        library.indices.IndicesBuilder(library.dataset(uri), "vec").prepare_global_ivf_pq(4, 4, sample_rate=4)
        for library in LIBRARIES
    ]
    mine, other = ({name: (len(found), found.type) for name, found in models.items()} for models in both)
    assert mine == other


@pytest.mark.parametrize(("writer", "reader"), [(pennon, lance), (lance, pennon), (pennon, pennon)])
def test_saved_models(uri: str, tmp_path: Path, writer: Any, reader: Any) -> None:
    ivf, pq = trained(writer, uri)
    ivf.save(str(tmp_path / "ivf.lance"))
    pq.save(str(tmp_path / "pq.lance"))
    loaded = reader.indices.IvfModel.load(str(tmp_path / "ivf.lance"))
    assert (loaded.centroids, loaded.distance_type) == (ivf.centroids, "cosine")
    codes = reader.indices.PqModel.load(str(tmp_path / "pq.lance"))
    assert (codes.codebook, codes.num_subvectors, codes.num_bits) == (pq.codebook, 4, 8)
    # What both make with them can be searched.
    table = reader.dataset(uri)
    part = table.create_index_uncommitted(
        "vec",
        "IVF_PQ",
        metric="cosine",
        fragment_ids=[0, 1],
        num_partitions=4,
        num_sub_vectors=4,
        ivf_centroids=loaded.centroids,
        pq_codebook=codes.codebook,
    )
    table = table.commit_existing_index_segments("vec_idx", "vec", [part])
    query = {"column": "vec", "q": VECTORS[7], "k": 1, "nprobes": 4, "refine_factor": 10}
    assert table.to_table(nearest=query)["id"].to_pylist() == [7]
    table.drop_index("vec_idx")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(pennon.NotFoundError):
        pennon.indices.IvfModel.load(tmp_path / "none.lance")
    with pennon.file.LanceFileWriter(tmp_path / "rows.lance") as writer:
        writer.write_batch(pa.table({"a": [1]}))
    for model in (pennon.indices.IvfModel, pennon.indices.PqModel):
        refused("save` wrote", model.load, tmp_path / "rows.lance")
    codebook = pa.array([[0.0] * 6] * 16, pa.list_(pa.float32(), 6))
    refused("has 16 lists, expected 256", pennon.indices.PqModel, 2, codebook)
    refused("num_subvectors is 4", pennon.indices.PqModel, 4, codebook, num_bits=4)
    assert pennon.indices.PqModel(3, codebook, num_bits=4).dimension == 6


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ", "IVF_RQ"])
def test_centroids_of_an_index(uri: str, kind: str) -> None:
    other = lance.dataset(uri)
    options = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    other.create_index("vec", kind, "by_vec", metric="cosine", num_partitions=3, replace=True, **options)
    mine = pennon.dataset(uri)
    expected = other.centroids(index_name="by_vec")
    assert mine.centroids(index_name="by_vec") == mine.centroids(column="vec") == expected
    model = mine.get_ivf_model("by_vec")
    assert (model.centroids, model.distance_type) == (other.get_ivf_model("by_vec").centroids, "cosine")
    mine.drop_index("by_vec")


def test_indices_without_centroids(uri: str) -> None:
    tables = [library.dataset(uri) for library in LIBRARIES]
    tables[0].create_scalar_index("id", "BTREE")
    tables[1].checkout_latest()
    for table in tables:
        for call, error in {
            lambda table: table.centroids(): ValueError,
            lambda table: table.centroids(column="id"): KeyError,
            lambda table: table.centroids(column="absent"): KeyError,
            lambda table: table.get_ivf_model("absent"): ValueError,
            lambda table: table.get_ivf_model("id_idx"): ValueError,
        }.items():
            with pytest.raises(error):
                call(table)
    tables[0].drop_index("id_idx")
    empty = pennon.write_dataset(tables[0].to_table(limit=0), uri + "-empty")
    empty = empty.create_index("vec", "IVF_FLAT", num_partitions=2, train=False)
    assert empty.get_ivf_model("vec_idx") is empty.centroids(column="vec") is None


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot", "euclidean"])
def test_clusters(metric: str) -> None:
    """Both assign vectors to the same centroids, and find clusters that are as good."""
    # The reference panics where it predicts by the cosine.
    libraries = LIBRARIES[:1] if metric == "cosine" else LIBRARIES
    losses = []
    for library in libraries:
        model = library.util.KMeans(8, metric, max_iters=20)
        assert model.centroids is None
        model.fit(VECTORS)
        assert model.centroids.type == pa.fixed_shape_tensor(pa.float32(), (DIMENSION,))
        assert len(model.centroids) == 8
        losses.append(loss(model, metric))
    centroids = model.centroids.storage
    found = [library.util.KMeans(8, metric, centroids=centroids).predict(VECTORS) for library in libraries]
    assert found[0] == found[-1]
    assert set(found[0].to_pylist()) <= set(range(8))
    if metric != "dot":
        assert losses[0] < losses[-1] * 1.05


def loss(model: Any, metric: str) -> float:
    centers = model.centroids.to_numpy_ndarray()[model.predict(VECTORS).to_numpy()]
    if metric == "cosine":
        lengths = np.linalg.norm(centers, axis=1) * np.linalg.norm(VECTORS, axis=1)
        return float((1 - (centers * VECTORS).sum(axis=1) / lengths).mean())
    return float(((centers - VECTORS) ** 2).sum(axis=1).mean())


def test_forms_of_vectors() -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(VECTORS)
    model = pennon.util.KMeans(2)
    refused("fitted", model.predict, VECTORS)
    model.fit(tensors)
    expected = model.predict(VECTORS)
    assert model.predict(lists) == model.predict(tensors) == expected
    assert model.predict(lists.slice(5, 10)) == expected.slice(5, 10)
    assert len(model.predict(VECTORS[:0])) == 0
    holes = pa.array([None, [1.0] * DIMENSION, [float("nan")] * DIMENSION], pa.list_(pa.float32(), DIMENSION))
    assert [value is None for value in model.predict(holes).to_pylist()] == [True, False, True]
    refused("float32", model.fit, VECTORS.astype(np.float64))
    refused("2-D", model.fit, VECTORS[0])
    refused("found list", model.fit, VECTORS.tolist())
    refused("8 dimensions, expected 16", model.predict, np.zeros((1, 8), np.float32))
    refused("metric_type", pennon.util.KMeans, 2, "hamming")
    for few in (VECTORS[:1], holes):
        with pytest.raises(pennon.errors.TooFewVectorsError, match="1 vectors for 2 clusters"):
            model.fit(few)
    assert repr(model) == "KMeans(k=2, metric_type='l2')"


@pytest.mark.parametrize(("scale", "shift"), [(1, 10_000), (1e20, 0), (1e-25, 0)])
def test_clusters_of_large_and_small_numbers(scale: float, shift: float) -> None:
    """Each is nearest to itself, which distances in float32 do not tell. The reference tells them by the shift."""
    vectors = (VECTORS[:64] * scale + shift).astype(np.float32)
    centroids = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION)
    found = {library: library.util.KMeans(64, centroids=centroids).predict(vectors) for library in LIBRARIES}
    assert found[pennon].to_pylist() == list(range(64))
    if shift:
        assert found[lance] == found[pennon]


def test_an_index_that_finds_what_is_there(uri: str) -> None:
    table = pennon.dataset(uri).create_index("vec", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    for library in LIBRARIES:
        library.util.validate_vector_index(library.dataset(uri), "vec", sample_size=20, refine_factor=50)
        with pytest.raises(ValueError, match=r"only \d+/20 passed"):
            library.util.validate_vector_index(
                library.dataset(uri), "vec", sample_size=20, refine_factor=1, pass_threshold=1.1
            )
    table.drop_index("vec_idx")
    holes = pa.array([None, [float("nan")] * 2, [1.0, 2.0]], pa.list_(pa.float32(), 2))
    pennon.util.validate_vector_index(pennon.write_dataset(pa.table({"v": holes}), uri + "-holes"), "v")
