"""`index_config` and `index_entries`: what indices are built with that the reference made, or Pennon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pytest
from pennon.indices import IndexConfig
from support.vectors import table_of, vectors

CENTROIDS = vectors(4, seed=7).astype(np.float32)
DIMENSION = CENTROIDS.shape[1]
CODEBOOK = np.random.default_rng(8).random((4, 256, DIMENSION // 4), dtype=np.float32)

VALUES: list[tuple[str, dict[str, Any]]] = [
    ("BTREE", {"zone_size": 128}),
    ("BITMAP", {}),
    ("ZONEMAP", {"rows_per_zone": 64}),
    ("BLOOMFILTER", {"number_of_items": 64, "probability": 0.01}),
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(table_of(vectors(1000)), uri, max_rows_per_file=400)
    return uri


@pytest.mark.parametrize("module", [pennon, lance])
@pytest.mark.parametrize(("kind", "parameters"), VALUES)
def test_values(uri: str, module: Any, kind: str, parameters: dict[str, Any]) -> None:
    config = IndexConfig if module is pennon else lance.indices.IndexConfig
    given = config(index_type=kind if module is pennon else kind.lower(), parameters=parameters)
    module.dataset(uri).create_scalar_index("id", given, name="i")
    table = pennon.dataset(uri)
    found = table.index_config("i")
    assert (found.index_type, found.parameters) == (kind, parameters)
    # It is taken as it is.
    table.create_scalar_index("id", found, "i")
    assert table.index_config("i") == found


@pytest.mark.parametrize("module", [pennon, lance])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"])
def test_vectors(uri: str, module: Any, kind: str) -> None:
    quantized = {"pq_codebook": CODEBOOK, "num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    given = {"num_partitions": 4, "ivf_centroids": CENTROIDS, **quantized}
    module.dataset(uri).create_index("vec", kind, name="i", metric="cosine", **given)
    table = pennon.dataset(uri)
    config = table.index_config("i")
    assert (config.index_type, config.parameters["metric"]) == (kind, "cosine")
    centroids = config.parameters["ivf_centroids"]
    assert centroids.type.list_size == DIMENSION
    # Pylance shows the same centroids, which are of length 1 where distance is that of angles.
    shown = lance.dataset(uri).stats.index_stats("i")["indices"][0]["centroids"]
    np.testing.assert_array_equal(np.asarray(centroids.to_pylist()), np.asarray(shown))
    assert ("pq_codebook" in config.parameters) == (kind == "IVF_PQ")
    if kind == "IVF_PQ":
        codebook = config.parameters["pq_codebook"].flatten().to_numpy()
        np.testing.assert_array_equal(codebook, CODEBOOK.reshape(-1))
        assert (config.parameters["num_sub_vectors"], config.parameters["num_bits"]) == (4, 8)
    assert ("m" in config.parameters) == ("HNSW" in kind)
    # Another segment is built with it.
    table.insert(table_of(vectors(300, seed=3), 1000))
    added = sorted({part.fragment_id for part in table.get_fragments()} - {0, 1, 2})
    entry = table.create_index_uncommitted(
        "vec", config.index_type, "i", replace=True, fragment_ids=added, **config.parameters
    )
    operation = pennon.LanceOperation.CreateIndex([entry], [])
    table = pennon.LanceDataset.commit(table, operation, read_version=table.version)
    assert [one.fragment_ids for one in table.index_entries("i")] == [{0, 1, 2}, set(added)]
    assert table.index_config("i").parameters.keys() == config.parameters.keys()
    np.testing.assert_array_equal(
        table.index_config("i").parameters["ivf_centroids"].to_pylist(), centroids.to_pylist()
    )
    if kind != "IVF_FLAT":
        return
    query = {"column": "vec", "q": CENTROIDS[0], "k": 5, "nprobes": 4}
    ours = table.to_table(nearest=query, columns=["id"])["id"].to_pylist()
    assert ours == lance.dataset(uri).to_table(nearest=query, columns=["id"])["id"].to_pylist()


def test_entries(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("id", "BTREE", name="i")
    table = pennon.dataset(uri)
    (entry,) = table.index_entries("i")
    (segment,) = table.describe_indices()[0].segments
    assert (entry.uuid, entry.name, entry.dataset_version) == (segment.uuid, "i", 1)
    assert sum(file.size_bytes for file in entry.files or ()) == segment.size_bytes
    # As a transaction names it where the index goes.
    gone = pennon.LanceOperation.CreateIndex([], [entry])
    assert not pennon.LanceDataset.commit(table, gone, read_version=table.version).has_index


def test_what_there_is_not(uri: str) -> None:
    table = pennon.dataset(uri)
    for call in (table.index_config, table.index_entries):
        with pytest.raises(pennon.NotFoundError, match='Index "i" not found'):
            call("i")
    lance.dataset(uri).create_scalar_index("s", "NGRAM", name="i")
    with pytest.raises(pennon.UnsupportedError, match="The index 'i' is of the kind NGram, of which none are made"):
        pennon.dataset(uri).index_config("i")
